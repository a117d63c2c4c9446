//! Packets that the kernel takes and gives in bundles (GSO, GRO).

use std::io::{ErrorKind, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use quinn::TransportConfig;
use quinn::udp::{RecvMeta, UdpSockRef, UdpSocketState};

use super::Served;
use super::client::{self, Http3};

/// Bytes of the largest bundle.
const MOST: usize = 1 << 16;

/// A relay between one client and the server. The system gives it the bundles of the server as the
/// server has sent them.
struct BundleRelay {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
    /// Counts what the server sends.
    thread: JoinHandle<Sent>,
}

/// The packets that a server has sent.
#[derive(Debug, Default)]
struct Sent {
    bundles: usize,
    packets: usize,
}

impl BundleRelay {
    /// `None`: the system knows no bundles.
    fn start(server: SocketAddr) -> Option<BundleRelay> {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let state = UdpSocketState::new(UdpSockRef::from(&socket)).unwrap();
        if state.gro_segments() < 2 || state.max_gso_segments() < 2 {
            return None;
        }
        let address = socket.local_addr().unwrap();
        let ends = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&ends);
        let thread = std::thread::spawn(move || {
            let (mut sent, mut client) = (Sent::default(), None);
            let mut room = vec![0; MOST];
            while !is_over.load(Ordering::Relaxed) {
                let mut metas = [RecvMeta::default()];
                let mut buffers = [IoSliceMut::new(&mut room)];
                match state.recv(UdpSockRef::from(&socket), &mut buffers, &mut metas) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        std::thread::sleep(Duration::from_micros(200));
                        continue;
                    }
                    Err(error) => panic!("{error}"),
                }
                let [RecvMeta { addr, len, stride, .. }] = metas;
                let packets = room[..len].chunks(stride.max(1));
                let to = if addr == server {
                    sent.bundles += 1;
                    sent.packets += packets.len();
                    client.expect("the client has begun")
                } else {
                    client = Some(addr);
                    server
                };
                // A packet for which there is no room is lost, as on the network.
                packets.for_each(|packet| drop(socket.send_to(packet, to)));
            }
            sent
        });
        Some(BundleRelay { address, ends, thread })
    }

    fn end(self) -> Sent {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

#[test]
fn many_packets_leave_with_one_call() {
    let large = "x".repeat(4_000_000);
    let served = Served::new(&[("large.txt", &large)]);
    let Some(relay) = BundleRelay::start(served.site.server.address()) else {
        howdah_skip::skip!("the kernel here has no bundles of UDP packets");
        return;
    };
    let settings = client::settings(served.authority.pem().as_bytes());
    let client =
        Http3::with_settings(relay.address, "a.example", settings, TransportConfig::default());
    assert!(client.get("/large.txt").text() == large);
    drop(client);
    let sent = relay.end();
    assert!(sent.packets > 2000, "{sent:?}");
    // A server that sends each by itself has as many calls as packets, on every machine.
    assert!(sent.packets > sent.bundles, "{sent:?}");
}
