<?php
/*
 * Uses up shared memory.
 *
 * Attacker: fills /dev/shm with bytes and with empty files; makes System V segments, semaphores and
 *   message queues, also under the keys that site B uses, and POSIX message queues, until none can
 *   be made.
 * Must not happen: the pool has more of them than `private_ipc` and `shm_size` allow; site B cannot
 *   make a segment, a semaphore, a queue or a file in /dev/shm, or finds the attacker's.
 * Checked: the bytes and the numbers that the attacker has; site B's shared memory of each kind,
 *   and its answers.
 */
require __DIR__ . '/attack.php';

/** `shm_size` of the configuration. */
const SIZE = 8 << 20;
const PAGE = 4096;

/** The sum of a column of /proc/sysvipc/$kind, and the number of lines. */
function column(string $kind, int $column): array
{
    $lines = array_slice(file("/proc/sysvipc/$kind"), 1);
    $numbers = array_map(fn (string $line): int => (int) preg_split('/\s+/', trim($line))[$column],
        $lines);
    return [array_sum($numbers), count($numbers)];
}

$c = c();
$number = getmypid();
// IPC_CREAT, and a key that site B uses, or none.
$new = fn (int $system_call, int ...$more): int => $c->syscall($system_call, 0, ...$more);
$taken = fn (int $system_call, int ...$more): int =>
    $c->syscall($system_call, 700_000 + $number, ...$more);

// Each loop ends where a pool without limits would have far too much.
for ($block = str_repeat('x', 1 << 20), $file = @fopen("/dev/shm/$number", 'w'), $turn = 0;
    $turn < 16 && $file && @fwrite($file, $block); $turn++);
for ($turn = 0; $turn < 4 * SIZE / PAGE && @touch("/dev/shm/$number-$turn"); $turn++);
foreach ([$taken, $new] as $make) {
    for ($turn = 0; $turn < 40 && $make(29, 1 << 20, 01600) >= 0; $turn++); // shmget
    for ($turn = 0; $turn < 200 && $make(64, 300, 01600) >= 0; $turn++); // semget
    for ($turn = 0; $turn < 2_000 && $make(64, 1, 01600) >= 0; $turn++);
    for ($turn = 0; $turn < 100 && ($queue = $make(68, 01600)) >= 0; $turn++) { // msgget
        $message = $c->new('char[8008]');
        $message[0] = "\1"; // The type of a message is not 0.
        // msgsnd, IPC_NOWAIT
        while ($c->syscall(69, $queue, FFI::addr($message), 8_000, 04000) === 0);
    }
}
// mq_open
$open = fn (int $turn) => $c->syscall(240, "howdah-$number-$turn", 0102, 0600, null);
for ($turn = 0; $turn < 300 && $open($turn) >= 0; $turn++);

[$bytes] = column('shm', 3);
[$semaphores, $sets] = column('sem', 3);
[$queued, $queues] = column('msg', 3);
$used = disk_total_space('/dev/shm') - disk_free_space('/dev/shm');
$files = count(scandir('/dev/shm')) - 2;
foreach ([
    "$used bytes in /dev/shm" => $used > SIZE,
    "$files files in /dev/shm" => $files > SIZE / PAGE,
    "$bytes bytes in segments" => $bytes > SIZE,
    "$semaphores semaphores in $sets sets" => $semaphores > 32_000 || $sets > 1_024,
    "$queued bytes in $queues queues" => $queues > 64 || $queued > 64 << 14,
] as $what => $is_too_much) {
    if ($is_too_much) {
        won($what);
    }
}

// Site B makes one of each kind, under the attacker's keys.
$scene = scene();
$client = @stream_socket_client("tcp://$scene->address:$scene->port", $error, $text, 3);
if ($client) {
    fwrite($client, "GET /shared.php?n=$number HTTP/1.0\r\nHost: b.example\r\n\r\n");
    $answer = stream_get_contents($client);
    if (str_starts_with($answer, 'HTTP/1.1 200 ')) {
        tried("use up $used bytes in $files files, $bytes bytes in segments, $sets sets, "
            . "$queues queues");
        if (!str_ends_with($answer, "\r\n\r\nsegment semaphore queue file of $number\n")) {
            won('kept site B from shared memory: ' . substr($answer, -200));
        }
    }
}
