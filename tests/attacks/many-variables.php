<?php
/*
 * Sets as many variables as it may for each request.
 *
 * Attacker: .htaccess files set variables, notes and request fields of almost 192 KiB for each
 *   request, or of almost 64 KiB, with which a resolution is remembered. Clients ask for files and
 *   scripts with a new query each time, and the scripts are slow.
 * Must not happen: the front keeps the variables of thousands of requests; site B waits while they
 *   are set, copied or encoded.
 * Checked: site B's answers, and their time; the front's memory after the attack and during it.
 */
require __DIR__ . '/attack.php';

function prepare(): void
{
    // A remembered resolution has its variables, and a script's call has them once more.
    foreach (['kept' => 2, 'most' => 23] as $folder => $count) {
        @mkdir(__DIR__ . "/$folder");
        for ($rules = "RewriteEngine On\n", $turn = 0; $turn < $count; $turn++) {
            $value = str_repeat('v', 8_000);
            $rules .= "SetEnv NAME_$turn $value\nRequestHeader set X-Name-$turn $value\n";
        }
        $rules .= "RewriteCond %{QUERY_STRING} (.*)\nRewriteRule ^ - [E=QUERY:%1]\n";
        file_put_contents(__DIR__ . "/$folder/.htaccess", $rules);
        file_put_contents(__DIR__ . "/$folder/x.txt", 'x');
        file_put_contents(__DIR__ . "/$folder/slow.php", '<?php usleep(300_000);');
    }
}

/** Bytes of memory that the front has. */
function memory(int $process): int
{
    preg_match('/VmRSS:\s+(\d+)/', (string) @file_get_contents("/proc/$process/status"), $part);
    return 1024 * (int) ($part[1] ?? 0);
}

$scene = scene();
$open = [];
$before = (int) @file_get_contents(LOOT . '/before') ?: memory($scene->front);
file_put_contents(LOOT . '/before', $before);
for ($until = microtime(true) + 0.8, $turn = random_int(0, 1 << 40); microtime(true) < $until;) {
    $client = @stream_socket_client("tcp://$scene->address:$scene->port", $number, $text, 0.5);
    if ($client) {
        stream_set_blocking($client, false);
        for ($request = 0; $request < 10; $request++, $turn++) {
            $target = ['/kept/x.txt', '/most/x.txt', '/kept/slow.php', '/most/slow.php'][$turn % 4];
            fwrite($client, "GET $target?$turn HTTP/1.1\r\nHost: a.example\r\n\r\n");
        }
        tried('asked');
        $open[] = $client;
    }
    foreach ($open as $client) {
        fread($client, 100_000);
    }
    $open = array_slice($open, -10);
}
if (memory($scene->front) > $before + (160 << 20)) {
    won('made the front keep more than 160 MiB');
}
