<?php
/*
 * Exhausts processes.
 *
 * Attacker: forks until it may not, and leaves the children waiting.
 * Must not happen: site B's workers, the front or the supervisor cannot start a process.
 * Checked: site B's answers; a reload works, which starts processes; after the stop no child is left.
 */
require __DIR__ . '/attack.php';

// As many as a limit should refuse, and no more than this machine bears without one.
tried('fork as often as possible');
$c = c();
for ($made = 0; $made < 400; $made++) {
    $child = $c->fork();
    if ($child === 0) {
        $c->sleep(60);
        $c->_exit(0);
    }
    if ($child < 0) {
        break;
    }
}
sleep(1);
