<?php
/*
 * Attacks from within the zygote.
 *
 * Attacker: an extension in C that the site loads. When PHP has started it begins a thread in the
 *   zygote that floods the sockets to the front and to the supervisor with forged messages and
 *   descriptors, makes them block, and never reads.
 * Must not happen: the supervisor or the front blocks, crashes, leaks descriptors, or only listens
 *   to this zygote.
 * Checked: site B's answers; a reload and a stop work; the supervisor is the same process.
 */
require __DIR__ . '/attack.php';

tried('the extension is ' . (extension_loaded('attack') ? 'loaded' : 'not loaded'));
usleep(100_000);
