<?php
/*
 * Exhausts processes.
 *
 * Attacker: forks until it may not, and leaves the children waiting.
 * Must not happen: site B's workers, the front or the supervisor cannot start a process; the pool
 *   has
 * more processes than its `pids` allows, where the system has control groups that count them.
 * Checked: site B's answers; a reload works, which starts processes; after the stop no child is
 *   left.
 */
require __DIR__ . '/attack.php';

/** The number of processes that the pool may have; null if nothing limits it. */
function limit(): ?int
{
    foreach (file('/proc/self/cgroup') as $line) {
        $pool = dirname(explode(':', trim($line), 3)[2]);
        foreach (['', '/pids', '/unified'] as $hierarchy) {
            $most = @file_get_contents("/sys/fs/cgroup$hierarchy$pool/pids.max");
            if (is_numeric(trim($most ?: ''))) {
                return (int) $most;
            }
        }
    }
    return null;
}

tried('fork as often as possible');
$limit = limit();
// Without a limit no more than this machine bears.
$most = $limit === null ? 400 : $limit + 100;
$c = c();
for ($made = 0; $made < $most; $made++) {
    $child = $c->fork();
    if ($child === 0) {
        $c->sleep(60);
        $c->_exit(0);
    }
    if ($child < 0) {
        break;
    }
}
if ($limit !== null && $made > $limit) {
    won("$made processes beyond the limit of $limit");
}
sleep(1);
