//! Tunnels that are open while the server reloads again and again.

use std::io::{Read, Write};

use howdah_sys::signal::SIGHUP;
use tungstenite::protocol::Role;
use tungstenite::{Message, WebSocket};

use super::upstream::{Upstream, connect, open};
use super::{http2, http3};
use crate::http2::client::Http2;
use crate::http3::configured;
use crate::support::wait_until;
use crate::tls::client::{Authority, files};

/// More than there are mailboxes for the packets of generations.
const RELOADS: usize = 18;

/// Checks that the tunnel carries a message in both directions.
fn exchange<S: Read + Write>(socket: &mut WebSocket<S>, words: &str) {
    socket.send(Message::text(words)).unwrap();
    assert_eq!(socket.read().unwrap(), Message::text(words));
}

#[test]
fn tunnels_of_every_protocol_live_through_many_reloads() {
    let upstream = Upstream::start();
    let authority = Authority::new();
    let folder = files(&[("a", &authority.certify(&["a.example"]))]);
    let site = configured(
        &[(".htaccess", &upstream.rules())],
        &format!(
            "listen = [\"127.0.0.1:0\", {{ address = \"127.0.0.1:0\", tls = true }}]\nthreads = 2\n\
             control = \"control\"\n[limits]\ndrain_timeout = \"10m\"\n\
             [[site]]\nhosts = [\"a.example\", \"*\"]\nroot = \"public\"\nphp = false\n\
             tls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\", redirect = false }}\n{1}",
            folder.path().display(),
            upstream.keys("")
        ),
    );
    let mut first = open(connect(&site), "/ws/1");
    let over_http2 = Http2::connect(&site);
    let stream = http2::Stream::open(&over_http2, "/ws/2");
    let mut second = WebSocket::from_raw_socket(stream, Role::Client, None);
    let over_http3 = http3::Client::to(site.server.addresses()[1], &authority);
    let stream = over_http3.open("/ws/3");
    let mut third = WebSocket::from_raw_socket(stream, Role::Client, None);
    for number in 1..=RELOADS {
        site.server.signal(SIGHUP);
        wait_until("the next front serves", || site.log_lines("reloaded; ").len() >= number);
        let words = format!("after reload {number}");
        exchange(&mut first, &words);
        exchange(&mut second, &words);
        exchange(&mut third, &words);
        // A new tunnel in each generation, which ends at once.
        exchange(&mut open(connect(&site), "/ws/4"), &words);
    }
    let fronts = || {
        let all = site.server.processes().into_iter();
        all.filter(|process| process.name() == "howdah-front").count()
    };
    wait_until("the first front has tunnels, the last one serves", || fronts() == 2);
    drop((first, second, third));
    drop((over_http2, over_http3));
    wait_until("the first front has ended", || fronts() == 1);
}
