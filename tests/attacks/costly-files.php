<?php
/*
 * Lets the front compile costly .htaccess files.
 *
 * Attacker: writes .htaccess files of megabytes, with patterns that are costly to compile, nested
 *   sections and long lines, in many folders, and changes them all the time, so that each request
 *   compiles.
 * Must not happen: site B waits for the compiler; the front keeps the memory.
 * Checked: site B's answers, and their time; the front's memory.
 */
require __DIR__ . '/attack.php';

function prepare(): void
{
    foreach (range(0, 7) as $number) {
        @mkdir(__DIR__ . "/deep$number");
        file_put_contents(__DIR__ . "/deep$number/x.txt", 'x');
    }
}

$scene = scene();
for ($until = microtime(true) + 0.8, $turn = random_int(0, 1 << 30);
    microtime(true) < $until; $turn++) {
    $folder = __DIR__ . '/deep' . $turn % 8;
    $content = match ($turn % 4) {
        0 => str_repeat("SetEnvIf User-Agent \"(x{0,200}y{0,200}){0,50}$turn\" a\n", 2_000),
        1 => str_repeat("<IfModule mod_rewrite.c>\n", 3_000) . "# $turn\n"
            . str_repeat("</IfModule>\n", 3_000),
        2 => 'Header set X-' . str_repeat('y', 3_000_000) . " $turn\n",
        3 => str_repeat("RewriteRule ^(([a-z0-9]+)\\.)*$turn/(?:a|b|c)\\d{1,9} /x [E=a:b]\n",
            20_000),
    };
    file_put_contents("$folder/next", $content);
    rename("$folder/next", "$folder/.htaccess");
    $client = @stream_socket_client("tcp://$scene->address:$scene->port", $number, $text, 0.5);
    if ($client) {
        stream_set_timeout($client, 1);
        fwrite($client, 'GET /deep' . $turn % 8
            . "/x.txt HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
        fread($client, 1000);
        tried('asked');
    }
}
