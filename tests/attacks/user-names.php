<?php
/*
 * Finds out by the time of an answer which users exist.
 *
 * Attacker: logs in with a wrong password, as users that exist and as users that do not, and
 *   compares the times.
 * Must not happen: names without an account are refused at once, while a hash is compared for the
 *   others.
 * Checked: the shortest time for unknown users is at least half of the one for known users. Only a
 *   difference that shows five times in a row counts.
 */
if (PHP_SAPI === 'cli') {
    attack(...array_slice($argv, 1));
    exit;
}
require __DIR__ . '/attack.php';

function prepare(): void
{
    mkdir(__DIR__ . '/named');
    file_put_contents(__DIR__ . '/named/x.txt', 'x');
    $users = '';
    foreach (range(0, 3) as $number) {
        $users .= "user$number:" . password_hash('never guessed', PASSWORD_BCRYPT, ['cost' => 10])
            . "\n";
    }
    file_put_contents(__DIR__ . '/named/.htpasswd', $users);
    file_put_contents(__DIR__ . '/named/.htaccess',
        "AuthType Basic\nAuthName named\nAuthUserFile " . __DIR__
            . "/named/.htpasswd\nRequire valid-user\n");
}

function attack(string $address, string $seconds, string $loot): void
{
    $report = fn ($line) => file_put_contents("$loot/report", "$line\n", FILE_APPEND);
    for ($round = 0; $round < 5; $round++) {
        $times = shortest($address, $report);
        if ($times['nobody'] >= $times['user'] / 2) {
            return;
        }
    }
    $report('won: knowledge of the names: unknown users are refused in less than half the time');
}

/** The shortest times of answers, by kind of user. */
function shortest(string $address, callable $report): array
{
    $times = ['user' => [], 'nobody' => []];
    for ($turn = 0; $turn < 7; $turn++) {
        foreach (['user', 'nobody'] as $kind) {
            $client = stream_socket_client("tcp://$address");
            $word = base64_encode($kind . $turn % 4 . ':' . bin2hex(random_bytes(8)));
            $began = microtime(true);
            fwrite($client,
                "GET /named/x.txt HTTP/1.1\r\nHost: a.example\r\nAuthorization: Basic $word\r\n"
                . "Connection: close\r\n\r\n");
            $answer = (string) stream_get_contents($client);
            // The first of each kind compiles and reads the files.
            if ($turn > 0) {
                $times[$kind][] = microtime(true) - $began;
            }
            $report(str_starts_with($answer, 'HTTP/1.1 401') ? 'tried: a login'
                : 'won: an answer that is not 401');
        }
    }
    return array_map(min(...), $times);
}
