<?php
/*
 * Guesses passwords at one site without pause.
 *
 * Attacker: sixteen connections send logins with random passwords to a folder of site A whose
 *   hashes are costly (bcrypt); some names exist, others do not.
 * Must not happen: logins at site B wait or get 503; site B's other visitors wait.
 * Checked: a login at site B with the right password gets 200, with a wrong one 401, all the time;
 *   B's answers.
 */
if (PHP_SAPI === 'cli') {
    attack(...array_slice($argv, 1));
    exit;
}
require __DIR__ . '/attack.php';

function prepare(): void
{
    @mkdir(__DIR__ . '/members');
    file_put_contents(__DIR__ . '/members/x.txt', 'x');
    $users = '';
    $hash = password_hash('never guessed', PASSWORD_BCRYPT, ['cost' => 11]);
    foreach (range(0, 3) as $number) {
        $users .= "user$number:$hash\n";
    }
    file_put_contents(__DIR__ . '/members/.htpasswd', $users);
    file_put_contents(__DIR__ . '/members/.htaccess',
        "AuthType Basic\nAuthName members\nAuthUserFile " . __DIR__
            . "/members/.htpasswd\nRequire valid-user\n");
}

function attack(string $address, string $seconds, string $loot): void
{
    $report = fn ($line) => file_put_contents("$loot/report", "$line\n", FILE_APPEND);
    $login = fn ($host, $path, $user, $password) =>
        "GET $path HTTP/1.1\r\nHost: $host\r\nAuthorization: Basic "
        . base64_encode("$user:$password") . "\r\nConnection: close\r\n\r\n";
    $guesses = [];
    $innocent = null;
    // A short attack on a busy machine is no measurement.
    $patience = $seconds < 5 ? 60 : 5;
    $turn = 0;
    for ($until = microtime(true) + $seconds; microtime(true) < $until; usleep(2_000)) {
        while (count($guesses) < 16) {
            $turn++;
            $client = stream_socket_client("tcp://$address");
            stream_set_blocking($client, false);
            fwrite($client, $login('a.example', '/members/x.txt', 'user' . $turn % 8,
                bin2hex(random_bytes(8))));
            $guesses[] = $client;
            $report('tried: guess');
        }
        foreach ($guesses as $key => $client) {
            $text = (string) fread($client, 10_000);
            if (str_starts_with($text, 'HTTP/1.1 200')) {
                $report('won: a guess was right');
            }
            if ($text !== '' || feof($client)) {
                unset($guesses[$key]);
            }
        }
        // One login after the other at site B: alternately a new visitor's, a known one's and a
        // wrong one.
        if ($innocent === null) {
            $kind = $turn % 2;
            $asked = microtime(true);
            $innocent = stream_socket_client("tcp://$address");
            stream_set_blocking($innocent, false);
            fwrite($innocent, $login('b.example', '/members/b.txt', 'visitor', $kind
                ? 'correct horse' : "wrong $turn"));
        }
        $text = (string) fread($innocent, 10_000);
        if ($text !== '' || feof($innocent)) {
            $expected = $kind ? 'HTTP/1.1 200' : 'HTTP/1.1 401';
            if (!str_starts_with($text, $expected)) {
                $report("won: a login at site B got " . strtok($text . "\r", "\r")
                    . " instead of $expected");
            }
            $innocent = null;
        } elseif (microtime(true) - $asked > $patience) {
            $report("won: a login at site B waits for more than $patience seconds");
            $innocent = null;
        }
    }
}
