<?php
/*
 * Holds leases on its files.
 *
 * Attacker: takes a write lease (F_SETLEASE) on every file of its site, its scripts and its
 *   .htaccess file: whoever opens such a file waits until the lease is given back, for up to 45
 *   seconds.
 * Must not happen: the front waits in open(2).
 * Checked: site B's answers, while site A's leased files are asked for.
 */
require __DIR__ . '/attack.php';

function prepare(): void
{
    file_put_contents(__DIR__ . '/.htaccess', "Options -Indexes\n");
    foreach (range(0, 39) as $number) {
        file_put_contents(__DIR__ . "/leased$number.txt", "content $number");
    }
}

$c = c();
$c->signal(29, 1); // SIGIO: ignored
$held = 0;
foreach ([__DIR__ . '/.htaccess', ...glob(__DIR__ . '/leased*.txt')] as $path) {
    $file = $c->open($path, 2);
    $held += $c->fcntl($file, 1024, 1) === 0 ? 1 : 0; // F_SETLEASE, F_WRLCK
}
tried("held $held leases");
$address = scene();
for ($turn = 0; $turn < 40; $turn++) {
    $client = @stream_socket_client("tcp://$address->address:$address->port", $number, $text, 0.2);
    if ($client) {
        fwrite($client, "GET /leased$turn.txt HTTP/1.1\r\nHost: a.example\r\n\r\n");
        $clients[] = $client;
    }
    touch(__DIR__ . '/.htaccess');
}
usleep(700_000);
// The kernel takes the leases back from a dead process.
posix_kill(getmypid(), SIGKILL);
