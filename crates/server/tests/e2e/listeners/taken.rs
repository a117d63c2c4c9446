//! Addresses that the server cannot listen on: the others are served, and these as soon as they can
//! be.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{lchown, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::sync::atomic::{AtomicU8, Ordering};

use howdah_sys::signal::{SIGHUP, SIGUSR2};
use serde_json::Value;

use super::ask;
use crate::site::Site;
use crate::support::{Folder, Setup, is_root, wait_until};
use crate::tls::client::{self, Authority, Trust};

/// A port that is taken, at an address that no other test uses: nobody takes it when it is free.
fn taken() -> (TcpListener, SocketAddr) {
    static COUNT: AtomicU8 = AtomicU8::new(1);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 13, number), 0)).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A server with a listener of its own, and one for `address`.
fn site(address: SocketAddr) -> Site {
    let config = format!(
        "listen = [\"127.0.0.1:0\", \"{address}\"]\ncontrol = \"control\"\n\
         admin = \"unix:admin.sock\"\n[[site]]\nroot = \"public\"\nphp = false\n"
    );
    Site::configured(&[("a.txt", "a")], &config)
}

fn command(site: &Site, words: &[&str]) -> (Option<i32>, String, String) {
    let file = site.path().join("howdah.toml");
    let (name, more) = words.split_first().unwrap();
    let words = [&[*name, "--config", file.to_str().unwrap()][..], more].concat();
    Setup::with(&words).run()
}

fn status(site: &Site) -> String {
    let (code, told, errors) = command(site, &["status"]);
    assert_eq!(code, Some(0), "{errors}");
    told
}

fn missing(site: &Site) -> Value {
    let (code, told, errors) = command(site, &["status", "--json"]);
    assert_eq!(code, Some(0), "{errors}");
    serde_json::from_str::<Value>(&told).unwrap()["missing_listeners"].clone()
}

/// The answer of monitors to this path.
fn monitor(site: &Site, target: &str) -> String {
    let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    ask(&site.path().join("admin.sock"), &request)
}

/// Returns whether the server answers on this connection. A process that another test is just
/// starting may still have the socket that was dropped: such a connection breaks.
fn answers(connected: io::Result<impl Read + Write>) -> bool {
    let ask = |mut stream: _| {
        let request = "GET /a.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        Write::write_all(&mut stream, request.as_bytes())?;
        let mut answer = String::new();
        Read::read_to_string(&mut stream, &mut answer)?;
        io::Result::Ok(answer)
    };
    connected.and_then(ask).is_ok_and(|answer| answer.ends_with("\r\n\r\na"))
}

fn serves(address: SocketAddr) -> bool {
    answers(TcpStream::connect(address))
}

#[test]
fn a_taken_port_leaves_the_other_listeners_and_is_served_when_it_is_free() {
    let (listener, address) = taken();
    let site = site(address);
    assert_eq!(site.get("/a.txt").text(), "a");
    assert!(!site.server.announcement().contains(&address.to_string()));
    let why = format!("cannot listen on {address}: Address already in use (os error 98): another");
    site.server.wait_for_log(&why);
    site.server
        .wait_for_log("the other listeners serve, and this one does as soon as it can");
    assert!(status(&site).contains(&why), "{}", status(&site));
    let told = missing(&site);
    assert_eq!(told[0]["address"], address.to_string(), "{told}");
    assert!(told[0]["reason"].as_str().unwrap().starts_with(&why), "{told}");
    let ready = monitor(&site, "/readyz");
    assert!(ready.starts_with("HTTP/1.1 503 ") && ready.contains(&why), "{ready}");
    assert!(monitor(&site, "/healthz").starts_with("HTTP/1.1 200 "));
    let gauge = |number: u8| format!("\nhowdah_listeners_missing {number}\n");
    assert!(monitor(&site, "/metrics").contains(&gauge(1)));

    // A reload that brings nothing new is not refused.
    let (code, _, told) = command(&site, &["reload"]);
    assert_eq!(code, Some(0), "{told}");
    drop(listener);
    wait_until("the address is served", || {
        assert_eq!(site.get("/a.txt").text(), "a", "the other listener serves meanwhile");
        serves(address)
    });
    site.server.wait_for_log(&format!("{address} can be listened on now"));
    wait_until("nothing is missing", || missing(&site) == Value::Array(Vec::new()));
    wait_until("the gauge is 0", || monitor(&site, "/metrics").contains(&gauge(0)));
    assert!(status(&site).contains(&format!("listens on http://{address}\n")));
    assert!(monitor(&site, "/readyz").ends_with("ready\n"));
}

#[test]
fn a_new_program_and_a_new_front_serve_beside_a_taken_port() {
    let (listener, address) = taken();
    let site = site(address);
    for number in 2..=3 {
        match number {
            2 => drop(site.server.kill_front()),
            _ => site.server.signal(SIGUSR2),
        }
        wait_until("another generation serves", || {
            let (code, told, _) = command(&site, &["status"]);
            code == Some(0) && told.contains(&format!("generation {number} is serving"))
        });
        assert_eq!(site.get("/a.txt").text(), "a");
        assert_eq!(missing(&site)[0]["address"], address.to_string());
    }
    drop(listener);
    wait_until("the address is served", || serves(address));
}

#[test]
fn a_start_without_any_listener_names_all_addresses() {
    let (_first, first) = taken();
    let (_second, second) = taken();
    let folder = Folder::new();
    let (first, second) = (first.to_string(), second.to_string());
    let path = folder.path().display().to_string();
    let words = ["serve", &path, "--no-php", "--listen", &first, "--listen", &second];
    let (status, output, told) = Setup::with(&words).run();
    assert_eq!((status, output.as_str()), (Some(1), ""));
    for address in [first, second] {
        assert!(told.contains(&format!("cannot listen on {address}: ")), "{told}");
    }
}

#[test]
fn a_reload_that_names_a_further_taken_port_is_refused() {
    let (_first, first) = taken();
    let (_second, second) = taken();
    let site = site(first);
    let file = site.path().join("howdah.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let more = format!("\"{first}\", \"{second}\"");
    std::fs::write(&file, text.replace(&format!("\"{first}\""), &more)).unwrap();
    site.server.signal(SIGHUP);
    site.server.wait_for_log("the reload is refused, and what was served goes on");
    assert!(site.server.log().contains(&format!("cannot listen on {second}: ")));
    assert_eq!(site.get("/a.txt").text(), "a");
}

#[test]
fn a_taken_unix_socket_leaves_the_other_listeners() {
    let folder = Folder::new();
    let path = folder.path().join("live.sock");
    let other = UnixListener::bind(&path).unwrap();
    let text = format!(
        "listen = [\"127.0.0.1:0\", \"unix:{}\"]\n[[site]]\nroot = \"public\"\nphp = false\n",
        path.display()
    );
    let site = Site::configured(&[("a.txt", "a")], &text);
    assert_eq!(site.get("/a.txt").text(), "a");
    site.server.wait_for_log("live.sock: another program listens there");
    drop(other);
    wait_until("the socket is served", || answers(UnixStream::connect(&path)));
}

#[test]
fn without_its_port_for_https_a_site_is_not_served_in_the_clear() {
    let authority = Authority::new();
    let folder = client::files(&[("a", &authority.certify(&["a.example"]))]);
    let (listener, address) = taken();
    let config = format!(
        "listen = [\"127.0.0.1:0\", {{ address = \"{address}\", tls = true }}]\n[[site]]\n\
         hosts = [\"a.example\", \"*\"]\nroot = \"public\"\nphp = false\n\
         tls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\" }}\n",
        folder.path().display()
    );
    let site = Site::configured(&[("a.txt", "a")], &config);
    let plain = |host| site.ask("GET", "/a.txt", &[("Host", host)], b"");
    assert_eq!(plain("a.example").status, 503);
    assert_eq!(plain("other.example").text(), "a", "the certificate is not for this name");
    drop(listener);
    // Meanwhile both generations answer.
    let target = Some("https://a.example/a.txt");
    wait_until("the site redirects", || plain("a.example").field("location") == target);
    let mut wire = authority.connect(address, "a.example", Trust::Tls13);
    let reply = wire.get("/a.txt");
    assert_eq!(reply.text(), "a");
    assert!(reply.field("alt-svc").is_some(), "and over HTTP/3");
}

#[test]
fn ports_for_root_alone_are_refused_with_advice() {
    let privileged = "/proc/sys/net/ipv4/ip_unprivileged_port_start";
    let first: u16 = std::fs::read_to_string(privileged).unwrap().trim().parse().unwrap();
    if !is_root() || first < 2 {
        howdah_skip::skip!("no user of this machine is refused a port");
        return;
    }
    let folder = Folder::writable();
    folder.file("a.txt", "a");
    let path = folder.path().display().to_string();
    let words = ["serve", &path, "--no-php", "--listen", "127.0.0.1:1", "--listen", "127.0.0.1:0"];
    let server = Setup::with(&words).user(65534).start();
    assert_eq!(server.get("/a.txt").text(), "a");
    server.wait_for_log("cannot listen on 127.0.0.1:1: Permission denied (os error 13): only root");
    server.wait_for_log("AmbientCapabilities=CAP_NET_BIND_SERVICE");
    let (status, _, told) = Setup::with(&["serve", &path, "--no-php", "--listen", "127.0.0.1:1"])
        .user(65534)
        .run();
    assert_eq!(status, Some(1));
    assert!(told.contains("AmbientCapabilities=CAP_NET_BIND_SERVICE"), "{told}");
}

#[test]
fn a_check_warns_of_ports_that_another_program_has() {
    let (_listener, address) = taken();
    let site = site(address);
    let why = format!("warning: cannot listen on {address}: Address already in use");
    let (code, _, told) = command(&site, &["check"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains(&why), "{told}");
    // The addresses of the server that runs are its own.
    let own = site.server.address().to_string();
    let file = site.path().join("howdah.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("127.0.0.1:0", &own)).unwrap();
    let (code, _, told) = command(&site, &["check"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains(&why) && !told.contains(&own), "{told}");
    let (code, json, _) = command(&site, &["check", "--json"]);
    assert_eq!(code, Some(0));
    assert!(json.contains(&format!("cannot listen on {address}: ")), "{json}");
}

#[test]
fn a_socket_that_its_folders_owner_replaces_keeps_no_reload_from_happening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("web.sock");
    if is_root() {
        lchown(folder.path(), Some(7), None).unwrap();
    }
    let config = format!(
        "listen = [\"127.0.0.1:0\", \"unix:{}\"]\ncontrol = \"control\"\n\
         admin = \"unix:admin.sock\"\n[[site]]\nroot = \"public\"\nphp = false\n",
        path.display()
    );
    let site = Site::configured(&[("a.txt", "a")], &config);
    assert!(answers(UnixStream::connect(&path)));
    fs::remove_file(&path).unwrap();
    fs::write(&path, "").unwrap();
    let (code, _, told) = command(&site, &["reload"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(status(&site).contains("the file is not a socket"), "{}", status(&site));
    assert_eq!(site.get("/a.txt").text(), "a");
    if is_root() {
        let ready = monitor(&site, "/readyz");
        assert!(ready.starts_with("HTTP/1.1 200 ") && ready.contains("not a socket"), "{ready}");
    }
    fs::remove_file(&path).unwrap();
    wait_until("the socket is served", || answers(UnixStream::connect(&path)));
}

#[test]
fn no_socket_is_made_in_the_place_of_somebody_else() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["site", "other"] {
        fs::create_dir(at(name)).unwrap();
    }
    symlink("../other", at("site/run")).unwrap();
    for (name, owner) in [("site", 7), ("site/run", 7), ("other", 8)] {
        lchown(at(name), Some(owner), None).unwrap();
    }
    let _datagrams = UnixDatagram::bind(at("site/log.sock")).unwrap();
    let paths = ["site/run/web.sock", "site/log.sock"].map(at);
    let config = format!(
        "listen = [\"127.0.0.1:0\", \"unix:{}\", \"unix:{}\"]\ncontrol = \"control\"\n\
         [[site]]\nroot = \"public\"\nphp = false\n",
        paths[0].display(),
        paths[1].display()
    );
    let site = Site::configured(&[("a.txt", "a")], &config);
    let missing = missing(&site).to_string();
    for reason in ["belongs neither to root", "another program listens there"] {
        assert!(missing.contains(reason), "{missing}");
    }
    assert!(!at("other/web.sock").exists() && at("site/log.sock").exists());
    assert_eq!(site.get("/a.txt").text(), "a");
}
