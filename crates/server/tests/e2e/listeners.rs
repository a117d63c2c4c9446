//! Listeners: Unix sockets, IPv6, and sites that answer on some of them only.

mod taken;

use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use howdah_sys::signal::SIGTERM;

use crate::site::Site;
use crate::support::{has_php, wait_until};
use crate::wire::Wire;

/// Asks over a Unix socket and returns all of the answer.
fn ask(socket: &Path, request: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn get(socket: &Path, target: &str) -> String {
    ask(socket, &format!("GET {target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"))
}

const SOCKET: &str = "listen = [\"127.0.0.1:0\", \"unix:web.sock\"]\ncontrol = \"control\"\n\
     [log]\naccess = \"access.log\"\n[[site]]\nroot = \"public\"\n";

fn with_php(text: &str) -> String {
    format!("{text}[site.php]\nworkers = 2\nstate_dir = \"state\"\n")
}

#[test]
fn a_unix_socket_serves_files_and_scripts() {
    if !has_php() {
        return;
    }
    let script = "<?php echo $_SERVER['REMOTE_ADDR'], ' ', $_SERVER['SERVER_PORT'], ' ',
        strlen(file_get_contents('php://input')); for ($i = 0; $i < 20; $i++) echo \
        str_repeat('x', 100000);";
    let large = "line\n".repeat(200_000);
    let site = Site::configured(&[("big.txt", &large), ("a.php", script)], &with_php(SOCKET));
    let socket = site.path().join("web.sock");
    assert!(
        site.server
            .announcement()
            .contains(&format!("howdah: listening on http://unix:{}\n", socket.display())),
        "{}",
        site.server.announcement()
    );
    let answer = get(&socket, "/big.txt");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer:.300}");
    assert!(answer.ends_with(&large));
    let answer = ask(
        &socket,
        "POST /a.php HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc",
    );
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(body.contains("127.0.0.1 80 3") && body.len() > 2_000_000, "{body:.100}");
    // Keep-alive, and a client that leaves.
    let mut stream = UnixStream::connect(&socket).unwrap();
    for _ in 0..3 {
        stream.write_all(b"HEAD /big.txt HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut some = [0; 20];
        stream.read_exact(&mut some).unwrap();
        assert!(some.starts_with(b"HTTP/1.1 200 OK"));
        let mut byte = [0];
        let mut last = Vec::new();
        while !last.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            last.push(byte[0]);
        }
    }
    drop(stream);
    assert!(get(&socket, "/none").starts_with("HTTP/1.1 404 "));
}

#[test]
fn the_socket_has_its_permissions_and_is_removed_at_the_end() {
    let config = SOCKET
        .replace("\"unix:web.sock\"", "{ address = \"unix:web.sock\", mode = \"0604\" }")
        + "php = false\n";
    let mut site = Site::configured(&[("a.txt", "a")], &config);
    let socket = site.path().join("web.sock");
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o7777, 0o604);
    assert!(get(&socket, "/a.txt").ends_with("\r\n\r\na"));
    site.server.signal(SIGTERM);
    assert!(site.server.wait().success());
    assert!(!socket.exists(), "a stopped server leaves no socket");
}

#[test]
fn a_socket_is_for_the_front_and_its_group_unless_told_otherwise() {
    let site = Site::configured(&[("a.txt", "a")], &(SOCKET.to_owned() + "php = false\n"));
    let found = std::fs::metadata(site.path().join("web.sock")).unwrap();
    assert!(found.file_type().is_socket());
    assert_eq!(found.permissions().mode() & 0o7777, 0o660);
    let root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    assert_eq!(root, found.gid() != 0 && found.uid() == 0, "uid and gid of the socket");
}

#[test]
fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let site = Site::configured(&[("a.txt", "a")], &(SOCKET.to_owned() + "php = false\n"));
    let socket = site.path().join("web.sock");
    let other = site.path().join("other.sock");
    // A file that nothing listens on, as after a kill.
    drop(UnixListener::bind(&other).unwrap());
    let config = |name: &str| SOCKET.replace("web.sock", name) + "php = false\n";
    site.reconfigure(&config("other.sock"));
    wait_until("the other socket serves", || UnixStream::connect(&other).is_ok());
    assert!(get(&other, "/a.txt").ends_with("\r\n\r\na"));
    wait_until("the former socket is gone", || !socket.exists());
    // Another program's socket, and a file that is none.
    let live = site.path().join("live.sock");
    let _listener = UnixListener::bind(&live).unwrap();
    site.reconfigure(&config("live.sock"));
    site.server.wait_for_log("live.sock: another program listens there");
    site.reconfigure(&config("public/a.txt"));
    site.server.wait_for_log("the file is not a socket");
    assert_eq!(std::fs::read(site.root().join("a.txt")).unwrap(), b"a");
    assert!(get(&other, "/a.txt").ends_with("\r\n\r\na"), "what ran goes on");
}

#[test]
fn a_unix_socket_lives_through_a_reload() {
    let site = Site::configured(&[("a.txt", "a")], &(SOCKET.to_owned() + "php = false\n"));
    let socket = site.path().join("web.sock");
    let inode = std::fs::metadata(&socket).unwrap().ino();
    let more = SOCKET.replace("\"unix:web.sock\"", "{ address = \"unix:web.sock\", mode = 0o600 }");
    site.reconfigure(&(more + "php = false\n"));
    wait_until("the new mode", || {
        std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777 == 0o600
    });
    site.server.wait_for_log("reloaded");
    assert_eq!(std::fs::metadata(&socket).unwrap().ino(), inode, "the same socket");
    assert!(get(&socket, "/a.txt").ends_with("\r\n\r\na"));
    // Somebody has removed the file: a reload brings it back.
    std::fs::remove_file(&socket).unwrap();
    site.reconfigure(&(SOCKET.to_owned() + "php = false\n"));
    wait_until("the socket is back", || UnixStream::connect(&socket).is_ok());
}

#[test]
fn a_site_answers_on_its_own_listeners() {
    let config = "listen = [\"127.0.0.1:0\", \"127.0.0.2:0\", \"unix:admin.sock\"]\n\
        control = \"control\"\n\
        [[site]]\nname = \"public\"\nroot = \"public/shop\"\nphp = false\n\
        listen = [\"127.0.0.1:0\", \"127.0.0.2:0\"]\n\
        [[site]]\nname = \"admin\"\nroot = \"public/admin\"\nphp = false\n\
        listen = [\"unix:admin.sock\"]\n";
    let site = Site::configured(&[("shop/x.txt", "shop"), ("admin/x.txt", "admin")], config);
    for address in site.server.addresses() {
        let reply = Wire::connect(*address).ask("GET", "/x.txt", &[("Host", "a.example")], b"");
        assert_eq!(reply.text(), "shop");
    }
    assert!(get(&site.path().join("admin.sock"), "/x.txt").ends_with("admin"));
}

#[test]
fn ipv6_listens_beside_ipv4() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        howdah_skip::skip!("this machine has no IPv6");
        return;
    }
    let config = "listen = [\"[::1]:0\"]\ncontrol = \"control\"\n[[site]]\nroot = \"public\"\n\
        php = false\n\
        rules = \"Header set X-Seen expr=%{REMOTE_ADDR}-%{SERVER_PORT}\"\n";
    let site = Site::configured(&[("a.txt", "a")], config);
    let reply = site.connect().ask("GET", "/a.txt", &[("Host", "[::1]:99")], b"");
    assert_eq!((reply.text(), reply.field("x-seen")), ("a", Some("::1-99")));
}
