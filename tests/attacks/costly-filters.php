<?php
/*
 * Lets the front filter large answers.
 *
 * Attacker: compresses megabytes at the highest level and substitutes with costly patterns, through .htaccess.
 * Must not happen: site B waits for the filters.
 * Checked: site B's answers, and their time.
 */
require __DIR__ . '/attack.php';

function prepare(): void
{
    @mkdir(__DIR__ . '/filtered');
    $text = '';
    for ($i = 0; $i < 200_000; $i++) {
        $text .= hash('crc32b', (string) $i) . ($i % 9 ? ' ' : "\n");
    }
    file_put_contents(__DIR__ . '/filtered/large.txt', $text);
    file_put_contents(__DIR__ . '/filtered/line.html', str_repeat('aaaaaaaab', 100_000));
    file_put_contents(__DIR__ . '/filtered/.htaccess', <<<'X'
        AddOutputFilterByType DEFLATE text/plain
        <Files line.html>
        SetOutputFilter SUBSTITUTE
        Substitute "s/(a+)+c/x/"
        Substitute "s/(a|b|ab)*d/x/"
        Substitute "s/a/aaaaaaaa/"
        </Files>
        X);
}

$scene = scene();
for ($until = microtime(true) + 0.8, $turn = 0; microtime(true) < $until; $turn++) {
    $client = @stream_socket_client("tcp://$scene->address:$scene->port", $number, $text, 0.5);
    if ($client) {
        stream_set_timeout($client, 1);
        $name = $turn % 2 ? 'line.html' : "large.txt";
        touch(__DIR__ . "/filtered/$name");
        fwrite($client, "GET /filtered/$name?$turn HTTP/1.1\r\nHost: a.example\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n");
        stream_get_contents($client, 1_000_000);
        tried('asked');
    }
}
