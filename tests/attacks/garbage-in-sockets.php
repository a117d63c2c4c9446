<?php
/*
 * Forges messages on every socket of its pool.
 *
 * Attacker: takes the sockets of its workers and, with pidfd_getfd, of its zygote; makes them
 *   block; sends forged, cut, oversized and descriptor-laden messages to the front and the
 *   supervisor, in a flood; fills queues; shuts sockets down.
 * Must not happen: the front or the supervisor blocks, crashes, leaks descriptors or signals a
 *   foreign process.
 * Checked: site B's answers; front and supervisor are the same processes; a reload and a stop work.
 */
require __DIR__ . '/attack.php';

$scene = scene();
$c = c();
$sockets = array_keys(descriptors('socket:'));
$zygote = posix_getppid();
foreach (range(3, 40) as $number) {
    if (str_starts_with((string) @readlink("/proc/$zygote/fd/$number"), 'socket:') || $number < 5) {
        $stolen = steal($zygote, $number);
        if ($stolen >= 0) {
            $sockets[] = $stolen;
        }
    }
}
tried(count($sockets) . ' sockets');
$null = fopen('/dev/zero', 'r');
$own = array_keys(descriptors('zero'));
$text = fn ($text) => pack('P', strlen($text)) . $text;
$messages = [
    '', "\0", random_bytes(64), random_bytes(200_000), str_repeat("\xff", 4096),
    "\1" . $text('8.2.99') . $text('on'),
    "\1" . pack('P', PHP_INT_MAX) . 'x',
    "\2" . $text('forged failure'),
    "\3" . pack('PP', 0, $scene->front),
    "\3" . pack('PP', 1, $scene->other_zygote),
    "\3" . pack('PP', PHP_INT_MAX, 1),
    "\4" . pack('PPP', 0, $scene->front, 9),
    "\4" . pack('PPP', 1, getmypid(), 9),
    "\4" . pack('PPP', 1 << 40, 1 << 40, 1 << 40),
    "\5",
];
$mode = (int) ($_GET['round'] ?? 0) % 3;
for ($until = microtime(true) + 0.4, $turn = 0; microtime(true) < $until; $turn++) {
    foreach ($sockets as $socket) {
        $c->fcntl($socket, 4, $c->fcntl($socket, 3) & ~0x800); // F_SETFL without O_NONBLOCK
        $with = $own ? array_fill(0, [0, 1, 16, 250][$turn % 4], $own[0]) : [];
        // A flood of one message, or all of them.
        send($socket, $messages[$mode ? ($mode === 1 ? 8 : 11) : $turn % count($messages)], $mode
            ? [] : $with);
    }
}
if ($mode === 0) {
    foreach ($sockets as $socket) {
        $c->shutdown($socket, 2);
    }
}
