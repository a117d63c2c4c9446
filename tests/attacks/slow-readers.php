<?php
/*
 * Fills the disk with answers that nobody reads.
 *
 * Attacker: a script makes hundreds of megabytes, and many clients ask for them and read nothing,
 *   so that the front has to keep the answers.
 * Must not happen: the front's temporary files fill the disk, or its memory grows; site B waits.
 * Checked: bytes of the front's open temporary files; site B's answers.
 */
if (PHP_SAPI === 'cli') {
    attack(...array_slice($argv, 1));
    exit;
}
require __DIR__ . '/attack.php';

for ($i = 0; $i < 20_000; $i++) {
    echo str_repeat('x', 10_000);
}

function attack(string $address, string $seconds, string $loot): void
{
    $report = fn ($line) => file_put_contents("$loot/report", "$line\n", FILE_APPEND);
    $front = json_decode(file_get_contents("$loot/scene.json"))->front;
    $clients = [];
    for ($until = microtime(true) + $seconds; microtime(true) < $until; usleep(50_000)) {
        if (count($clients) < 60) {
            $client = stream_socket_client("tcp://$address");
            fwrite($client, "GET /slow-readers.php HTTP/1.1\r\nHost: a.example\r\n\r\n");
            $clients[] = $client;
            $report('tried: an answer that is not read');
        }
        $bytes = 0;
        foreach (glob("/proc/$front/fd/*") as $path) {
            $target = (string) @readlink($path);
            if (str_contains($target, '(deleted)') && !str_contains($target, 'memfd')) {
                $bytes += (@stat($path)['blocks'] ?? 0) * 512;
            }
        }
        if ($bytes > 1 << 30) {
            $report('won: the front keeps more for slow readers than the 1 GB of `spill_total`');
            return;
        }
    }
}
