<?php
/*
 * Stops its own zygote and all workers of its pool.
 *
 * Attacker: sends SIGSTOP to its zygote, to the other workers and to itself, so that nobody answers
 *   for the pool, and every request to it waits.
 * Must not happen: site B waits; the pool stays stopped for good; reload or stop hangs.
 * Checked: site B's answers; site A serves again; a reload and a stop work.
 */
require __DIR__ . '/attack.php';

tried('stop the pool');
posix_kill(-1, SIGSTOP);
posix_kill(getmypid(), SIGSTOP);
