<?php
/*
 * Runs a thread in the worker that goes on after the request.
 *
 * Attacker: loads a C library that starts a thread. The thread rewrites what the worker writes into
 *   the shared memory: it looks for the head of each answer and inserts a second answer, and it
 *   never ends.
 * Must not happen: a visitor of site B gets an answer of site A; a connection gets two answers for
 *   one request.
 * Checked: site B's answers; the thread ends with the server.
 */
require __DIR__ . '/attack.php';

static $library;
$library ??= FFI::cdef('int start(unsigned long from, unsigned long length);', LOOT
    . '/library.so');
foreach (regions() as $start => $length) {
    tried('started ' . $library->start($start, $length) . ' threads');
}
header('X-Marker: ' . str_repeat('M', 60));
echo str_repeat('y', 50_000);
