<?php
/*
 * Answers on the server's port.
 *
 * Attacker: looks for a listening socket among its descriptors and those of other processes; binds
 *   the server's port on every address, with SO_REUSEADDR and SO_REUSEPORT, also in a process that
 *   outlives the request.
 * Must not happen: a socket of the attacker listens on the server's port, or one of the server's is
 *   inherited.
 * Checked: no bind succeeds; no descriptor listens; site B's visitors get site B's bytes.
 */
require __DIR__ . '/attack.php';

$c = c();
$scene = scene();
foreach (descriptors('socket:') as $number => $target) {
    attempt("descriptor $number listens", function () use ($c, $number) {
        $value = $c->new('int');
        $length = $c->new('unsigned int');
        $length->cdata = 4;
        return $c->getsockopt($number, 1, 30, FFI::addr($value), FFI::addr($length)) === 0
            && $value->cdata === 1;
    });
}
foreach ([$scene->front, $scene->supervisor, $scene->zygote] as $process) {
    attempt("a listening socket of process $process", function () use ($c, $process) {
        foreach (range(3, 40) as $number) {
            $stolen = steal($process, $number);
            $value = $c->new('int');
            $length = $c->new('unsigned int');
            $length->cdata = 4;
            if ($stolen >= 0 && $c->getsockopt($stolen, 1, 30, FFI::addr($value),
                FFI::addr($length)) === 0 && $value->cdata === 1) {
                return true;
            }
        }
        return false;
    });
}
foreach (['127.0.0.1', '0.0.0.0', '127.0.0.2', '::', '::ffff:127.0.0.1'] as $address) {
    foreach ([[], [SO_REUSEADDR], [SO_REUSEPORT], [SO_REUSEADDR, SO_REUSEPORT]] as $options) {
        attempt("bind $address", function () use ($address, $options, $scene) {
            $socket = socket_create(str_contains($address, ':') ? AF_INET6 : AF_INET, SOCK_STREAM,
                0);
            foreach ($options as $option) {
                socket_set_option($socket, SOL_SOCKET, $option, 1);
            }
            if ($address === '127.0.0.2' || $address === '::') {
                // Another address of the machine: free, and of no use. It must not take the
                // server's.
                socket_bind($socket, $address, $scene->port) && socket_listen($socket);
                usleep(20_000);
                return false;
            }
            return socket_bind($socket, $address, $scene->port) && socket_listen($socket);
        });
    }
}
