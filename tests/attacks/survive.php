<?php
/*
 * Lives on after the request, a reload and the stop.
 *
 * Attacker: leaves processes behind: children of proc_open and exec, double forks with setsid,
 *   processes that ignore every signal, change their group and name, or have no descriptor of the
 *   server's.
 * Must not happen: one of them lives after the stop of the server.
 * Checked: after the stop no process of the site's user is left; site B's answers.
 */
require __DIR__ . '/attack.php';

$round = (int) ($_GET['round'] ?? 0);
if ($round > 12) {
    exit; // Enough of them.
}
tried("leave processes behind, round $round");
switch ($round % 4) {
    case 0:
        exec('setsid sleep 300 >/dev/null 2>&1 &');
        break;
    case 1:
        proc_open(['sh', '-c', 'trap "" TERM HUP INT; (sleep 301; sleep 302) & sleep 303'], [],
            $pipes);
        break;
    case 2:
        $c = c();
        if ($c->fork() === 0) {
            $c->setsid();
            foreach (range(0, 200) as $number) {
                $c->close($number);
            }
            foreach (range(1, 31) as $number) {
                $c->signal($number, 1);
            }
            if ($c->fork() === 0) {
                $c->prctl(15, 'innocent', 0, 0, 0);
                while (true) {
                    $c->sleep(300);
                }
            }
            $c->_exit(0);
        }
        break;
    case 3:
        $c = c();
        // clone, CLONE_PARENT: a child of the zygote
        if ($c->syscall(56, 0x8000 | 17, 0, 0, 0, 0) === 0) {
            while (true) {
                $c->sleep(300);
            }
        }
        break;
}
