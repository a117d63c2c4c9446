<?php
/*
 * Exhausts memory.
 *
 * Attacker: takes memory outside of PHP's own limit, in every worker, and touches each page; fills
 *   memory files.
 * Must not happen: site B's workers or the front are killed for want of memory, or site B waits.
 * Checked: site B's answers; front, supervisor and site B's zygote are the same processes.
 */
require __DIR__ . '/attack.php';

tried('take memory');
$c = c();
$taken = 0;
$file = $c->syscall(319, 'attack', 0); // memfd_create
while ($taken < 400) {
    $block = $c->mmap(null, 20 << 20, 3, 0x22, -1, 0);
    if (FFI::cast('long', $block)->cdata === -1) {
        break;
    }
    FFI::memset($block, 1, 20 << 20);
    $taken += 20;
    if ($file >= 0 && $c->fallocate($file, 0, 0, $taken << 20) !== 0) {
        break;
    }
}
usleep(200_000);
