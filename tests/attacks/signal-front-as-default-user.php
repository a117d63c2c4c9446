<?php
/*
 * Signals and traces the front from a pool without a user of its own.
 *
 * Attacker: sends every signal that stops or ends a process to each process that is not its own (the pool has the default user), by number, by
 *   process group and by handle; attaches as a debugger; takes descriptors and memory; changes priorities and limits.
 * Must not happen: one of these calls succeeds; the front, the supervisor or site B stops.
 * Checked: every call fails; front, supervisor and site B's zygote are the same processes afterwards.
 */
require __DIR__ . '/attack.php';

$c = c();
foreach (processes() as $process) {
    if (is_own($process)) {
        continue;
    }
    attempt("signals to $process", fn () => array_filter([0, SIGSTOP, SIGKILL, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGSEGV],
        fn ($signal) => posix_kill($process, $signal)));
    attempt("signals to the group of $process", fn () => posix_kill(-$process, SIGSTOP));
    attempt("signals to the threads of $process", fn () => $c->syscall(200, $process, SIGSTOP) === 0); // tkill
    attempt("a signal through the handle of $process", function () use ($c, $process) {
        $handle = $c->syscall(434, $process, 0); // pidfd_open
        return $handle >= 0 && $c->syscall(424, $handle, SIGSTOP, null, 0) === 0; // pidfd_send_signal
    });
    attempt("a descriptor of $process", fn () => array_filter(range(0, 20), fn ($number) => steal($process, $number) >= 0));
    attempt("attach to $process", fn () => $c->ptrace(16, $process, 0, 0) === 0 || $c->ptrace(0x4206, $process, 0, 0) === 0);
    attempt("the memory of $process", function () use ($c, $process) {
        $room = $c->new('char[8]');
        $local = $c->new('struct vector');
        $remote = $c->new('struct vector');
        $local->base = $remote->base = FFI::cast('void *', FFI::addr($room));
        $local->length = $remote->length = 8;
        return $c->syscall(310, $process, FFI::addr($local), 1, FFI::addr($remote), 1, 0) > 0; // process_vm_readv
    });
    attempt("the priority of $process", fn () => $c->syscall(141, 0, $process, 19) === 0); // setpriority
    attempt("the limits of $process", function () use ($c, $process) {
        $limit = $c->new('unsigned long[2]');
        return $c->syscall(302, $process, 7, FFI::addr($limit), null) === 0; // prlimit64, RLIMIT_NOFILE
    });
}
