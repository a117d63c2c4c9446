<?php
/*
 * Dies all the time.
 *
 * Attacker: every request kills its worker, in every manner: signals, exit without shutdown, stack
 *   overflow, memory.
 * Must not happen: the log grows by a line for each death; replacing workers takes the machine's
 *   time from site B.
 * Checked: site B's answers; bytes of the log; site A serves again.
 */
require __DIR__ . '/attack.php';

tried('die');
$deadly = [SIGKILL, SIGSEGV, SIGABRT, SIGTERM, SIGBUS, SIGFPE];
$turn = (int) ($_GET['round'] ?? 0);
if ($turn % 7 === 6) {
    c()->_exit(0);
}
posix_kill(getmypid(), $deadly[$turn % 7]);
usleep(100_000);
