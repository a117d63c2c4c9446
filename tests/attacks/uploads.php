<?php
/*
 * Leaves uploads behind.
 *
 * Attacker: sends uploads whose worker is killed while it runs, and uploads that break off, so that
 *   nobody deletes the temporary files.
 * Must not happen: files of requests that are over stay in the pool's folders.
 * Checked: after the attack, the folders of the pool hold no upload; site B's answers.
 */
if (PHP_SAPI === 'cli') {
    attack(...array_slice($argv, 1));
    exit;
}
require __DIR__ . '/attack.php';

file_put_contents(tempnam(sys_get_temp_dir(), 'own'), 'x');
posix_kill(getmypid(), SIGKILL);

function attack(string $address, string $seconds, string $loot): void
{
    $report = fn ($line) => file_put_contents("$loot/report", "$line\n", FILE_APPEND);
    $part = "--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n"
        . str_repeat('u', 300_000) . "\r\n--x--\r\n";
    for ($until = microtime(true) + $seconds, $turn = 0; microtime(true) < $until; $turn++) {
        $client = stream_socket_client("tcp://$address");
        stream_set_timeout($client, 2);
        fwrite($client,
            "POST /uploads.php HTTP/1.1\r\nHost: a.example\r\nContent-Type: multipart/form-data; "
            . "boundary=x\r\nContent-Length: "
            . strlen($part) . "\r\nConnection: close\r\n\r\n"
                . ($turn % 3 ? $part : substr($part, 0, 200_000)));
        if ($turn % 3) {
            fread($client, 1_000);
        }
        $report('tried: an upload');
    }
    // The worker's end and the removal take a moment.
    for ($wait = microtime(true) + 60; ($left = left($loot))
        && microtime(true) < $wait; usleep(50_000));
    if ($left) {
        $report('won: left ' . count($left) . ' files of uploads: '
            . implode(' ', array_slice($left, 0, 3)));
    }
}

function left(string $loot): array
{
    $found = [];
    $all = new RecursiveIteratorIterator(new RecursiveDirectoryIterator("$loot/../state",
        FilesystemIterator::SKIP_DOTS));
    foreach ($all as $file) {
        if (str_starts_with($file->getFilename(), 'php')) {
            $found[] = $file->getPathname();
        }
    }
    return $found;
}
