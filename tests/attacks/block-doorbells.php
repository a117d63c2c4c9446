<?php
/*
 * Makes the wake-up descriptors block, and fills them.
 *
 * Attacker: clears O_NONBLOCK on every eventfd that a process of its pool holds, also through
 *   pidfd_getfd, fills the counters up to the last value, and dies, so that the front is told to
 *   ring.
 * Must not happen: a thread of the front blocks in write(2): site B would wait for ever.
 * Checked: site B's answers during and after the attack; site A serves again.
 */
require __DIR__ . '/attack.php';

function fill(int $descriptor): void
{
    $c = c();
    $flags = $c->fcntl($descriptor, 3); // F_GETFL
    $c->fcntl($descriptor, 4, $flags | 0x800); // F_SETFL, O_NONBLOCK: for the filling
    $value = $c->new('unsigned long');
    for ($step = 0xfffffffffffffff; $step > 0; $step >>= 4) {
        $value->cdata = $step;
        while ($c->write($descriptor, FFI::addr($value), 8) === 8);
    }
    $c->fcntl($descriptor, 4, $flags & ~0x800);
}

$count = 0;
foreach (descriptors('eventfd') as $number => $target) {
    fill($number);
    $count++;
}
foreach (glob('/proc/[0-9]*/fd/*') as $path) {
    if (str_contains((string) @readlink($path), 'eventfd')
        && preg_match('~/proc/(\d+)/fd/(\d+)~', $path, $part)) {
        $stolen = steal((int) $part[1], (int) $part[2]);
        if ($stolen >= 0) {
            fill($stolen);
            $count++;
        }
    }
}
tried("filled $count eventfds");
posix_kill(getmypid(), SIGKILL);
