//! WebSockets that a rule hands on to an upstream (`[P]`): RFC 6455 over HTTP/1.1, TLS,
//! HTTP/2 and HTTP/3.

mod descriptors;
mod encrypted;
mod http2;
mod http3;
mod kept;
mod names;
mod reloads;
pub mod upstream;

use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use howdah_sys::signal::SIGHUP;
use tungstenite::Message;

use self::upstream::{
    ACCEPTED, ASKS, Upstream, close, connect, connect_raw, echo, half_close, open, read_head, rest,
};
use crate::site::{Options, Site};
use crate::support::{Setup, has_php, wait_until};
use crate::tls::client::{self, Authority, Trust};

#[test]
fn messages_pass_in_both_directions() {
    let upstream = Upstream::start();
    let site = upstream.site("");
    let mut socket = open(connect(&site), "/ws/chat?a=b");
    echo(&mut socket);
    if has_php() {
        let mut others: Vec<_> = (0..3).map(|_| open(connect(&site), "/ws/chat")).collect();
        assert_eq!(site.get("/script.php").text(), "from PHP", "a tunnel holds no worker");
        others.iter_mut().for_each(|other| other.send(Message::text("a")).unwrap());
    }
    let is_logged = || site.access_log().contains("/ws/chat?a=b");
    assert!(!is_logged(), "the line is written at the end");
    wait_until("one tunnel is left", || tunnels(&site)[0] == 1);
    assert!(tunnels(&site)[1] >= 1);
    close(socket);
    wait_until("the tunnel is in the log", || {
        let log = site.access_log();
        let line = log.lines().find(|line| line.contains("\"GET /ws/chat?a=b HTTP/1.1\" 101 "));
        let bytes = line.and_then(|line| line.split(" 101 ").nth(1)?.split(' ').next());
        bytes.is_some_and(|bytes| bytes.parse::<u64>().is_ok_and(|bytes| bytes > 3_070_000))
    });
}

/// The tunnels of the site that are open, and those that have begun.
fn tunnels(site: &Site) -> [u64; 2] {
    let config = site.path().join("howdah.toml").display().to_string();
    let (_, told, _) = Setup::with(&["status", "--json", "--config", &config]).run();
    let status: serde_json::Value = serde_json::from_str(&told).unwrap_or_default();
    let tunnels = &status["sites"][0]["tunnels"];
    ["open", "begun"].map(|name| tunnels[name].as_u64().unwrap_or(0))
}

#[test]
fn messages_pass_over_tls() {
    let upstream = Upstream::start();
    let authority = Authority::new();
    let folder = client::files(&[("a", &authority.certify(&["localhost"]))]);
    let site = Site::configured(
        &[(".htaccess", &upstream.rules())],
        &format!(
            "listen = [\"127.0.0.1:0\", {{ address = \"127.0.0.1:0\", tls = true }}]\n[[site]]\n\
             hosts = [\"localhost\"]\nroot = \"public\"\nphp = false\n\
             tls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\" }}\n{1}",
            folder.path().display(),
            upstream.keys("")
        ),
    );
    let session = authority.client(Trust::Tls13).session("localhost");
    let stream = std::net::TcpStream::connect(site.server.addresses()[1]).unwrap();
    stream.set_read_timeout(Some(crate::support::PATIENCE)).unwrap();
    let mut socket = open(rustls::StreamOwned::new(session, stream), "/ws/chat");
    echo(&mut socket);
    close(socket);
}

/// Each row: what the client asks, and what the upstream or the server answers.
#[test]
fn a_handshake_that_fails_is_answered_as_a_request() {
    let upstream = Upstream::with(|mut stream| {
        let head = read_head(&mut stream);
        let answer = match head.split(' ').nth(1).unwrap() {
            "/own101" => ACCEPTED.to_owned(),
            "/other" => ACCEPTED.replace("WebSocket\r", "chat\r"),
            "/bare" => "HTTP/1.1 101 Switching Protocols\r\n\r\n".to_owned(),
            "/version" => "HTTP/1.1 426 Upgrade Required\r\nSec-WebSocket-Version: 13\r\n\
                    Content-Length: 0\r\n\r\n"
                .to_owned(),
            // It ends here: a POST must not meet a connection that is about to end.
            _ => {
                let length = head.len();
                format!(
                    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{head}"
                )
            }
        };
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let site = upstream.site("");
    for (path, status) in [("/ws/other", 502), ("/ws/bare", 502), ("/ws/version", 426)] {
        assert_eq!(site.ask("GET", path, &ASKS, b"").status, status, "{path}");
    }
    assert_eq!(site.get("/ws/own101").status, 502, "nobody asked for it");
    let version = site.ask("GET", "/ws/version", &ASKS, b"");
    assert_eq!(version.field("sec-websocket-version"), Some("13"));
    let asked = site.ask("GET", "/ws/head", &ASKS, b"");
    for line in
        ["\r\nUpgrade: websocket\r\n", "\r\nConnection: Upgrade\r\n", "\r\nSec-WebSocket-Key: "]
    {
        assert!(asked.text().contains(line), "{line}: {}", asked.text());
    }
    let upgrade = ("Upgrade", "websocket");
    for (method, fields) in [
        ("GET", [("Connection", "keep-alive"), upgrade]),
        ("GET", [("Connection", "Upgrade"), ("Upgrade", "h2c")]),
        ("POST", [("Connection", "Upgrade"), upgrade]),
        ("HEAD", [("Connection", "Upgrade"), upgrade]),
    ] {
        let reply = site.ask(method, "/ws/plain", &fields, b"");
        assert_eq!(reply.status, 200, "{method} {fields:?}");
        assert!(!reply.text().contains("Upgrade"), "{method} {fields:?}: {}", reply.text());
    }
    let mut old = site.connect();
    old.send("GET /ws/plain HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    let reply = old.rest();
    let reply = String::from_utf8_lossy(&reply);
    assert!(reply.starts_with("HTTP/1.1 200") && !reply.contains("Upgrade"), "{reply}");

    let refusing = Upstream::start();
    let site = refusing.site("");
    let reply = site.ask("GET", "/ws/refused", &ASKS, b"");
    assert_eq!(reply.status, 403);
    let reply = site.ask("GET", "/ws/chat", &ASKS[..3], b"");
    assert!(reply.status >= 400, "without a key: {reply:?}");
    assert_eq!(site.ask("GET", "/file.txt", &ASKS, b"").text(), "a file", "as with Apache");
}

#[test]
fn each_side_may_end_before_the_other() {
    let upstream = Upstream::raw(|mut stream| {
        let mut asked = Vec::new();
        stream.read_to_end(&mut asked).unwrap();
        stream.write_all(&[b"after ", &asked[..]].concat()).unwrap();
    });
    let site = upstream.site("");
    let mut stream = connect_raw(&site);
    stream.write_all(b"all").unwrap();
    half_close(&stream);
    assert_eq!(rest(&mut stream), b"after all");

    let (sender, received) = mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let upstream = Upstream::raw(move |mut stream| {
        stream.write_all(b"first").unwrap();
        half_close(&stream);
        let _ = sender.lock().unwrap().send(rest(&mut stream));
    });
    let site = upstream.site("");
    let mut stream = connect_raw(&site);
    assert_eq!(rest(&mut stream), b"first");
    stream.write_all(b"second").unwrap();
    drop(stream);
    assert_eq!(received.recv_timeout(crate::support::PATIENCE).unwrap(), b"second");
}

/// The client has nothing to say meanwhile, and no time limit is near.
#[test]
fn an_upstream_that_resets_after_its_end_ends_the_tunnel() {
    let (go, gate) = mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let upstream = Upstream::raw(move |stream| {
        half_close(&stream);
        stream.peek(&mut [0]).unwrap();
        gate.lock().unwrap().recv().unwrap();
        // With bytes unread this is a reset.
        drop(stream);
    });
    let site = upstream.site("tunnel_timeout = \"1h\"");
    let mut stream = connect_raw(&site);
    stream.write_all(b"unread").unwrap();
    assert_eq!(rest(&mut stream), b"");
    assert_eq!(tunnels(&site)[0], 1, "the client may go on");
    go.send(()).unwrap();
    wait_until("the tunnel has ended", || tunnels(&site)[0] == 0);
    drop(stream);
}

/// The upstream neither reads nor ends anything. A client that closes with bytes unread resets the
/// connection.
#[test]
fn a_client_that_goes_ends_the_tunnel_though_the_upstream_does_nothing() {
    let upstream = Upstream::raw(|mut stream| {
        stream.write_all(b"unread").unwrap();
        thread::sleep(crate::support::PATIENCE);
    });
    let site = upstream.site("");
    for fills_the_upstream in [false, true] {
        let mut stream = connect_raw(&site);
        stream.peek(&mut [0]).unwrap();
        wait_until("the tunnel is open", || tunnels(&site)[0] == 1);
        if fills_the_upstream {
            stream.set_nonblocking(true).unwrap();
            let mut is_full = 0;
            while is_full < 10 {
                match stream.write(&[0; 65_536]) {
                    Ok(count) => is_full = if count > 0 { 0 } else { is_full + 1 },
                    Err(_) => {
                        is_full += 1;
                        thread::sleep(Duration::from_millis(10));
                    }
                }
            }
        } else {
            half_close(&stream);
        }
        drop(stream);
        wait_until("the tunnel has ended", || tunnels(&site)[0] == 0);
    }
}

/// A side that takes nothing stops the other one, and nobody else; afterwards nothing is missing.
#[test]
fn a_slow_side_holds_up_the_other_and_nobody_else() {
    const TOTAL: usize = 64 << 20;
    let block: Vec<u8> = (0..1 << 16).map(|number| (number % 253) as u8).collect();
    let written = Arc::new(AtomicUsize::new(0));
    let write_all = move |stream: &mut dyn Write, written: &AtomicUsize| {
        for _ in 0..TOTAL / block.len() {
            stream.write_all(&block).unwrap();
            written.fetch_add(block.len(), Ordering::SeqCst);
        }
    };
    let read_all = |stream: &mut dyn Read| {
        let mut all = Vec::with_capacity(TOTAL);
        stream.take(TOTAL as u64).read_to_end(&mut all).unwrap();
        let is_right = |(number, byte): (usize, &u8)| *byte == ((number % (1 << 16)) % 253) as u8;
        all.len() == TOTAL && all.iter().enumerate().all(is_right)
    };
    // Stands still: only buffers of the system and of one read were filled.
    let stands_still = |written: &AtomicUsize| {
        let mut last = usize::MAX;
        wait_until("the writer stands still", || {
            thread::sleep(Duration::from_millis(200));
            let now = written.load(Ordering::SeqCst);
            now > 0 && std::mem::replace(&mut last, now) == now
        });
        assert!(last < TOTAL, "everything was taken");
    };

    let (count, write) = (Arc::clone(&written), write_all.clone());
    let upstream = Upstream::raw(move |mut stream| write(&mut stream, &count));
    let site = upstream.site("");
    let mut slow = connect_raw(&site);
    stands_still(&written);
    assert_eq!(site.get("/file.txt").text(), "a file");
    assert!(read_all(&mut slow), "to the client");

    let (go, gate) = mpsc::channel::<()>();
    let (done, result) = mpsc::channel();
    let ends = std::sync::Mutex::new((gate, done));
    let upstream = Upstream::raw(move |mut stream| {
        let (gate, done) = &*ends.lock().unwrap();
        gate.recv().unwrap();
        done.send(read_all(&mut stream)).unwrap();
    });
    let site = upstream.site("");
    let mut stream = connect_raw(&site);
    written.store(0, Ordering::SeqCst);
    let (count, write) = (Arc::clone(&written), write_all);
    let client = thread::spawn(move || write(&mut stream, &count));
    stands_still(&written);
    assert_eq!(site.get("/file.txt").text(), "a file");
    go.send(()).unwrap();
    assert!(result.recv_timeout(crate::support::PATIENCE).unwrap(), "to the upstream");
    client.join().unwrap();
}

#[test]
fn an_upstream_that_dies_ends_its_tunnels() {
    let upstream = Upstream::start();
    let site = upstream.site("");
    let mut socket = open(connect(&site), "/ws/dies");
    socket.send(Message::text("last")).unwrap();
    assert!(socket.read().is_err());
    let mut socket = open(connect(&site), "/ws/chat");
    socket.send(Message::text("still")).unwrap();
    assert_eq!(socket.read().unwrap(), Message::text("still"));
}

#[test]
fn a_tunnel_without_bytes_ends_after_tunnel_timeout() {
    let upstream = Upstream::start();
    let site = upstream.site("tunnel_timeout = \"1s\"");
    let mut stream = connect_raw(&site);
    assert_eq!(rest(&mut stream), b"");
    wait_until("the line is there", || site.access_log().contains(" 101 "));
}

#[test]
fn a_site_and_a_client_have_so_many_tunnels() {
    let upstream = Upstream::start();
    let site = upstream.site_with(&Options {
        top: "trusted_proxies = [\"127.0.0.1\"]",
        site: &upstream.keys("tunnels = 2\nclient_tunnels = 1"),
        ..Options::default()
    });
    let ask = |client: u8| {
        let mut wire = site.connect();
        let address = format!("192.0.2.{client}");
        let fields = [&ASKS[..], &[("X-Forwarded-For", &address)]].concat();
        wire.request("GET", "/ws/chat", &fields, b"");
        let (status, _, _) = wire.head();
        (wire, status)
    };
    let first = ask(1);
    assert_eq!((first.1, ask(1).1), (101, 429));
    let second = ask(2);
    assert_eq!((second.1, ask(3).1), (101, 503));
    site.server.wait_for_log("`client_tunnels`");
    site.server.wait_for_log("`tunnels`");
    drop(first);
    wait_until("there is room again", || ask(3).1 == 101);
}

#[test]
fn a_reload_lets_tunnels_go_on_until_drain_timeout() {
    let upstream = Upstream::start();
    let site = upstream.site_with(&Options {
        limits: "drain_timeout = \"4s\"\n",
        site: &upstream.keys(""),
        ..Options::default()
    });
    // On a machine that stands still the front is ended before the tunnel: then another try.
    wait_until("a tunnel ends in order", || {
        let lines = || site.access_log().matches(" 101 ").count();
        let cut_off = || site.log_lines("`drain_timeout` is over").len();
        let before = (lines(), cut_off());
        let mut socket = open(connect(&site), "/ws/chat");
        let reloads = site.log_lines("reloaded").len();
        site.server.signal(SIGHUP);
        wait_until("the next front serves", || site.log_lines("reloaded").len() > reloads);
        if socket.send(Message::text("still here")).is_err() {
            return false;
        }
        let is_kept = socket.read().is_ok_and(|message| message == Message::text("still here"));
        let mut rest = Vec::new();
        let ended = socket.get_mut().read_to_end(&mut rest);
        wait_until("the tunnel has ended", || lines() > before.0 || cut_off() > before.1);
        is_kept && ended.is_ok() && lines() > before.0
    });
}

#[test]
fn a_stop_ends_tunnels_at_once() {
    let upstream = Upstream::start();
    let site = upstream.site_with(&Options {
        limits: "drain_timeout = \"10m\"\n",
        site: &upstream.keys(""),
        ..Options::default()
    });
    let mut stream = connect_raw(&site);
    site.server.signal(howdah_sys::signal::SIGTERM);
    assert_eq!(rest(&mut stream), b"");
}
