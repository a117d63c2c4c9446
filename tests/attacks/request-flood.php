<?php
/*
 * Sends requests without pause.
 *
 * Attacker: one address pipelines requests for site A's scripts and files on many connections:
 *   whole ones, broken ones, ranges that overlap a thousand times, heads of the longest length, and
 *   hangs up at random.
 * Must not happen: site B waits, or gets 503; the log grows by a line for each request.
 * Checked: site B's answers, and their time; bytes of the log.
 */
if (PHP_SAPI === 'cli') {
    attack(...array_slice($argv, 1));
    exit;
}
require __DIR__ . '/attack.php';

function attack(string $address, string $seconds, string $loot): void
{
    $report = fn ($line) => file_put_contents("$loot/report", "$line\n", FILE_APPEND);
    $ranges = 'bytes=' . implode(',', array_map(fn ($i) => $i . '-', range(0, 1_500)));
    $requests = [
        str_repeat("GET /hello.php?n=1 HTTP/1.1\r\nHost: a.example\r\n\r\n", 50),
        "GET /file.txt HTTP/1.1\r\nHost: a.example\r\nRange: $ranges\r\n\r\n",
        str_repeat("GET /missing HTTP/1.1\r\nHost: a.example\r\n\r\n", 100),
        "BROKEN\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", random_bytes(3_000),
        'GET /?' . str_repeat('q', 8_000) . " HTTP/1.1\r\nHost: a.example\r\nCookie: "
            . str_repeat('c', 15_000) . "\r\n\r\n",
        "POST /echo.php HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\nTransfer-Encoding: "
            . "chunked\r\n\r\n0\r\n\r\n",
        str_repeat("GET /large.php?n=1 HTTP/1.1\r\nHost: a.example\r\n\r\n", 20),
    ];
    $clients = [];
    for ($until = microtime(true) + $seconds, $turn = 0; microtime(true) < $until; $turn++) {
        $from = stream_context_create(['socket' => ['bindto' => '127.0.0.9:0']]);
        $client = @stream_socket_client("tcp://$address", $number, $text, 1, STREAM_CLIENT_CONNECT,
            $from);
        if ($client) {
            stream_set_blocking($client, false);
            @fwrite($client, $requests[$turn % count($requests)]);
            $clients[] = $client;
        }
        foreach ($clients as $open) {
            @fread($open, 100_000);
        }
        if (count($clients) > 40) {
            unset($clients[array_rand($clients)]);
        }
        if ($turn % 10 === 0) {
            $report('tried: requests');
        }
    }
}
