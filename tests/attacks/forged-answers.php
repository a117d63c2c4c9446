<?php
/*
 * Smuggles an answer into a connection that other sites use.
 *
 * Attacker: sends heads that contradict the body: a wrong Content-Length, Transfer-Encoding, line
 *   feeds in fields, 1xx, 204 and 304 with a body, bodies on HEAD, Connection and Upgrade fields. A
 *   proxy in front of the server uses one connection for site A and for site B.
 * Must not happen: the next request on that connection, for site B, gets bytes of site A.
 * Checked: each request for site B on a shared connection gets site B's answer, or the connection
 *   is closed.
 */
if (PHP_SAPI === 'cli') {
    attack(...array_slice($argv, 1));
    exit;
}
require __DIR__ . '/attack.php';

$forged = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nFORGED";
switch ((int) $_GET['n']) {
    case 0: header('Content-Length: 5'); echo "hello$forged"; break;
    case 1: header('Content-Length: 500'); echo $forged; break;
    case 2: header('Transfer-Encoding: chunked'); echo "0\r\n\r\n$forged"; break;
    case 3: header('Transfer-Encoding: chunked'); header('Content-Length: 3');
        echo "0\r\n\r\n$forged"; break;
    case 4: http_response_code(204); echo $forged; break;
    case 5: http_response_code(304); echo $forged; break;
    case 6: http_response_code(100); echo $forged; break;
    case 7: http_response_code(101); header('Upgrade: x'); header('Connection: Upgrade');
        echo $forged; break;
    case 8: @header("X: y\r\n\r\n$forged"); echo 'x'; break;
    case 9: @header("X: y\rContent-Length: 0\r\r$forged"); echo 'x'; break;
    case 10: header("X: y\0\nContent-Length: 0"); echo $forged; break;
    case 11: header('Content-Length: 5', false); header('Content-Length: 7', false);
        echo "hello$forged"; break;
    case 12: header('Content-Length: +5'); echo "hello$forged"; break;
    case 13: header('Content-Length : 5'); echo "hello$forged"; break;
    case 14: header('Connection: keep-alive, content-length'); header('Content-Length: 1');
        echo $forged; break;
    case 15: header('Content-Length: 99999999999999999999'); echo $forged; break;
    case 16: header('Content-Length: 5'); flush(); echo 'hello'; flush(); usleep(20_000);
        echo $forged; break;
    case 17: header('HTTP/1.1 200 OK' . "\x0b\x0c" . $forged); echo 'x'; break;
    case 18: header('Content-Encoding: gzip'); header('Content-Length: 2'); echo $forged; break;
    case 19: header('HTTP/1.0 999 ' . str_repeat('x', 70_000)); echo $forged; break;
    case 20: header('X-Large: ' . str_repeat('x', 5_000_000)); echo 'x'; break;
    case 21: for ($i = 0; $i < 10_000; $i++) header("X-$i: " . str_repeat('x', 20)); echo 'x';
        break;
    case 22: header('Location: /' . str_repeat("\t\x01", 100)); header("Set-Cookie: a=\x7f\xff");
        echo 'x'; break;
}

function attack(string $address, string $seconds, string $loot): void
{
    $report = fn ($line) => file_put_contents("$loot/report", "$line\n", FILE_APPEND);
    for ($until = microtime(true) + $seconds; microtime(true) < $until;) {
        foreach (range(0, 22) as $number) {
            foreach (['GET', 'HEAD', 'POST'] as $method) {
                $report("tried: $method $number");
                $client = stream_socket_client("tcp://$address");
                stream_set_timeout($client, 60);
                $length = $method === 'POST' ? "Content-Length: 0\r\n" : '';
                fwrite($client,
                    "$method /forged-answers.php?n=$number HTTP/1.1\r\nHost: a.example\r\n"
                    . "$length\r\n");
                $first = answer($client, $method);
                if ($first === null) {
                    continue; // Closed, which a proxy notices.
                }
                @fwrite($client, "GET /hello.php?n=$number HTTP/1.1\r\nHost: b.example\r\n\r\n");
                $second = answer($client, 'GET');
                if ($second !== null && $second !== [200, "the answer to $number\n"]) {
                    $report("won: after $method $number a request for site B got "
                        . json_encode($second, JSON_INVALID_UTF8_SUBSTITUTE));
                }
            }
        }
    }
}

/**
 * Reads an answer as RFC 9112 says: status and body; null if the connection ends with it or before.
 */
function answer($client, string $method): ?array
{
    do {
        $line = fgets($client);
        if ($line === false || !preg_match('~^HTTP/1\.[01] (\d{3})~', $line, $part)) {
            return $line === false ? null : [0, $line];
        }
        $status = (int) $part[1];
        for ($fields = []; ($line = fgets($client)) !== false && trim($line) !== '';) {
            [$name, $value] = explode(':', $line, 2) + [1 => ''];
            $fields[strtolower($name)] = trim($value);
        }
    } while ($status < 200 && $status !== 101);
    if (strtolower($fields['connection'] ?? '') === 'close' || $status === 101) {
        return null;
    }
    if ($method === 'HEAD' || $status === 204 || $status === 304) {
        return [$status, ''];
    }
    if (isset($fields['transfer-encoding'])) {
        for ($body = ''; ($size = hexdec(trim((string) fgets($client)))) > 0; fgets($client)) {
            $body .= stream_get_contents($client, (int) $size);
        }
        fgets($client);
        return [$status, $body];
    }
    $length = (int) ($fields['content-length'] ?? -1);
    if ($length < 0) {
        return null;
    }
    $body = $length ? (string) stream_get_contents($client, $length) : '';
    return strlen($body) === $length ? [$status, $body] : null;
}
