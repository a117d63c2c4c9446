<?php
/*
 * Forks in every manner, and lets the child answer.
 *
 * Attacker: forks with pcntl_fork, fork, vfork and clone; child or parent or both go on: return
 *   from the script, write output, end, die by a signal, or live on and write later.
 * Must not happen: a visitor of either site gets bytes that are not the answer to the request.
 * Checked: every byte for visitors of site B and of site A; after the stop, no child is left.
 */
require __DIR__ . '/attack.php';

$c = c();
$manner = (int) ($_GET['round'] ?? 0) % 8;
tried("manner $manner");
echo "before\n";
$child = match ($manner) {
    0, 1, 2, 3 => pcntl_fork(),
    4 => $c->fork(),
    5 => $c->syscall(57), // fork, without the C library's handlers
    6 => $c->syscall(56, 17, 0, 0, 0, 0), // clone with SIGCHLD
    7 => $c->syscall(56, 0x8000 | 17, 0, 0, 0, 0), // CLONE_PARENT: a child of the zygote
};
if ($child === 0) {
    switch ($manner) {
        case 1:
            echo str_repeat('FOREIGN', 20_000);
            exit;
        case 2:
            posix_kill(getmypid(), SIGKILL);
        case 3:
            for ($i = 0; $i < 100; $i++) {
                echo str_repeat('FOREIGN', 2_000);
                flush();
                usleep(20_000);
            }
    }
    echo str_repeat('FOREIGN', 500);
    return; // Into the worker's loop, if the server lets it.
}
if ($manner === 2) {
    posix_kill(getmypid(), SIGKILL);
}
echo str_repeat("parent\n", 300);
