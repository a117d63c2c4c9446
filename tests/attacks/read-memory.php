<?php
/*
 * Looks for other sites' secrets in all memory that it can reach.
 *
 * Attacker: reads its own memory and the shared region word by word, its descriptors, System V and
 *   POSIX shared memory, opcache's memory, while site B answers requests that carry secrets.
 * Must not happen: a secret of site B, of a request to it, or of the server's environment is in
 *   that memory.
 * Checked: no secret is found; the same search finds a secret of the attacker's own.
 */
require __DIR__ . '/attack.php';

// Built at run time: the pattern must not find the pattern.
$pattern = '/secret-' . 'of-(?!self)[a-z]+-[0-9a-f]{16}/';
$own = 'secret-' . 'of-self-' . bin2hex(random_bytes(8));
$found_own = false;
$memory = fopen('/proc/self/mem', 'r');
stream_set_read_buffer($memory, 0);
$read = 0;
foreach (file('/proc/self/maps') as $line) {
    // The files of the system hold no secret.
    if (!preg_match('/^([0-9a-f]+)-([0-9a-f]+) r.*?(\S*)$/', $line, $part)
        || preg_match('~^(\[v|/usr/|/lib)~', $part[3])) {
        continue;
    }
    for ($at = hexdec($part[1]); $at < hexdec($part[2]) && $at < hexdec($part[1])
        + (32 << 20); $at += 1 << 20) {
        if (fseek($memory, $at) !== 0) {
            break;
        }
        $bytes = (string) @fread($memory, min(1 << 20, hexdec($part[2]) - $at));
        $read += strlen($bytes);
        if (preg_match($pattern, $bytes, $secret)) {
            won("read $secret[0] in its own memory ($part[3])");
        }
        $found_own = $found_own || str_contains($bytes, $own);
        unset($bytes);
    }
}
tried("searched $read bytes of memory");
if (!$found_own) {
    won('no way to find a secret: the search does not find its own');
}
foreach (descriptors() as $number => $target) {
    attempt("read descriptor $number, $target", function () use ($number, $pattern) {
        $file = fopen("/proc/self/fd/$number", 'rn');
        stream_set_blocking($file, false);
        return preg_match($pattern, (string) fread($file, 1 << 20));
    });
}
foreach (glob('/dev/shm/*') as $path) {
    attempt("read $path", fn () => preg_match($pattern, (string) file_get_contents($path)));
}
foreach (array_slice(@file('/proc/sysvipc/shm') ?: [], 1) as $line) {
    $key = (int) preg_split('/\s+/', trim($line))[0];
    attempt("attach shared memory $key", function () use ($key, $pattern) {
        $shared = shmop_open($key, 'a', 0, 0);
        return preg_match($pattern, shmop_read($shared, 0, shmop_size($shared)));
    });
}
attempt('opcache knows scripts of another site', function () {
    $scripts = array_keys(opcache_get_status()['scripts'] ?? []);
    return array_filter($scripts, fn ($path) => !str_starts_with($path, realpath(__DIR__)));
});
