<?php
/*
 * Kills every process that it may signal.
 *
 * Attacker: kill(-1): all processes of its user, which are its zygote, all workers and itself.
 * Must not happen: site B, the front or the supervisor notices; the pool stays dead.
 * Checked: site B's answers; front and supervisor are the same processes; site A serves again.
 */
require __DIR__ . '/attack.php';

tried('kill everything');
posix_kill(-1, SIGKILL);
posix_kill(getmypid(), SIGKILL);
