<?php
/*
 * Lets the front keep large .htaccess files.
 *
 * Attacker: has 60 folders with .htaccess files of a megabyte each, of many directives, of long
 *   ones and of patterns, and asks for a file in each of them, in turns.
 * Must not happen: the front has the rules of all these folders in its memory; site B waits while
 *   rules are compiled.
 * Checked: site B's answers, and their time; the front's memory.
 */
const FOLDERS = 60;

require __DIR__ . '/attack.php';


function prepare(): void
{
    foreach (range(0, FOLDERS - 1) as $number) {
        if (is_file(__DIR__ . "/large$number/.htaccess")) {
            continue; // On a slow machine one request does not write all.
        }
        $line = fn (int $line): string => match ($number % 4) {
            0 => "SetEnvIf Request_URI ^/none-$number-$line$ name$line=value\n",
            1 => "Header set X-Name-$line \"" . str_repeat('v', 4_000) . "\"\n",
            2 => "RewriteRule ^none-$number-$line/(.*)\\.html$ /none/$1 [L]\n",
            3 => "<Files none-$line>\nRequire all denied\n</Files>\n",
        };
        for ($content = "RewriteEngine on\n", $turn = 0; strlen($content) < 1_000_000; $turn++) {
            $content .= $line($turn);
        }
        @mkdir(__DIR__ . "/large$number");
        file_put_contents(__DIR__ . "/large$number/x.txt", 'x');
        file_put_contents(__DIR__ . "/large$number/rules", $content);
        rename(__DIR__ . "/large$number/rules", __DIR__ . "/large$number/.htaccess");
    }
}

$scene = scene();
for ($until = microtime(true) + 0.8, $turn = random_int(0, FOLDERS - 1);
    microtime(true) < $until; $turn++) {
    $client = @stream_socket_client("tcp://$scene->address:$scene->port", $number, $text, 0.5);
    if ($client) {
        stream_set_timeout($client, 2);
        fwrite($client, 'GET /large' . $turn % FOLDERS
            . "/x.txt HTTP/1.0\r\nHost: a.example\r\n\r\n");
        fgets($client);
        tried('asked');
    }
}
