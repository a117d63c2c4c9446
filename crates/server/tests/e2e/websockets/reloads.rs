//! Tunnels that are open while the server reloads again and again.

use std::io::{Read, Write};
use std::net::TcpStream;

use howdah_sys::signal::SIGHUP;
use tungstenite::protocol::Role;
use tungstenite::{Message, WebSocket};

use super::upstream::{Upstream, connect, open};
use super::{http2, http3};
use crate::http2::client::Http2;
use crate::http2::frames::*;
use crate::http3::configured;
use crate::site::{HELD, Site, far_limits, far_php};
use crate::support::{Folder, has_php, wait_until};
use crate::tls::client::{Authority, files};

/// More than there are mailboxes for the packets of generations.
const RELOADS: usize = 18;

/// Checks that the tunnel carries a message in both directions.
fn exchange<S: Read + Write>(socket: &mut WebSocket<S>, words: &str) {
    socket.send(Message::text(words)).unwrap();
    assert_eq!(socket.read().unwrap(), Message::text(words));
}

/// A server whose folder `ws` is the upstream's.
struct Tunnelled {
    site: Site,
    authority: Authority,
    _upstream: Upstream,
    _files: Folder,
}

impl Tunnelled {
    /// `php` are the lines about PHP.
    fn with(php: &str) -> Tunnelled {
        let upstream = Upstream::start();
        let authority = Authority::new();
        let folder = files(&[("a", &authority.certify(&["a.example"]))]);
        let rules = upstream.rules();
        let script = ("script.php", "<?php echo 'from PHP';");
        let site = configured(
            &[(".htaccess", &rules), HELD, script],
            &format!(
                "listen = [\"127.0.0.1:0\", {{ address = \"127.0.0.1:0\", tls = true }}]\n\
                 threads = 2\ncontrol = \"control\"\n[limits]\ndrain_timeout = \"10m\"\n{}\
                 [[site]]\nhosts = [\"a.example\", \"*\"]\nroot = \"public\"\n\
                 tls = {{ cert = \"{1}/a.pem\", key = \"{1}/a.key\", redirect = false }}\n\
                 {2}{php}",
                far_limits(""),
                folder.path().display(),
                upstream.keys("")
            ),
        );
        Tunnelled {
            site,
            authority,
            _upstream: upstream,
            _files: folder,
        }
    }

    /// With one PHP process.
    fn with_php() -> Tunnelled {
        let limits = far_php("");
        Tunnelled::with(&format!(
            "[site.php]\nmode = \"static\"\nworkers = 1\nstate_dir = \"state\"\n{limits}"
        ))
    }

    fn reload(&self, number: usize) {
        self.site.server.signal(SIGHUP);
        wait_until("the next front serves", || self.site.log_lines("reloaded; ").len() >= number);
    }

    fn fronts(&self) -> usize {
        let all = self.site.server.processes().into_iter();
        all.filter(|process| process.name() == "howdah-front").count()
    }
}

/// A tunnel over each protocol: HTTP/1.1, HTTP/2 and HTTP/3.
struct Tunnels<'c>(
    WebSocket<TcpStream>,
    WebSocket<http2::Stream<'c>>,
    WebSocket<http3::Stream<'c>>,
);

impl<'c> Tunnels<'c> {
    fn open(site: &Site, over_http2: &'c Http2, over_http3: &'c http3::Client) -> Tunnels<'c> {
        let second = http2::Stream::open(over_http2, "/ws/2");
        let third = over_http3.open("/ws/3");
        Tunnels(
            open(connect(site), "/ws/1"),
            WebSocket::from_raw_socket(second, Role::Client, None),
            WebSocket::from_raw_socket(third, Role::Client, None),
        )
    }

    fn exchange(&mut self, words: &str) {
        exchange(&mut self.0, words);
        exchange(&mut self.1, words);
        exchange(&mut self.2, words);
    }
}

#[test]
fn tunnels_of_every_protocol_live_through_many_reloads() {
    let served = Tunnelled::with("php = false\n");
    let site = &served.site;
    let over_http2 = Http2::connect(site);
    let over_http3 = http3::Client::to(site.server.addresses()[1], &served.authority);
    let mut tunnels = Tunnels::open(site, &over_http2, &over_http3);
    for number in 1..=RELOADS {
        served.reload(number);
        let words = format!("after reload {number}");
        tunnels.exchange(&words);
        // A new tunnel in each generation, which ends at once.
        exchange(&mut open(connect(site), "/ws/4"), &words);
    }
    wait_until("the first front has tunnels, the last one serves", || served.fronts() == 2);
    drop(tunnels);
    drop((over_http2, over_http3));
    wait_until("the first front has ended", || served.fronts() == 1);
}

#[test]
fn tunnels_that_outlive_a_reload_keep_no_process_of_php() {
    if !has_php() {
        return;
    }
    let served = Tunnelled::with_php();
    let site = &served.site;
    let over_http2 = Http2::connect(site);
    let over_http3 = http3::Client::to(site.server.addresses()[1], &served.authority);
    let mut tunnels = Tunnels::open(site, &over_http2, &over_http3);
    let former = site.server.zygote();
    let mut held = site.hold_worker();
    served.reload(1);
    tunnels.exchange("beside a script");
    assert!(former.lives(), "the script runs");
    site.allow("end");
    assert_eq!(held.reply("GET").text(), "done");
    drop(held);
    wait_until("the former pool has ended", || !former.lives());
    tunnels.exchange("without PHP");
    assert_eq!(site.get("/script.php").text(), "from PHP");
    assert_eq!(served.fronts(), 2);
    drop(tunnels);
    drop((over_http2, over_http3));
    wait_until("the former front has ended", || served.fronts() == 1);
    let complaints = site.log_lines("before its workers had finished");
    assert!(complaints.is_empty(), "{complaints:?}");
}

#[test]
fn a_request_beside_a_tunnel_is_refused_where_its_pool_has_ended() {
    if !has_php() {
        return;
    }
    /// The error code of a request that has not begun (RFC 9113 §7).
    const REFUSED_STREAM: u32 = 7;
    let served = Tunnelled::with_php();
    let site = &served.site;
    let former = site.server.zygote();
    // The client does not answer the PING between the two GOAWAY, and asks on.
    let mut frames = Frames::connect(site, &[]);
    let line = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":path", "/ws/1"),
        (":authority", "a.example"),
        ("sec-websocket-version", "13"),
    ];
    let head: Vec<u8> = line.iter().flat_map(|(name, value)| field(name, value)).collect();
    frames.send(HEADERS, END_HEADERS, 1, &head);
    let answer = frames.next_of(HEADERS).expect("an answer");
    assert_eq!(answer.flags & END_STREAM, 0, "{answer:?}");
    served.reload(1);
    wait_until("the former pool has ended", || !former.lives());
    frames.send_get(3, "/script.php");
    let refusal = frames.next_of(RST_STREAM).expect("a refusal");
    assert_eq!((refusal.stream, &refusal.payload[..]), (3, &REFUSED_STREAM.to_be_bytes()[..]));
    assert_eq!(site.get("/script.php").text(), "from PHP");
    drop(frames);
    wait_until("the former front has ended", || served.fronts() == 1);
}
