//! The last bytes of a response over HTTP/2 reach a client that sends nothing while it reads.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use super::client::{Authority, Trust};
use crate::http2::frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, SETTINGS, WINDOW_UPDATE, field, frame,
};
use crate::support::PATIENCE;

/// Bytes that the server encrypts at a time.
const RUN: usize = 64 * 1024;
/// More than the system's buffers take.
const LARGE: usize = 24 << 20;
/// The end of a connection would send everything.
const PATIENT: &str = "[limits]\nkeep_alive_timeout = \"1h\"\nsend_timeout = \"1h\"\n";
/// The window of a client that never opens it further.
const WINDOW: u32 = (1 << 31) - 1;

/// A client that has asked for the first `length` bytes of a file.
struct Client(StreamOwned<ClientConnection, TcpStream>);

impl Client {
    fn asking(address: SocketAddr, authority: &Authority, length: usize) -> Client {
        let mut settings = authority.client(Trust::Tls13).settings();
        settings.alpn_protocols = vec![b"h2".to_vec()];
        let name = ServerName::try_from("a.example").unwrap();
        let session = ClientConnection::new(Arc::new(settings), name).unwrap();
        let socket = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut stream = StreamOwned::new(session, socket);
        let initial_window = [&[0, 4][..], &WINDOW.to_be_bytes()].concat();
        let further = (WINDOW - 65_535).to_be_bytes();
        let range = format!("bytes=0-{}", length - 1);
        let head = [
            (":method", "GET"),
            (":scheme", "https"),
            (":path", "/large.txt"),
            (":authority", "a.example"),
            ("range", &range),
        ];
        let head: Vec<u8> = head.iter().flat_map(|(name, value)| field(name, value)).collect();
        let frames = [
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
            frame(SETTINGS, 0, 0, &initial_window),
            frame(SETTINGS, 1, 0, b""),
            frame(WINDOW_UPDATE, 0, 0, &further),
            frame(HEADERS, END_STREAM | END_HEADERS, 1, &head),
        ];
        stream.write_all(&frames.concat()).unwrap();
        Client(stream)
    }

    /// Waits until the system takes nothing more for the connection. Returns the bytes that it has.
    fn filled(&self) -> usize {
        let (mut last, mut rounds) = (0, 0);
        while rounds < 10 {
            sleep(Duration::from_millis(30));
            let now = queued(&self.0.sock);
            rounds = if now == last && now > 0 { rounds + 1 } else { 0 };
            last = now;
        }
        last
    }

    /// Reads the response to its end. Returns the number of its bytes.
    fn finish(mut self) -> usize {
        let mut count = 0;
        loop {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).expect("the rest of the response");
            let [high, middle, low, kind, flags, ..] = head;
            let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
            self.0.read_exact(&mut payload).expect("the rest of the response");
            if kind == DATA {
                count += payload.len();
                if flags & END_STREAM != 0 {
                    return count;
                }
            }
        }
    }
}

/// Returns the bytes that the system holds for a connection on this machine, both ends together.
fn queued(socket: &TcpStream) -> usize {
    let port = |address: SocketAddr| format!(":{:04X}", address.port());
    let own = port(socket.local_addr().unwrap());
    let other = port(socket.peer_addr().unwrap());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let rows = rows.filter(|row| row.len() > 4);
    let ends = rows.filter(|row| {
        let is = |from: &str, to: &str| row[1].ends_with(from) && row[2].ends_with(to);
        is(&own, &other) || is(&other, &own)
    });
    let counts = ends.flat_map(|row| {
        let counts = row[4].split(':').map(|count| usize::from_str_radix(count, 16).unwrap());
        counts.collect::<Vec<_>>()
    });
    counts.sum()
}

#[test]
fn they_need_no_frame_of_a_client_that_only_reads() {
    let large = "x".repeat(LARGE);
    let (site, authority) = super::site(&[("large.txt", &large)], PATIENT);
    let address = site.server.addresses()[1];
    let first = Client::asking(address, &authority, LARGE);
    let room = first.filled();
    assert_eq!(first.finish(), LARGE);
    // The last run of some of these does not fit into the system's buffers, where the system makes
    // them as large as it did. Frames and records add a four-hundredth.
    let room = room - room / 400;
    let lengths = (room - RUN..room + RUN).step_by(RUN / 16);
    let clients = lengths.map(|length| (length, Client::asking(address, &authority, length)));
    let clients: Vec<_> = clients.collect();
    for (_, client) in &clients {
        client.filled();
    }
    for (length, client) in clients {
        assert_eq!(client.finish(), length, "the system holds {room} bytes");
    }
}
