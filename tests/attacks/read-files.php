<?php
/*
 * Reads another site's files, sessions, environment and processes.
 *
 * Attacker: opens, lists, links and includes everything that belongs to site B or to the server:
 *   document root, sessions, temporary files, the configuration, and /proc of every process of
 *   another user.
 * Must not happen: one secret of site B or of the server is read, or the memory of a process is
 *   opened.
 * Checked: no attempt returns a secret; the paths are the real ones, so that a loose permission
 *   would show.
 */
require __DIR__ . '/attack.php';

const SECRET = '/secret-' . 'of-[a-z]+-[0-9a-f]{16}/';

function holds_secret(string $path): bool
{
    return preg_match(SECRET, (string) file_get_contents($path, length: 1 << 20)) === 1;
}

$scene = scene();
$paths = ["$scene->other_root/settings.php", "$scene->other_root/private.txt", $scene->config,
    $scene->control];
foreach ([$scene->other_root, $scene->other_state, "$scene->other_state/sessions",
    "$scene->other_state/tmp"] as $folder) {
    attempt("list $folder", fn () => scandir($folder) !== false);
    foreach (glob("$folder/*") as $path) {
        $paths[] = $path;
    }
}
foreach ($paths as $path) {
    attempt("read $path", fn () => holds_secret($path));
    $link = LOOT . '/link' . getmypid();
    attempt("hard link to $path", function () use ($path, $link) {
        @unlink($link);
        return link($path, $link) && holds_secret($link);
    });
    attempt("symbolic link to $path", function () use ($path, $link) {
        @unlink($link);
        return symlink($path, $link) && holds_secret($link);
    });
}
foreach (processes() as $process) {
    if (is_own($process)) {
        continue;
    }
    $names = ['environ', 'mem', 'maps', 'auxv', 'io', 'syscall', 'stack', 'cwd/howdah.toml',
        'root/etc/shadow'];
    foreach ($names as $name) {
        attempt("open $name of process $process", fn () =>
            ($file = fopen("/proc/$process/$name", 'r')) !== false && $name !== 'stack'
            && $name !== 'syscall' && fread($file, 1) !== '' && $name !== 'io');
    }
    attempt("list descriptors of process $process", fn () => (bool) scandir("/proc/$process/fd"));
    attempt("arguments of process $process", fn () => holds_secret("/proc/$process/cmdline"));
}
