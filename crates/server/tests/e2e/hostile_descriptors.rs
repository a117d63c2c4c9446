//! Scripts that use the descriptors which their worker shares with the front.

use std::time::{Duration, Instant};

use crate::site::Site;
use crate::support::{Process, has_php, wait_until};
use crate::wire::Reply;

/// Functions of the C library, for scripts of the site `evil`.
const LIBC: (&str, &str) = (
    "libc.php",
    "<?php
     $c = FFI::cdef('int fcntl(int, int, ...); long write(int, const char *, size_t); int \
     open(const char *, int, ...);
         long syscall(long, ...); int close(int);
         long pwrite(int, const char *, size_t, long);');
     function descriptors(string $kind): array {
         $found = [];
         foreach (scandir('/proc/self/fd') as $fd) {
             if (ctype_digit($fd) && str_contains((string) @readlink(\"/proc/self/fd/$fd\"), \
             $kind)) $found[] = (int) $fd;
         }
         return $found;
     }
     const F_SETFL = 4;",
);
/// Less than the time after which the system takes a lease away.
const LEASE_BREAK: Duration = Duration::from_secs(40);
const OK: (&str, &str) = ("ok.php", "<?php echo 'ok';");

/// Two sites with a pool each. Only `evil` may call C.
fn two_sites(files: &[(&str, &str)], top: &str) -> Site {
    two_sites_with("5m", files, top)
}

/// The same, where the scripts of `evil` have this time.
fn two_sites_with(request_timeout: &str, files: &[(&str, &str)], top: &str) -> Site {
    let keys = format!(
        "request_timeout = \"{request_timeout}\"\n\
         request_terminate_timeout = \"{request_timeout}\""
    );
    two_sites_of(&keys, files, top)
}

/// The same, with keys for the `[site.php]` of `evil`.
fn two_sites_of(keys: &str, files: &[(&str, &str)], top: &str) -> Site {
    let entry = |name: &str, more: &str| {
        format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.example\"]\nroot = \"public\"\n\
                [site.php]\nworkers = 2\n\
             queue_timeout = \"5m\"\nstate_dir = \"state-{name}\"\n{more}\n"
        )
    };
    let evil = format!("{keys}\nadmin_ini = {{ \"ffi.enable\" = \"1\" }}");
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nthreads = 2\ncontrol = \"control\"\n{top}\n[log]\n\
            access = \"off\"\n{}{}",
        entry("evil", &evil),
        entry("good", "request_timeout = \"5m\"")
    );
    let files: Vec<_> = [LIBC, OK].iter().chain(files).copied().collect();
    Site::configured(&files, &config)
}

fn ask(site: &Site, host: &str, target: &str) -> Reply {
    site.connect().ask("GET", target, &[("Host", host)], b"")
}

/// Every thread of the front answers. A thread that waits for a pool answers nobody, and a front
/// with such a thread is replaced.
fn assert_alive(site: &Site, front: Process, what: &str) {
    for _ in 0..20 {
        assert_eq!(ask(site, "good.example", "/ok.php").text(), "ok", "{what}");
    }
    assert_eq!(site.server.front(), front, "{what}");
}

/// The counters of the doorbells are full, and writing to them waits. Then workers die, which the
/// front has to tell its threads.
#[test]
fn full_and_blocking_doorbells_do_not_stop_the_front() {
    if !has_php() {
        return;
    }
    let fill = "<?php require 'libc.php';
        foreach (descriptors('eventfd') as $fd) {
            $c->fcntl($fd, F_SETFL, 0);
            // The largest count that a write does not wait for.
            $full = pack('P', -2 - unpack('P', str_repeat(chr(0), 8))[1]);
            $c->fcntl($fd, F_SETFL, 2048);
            $c->write($fd, $full, 8);
            $c->write($fd, pack('P', 1), 8);
            $c->fcntl($fd, F_SETFL, 0);
            $hit = true;
        }
        posix_kill(getmypid(), isset($hit) ? 9 : 11);
        sleep(9);";
    let site = two_sites(&[("fill.php", fill)], "");
    let front = site.server.front();
    for _ in 0..3 {
        assert_eq!(ask(&site, "evil.example", "/fill.php").status, 502);
        assert_alive(&site, front, "the bells are full");
    }
    site.server.wait_for_log("SIGKILL");
    assert!(!site.server.log().contains("SIGSEGV"), "the script found no doorbell");
    // More deaths, each of which the front tells all threads.
    for zygote in site.server.zygotes() {
        for worker in zygote.children() {
            worker.signal(howdah_sys::signal::SIGKILL);
        }
    }
    assert_alive(&site, front, "workers die");
}

/// A worker has no descriptor through which it could stop the front or answer in its place.
#[test]
fn a_worker_has_only_the_descriptors_that_it_needs() {
    if !has_php() {
        return;
    }
    let site = two_sites(
        &[(
            "fds.php",
            "<?php foreach (scandir('/proc/self/fd') as $fd)
                 if (ctype_digit($fd) && $fd > 2) echo preg_replace('/\\d+/', 'N', (string) \
                 @readlink(\"/proc/self/fd/$fd\")), \"\\n\";",
        )],
        "",
    );
    let reply = ask(&site, "evil.example", "/fds.php");
    let mut kinds: Vec<&str> = reply.text().lines().filter(|kind| !kind.is_empty()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    // The sockets are those of request bodies, the eventfds the doorbells, the pipe is the log.
    let allowed =
        ["anon_inode:[eventfd]", "socket:[N]", "pipe:[N]", "/proc/N/schedstat", "/dev/null"];
    // The lock of opcache's memory and the folder of uploads belong to the pool.
    let own = ["/public", "/.ZendSem.", "/uploads/zygote-"];
    let known = |kind: &str| allowed.contains(&kind) || own.iter().any(|part| kind.contains(part));
    let extra: Vec<_> = kinds.iter().filter(|kind| !known(kind)).collect();
    assert!(extra.is_empty(), "{extra:?}");
    let listening = site.server.address().port();
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let port = format!(":{listening:04X} ");
    let line = sockets.lines().find(|line| line.contains(&port) && line.contains(" 0A "));
    let inode = line.unwrap().split_whitespace().nth(9).unwrap();
    for zygote in site.server.zygotes() {
        for process in zygote.children().into_iter().chain([zygote]) {
            let descriptors = process.descriptors();
            assert!(
                !descriptors.iter().any(|target| target.contains(inode)),
                "process {process:?} has the listening socket"
            );
        }
    }
}

/// A worker gets the file of a request's body for reading only.
#[test]
fn a_script_cannot_write_to_the_file_of_its_requests_body() {
    if !has_php() {
        return;
    }
    let site = two_sites(
        &[(
            "body.php",
            "<?php require 'libc.php';
             $files = array_filter(descriptors('(deleted)'), fn($fd) => \
             !str_contains(readlink(\"/proc/self/fd/$fd\"), 'ZendSem'));
             $written = array_map(fn($fd) => $c->write($fd, 'x', 1) + $c->pwrite($fd, 'x', 1, 0), \
             $files);
             echo json_encode([count($files), array_values($written), \
             md5(file_get_contents('php://input'))]);",
        )],
        "[limits]\nspill_memory = \"64K\"",
    );
    let body = vec![b'b'; 300_000];
    let fields = [("Host", "evil.example"), ("Content-Type", "application/octet-stream")];
    let reply = site.connect().ask("POST", "/body.php", &fields, &body);
    assert_eq!(reply.text(), "[1,[-2],\"76604aa9a34947ad8aa643d66aa7dc16\"]");
}

/// Messages that a hostile process sends in the zygote's place: full of descriptors whose closing
/// waits, forged, malformed and too long. Only its own pool is affected.
#[test]
fn forged_messages_of_a_zygote_do_not_stop_the_front() {
    if !has_php() {
        return;
    }
    // `pidfd_open` and `pidfd_getfd` are 434 and 438 on all platforms.
    let forge = "<?php require 'libc.php';
        $zygote = $c->syscall(434, posix_getppid(), 0);
        $front = $c->syscall(438, $zygote, 4, 0);
        if ($front < 0) { echo 'refused'; exit; }
        $c->fcntl($front, F_SETFL, 0);
        $message = match ($_GET['how']) {
            'nonsense' => random_bytes(100),
            'long' => str_repeat('x', 60000),
            'empty' => chr(5) . pack('P', 1 << 40),
            'deaths' => chr(4) . pack('PPP', 0, 1, 9),
            'many' => chr(4) . pack('PPP', 99999, 1, 9),
        };
        $c->fcntl($front, F_SETFL, 2048);
        for ($i = 0; $i < 2000; $i++) $c->write($front, $message, strlen($message));
        $c->fcntl($front, F_SETFL, 0);
        echo 'sent';";
    let site = two_sites_with("5s", &[("forge.php", forge)], "");
    let front = site.server.front();
    for how in ["nonsense", "long", "empty", "deaths", "many"] {
        let reply = ask(&site, "evil.example", &format!("/forge.php?how={how}"));
        if reply.text() == "refused" {
            howdah_skip::skip!("this kernel or its policy does not let a worker take descriptors");
            return;
        }
        assert_alive(&site, front, how);
        wait_until("the pool serves again", || ask(&site, "evil.example", "/ok.php").status == 200);
    }
}

/// Sends a message to the front or to the supervisor, with a connection whose closing waits for an
/// hour, and ends the pool. The kernel closes the connection together with the end of the socket
/// that nobody reads.
const LADEN: &str = "<?php
    $c = FFI::cdef('
        struct linger { int on, seconds; };
        struct address { unsigned short family, port; unsigned int host; char rest[8]; };
        struct part { void *base; unsigned long length; };
        struct control { unsigned long length; int level, type, fd, rest; };
        struct message { void *name; unsigned int name_length; struct part *parts;
            unsigned long count; void *control; unsigned long control_length; int flags; };
        long syscall(long n, ...);
        int socket(int domain, int type, int protocol);
        int connect(int fd, void *address, unsigned int length);
        int setsockopt(int fd, int level, int name, void *value, unsigned int length);
        long send(int fd, void *bytes, unsigned long length, int flags);
        long sendmsg(int fd, void *message, int flags);
        int close(int fd);
    ');
    $zygote = posix_getppid();
    [$targets, $sent] = [[], null];
    if ($_GET['to'] !== 'slots') {
        $pidfd = $c->syscall(434, $zygote, 0);
        $targets[] = $c->syscall(438, $pidfd, $_GET['to'] === 'front' ? 4 : 3, 0);
        if ($targets[0] < 0) exit('refused');
    } else foreach (scandir('/proc/self/fd') as $fd) {
        $is_socket = str_starts_with((string) @readlink(\"/proc/self/fd/$fd\"), 'socket:');
        if ($is_socket) $targets[] = (int) $fd;
    }
    $tcp = $c->socket(2, 1, 0);
    $address = $c->new('struct address');
    [$address->family, $address->host] = [2, 0x0100007F];
    $address->port = unpack('v', pack('n', $_GET['port']))[1];
    if ($c->connect($tcp, FFI::addr($address), 16) < 0) exit('not connected');
    $linger = $c->new('struct linger');
    [$linger->on, $linger->seconds] = [1, 3600];
    $c->setsockopt($tcp, 1, 13, FFI::addr($linger), 8);
    $bytes = $c->new('char[65536]');
    while ($c->send($tcp, $bytes, 65536, 0x40) > 0);
    $part = $c->new('struct part');
    $part->base = FFI::cast('void *', FFI::addr($bytes));
    $control = $c->new('struct control');
    [$control->length, $control->level, $control->type, $control->fd] = [20, 1, 1, $tcp];
    $message = $c->new('struct message');
    [$message->parts, $message->count] = [FFI::addr($part), 1];
    $message->control = FFI::cast('void *', FFI::addr($control));
    $message->control_length = 24;
    file_put_contents($_GET['attempted'], count($targets));
    foreach ($targets as $target) {
        // The first one looks like the end of the stream.
        $c->send($target, $bytes, 0, 0);
        $part->length = 4;
        $sent ??= $c->sendmsg($target, FFI::addr($message), 0) >= 0 ?: null;
    }
    if (!$sent) {
        // This process would wait itself.
        $linger->on = 0;
        $c->setsockopt($tcp, 1, 13, FFI::addr($linger), 8);
    }
    $c->close($tcp);
    posix_kill($zygote, 9);
    sleep(60);";

#[test]
fn descriptors_that_are_slow_to_close_stop_neither_the_front_nor_the_supervisor() {
    if !has_php() {
        return;
    }
    // Without a sandbox, scripts can take the sockets of their zygote as well.
    let keys = "sandbox = \"off\"\nprivate_tmp = false";
    let site = two_sites_of(keys, &[("laden.php", LADEN)], "");
    let folder = site.root().join("own");
    std::fs::create_dir(&folder).unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let front = site.server.front();
    for to in ["slots", "front", "supervisor"] {
        let attempted = folder.join(to);
        let attempt = attempted.display();
        let target = format!("/laden.php?to={to}&port={port}&attempted={attempt}");
        let reply = ask(&site, "evil.example", &target);
        if reply.text() == "refused" {
            howdah_skip::skip!("this kernel or its policy does not let a worker take descriptors");
            continue;
        }
        assert_ne!(std::fs::read_to_string(&attempted).unwrap(), "0", "{to}: {reply:?}");
        wait_until("the pool serves again", || ask(&site, "evil.example", "/ok.php").status == 200);
        assert_alive(&site, front, to);
    }
    drop(site);
    drop(listener);
}

/// The owner of a file takes a lease on it. A process that opens the file then waits until the
/// lease is given back, or for 45 seconds.
#[test]
fn a_leased_file_does_not_stop_the_front() {
    if !has_php() {
        return;
    }
    let lease = "<?php require 'libc.php';
        mkdir($folder = $_GET['in'] . '/' . $_GET['folder'], 0755, true);
        foreach (explode(',', $_GET['files']) as $name) {
            file_put_contents(\"$folder/$name\", str_ends_with($name, 'html') ? 'page' : '');
            $leased[] = $fd = $c->open(\"$folder/$name\", 0);
            // A signal that is ignored, instead of SIGIO; F_SETLEASE with F_WRLCK.
            echo $c->fcntl($fd, 10, 23) . $c->fcntl($fd, 1024, 1);
        }
        while (ob_get_level()) ob_end_flush();
        flush();
        touch(\"$folder/leased\");
        while (!file_exists($_GET['in'] . '/end')) usleep(1000);
        foreach ($leased as $fd) $c->close($fd);";
    let site = two_sites(&[("lease.php", lease)], "");
    let folder = site.root().join("own");
    std::fs::create_dir(&folder).unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    let leased = |name: &str, files: &str| {
        let mut wire = site.connect();
        let target = format!("/lease.php?in={}&folder={name}&files={files}", folder.display());
        wire.request("GET", &target, &[("Host", "evil.example")], b"");
        wait_until("the files are leased", || folder.join(name).join("leased").exists());
        wire
    };
    let front = site.server.front();
    let page = leased("page", "page.html,other.html");
    let rules = leased("rules", ".htaccess,page.html");
    let began = Instant::now();
    for _ in 0..8 {
        let page = ask(&site, "good.example", "/own/page/page.html");
        // The rules cannot be read, therefore nothing that they cover is served.
        let covered = ask(&site, "good.example", "/own/rules/page.html");
        if began.elapsed() > LEASE_BREAK {
            break;
        }
        assert_eq!(page.status, 503, "{page:?}");
        assert!(page.field("Retry-After").is_some(), "{page:?}");
        assert!([403, 503].contains(&covered.status), "{covered:?}");
    }
    assert_alive(&site, front, "files are leased");
    std::fs::write(folder.join("end"), "").unwrap();
    for mut wire in [page, rules] {
        assert_eq!(wire.reply("GET").text(), "00".repeat(2), "the script had its leases");
    }
    for target in ["/own/page/page.html", "/own/rules/page.html"] {
        wait_until("the file can be opened again", || {
            ask(&site, "good.example", target).text() == "page"
        });
    }
}
