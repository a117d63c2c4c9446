<?php
/*
 * Exchanges a file for a link while the front opens it.
 *
 * Attacker: renames files, folders and links over each other without pause, so that a path that was
 *   checked leads to site B's files (which the front may read) when it is opened; links to /proc
 *   and to open descriptors.
 * Must not happen: an answer holds a byte of site B's files.
 * Checked: no answer holds a secret; the exchanged names are asked for without pause.
 */
require __DIR__ . '/attack.php';

function prepare(): void
{
    $scene = scene();
    @mkdir(__DIR__ . '/real');
    file_put_contents(__DIR__ . '/real/private.txt', 'own');
    file_put_contents(__DIR__ . '/mine.txt', 'own');
    symlink("$scene->other_root/private.txt", __DIR__ . '/their.txt');
    symlink($scene->other_root, __DIR__ . '/theirs');
    symlink("/proc/$scene->front/root$scene->other_root/private.txt", __DIR__ . '/process.txt');
    symlink('/proc/self/environ', __DIR__ . '/environment.txt');
    symlink("/proc/self/cwd/../..$scene->other_root/private.txt", __DIR__ . '/cwd.txt');
}

$scene = scene();
if (((int) ($_GET['client'] ?? 0)) === 0) {
    tried('exchange');
    for ($until = microtime(true) + 0.8; microtime(true) < $until;) {
        foreach ([['mine.txt', 'their.txt', 'race.txt'], ['real', 'theirs', 'folder']] 
            as [$good, $evil, $name]) {
            foreach ([$good, $evil] as $target) {
                // A link to a file of one's own, then one to another's; then a file itself.
                @symlink(readlink(__DIR__ . "/$target") ?: __DIR__ . "/$target", __DIR__ . "/next");
                @rename(__DIR__ . '/next', __DIR__ . "/$name");
            }
        }
        @link(__DIR__ . '/mine.txt', __DIR__ . '/next');
        @rename(__DIR__ . '/next', __DIR__ . '/race.txt');
        @unlink(__DIR__ . '/next');
    }
    exit;
}
for ($until = microtime(true) + 0.8; microtime(true) < $until;) {
    foreach (['race.txt', 'folder/private.txt', 'their.txt', 'theirs/private.txt', 'process.txt',
        'environment.txt', 'cwd.txt'] as $name) {
        $client = @stream_socket_client("tcp://$scene->address:$scene->port", $number, $text, 0.5);
        if (!$client) {
            continue;
        }
        fwrite($client, "GET /$name HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
        if (preg_match('/secret-' . 'of-[a-z]+-[0-9a-f]{16}/',
            (string) stream_get_contents($client))) {
            won("read site B's file through $name");
        }
    }
}
tried('asked');
