<?php
/*
 * Lets the front follow symbolic links without end.
 *
 * Attacker: makes links whose targets have hundreds of names, one after the other and below deep
 *   folders, asks for what is behind them, and lets rules ask; makes thousands of links to one
 *   folder and to one file, asks for each of them, and changes names in the folder and the file all
 *   the time.
 * Must not happen: site B waits while the front walks along the links, or while the front finds out
 *   what a change in the folder means.
 * Checked: site B's answers, and their time; the front's memory.
 */
const DEPTH = 120;
const LINKS = 4000;

require __DIR__ . '/attack.php';

function prepare(): void
{
    chdir(__DIR__);
    // Each link's target has as many names as a link may have, and leads through the next link.
    for ($number = 0; $number < 30; $number++) {
        $target = str_repeat('shared/../', 400)
            . ($number === 29 ? 'shared' : 'chain' . $number + 1);
        @symlink($target, "chain$number");
        @symlink(str_repeat('shared/../', 60) . ($number < 2 ? 'short' . $number + 1 : 'deep'),
            "short$number");
    }
    @mkdir('shared');
    file_put_contents('shared/file', 'x');
    @mkdir('deep' . str_repeat('/d', DEPTH), 0755, true);
    $question = 'RewriteCond ' . __DIR__
        . "/chain0/file -f [OR]\nRewriteCond %{DOCUMENT_ROOT}/../public/chain1/none -d [OR]\n";
    @mkdir('asks');
    file_put_contents('asks/.htaccess', "RewriteEngine on\n" . str_repeat($question, 200)
        . "RewriteCond %{REQUEST_URI} none\nRewriteRule ^ - [F]\n<If \"-f '" . __DIR__
            . "/chain2/file'\">\nHeader set X-A b\n</If>\n");
    file_put_contents('asks/x.txt', 'x');
    for ($number = 0; $number < LINKS; $number++) {
        @symlink('shared', "folder$number");
        @symlink('shared/file', "file$number");
    }
}

$scene = scene();
$ask = function (string ...$targets) use ($scene): void {
    $client = @stream_socket_client("tcp://$scene->address:$scene->port", $number, $text, 0.5);
    if ($client) {
        stream_set_timeout($client, 2);
        foreach ($targets as $target) {
            fwrite($client, "GET $target HTTP/1.1\r\nHost: a.example\r\n\r\n");
        }
        fwrite($client,
            "GET /shared/file HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
        stream_get_contents($client, 100_000);
        tried('asked');
    }
};
for ($until = microtime(true) + 0.8, $turn = random_int(0, LINKS);
    microtime(true) < $until; $turn++) {
    match ($turn % 4) {
        0 => $ask('/chain0/file', '/chain' . $turn % 30 . str_repeat('/d', DEPTH) . "/none$turn"),
        1 => $ask('/short0' . str_repeat('/d', DEPTH) . "/none$turn", '/short1'
            . str_repeat('/d', DEPTH) . '/'),
        2 => $ask("/asks/x.txt?$turn", "/asks/none$turn"),
        3 => $ask(...array_map(fn ($number) => '/' . ['folder', 'file'][$number % 2]
            . ($turn + $number) % LINKS
            . ($number % 2 ? '' : '/file'), range(0, 200))),
    };
    touch(__DIR__ . '/shared/file');
    touch(__DIR__ . '/shared/new');
    unlink(__DIR__ . '/shared/new');
    for ($change = 0; $change < 300; $change++) {
        $next = __DIR__ . "/shared/moved$turn-" . $change + 1;
        @rename(__DIR__ . "/shared/moved$turn-$change", $next) || touch($next);
    }
    @unlink(__DIR__ . "/shared/moved$turn-$change");
    // The targets of the links change, too.
    @symlink('deep', __DIR__ . "/next$turn") && rename(__DIR__ . "/next$turn", __DIR__ . '/short2');
    symlink(str_repeat('shared/../', 60) . 'deep', __DIR__ . "/next$turn")
        && rename(__DIR__ . "/next$turn", __DIR__ . '/short2');
}
