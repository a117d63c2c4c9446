<?php
/*
 * Takes all processor time.
 *
 * Attacker: computes in every worker without pause, at the highest priority that it gets.
 * Must not happen: site B waits for a processor.
 * Checked: site B's answers, and their time.
 */
require __DIR__ . '/attack.php';

tried('compute');
@proc_nice(-10);
for ($until = microtime(true) + 1; microtime(true) < $until;);
