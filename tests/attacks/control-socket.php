<?php
/*
 * Speaks to the control socket.
 *
 * Attacker: connects to the socket through which `howdah stop` and `howdah reload` reach the
 *   server, sends the words, and replaces the socket by one of its own.
 * Must not happen: the attacker is connected, or its word is obeyed.
 * Checked: no connection; the supervisor is the same process.
 */
require __DIR__ . '/attack.php';

$path = scene()->control;
foreach (["unix://$path", 'unix:///run/howdah.sock'] as $address) {
    attempt("connect to $address", function () use ($address) {
        $socket = stream_socket_client($address, $number, $text, 1);
        return $socket && fwrite($socket, "stop\n");
    });
}
attempt('replace the control socket', fn () => unlink($path)
    || rename(LOOT . '/scene.json', $path));
