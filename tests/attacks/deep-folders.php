<?php
/*
 * Lets the front look into folders within folders.
 *
 * Attacker: a path of as many folders as a request may name, each with a .htaccess file, rules that
 *   inherit, sections for each folder, and index files that lead to the next folder; asks for the
 *   deepest file and for missing ones.
 * Must not happen: site B waits while the front walks the folders and joins the files.
 * Checked: site B's answers, and their time.
 */
const DEPTH = 250;

require __DIR__ . '/attack.php';

function prepare(): void
{
    chdir(__DIR__);
    for ($depth = 0; $depth < DEPTH; $depth++) {
        @mkdir('d');
        chdir('d');
        file_put_contents('.htaccess',
            "RewriteEngine On\nRewriteOptions Inherit\nRewriteRule ^x(.*)$depth$ y\$1 [C]\n"
            . "RewriteRule ^y z\n"
            . "SetEnvIf Host (.+) v$depth=\$1\n<Files \"*.txt\">\nHeader append X-Depth $depth\n"
                . "</Files>\nDirectoryIndex d/ index.html\n");
    }
    file_put_contents('x.txt', 'deep');
}

$scene = scene();
for ($until = microtime(true) + 0.8, $turn = 0; microtime(true) < $until; $turn++) {
    $client = @stream_socket_client("tcp://$scene->address:$scene->port", $number, $text, 0.5);
    if ($client) {
        stream_set_timeout($client, 1);
        $target = str_repeat('/d', DEPTH) . ['/x.txt', "/missing$turn", '/', ''][$turn % 4];
        fwrite($client, "GET $target HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
        stream_get_contents($client, 100_000);
        tried('asked');
    }
}
