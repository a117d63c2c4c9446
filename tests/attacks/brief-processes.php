<?php
/*
 * Starts processes that end at once.
 *
 * Attacker: forks children that fork and end, so that thousands of processes without a parent come
 *   and go in a second. Their ends are reported to the zygote and, after its death, to the
 *   supervisor.
 * Must not happen: zygote or supervisor does nothing but take such reports; site B waits.
 * Checked: site B's answers, and their time; a reload and a stop work.
 */
require __DIR__ . '/attack.php';

tried('fork');
$c = c();
$c->signal(SIGCHLD, 1); // SIG_IGN: the kernel takes the children itself
if ([$_GET['client'] ?? 0, $_GET['round'] ?? 0] == [0, 2]) {
    // The orphans are the supervisor's from now on.
    posix_kill(scene()->zygote, SIGKILL);
}
for ($until = microtime(true) + 0.8; microtime(true) < $until;) {
    if ($c->fork() === 0) {
        for ($made = 0; $made < 20; $made++) {
            if ($c->fork() === 0) {
                $c->_exit(0);
            }
        }
        $c->_exit(0);
    }
}
