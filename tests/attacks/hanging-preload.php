<?php
/*
 * Lets its PHP hang when it starts.
 *
 * Attacker: the site has a preload script, as the administrator has configured, and the script
 *   waits for ever once the attack has begun.
 * Must not happen: a reload waits for site A, or fails; site B waits.
 * Checked: a reload works, and site B serves afterwards; site A goes on with its former PHP.
 */
require __DIR__ . '/attack.php';

tried('hold the preload script');
touch(LOOT . '/hold');
