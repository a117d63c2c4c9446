<?php
/*
 * Lets the front list folders of many files.
 *
 * Attacker: a folder of thousands of names, with a listing of it, MultiViews that search it, and
 *   long chains of internal redirects and error documents.
 * Must not happen: site B waits while the front reads the folder.
 * Checked: site B's answers, and their time.
 */
require __DIR__ . '/attack.php';

function prepare(): void
{
    @mkdir(__DIR__ . '/many');
    foreach (range(0, 3_000) as $number) {
        touch(__DIR__ . "/many/name-that-is-rather-long-for-a-file-$number.en.html");
    }
    file_put_contents(__DIR__ . '/many/.htaccess',
        "Options +Indexes +MultiViews\nIndexOptions FancyIndexing +VersionSort\nErrorDocument 404 "
            . "/many/missing\n");
}

$scene = scene();
for ($until = microtime(true) + 0.8, $turn = 0; microtime(true) < $until; $turn++) {
    $client = @stream_socket_client("tcp://$scene->address:$scene->port", $number, $text, 0.5);
    if ($client) {
        stream_set_timeout($client, 1);
        $target = ['/many/?C=M;O=D', '/many/name', '/many/nothing', "/many/?$turn"][$turn % 4];
        fwrite($client,
            "GET $target HTTP/1.1\r\nHost: a.example\r\nAccept-Language: de\r\nConnection: "
            . "close\r\n\r\n");
        stream_get_contents($client, 100_000);
        tried('asked');
    }
}
