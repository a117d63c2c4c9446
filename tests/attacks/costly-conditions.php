<?php
/*
 * Lets the front match costly patterns.
 *
 * Attacker: a .htaccess file with thousands of conditions, each of which uses up almost all steps
 *   that one match may take, in SetEnvIf, RewriteCond, Redirect and If; a few clients ask for it.
 * Must not happen: site B waits for the evaluation.
 * Checked: site B's answers, and their time.
 */
require __DIR__ . '/attack.php';

function prepare(): void
{
    $lines = "RewriteEngine On\n";
    for ($i = 0; $i < 1500; $i++) {
        $lines .= "SetEnvIf X-Long \"^(a|aa|b$i)+$\" v$i\n";
        $lines .= "RewriteCond %{HTTP:X-Long} ^(a|aa|c$i)+$\nRewriteRule ^never$i - [F]\n";
        $lines .= "RewriteCond %{HTTP:X-Long} (.*)(.*)(.*)(.*)(.*)[0-9]$i$\nRewriteRule . - [F]\n";
    }
    @mkdir(__DIR__ . '/costly');
    file_put_contents(__DIR__ . '/costly/.htaccess', $lines);
    file_put_contents(__DIR__ . '/costly/x.txt', 'x');
}

$scene = scene();
for ($until = microtime(true) + 0.8, $turn = 0; microtime(true) < $until; $turn++) {
    $client = @stream_socket_client("tcp://$scene->address:$scene->port", $number, $text, 0.5);
    if ($client) {
        stream_set_timeout($client, 1);
        $long = str_repeat('a', 28 + $turn % 300) . '!';
        fwrite($client,
            "GET /costly/x.txt?$turn HTTP/1.1\r\nHost: a.example\r\nX-Long: $long\r\nConnection: "
            . "close\r\n\r\n");
        fread($client, 1000);
        tried('asked');
    }
}
