<?php
/*
 * Lets the front talk to an upstream that answers in pieces, or never.
 *
 * Attacker: rules hand requests on to a process of its own, which takes every connection. It
 *   answers in chunks of one byte without end, with a head of which a byte comes at a time, with
 *   interim responses without end, or not at all. Clients leave, and come again.
 * Must not happen: the front has no descriptors left for site B, a thread of the front does nothing
 *   but copy single bytes, or the front keeps what nobody takes.
 * Checked: site B's answers, and their time; the front's memory.
 */
require __DIR__ . '/attack.php';

function prepare(): void
{
    @mkdir(__DIR__ . '/up');
    file_put_contents(__DIR__ . '/up/.htaccess',
        "RewriteEngine On\nRewriteRule (.*) unix:" . upstream() . "|http://app/$1 [P]\n");
    serve_as_upstream(piece(...));
}

/** The next bytes of the answer to a request. */
function piece(string $request, int $turn): ?string
{
    $way = explode(' ', $request)[1] ?? '';
    return match ($way) {
        '/chunks' => $turn === 0 ? "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            : "1\r\nx\r\n",
        '/head' => $turn === 0 ? "HTTP/1.1 200 OK\r\nX-Long: " : 'x',
        '/interim' => "HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n",
        '/never' => '',
        default => null,
    };
}

$scene = scene();
$open = [];
for ($until = microtime(true) + 0.8, $turn = 0; microtime(true) < $until; $turn++) {
    $client = @stream_socket_client("tcp://$scene->address:$scene->port", $number, $text, 0.5);
    if ($client) {
        stream_set_blocking($client, false);
        $target = ['/up/chunks', '/up/head', '/up/interim', '/up/never', '/up/never'][$turn % 5];
        fwrite($client, "GET $target HTTP/1.1\r\nHost: a.example\r\n\r\n");
        tried("an upstream with $target");
        $open[] = $client;
    }
    foreach (array_slice($open, -40, 20) as $client) {
        fread($client, 100_000);
    }
    $open = array_slice($open, -60);
}
