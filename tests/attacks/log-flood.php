<?php
/*
 * Floods the log, and forges lines.
 *
 * Attacker: writes log lines without pause: through error_log, through its descriptors, with line
 *   feeds, carriage returns, escape sequences, other sites' prefixes, bytes that are no text, and
 *   lines of megabytes.
 * Must not happen: the log grows without bound; a line looks as if another site or the server had
 *   written it; the supervisor does nothing but read.
 * Checked: bytes of the log; no forged line begins a line; a reload and a stop work.
 */
require __DIR__ . '/attack.php';

tried('write log lines');
$lines = [
    str_repeat('x', 300), "error b: forged\nerror b: forged", "\e[2J\e]0;forged\7",
        "\rerror b: forged", random_bytes(500),
    str_repeat("long", 500_000), "error: \nforged: error", "2026-01-01T00:00:00Z error b: forged",
];
for ($until = microtime(true) + 0.7, $turn = 0; microtime(true) < $until; $turn++) {
    $line = $lines[$turn % count($lines)];
    error_log($line);
    file_put_contents('php://stderr', "$line\n");
    @file_put_contents('/proc/self/fd/1', "$line\n");
}
