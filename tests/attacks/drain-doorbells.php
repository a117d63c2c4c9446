<?php
/*
 * Swallows the wake-ups of its pool.
 *
 * Attacker: reads the eventfds of its pool all the time, and rings them without reason.
 * Must not happen: site B waits, or a thread of the front does nothing but wake up.
 * Checked: site B's answers; site A serves again.
 */
require __DIR__ . '/attack.php';

$c = c();
$value = $c->new('unsigned long');
$doorbells = array_keys(descriptors('eventfd'));
tried(count($doorbells) . ' doorbells');
for ($until = microtime(true) + 0.5, $turn = 0; microtime(true) < $until; $turn++) {
    foreach ($doorbells as $doorbell) {
        if ($turn % 2) {
            $c->read($doorbell, FFI::addr($value), 8);
        } else {
            $value->cdata = 1;
            $c->write($doorbell, FFI::addr($value), 8);
        }
    }
}
