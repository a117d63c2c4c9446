<?php
/*
 * Lets thousands of timers expire at one moment.
 *
 * Attacker: makes as many timers as it may in several processes, and sets all of them to the same
 *   moments. The kernel serves them in one interrupt, in which nobody else has the processor.
 * Must not happen: site B waits for the end of such interrupts.
 * Checked: site B's answers, and their time.
 */
require __DIR__ . '/attack.php';

// Descriptors that all attackers of this machine's test take together; more than a site needs.
const MOST = 20_000;

$c = c();
tried('timers');
for ($forks = 0; $forks < 2 && $c->fork() > 0; $forks++);
$limit = $c->new('unsigned long[2]');
$c->syscall(302, 0, 7, null, FFI::addr($limit)); // prlimit64, RLIMIT_NOFILE
$limit[0] = $limit[1];
$c->syscall(302, 0, 7, FFI::addr($limit), null);
// timerfd_create
for ($timers = []; count($timers) < MOST && ($timer = $c->syscall(283, 1,
    0)) >= 0; $timers[] = $timer);
$time = $c->new('long[4]');
for ($until = microtime(true) + 0.8; microtime(true) < $until;) {
    // All at the next full tenth of a second of CLOCK_MONOTONIC.
    $next = intdiv(hrtime(true), 100_000_000) + 1;
    [$time[2], $time[3]] = [intdiv($next, 10), $next % 10 * 100_000_000];
    foreach ($timers as $timer) {
        $c->syscall(286, $timer, 1, FFI::addr($time), null); // timerfd_settime, TFD_TIMER_ABSTIME
    }
    $c->usleep(50_000);
}
if ($timers === []) {
    won('no timer at all: the attack does not work');
}
