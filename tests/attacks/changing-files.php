<?php
/*
 * Changes files while the front sends them.
 *
 * Attacker: truncates, extends, replaces and removes files, and the folder above them, while
 *   answers with them are on their way: plain ones, ranges and compressed ones.
 * Must not happen: the front crashes, sends bytes that are not of the file, or loops at the end of
 *   a file that shrank.
 * Checked: site B's answers; the front is the same process; no answer is longer than its
 *   Content-Length.
 */
require __DIR__ . '/attack.php';

function prepare(): void
{
    @mkdir(__DIR__ . '/changing');
    file_put_contents(__DIR__ . '/changing/.htaccess', "AddOutputFilterByType DEFLATE text/css\n");
}

$scene = scene();
for ($until = microtime(true) + 0.8, $turn = 0; microtime(true) < $until; $turn++) {
    $name = 'changing/' . ['x.txt', 'x.css', 'x.bin'][$turn % 3];
    $path = __DIR__ . "/$name";
    @mkdir(dirname($path));
    file_put_contents($path, str_repeat("the content\n", 100_000));
    $client = @stream_socket_client("tcp://$scene->address:$scene->port", $number, $text, 0.5);
    if (!$client) {
        continue;
    }
    stream_set_timeout($client, 1);
    $range = $turn % 4 === 1 ? "Range: bytes=100-4000000\r\n" : '';
    fwrite($client,
        "GET /$name HTTP/1.1\r\nHost: a.example\r\nAccept-Encoding: gzip\r\nConnection: close\r\n"
        . "$range\r\n");
    $head = (string) fread($client, 1000);
    switch ($turn % 5) {
        case 0: ftruncate(fopen($path, 'r+'), 10); break;
        case 1: file_put_contents($path, str_repeat('more', 100_000), FILE_APPEND); break;
        case 2: unlink($path); break;
        case 3: rename(__DIR__ . '/changing', __DIR__ . '/moved' . random_int(0, 1 << 40)); break;
        case 4: file_put_contents($path, str_repeat('other', 1_000_000)); break;
    }
    $length = strlen($head) + strlen((string) stream_get_contents($client, 10_000_000));
    tried('changed a file');
    if (preg_match('/^Content-Length: (\d+)\r$/mi', $head, $part)
        && $length > $part[1] + strpos($head, "\r\n\r\n") + 4) {
        won('an answer that is longer than its Content-Length');
    }
}
