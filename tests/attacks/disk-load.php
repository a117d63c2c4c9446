<?php
/*
 * Writes to the disk without pause.
 *
 * Attacker: writes files and has the kernel bring them to the disk at once (fsync, sync), makes and
 *   removes thousands of small ones, and reads with nothing kept in memory.
 * Must not happen: site B, whose sessions and uploads are on the same disk, waits for it; the front
 *   waits for a file.
 * Checked: site B's answers, of which some write, and their time.
 */
require __DIR__ . '/attack.php';

tried('write');
$folder = __DIR__ . '/disk' . getmypid();
@mkdir($folder);
$content = random_bytes(1 << 20);
for ($until = microtime(true) + 0.8, $turn = 0; microtime(true) < $until; $turn++) {
    $file = fopen("$folder/large", 'w');
    for ($part = 0; $part < 16; $part++) {
        fwrite($file, $content);
    }
    fsync($file);
    fclose($file);
    for ($small = 0; $small < 200; $small++) {
        file_put_contents("$folder/$small", 'x');
    }
    c()->syscall(162); // sync
    array_map('unlink', glob("$folder/*"));
}
@rmdir($folder);
