<?php
/*
 * Flushes the caches that all sites share.
 *
 * Attacker: creates folders and files without end and asks for each of them, and for names that do
 *   not exist, so that the caches of files, resolutions and directives and the kernel's watches
 *   belong to it.
 * Must not happen: site B is slow because nothing of it is cached any more; the front grows.
 * Checked: site B's answers, and their time; the front's memory.
 */
require __DIR__ . '/attack.php';

$scene = scene();
for ($until = microtime(true) + 0.8, $turn = 0; microtime(true) < $until; $turn++) {
    $folder = '/d' . random_int(0, 1 << 40);
    mkdir(__DIR__ . $folder);
    file_put_contents(__DIR__ . "$folder/.htaccess", "Header set X-Turn $turn\n");
    file_put_contents(__DIR__ . "$folder/x.txt", "x $turn");
    $client = @stream_socket_client("tcp://$scene->address:$scene->port", $number, $text, 0.5);
    if ($client) {
        stream_set_timeout($client, 1);
        $requests = '';
        foreach (["$folder/x.txt", "$folder/missing", "$folder/x.txt?" . str_repeat('q', 500)
            . $turn] as $target) {
            $requests .= "GET $target HTTP/1.1\r\nHost: a.example\r\n\r\n";
        }
        fwrite($client, $requests
            . "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
        stream_get_contents($client, 100_000);
        tried('asked');
    }
}
