<?php
/*
 * Writes garbage into every word of the shared memory, in every state.
 *
 * Attacker: overwrites single words of the pool's region with zeros, ones, neighbouring and random
 *   values, in turn and at random, while other requests of its pool are in every phase: queued,
 *   taken, streaming, done.
 * Must not happen: the front crashes, hangs, grows or answers a visitor of site B wrongly.
 * Checked: site B's answers; the front is the same process; its memory; site A serves again.
 */
require __DIR__ . '/attack.php';

$memory = fopen('/proc/self/mem', 'r+');
stream_set_write_buffer($memory, 0);
stream_set_read_buffer($memory, 0);
foreach (regions() as $start => $length) {
    tried("garbage in $length bytes");
    echo str_repeat('x', 3000);
    flush();
    $until = microtime(true) + 0.4;
    // The words that both sides decide by are in front of the request areas.
    $control = min($length, 16384);
    for ($turn = 0; microtime(true) < $until; $turn++) {
        $at = match ($turn % 4) {
            0, 1 => random_int(0, intdiv($control, 8) - 1) * 8,
            2 => $turn * 8 % $control,
            3 => random_int(0, intdiv($length, 8) - 1) * 8,
        };
        fseek($memory, $start + $at);
        $old = unpack('P', fread($memory, 8))[1];
        $new = match (random_int(0, 7)) {
            0 => 0, 1 => -1, 2 => $old + 1, 3 => $old - 1, 4 => $old ^ (1 << random_int(0, 63)),
            5 => random_int(0, 255), 6 => PHP_INT_MIN, 7 => random_int(PHP_INT_MIN, PHP_INT_MAX),
        };
        fseek($memory, $start + $at);
        fwrite($memory, pack('P', is_float($new) ? 0 : $new));
        if ($turn % 64 === 0) {
            echo 'y';
            flush();
        }
    }
}
