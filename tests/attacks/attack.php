<?php
/*
 * Shared by all attacks: the report to the runner, what the attacker knows, and the C library.
 */

const LOOT = __DIR__ . '/../loot';

/** Reports an attempt. The runner fails an attack that has tried nothing. */
function tried(string $what): void
{
    file_put_contents(LOOT . '/report', "tried: $what\n", FILE_APPEND);
}

/** Reports something that must not happen. The runner fails the attack. */
function won(string $what): void
{
    file_put_contents(LOOT . '/report', 'won: ' . str_replace("\n", ' ', $what) . "\n",
        FILE_APPEND);
}

/** Reports the attempt, and the success if it was one. */
function attempt(string $what, callable $succeeds): void
{
    tried($what);
    try {
        if (@$succeeds()) {
            won($what);
        }
    } catch (\Throwable) {
        // Refused.
    }
}

/** Returns the facts that an attacker finds out sooner or later: processes, paths, the port. */
function scene(): object
{
    return json_decode(file_get_contents(LOOT . '/scene.json'));
}

/** The C library. */
function c(): FFI
{
    static $c;
    return $c ??= FFI::cdef(<<<'C'
        typedef int pid_t;
        long syscall(long number, ...);
        int fork(void);
        int vfork(void);
        int setsid(void);
        int kill(int pid, int signal);
        int fcntl(int fd, int command, ...);
        int ioctl(int fd, unsigned long request, ...);
        int dup(int fd);
        int close(int fd);
        int open(const char *path, int flags, ...);
        int ftruncate(int fd, long length);
        int fallocate(int fd, int mode, long offset, long length);
        long read(int fd, void *to, unsigned long count);
        long write(int fd, const void *from, unsigned long count);
        long ptrace(int request, ...);
        int prctl(int option, ...);
        int shutdown(int fd, int how);
        int getsockopt(int fd, int level, int name, void *value, unsigned int *length);
        int setsockopt(int fd, int level, int name, const void *value, unsigned int length);
        int socket(int domain, int type, int protocol);
        int socketpair(int domain, int type, int protocol, int *pair);
        int bind(int fd, const void *address, unsigned int length);
        int listen(int fd, int backlog);
        struct vector { void *base; unsigned long length; };
        struct message { void *name; unsigned int name_length; struct vector *vectors;
            unsigned long count;
            void *control; unsigned long control_length; int flags; };
        long sendmsg(int fd, const struct message *message, int flags);
        long recvmsg(int fd, struct message *message, int flags);
        void *mmap(void *at, unsigned long length, int protection, int flags, int fd, long offset);
        int munmap(void *at, unsigned long length);
        int madvise(void *at, unsigned long length, int advice);
        int mprotect(void *at, unsigned long length, int protection);
        unsigned int alarm(unsigned int seconds);
        unsigned int sleep(unsigned int seconds);
        int usleep(unsigned int microseconds);
        void *malloc(unsigned long bytes);
        void *memset(void *at, int byte, unsigned long bytes);
        int mkfifo(const char *path, unsigned int mode);
        void *signal(int number, long handler);
        void _exit(int status);
        C);
}

/** This process's descriptors whose target contains `$kind`: number => target. */
function descriptors(string $kind = ''): array
{
    $found = [];
    foreach (scandir('/proc/self/fd') as $number) {
        $target = @readlink("/proc/self/fd/$number");
        if ($target !== false && ($kind === '' || str_contains($target, $kind))) {
            $found[(int) $number] = $target;
        }
    }
    return $found;
}

/** The mappings of the memory that the pool shares with the front: start => length. */
function regions(): array
{
    $found = [];
    foreach (file('/proc/self/maps') as $line) {
        if (str_contains($line, 'howdah-pool')
            && preg_match('/^([0-9a-f]+)-([0-9a-f]+) rw/', $line, $part)) {
            $found[hexdec($part[1])] = hexdec($part[2]) - hexdec($part[1]);
        }
    }
    return $found;
}

/**
 * The processes of this server: those that the attacker knows, and their descendants that it sees.
 */
function processes(): array
{
    $scene = scene();
    $found = [$scene->supervisor, $scene->front, $scene->zygote, $scene->other_zygote];
    do {
        $before = count($found);
        foreach (array_filter(scandir('/proc'), 'ctype_digit') as $process) {
            $status = (string) @file_get_contents("/proc/$process/status", length: 1000);
            if (preg_match('/PPid:\s+(\d+)/', $status, $part)
                && in_array((int) $part[1], $found, true)) {
                $found[] = (int) $process;
            }
        }
        $found = array_unique($found);
    } while (count($found) > $before);
    return $found;
}

/**
 * Whether the process runs as the attacker's user, and is not the front: a pool's own damage is its
 * own.
 */
function is_own(int $process): bool
{
    preg_match('/Uid:\s+(\d+)/', (string) @file_get_contents("/proc/$process/status", length: 1000),
        $part);
    return $process !== scene()->front && (int) ($part[1] ?? -1) === posix_getuid();
}

/** Sends bytes and descriptors over a socket, without waiting. Returns bytes sent, or -1. */
function send(int $socket, string $bytes, array $descriptors = []): int
{
    $c = c();
    $length = max(1, strlen($bytes));
    $room = $c->new("char[$length]");
    FFI::memcpy($room, $bytes, strlen($bytes));
    $vector = $c->new('struct vector');
    $vector->base = FFI::cast('void *', FFI::addr($room));
    $vector->length = strlen($bytes);
    $message = $c->new('struct message');
    $message->vectors = FFI::addr($vector);
    $message->count = 1;
    if ($descriptors) {
        // SOL_SOCKET, SCM_RIGHTS
        $control = pack('Pll', 16 + 4 * count($descriptors), 1, 1) . pack('l*', ...$descriptors);
        $control = str_pad($control, strlen($control) + 7 & ~7, "\0");
        $space = $c->new('char[' . strlen($control) . ']');
        FFI::memcpy($space, $control, strlen($control));
        $message->control = FFI::cast('void *', FFI::addr($space));
        $message->control_length = strlen($control);
    }
    return $c->sendmsg($socket, FFI::addr($message), 0x4040); // MSG_DONTWAIT, MSG_NOSIGNAL
}

/** A descriptor of another process, or -1. */
function steal(int $process, int $descriptor): int
{
    $handle = c()->syscall(434, $process, 0); // pidfd_open
    return $handle < 0 ? -1 : c()->syscall(438, $handle, $descriptor, 0); // pidfd_getfd
}

/** Signals, traces and reads every process that is not the attacker's own. */
function attack_processes(): void
{
    $c = c();
    foreach (processes() as $process) {
        if (is_own($process)) {
            continue;
        }
        attempt("signals to $process", fn () =>
            array_filter([0, SIGSTOP, SIGKILL, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGSEGV],
            fn ($signal) => posix_kill($process, $signal)));
        attempt("signals to the group of $process", fn () => posix_kill(-$process, SIGSTOP));
        // tkill
        attempt("signals to the threads of $process", fn () =>
            $c->syscall(200, $process, SIGSTOP) === 0);
        attempt("a signal through the handle of $process", function () use ($c, $process) {
            $handle = $c->syscall(434, $process, 0); // pidfd_open
            // pidfd_send_signal
            return $handle >= 0 && $c->syscall(424, $handle, SIGSTOP, null, 0) === 0;
        });
        attempt("a descriptor of $process", fn () =>
            array_filter(range(0, 20), fn ($number) => steal($process, $number) >= 0));
        attempt("attach to $process", fn () => $c->ptrace(16, $process, 0, 0) === 0
            || $c->ptrace(0x4206, $process, 0, 0) === 0);
        attempt("the memory of $process", function () use ($c, $process) {
            $room = $c->new('char[8]');
            $local = $c->new('struct vector');
            $remote = $c->new('struct vector');
            $local->base = $remote->base = FFI::cast('void *', FFI::addr($room));
            $local->length = $remote->length = 8;
            // process_vm_readv
            return $c->syscall(310, $process, FFI::addr($local), 1, FFI::addr($remote), 1, 0) > 0;
        });
        // The call tells nothing: the kernel looks when it sends the signal. The runner sees if the
        // process ends.
        tried("a signal of a descriptor to $process");
        $pair = $c->new('int[2]');
        if ($c->socketpair(1, 1, 0, FFI::addr($pair[0])) === 0) {
            $c->fcntl($pair[0], 8, $process); // F_SETOWN
            $c->fcntl($pair[0], 10, SIGKILL); // F_SETSIG
            $c->fcntl($pair[0], 4, 0x2000); // F_SETFL, O_ASYNC
            $c->write($pair[1], 'x', 1);
            $c->close($pair[0]);
            $c->close($pair[1]);
        }
        // setpriority
        attempt("the priority of $process", fn () => $c->syscall(141, 0, $process, 19) === 0);
        attempt("the limits of $process", function () use ($c, $process) {
            $limit = $c->new('unsigned long[2]');
            // prlimit64, RLIMIT_NOFILE
            return $c->syscall(302, $process, 7, FFI::addr($limit), null) === 0;
        });
    }
}

/**
 * Starts a process that outlives the request and is the upstream of site A. Each connection gets
 * what `$piece` returns for its request and the number of the turn, again and again, as long as it
 * is there; null ends the connection.
 */
function serve_as_upstream(callable $piece): void
{
    $path = upstream();
    @unlink($path);
    $backlog = stream_context_create(['socket' => ['backlog' => 1_000]]);
    $listener = stream_socket_server("unix://$path", $number, $text,
        STREAM_SERVER_BIND | STREAM_SERVER_LISTEN, $backlog);
    chmod($path, 0777);
    if (pcntl_fork() !== 0) {
        return;
    }
    posix_setsid();
    stream_set_blocking($listener, false);
    $connections = [];
    for ($until = microtime(true) + 60; microtime(true) < $until;) {
        while (($new = @stream_socket_accept($listener, 0)) !== false) {
            stream_set_blocking($new, false);
            $connections[] = [$new, '', 0];
        }
        foreach ($connections as $number => [$connection, $request, $turn]) {
            $request .= $read = (string) @fread($connection, 100_000);
            $connections[$number][1] = $request;
            if (!str_contains($request, "\r\n\r\n")) {
                $bytes = '';
            } else {
                $bytes = $piece($request, $turn);
                $connections[$number][2]++;
            }
            $is_over = $bytes === null || ($read === '' && feof($connection));
            if ($is_over || ($bytes !== '' && @fwrite($connection, $bytes) === false)) {
                unset($connections[$number]);
            }
        }
        usleep($connections ? 10 : 1000);
    }
    posix_kill(getmypid(), SIGKILL);
}

/** The socket of site A's upstream. */
function upstream(): string
{
    return realpath(LOOT) . '/upstream.sock';
}

if (isset($_GET['prepare'])) {
    // Functions of the attack's file are known before this file is included.
    if (function_exists('prepare')) {
        prepare();
    }
    exit('prepared');
}
