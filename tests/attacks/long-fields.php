<?php
/*
 * Lets the front put together long fields of responses.
 *
 * Attacker: makes a variable of 63 KB by rewrite rules, names it a thousand times in `Header`, and
 *   edits a field of that length with thousands of captures; sends fields of a response that rules
 *   append to; lets a listing repeat long descriptions. Many clients ask for each.
 * Must not happen: site B waits while the fields are put together, or the front takes memory for
 *   them.
 * Checked: site B's answers, and their time; the front's memory.
 */
require __DIR__ . '/attack.php';

function prepare(): void
{
    $long = "RewriteEngine On\nRewriteRule ^ - [E=A:" . str_repeat('x', 7_900) . "]\n"
        . 'RewriteRule ^ - [E=A:' . str_repeat('%{ENV:A}', 8) . "]\n";
    $many = str_repeat('$1', 3_900);
    $folders = [
        'edited' => "{$long}Header set X \"%{A}e\"\nHeader edit X \"^(.*)$\" \"$many\"\n",
        'named' => $long . 'Header set X "' . str_repeat('%{A}e', 1_600) . "\"\n",
        'lines' => "Header edit Y \"^(.*)$\" \"$many\"\n",
        'merged' => str_repeat("Header merge Y z\nHeader append Y z\n", 60),
        'listed' => "Options +Indexes\nIndexOptions FancyIndexing DescriptionWidth=*\n"
            . "AddIcon '" . str_repeat('"', 7_900) . "' *\nAddDescription '"
            . str_repeat('d', 7_900) . "' *\n",
    ];
    foreach ($folders as $name => $rules) {
        @mkdir(__DIR__ . "/long-$name");
        file_put_contents(__DIR__ . "/long-$name/.htaccess", $rules);
        file_put_contents(__DIR__ . "/long-$name/x.txt", 'x');
    }
    file_put_contents(__DIR__ . '/long-lines/x.php',
        "<?php for (\$i = 0; \$i < 5000; \$i++) header('Y: 0123456789', false);\n");
    file_put_contents(__DIR__ . '/long-merged/x.php',
        "<?php header('Y: ' . str_repeat('y,', 100_000));\n");
    foreach (range(1, 2_000) as $number) {
        touch(__DIR__ . "/long-listed/$number.txt");
    }
}

$scene = scene();
$targets = ['edited/x.txt', 'named/x.txt', 'lines/x.php', 'merged/x.php', 'listed/'];
for ($until = microtime(true) + 0.8, $turn = 0; microtime(true) < $until; $turn++) {
    $clients = [];
    foreach (range(1, 8) as $number) {
        $client = @stream_socket_client("tcp://$scene->address:$scene->port", $code, $text, 0.5);
        if ($client) {
            stream_set_timeout($client, 1);
            $target = $targets[($turn + $number) % count($targets)];
            fwrite($client, "GET /long-$target?$turn HTTP/1.1\r\nHost: a.example\r\n"
                . "Connection: close\r\n\r\n");
            $clients[] = $client;
        }
    }
    foreach ($clients as $client) {
        stream_get_contents($client, 1_000_000);
        tried('asked');
    }
}
