<?php
/*
 * Asks the scheduler for more than its share.
 *
 * Attacker: asks for real-time and deadline scheduling, higher priorities, the disk's first place
 *   and the shortest time slices, for itself and for its zygote; binds other processes to one
 *   processor and changes their class; then computes, in many processes.
 * Must not happen: the attacker gets a class or a priority above the usual one, or changes another
 *   site's or the server's; site B waits for a processor.
 * Checked: every such call fails; site B's answers, and their time.
 */
require __DIR__ . '/attack.php';

$c = c();
$zero = $c->new('int[1]');
$first = $c->new('int[1]');
$first[0] = 1;
/** Arguments of sched_setattr(2). */
$wish = function (int $policy, int $nice, int $runtime, int $deadline) use ($c): FFI\CData {
    $bytes = pack('VVPlVPPP', 48, $policy, 0, $nice, 0, $runtime, $deadline, $deadline);
    $room = $c->new('char[48]');
    FFI::memcpy($room, $bytes, 48);
    return $room;
};
$mask = $c->new('unsigned long[1]');
$mask[0] = 1;

$own = [0, scene()->zygote];
foreach ($own as $process) {
    foreach ([1, 2] as $class) { // SCHED_FIFO, SCHED_RR
        attempt("class $class of $process", fn () =>
            $c->syscall(144, $process, $class, FFI::addr($first)) === 0);
    }
    // SCHED_DEADLINE: nine milliseconds of each ten
    attempt("a deadline of $process", fn () =>
        $c->syscall(314, $process, FFI::addr($wish(6, 0, 9_000_000, 10_000_000)), 0) === 0);
    attempt("a better priority of $process", fn () =>
        $c->syscall(314, $process, FFI::addr($wish(0, -5, 0, 0)), 0) === 0
        || $c->syscall(141, 0, $process, -5) === 0); // setpriority
    // ioprio_set
    attempt("real-time I/O of $process", fn () => $c->syscall(251, 1, $process, 1 << 13) === 0);
}
foreach (processes() as $process) {
    if (is_own($process)) {
        continue;
    }
    // sched_setaffinity
    attempt("the processor of $process", fn () =>
        $c->syscall(203, $process, 8, FFI::addr($mask)) === 0);
    // SCHED_IDLE
    attempt("the class of $process", fn () =>
        $c->syscall(144, $process, 5, FFI::addr($zero)) === 0);
    attempt("the slices of $process", fn () =>
        $c->syscall(314, $process, FFI::addr($wish(0, 19, 100_000_000, 0)), 0) === 0);
    attempt("the I/O of $process", fn () => $c->syscall(251, 1, $process, 3 << 13) === 0); // idle
    attempt("the group of $process", fn () =>
        file_put_contents("/proc/$process/autogroup", '19') > 0);
}

// Any process may have these: the shortest slices, so that it is the next one more often, and the
// first place among processes of its kind at the disk.
tried('shortest slices');
$c->syscall(314, 0, FFI::addr($wish(0, 0, 100_000, 0)), 0);
$c->syscall(251, 1, 0, 2 << 13);
for ($forks = 0; $forks < 3 && $c->fork() > 0; $forks++);
for ($until = microtime(true) + 0.8; microtime(true) < $until;);
