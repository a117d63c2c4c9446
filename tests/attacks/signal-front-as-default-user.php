<?php
/*
 * Signals and traces the front from a pool without a user of its own.
 *
 * Attacker: has the default user; sends every signal that stops or ends a process to each process
 *   that is not its own, by number, by process group and by handle; attaches as a debugger; takes
 *   descriptors and memory; changes priorities and limits.
 * Must not happen: one of these calls succeeds; the front, the supervisor or site B stops.
 * Checked: every call fails; front, supervisor and site B's zygote are the same processes
 *   afterwards.
 */
require __DIR__ . '/attack.php';

attack_processes();
