//! Upstreams whose names are looked up.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use super::upstream::read_head;
use crate::support::{Client, Folder, HOWDAH, Server, Setup, is_root, wait_until};

/// Where the test's name server listens.
const NAME_SERVER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 53);

/// A server of names with these answers: `None` is no answer for any name.
struct NameServer {
    answers: Arc<Mutex<Option<Vec<Ipv4Addr>>>>,
    asked: Arc<AtomicUsize>,
}

impl NameServer {
    /// `None`: another program listens there.
    fn start(address: Ipv4Addr) -> Option<NameServer> {
        let socket = UdpSocket::bind((address, 53)).ok()?;
        let server = NameServer {
            answers: Arc::default(),
            asked: Arc::default(),
        };
        let (answers, asked) = (Arc::clone(&server.answers), Arc::clone(&server.asked));
        thread::spawn(move || {
            let mut packet = [0; 1500];
            while let Ok((length, from)) = socket.recv_from(&mut packet) {
                asked.fetch_add(1, Ordering::Relaxed);
                let reply = reply(&packet[..length], answers.lock().unwrap().as_deref());
                let _ = socket.send_to(&reply, from);
            }
        });
        Some(server)
    }

    fn answer(&self, addresses: &[Ipv4Addr]) {
        *self.answers.lock().unwrap() = Some(addresses.to_vec());
    }
}

/// Answers one question (RFC 1035 §4.1): with the addresses where it is for those of IPv4.
fn reply(question: &[u8], addresses: Option<&[Ipv4Addr]>) -> Vec<u8> {
    let end = 12 + question[12..].iter().position(|byte| *byte == 0).unwrap() + 5;
    let is_v4 = question[end - 4..end - 2] == [0, 1];
    let found = addresses.unwrap_or_default().iter().filter(|_| is_v4);
    let count = u8::try_from(found.clone().count()).unwrap();
    // The third byte says that this is an answer, the fourth may say that there is no such name.
    let code = if addresses.is_some() { 0x80 } else { 0x83 };
    let mut reply = question[..2].to_vec();
    reply.extend([0x81, code, 0, 1, 0, count, 0, 0, 0, 0]);
    reply.extend_from_slice(&question[12..end]);
    for address in found {
        reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4]);
        reply.extend(address.octets());
    }
    reply
}

/// Starts an upstream at that address, which tells where it is. Returns its port.
fn upstream(address: Ipv4Addr, port: u16) -> u16 {
    let listener = TcpListener::bind((address, port)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let host = read_head(&mut stream);
            let host = host.lines().find_map(|line| line.strip_prefix("Host: ")).unwrap();
            let text = format!("{address} {host}");
            let length = text.len();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{text}"
            );
        }
    });
    port
}

/// Starts a server that asks `name_server` alone for names. `None`: the machine does not allow
/// that.
fn start(folder: &Folder, config: &str, name_server: IpAddr) -> Option<Server> {
    let hosts = folder.file("hosts", "127.0.0.1 localhost\n");
    let resolver = folder.file("resolv.conf", format!("nameserver {name_server}\n"));
    let switch = folder.file("nsswitch.conf", "hosts: files dns\n");
    let mounts = [(hosts, "hosts"), (resolver, "resolv.conf"), (switch, "nsswitch.conf")];
    let mounts: String = mounts
        .iter()
        .map(|(file, name)| format!("mount --bind {} /etc/{name} && ", file.display()))
        .collect();
    let can = Command::new("unshare")
        .args(["-m", "sh", "-c", &format!("{mounts}true")])
        .status();
    if !can.is_ok_and(|status| status.success()) {
        howdah_skip::skip!("no folder /etc of a test's own");
        return None;
    }
    let script = folder.program(
        "start",
        format!("#!/bin/sh\nexec unshare -m sh -c '{mounts}exec {HOWDAH} \"$@\"' sh \"$@\"\n"),
    );
    let config = folder.file("howdah.toml", config);
    Some(Setup::config(Path::new(&config)).program(&script).start())
}

#[test]
fn names_of_upstreams_are_looked_up_again_and_again() {
    if !is_root() {
        return;
    }
    let Some(names) = NameServer::start(NAME_SERVER) else {
        howdah_skip::skip!("another program listens on port 53 of {NAME_SERVER}");
        return;
    };
    let (first, second) = (Ipv4Addr::new(127, 0, 0, 81), Ipv4Addr::new(127, 0, 0, 82));
    let port = upstream(first, 0);
    upstream(second, port);
    let folder = Folder::new();
    folder.file(
        "public/.htaccess",
        format!("RewriteEngine On\nRewriteRule ^app/(.*)$ http://app.example:{port}/$1 [P]\n"),
    );
    folder.file("public/a.txt", "a file");
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\n[[site]]\nroot = \"public\"\n\
            php = false\n\
         upstreams = [\"http://app.example:{port}\"]\nupstream_resolve = \"1s\"\n\
         upstream_retry = \"10ms\"\n"
    );
    let Some(server) = start(&folder, &config, NAME_SERVER.into()) else {
        return;
    };
    // Nobody knows the name: the server runs, and says what is missing.
    server.wait_for_log("the upstream name app.example cannot be looked up: ");
    assert_eq!(server.get("/a.txt").text(), "a file");
    assert_eq!(server.get("/app/x").status, 503);
    let told = |address: Ipv4Addr| format!("{address} app.example:{port}");
    let ask = || Client::connect(server.address()).get("/app/x");
    names.answer(&[first]);
    wait_until("the first address is asked", || ask().status == 200);
    server.wait_for_log("the upstream name app.example is known again");
    assert_eq!(ask().text(), told(first));
    names.answer(&[second]);
    wait_until("the second address is asked", || ask().text() == told(second));
    // Nothing listens at the other one.
    let nobody = Ipv4Addr::new(127, 0, 0, 83);
    for answers in [[nobody, first], [first, nobody]] {
        names.answer(&answers);
        wait_until("the one that answers is asked", || ask().text() == told(first));
        let asked = names.asked.load(Ordering::Relaxed);
        wait_until("the name was looked up", || names.asked.load(Ordering::Relaxed) > asked + 3);
        assert_eq!(ask().text(), told(first));
        names.answer(&[second]);
        wait_until("the second address is asked", || ask().text() == told(second));
    }
    // No answers any more: the last addresses stay.
    *names.answers.lock().unwrap() = None;
    wait_until("the log says so", || {
        server.log().contains("its former addresses are used until it can")
    });
    assert_eq!(ask().text(), told(second));
    server.stop();
}
