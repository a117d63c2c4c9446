<?php
/*
 * Types into the operator's terminal.
 *
 * Attacker: opens /dev/tty and pushes characters into the terminal that the server was started from
 *   (TIOCSTI), where root's shell would read them; takes the terminal's foreground.
 * Must not happen: a pool has a controlling terminal.
 * Checked: /dev/tty cannot be opened; every process of the pool is in a session without a terminal.
 */
require __DIR__ . '/attack.php';

attempt('open the terminal', fn () => fopen('/dev/tty', 'r+') !== false);
$session = posix_getsid(getmypid());
attempt('be in the session of the supervisor', fn () =>
    $session === posix_getsid(scene()->supervisor));
