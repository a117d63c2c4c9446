//! Early data (0-RTT) over QUIC.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use h3::client::SendRequest;
use h3_quinn::OpenStreams;
use quinn::TransportConfig;

use super::client::{Http3, Reply, begin, reply, settings_with};
use super::{Served, Special};
use crate::support::{has_php, wait_until};
use crate::tls::client::Trust;
use crate::tls::early_data::{SCRIPT, runs};

/// Packets on their way between a client and a server, in one direction.
struct Way {
    to: Arc<UdpSocket>,
    is_open: AtomicBool,
    held: Mutex<Vec<(Vec<u8>, Option<SocketAddr>)>>,
    /// All packets that have come.
    recorded: Mutex<Vec<Vec<u8>>>,
}

impl Way {
    fn new(to: &Arc<UdpSocket>, is_open: bool) -> Way {
        Way {
            to: Arc::clone(to),
            is_open: AtomicBool::new(is_open),
            held: Mutex::default(),
            recorded: Mutex::default(),
        }
    }

    fn pass(&self, packet: &[u8], address: Option<SocketAddr>) {
        let mut held = self.held.lock().unwrap();
        self.recorded.lock().unwrap().push(packet.to_vec());
        held.push((packet.to_vec(), address));
        if self.is_open.load(Ordering::Relaxed) {
            for (packet, address) in held.drain(..) {
                // A side that is gone loses its packets.
                let _ = match address {
                    Some(address) => self.to.send_to(&packet, address),
                    None => self.to.send(&packet),
                };
            }
        }
    }

    fn set_open(&self, is_open: bool) {
        self.is_open.store(is_open, Ordering::Relaxed);
        let last = self.held.lock().unwrap().pop();
        if let Some((packet, address)) = last {
            self.pass(&packet, address);
        }
    }
}

/// A relay that can keep packets back, so that a handshake waits.
struct Relay {
    address: SocketAddr,
    to_server: Arc<Way>,
    to_client: Arc<Way>,
}

impl Relay {
    fn start(server: SocketAddr) -> Relay {
        let front = Arc::new(UdpSocket::bind("127.0.0.2:0").unwrap());
        let back = Arc::new(UdpSocket::bind("127.0.0.2:0").unwrap());
        back.connect(server).unwrap();
        let relay = Relay {
            address: front.local_addr().unwrap(),
            to_server: Arc::new(Way::new(&back, true)),
            to_client: Arc::new(Way::new(&front, false)),
        };
        let client: Arc<Mutex<Option<SocketAddr>>> = Arc::default();
        let (known, way) = (Arc::clone(&client), Arc::clone(&relay.to_server));
        thread::spawn(move || {
            let mut packet = [0; 65_536];
            while let Ok((length, from)) = front.recv_from(&mut packet) {
                *known.lock().unwrap() = Some(from);
                way.pass(&packet[..length], None);
            }
        });
        let way = Arc::clone(&relay.to_client);
        thread::spawn(move || {
            let mut packet = [0; 65_536];
            while let Ok(length) = back.recv(&mut packet) {
                let to = *client.lock().unwrap();
                way.pass(&packet[..length], to);
            }
        });
        relay
    }
}

fn served(special: &Special<'_>) -> (Served, Http3) {
    let served = Served::with(&[("a.txt", "hello"), SCRIPT], special);
    let mut tls = served.authority.client(Trust::Tls13).settings();
    tls.enable_early_data = true;
    let address = served.site.server.address();
    let settings = settings_with(tls);
    let client = Http3::with_settings(address, "a.example", settings, TransportConfig::default());
    assert_eq!(client.get("/a.txt").text(), "hello");
    (served, client)
}

/// Asks on a connection whose handshake ends after the answer, then again on the same connection.
fn ask_twice(client: &Http3, server: SocketAddr, method: &str, target: &str) -> [Reply; 2] {
    let relay = Relay::start(server);
    let request = || client.request(method, target, &[]);
    client.run(async {
        let connection = client.begin_early(relay.address).expect("a session for early data");
        let (mut sender, driver) = begin(&connection).await;
        let stream = send(&mut sender, request()).await;
        // The client's packets are sent meanwhile. The server's first answer waits in the relay.
        tokio::time::sleep(Duration::from_millis(100)).await;
        relay.to_server.set_open(false);
        relay.to_client.set_open(true);
        let early = reply(stream).await.unwrap();
        relay.to_server.set_open(true);
        // One of a client that has seen the end of the handshake.
        let stream = send(&mut sender, request()).await;
        let late = reply(stream).await.unwrap();
        driver.abort();
        [early, late]
    })
}

async fn send(
    sender: &mut SendRequest<OpenStreams, Bytes>,
    request: http::Request<()>,
) -> super::client::Stream {
    let has_content = request.method() == "POST";
    let mut stream = sender.send_request(request).await.unwrap();
    if has_content {
        stream.send_data(Bytes::from_static(b"x=1")).await.unwrap();
    }
    stream.finish().await.unwrap();
    stream
}

#[test]
fn a_safe_request_is_answered_early_and_others_are_not() {
    if !has_php() {
        return;
    }
    let special = Special {
        tls: ", early_data = true",
        ..Special::default()
    };
    let (served, client) = served(&special);
    let (server, target) = (served.site.server.address(), served.site.awaiting("/early.php"));
    let [early, late] = ask_twice(&client, server, "GET", &target);
    assert_eq!([early.text(), late.text()], ["early=1.", "early=no."]);
    let [early, late] = ask_twice(&client, server, "POST", &target);
    assert_eq!((early.status, late.text()), (425, "early=no."));
}

/// The first packet of a connection can come from any address.
#[test]
fn early_data_waits_for_the_handshake_of_a_client_that_has_not_proven_its_address() {
    if !has_php() {
        return;
    }
    let special = Special {
        tls: ", early_data = true",
        ..Special::default()
    };
    let (served, mut client) = served(&special);
    client.forget_tokens();
    let (server, target) = (served.site.server.address(), served.site.awaiting("/early.php"));
    let relay = Relay::start(server);
    client.run(async {
        let connection = client.begin_early(relay.address).expect("a session for early data");
        let (mut sender, driver) = begin(&connection).await;
        let stream = send(&mut sender, client.request("GET", &target, &[])).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(runs(&served.site), 0);
        relay.to_client.set_open(true);
        assert_eq!(reply(stream).await.unwrap().text(), "early=no.");
        driver.abort();
    });
}

#[test]
fn recorded_packets_are_not_answered_again() {
    if !has_php() {
        return;
    }
    let special = Special {
        tls: ", early_data = true",
        php: "workers = 1",
        ..Special::default()
    };
    let (served, client) = served(&special);
    let (server, target) = (served.site.server.address(), served.site.awaiting("/early.php"));
    let relay = Relay::start(server);
    let recorded = client.run(async {
        let connection = client.begin_early(relay.address).expect("a session for early data");
        let (mut sender, driver) = begin(&connection).await;
        let stream = send(&mut sender, client.request("GET", &target, &[])).await;
        while runs(&served.site) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // The server has answered packets of the client's first words alone.
        let recorded = relay.to_server.recorded.lock().unwrap().clone();
        relay.to_client.set_open(true);
        assert_eq!(reply(stream).await.unwrap().text(), "early=1.");
        connection.close(0_u32.into(), b"");
        driver.abort();
        recorded
    });
    // While the server remembers the first connection, copies belong to that one.
    wait_until("a copy begins another connection", || {
        // The end of the client's own connection is sent.
        client.run(async { tokio::time::sleep(Duration::from_millis(5)).await });
        let socket = UdpSocket::bind("127.0.0.2:0").unwrap();
        socket.connect(server).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        for packet in &recorded {
            socket.send(packet).unwrap();
        }
        socket.recv(&mut [0; 2000]).is_ok()
    });
    // The only worker has done what came before.
    let mut fresh = served.connect();
    assert_eq!(fresh.get(&target).text(), "early=no.");
    fresh.reconnect();
    assert_eq!(runs(&served.site), 2);
}

#[test]
fn no_early_data_is_taken_without_the_key() {
    let (served, client) = served(&Special::default());
    let server = served.site.server.address();
    assert!(client.run(async { client.begin_early(server) }).is_none());
}
