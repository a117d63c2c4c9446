<?php
/*
 * Lets the front read files that have no end.
 *
 * Attacker: sparse files of a terabyte under the names that the front reads whole: .htaccess,
 *   password and group files, headers of listings, error documents, texts to compress.
 * Must not happen: the front takes the memory for such a file, or reads it while site B waits.
 * Checked: site B's answers, and their time; the front's memory.
 */
require __DIR__ . '/attack.php';

function prepare(): void
{
    $huge = function (string $name): void {
        @mkdir(dirname(__DIR__ . "/$name"));
        $file = fopen(__DIR__ . "/$name", 'w');
        ftruncate($file, 1 << 40);
    };
    $text = function (string $name, string $text): void {
        @mkdir(dirname(__DIR__ . "/$name"));
        file_put_contents(__DIR__ . "/$name", $text);
    };
    $huge('one/.htaccess');
    $huge('two/users');
    $text('two/.htaccess', "AuthType Basic\nAuthName x\nAuthUserFile " . __DIR__
        . "/two/users\nRequire valid-user\n");
    $huge('three/groups');
    $text('three/users', 'x:' . password_hash('x', PASSWORD_BCRYPT, ['cost' => 4]) . "\n");
    $text('three/.htaccess', "AuthType Basic\nAuthName x\nAuthUserFile " . __DIR__
        . "/three/users\nAuthGroupFile "
        . __DIR__ . "/three/groups\nRequire group g\n");
    $huge('four/README.html');
    $huge('four/HEADER.html');
    $text('four/.htaccess', "Options +Indexes\n");
    $huge('five/error.html');
    $text('five/.htaccess', "ErrorDocument 404 /five/error.html\n");
    $huge('six/text.txt');
    $text('six/.htaccess', "SetOutputFilter DEFLATE\n");
    $huge('seven/text.txt');
    $text('seven/.htaccess', "SetOutputFilter SUBSTITUTE\nSubstitute \"s/x/y/\"\n");
    $huge('eight/.user.ini');
    $text('eight/x.php', '<?php');
    $huge('nine/text.txt');
}

$scene = scene();
foreach (['one/x', 'two/x', 'three/x', 'four/', 'five/x', 'six/text.txt', 'seven/text.txt',
    'eight/x.php', 'nine/text.txt'] as $name) {
    $client = @stream_socket_client("tcp://$scene->address:$scene->port", $number, $text, 0.2);
    if ($client) {
        $range = $name === 'nine/text.txt' ? "Range: bytes=0-1099511627775\r\n" : '';
        fwrite($client,
            "GET /$name HTTP/1.1\r\nHost: a.example\r\nAuthorization: Basic eDp4\r\n"
            . "Accept-Encoding: gzip\r\n$range\r\n");
        $clients[] = $client;
        tried("ask for $name");
    }
}
for ($until = microtime(true) + 0.6; microtime(true) < $until; usleep(1_000)) {
    foreach ($clients ?? [] as $client) {
        stream_set_blocking($client, false);
        fread($client, 1 << 16);
    }
}
