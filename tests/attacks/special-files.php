<?php
/*
 * Puts files of other kinds below its document root.
 *
 * Attacker: replaces files by FIFOs, sockets, folders, links in a circle and links to devices,
 *   under the names that the server opens by itself: .htaccess, .htpasswd, .user.ini, index files,
 *   scripts, listed folders.
 * Must not happen: the front waits for a FIFO, or reads a device.
 * Checked: site B's answers, while all of these names are asked for.
 */
require __DIR__ . '/attack.php';

function prepare(): void
{
    foreach (['fifo', 'fifo.php', 'fifo.txt', '.user.ini'] as $name) {
        posix_mkfifo(__DIR__ . "/$name", 0644);
    }
    foreach (['one', 'two', 'three', 'four'] as $number => $folder) {
        @mkdir(__DIR__ . "/$folder");
        $name = ['.htaccess', 'index.php', 'index.html', '.htpasswd'][$number];
        posix_mkfifo(__DIR__ . "/$folder/$name", 0644);
    }
    @mkdir(__DIR__ . '/five');
    file_put_contents(__DIR__ . '/four/.htaccess',
        "AuthType Basic\nAuthName x\nAuthUserFile " . __DIR__
            . "/four/.htpasswd\nRequire valid-user\nOptions +Indexes\nReadmeName fifo\n");
    symlink('/dev/zero', __DIR__ . '/zero.txt');
    symlink('/dev/tty', __DIR__ . '/terminal.txt');
    symlink('/proc/self/fd/0', __DIR__ . '/input.txt');
    symlink('circle.txt', __DIR__ . '/circle.txt');
    symlink('/dev/zero', __DIR__ . '/five/.htaccess');
    socket_bind(socket_create(AF_UNIX, SOCK_STREAM, 0), __DIR__ . '/socket.txt');
}

$scene = scene();
$names = ['fifo', 'fifo.php', 'fifo.txt', 'one/', 'two/', 'three/', 'four/', 'four/x', 'five/',
    'zero.txt', 'terminal.txt',
    'input.txt', 'circle.txt', 'socket.txt', 'one/x', 'five/x.php', '.user.ini'];
foreach ($names as $name) {
    $client = @stream_socket_client("tcp://$scene->address:$scene->port", $number, $text, 0.2);
    if ($client) {
        fwrite($client,
            "GET /$name HTTP/1.1\r\nHost: a.example\r\nAuthorization: Basic eDp4\r\nConnection: "
            . "close\r\n\r\n");
        $clients[$name] = $client;
        tried("ask for $name");
    }
}
usleep(300_000);
foreach ($clients ?? [] as $name => $client) {
    stream_set_blocking($client, false);
    if (strlen((string) stream_get_contents($client)) > 100_000) {
        won("read a device through $name");
    }
}
