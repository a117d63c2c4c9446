<?php
/*
 * Lets the front filter large answers.
 *
 * Attacker: compresses megabytes at the highest level, substitutes with costly patterns, and lets
 *   filters make a thousand bytes of each, through .htaccess.
 * Must not happen: site B waits for the filters, or the front takes memory for what they make.
 * Checked: site B's answers, and their time; the front's memory.
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
    file_put_contents(__DIR__ . '/filtered/many.html',
        str_repeat(str_repeat('a', 60) . "\n", 16_000));
    file_put_contents(__DIR__ . '/filtered/zeros.txt.gz', gzencode(str_repeat("\0", 60_000_000)));
    $b = str_repeat('b', 1000);
    file_put_contents(__DIR__ . '/filtered/.htaccess', <<<X
        AddOutputFilterByType DEFLATE text/plain
        <Files line.html>
        SetOutputFilter SUBSTITUTE
        Substitute "s/(a+)+c/x/"
        Substitute "s/(a|b|ab)*d/x/"
        Substitute "s/a/aaaaaaaa/"
        </Files>
        <Files many.html>
        SetOutputFilter SUBSTITUTE
        SubstituteMaxLineLength 2000m
        Substitute "s/a/$b/nq"
        Substitute "s/b/$b/n"
        </Files>
        <Files zeros.txt.gz>
        AddEncoding x-gzip .gz
        SetOutputFilter INFLATE
        DeflateInflateRatioLimit 100000
        </Files>
        X);
}

$scene = scene();
for ($until = microtime(true) + 0.8, $turn = 0; microtime(true) < $until; $turn++) {
    $client = @stream_socket_client("tcp://$scene->address:$scene->port", $number, $text, 0.5);
    if ($client) {
        stream_set_timeout($client, 1);
        $name = ['line.html', 'large.txt', 'many.html', 'zeros.txt.gz'][$turn % 4];
        touch(__DIR__ . "/filtered/$name");
        fwrite($client,
            "GET /filtered/$name?$turn HTTP/1.1\r\nHost: a.example\r\nAccept-Encoding: gzip\r\n"
            . "Connection: close\r\n\r\n");
        stream_get_contents($client, 1_000_000);
        tried('asked');
    }
}
