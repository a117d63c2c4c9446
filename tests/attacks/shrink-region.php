<?php
/*
 * Takes the shared memory away from the front.
 *
 * Attacker: truncates, extends and punches the region's file, through its own mapping and through
 *   descriptors that it opens again; protects and unmaps its side; asks for seals.
 * Must not happen: the front gets SIGBUS; a page of the region goes for good.
 * Checked: the file cannot be truncated or grown; site B's answers; the front is the same process.
 */
require __DIR__ . '/attack.php';

$c = c();
$files = [];
foreach (glob('/proc/self/map_files/*') as $path) {
    if (str_contains((string) @readlink($path), 'howdah-pool')) {
        $files[] = $c->open($path, 2);
    }
}
foreach (glob('/proc/[0-9]*/fd/*') as $path) {
    if (str_contains((string) @readlink($path), 'howdah-pool')) {
        $files[] = $c->open($path, 2);
    }
}
tried(count($files) . ' ways to the region');
foreach ($files as $file) {
    attempt('truncate the region', fn () => $c->ftruncate($file, 0) === 0);
    attempt('truncate the region to a page', fn () => $c->ftruncate($file, 4096) === 0);
    attempt('grow the region', fn () => $c->ftruncate($file, 1 << 40) === 0);
    $c->fcntl($file, 1033, 0x10); // F_ADD_SEALS, F_SEAL_FUTURE_WRITE
    $c->fallocate($file, 3, 0, 1 << 30); // FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
}
foreach (regions() as $start => $length) {
    tried('remove the pages of the region');
    $c->syscall(28, $start, $length, 9); // madvise, MADV_REMOVE
    $c->syscall(28, $start, $length, 21); // MADV_PAGEOUT
    $c->syscall(10, $start, $length, 0); // mprotect
}
