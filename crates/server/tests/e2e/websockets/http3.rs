//! WebSockets over HTTP/3: extended CONNECT (RFC 9220). The client's frames are made by hand.

use std::future::Future;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use quinn::{Connection, Endpoint, RecvStream, SendStream};
use tokio::runtime::Runtime;
use tungstenite::WebSocket;
use tungstenite::protocol::Role;

use super::upstream::{Upstream, close, echo, rest};
use crate::http3::client::{handshake, settings};
use crate::http3::{Served, Special};
use crate::support::{PATIENCE, wait_until};
use crate::tls::client::Authority;

/// Types of frames and of streams (RFC 9114 §6.2.1, §7.2).
const DATA: u64 = 0;
const HEADERS: u64 = 1;
const CONTROL: u8 = 0;
const SETTINGS: u8 = 4;

pub struct Client {
    runtime: Runtime,
    connection: Connection,
    _endpoint: Endpoint,
    /// The server would end the connection with it.
    _control: SendStream,
}

impl Client {
    fn connect(served: &Served) -> Client {
        Client::to(served.site.server.address(), &served.authority)
    }

    pub fn to(server: SocketAddr, authority: &Authority) -> Client {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let authority = authority.pem();
        let (endpoint, connection, control) = runtime.block_on(async {
            let endpoint = Endpoint::client("127.0.0.2:0".parse().unwrap()).unwrap();
            let settings = settings(authority.as_bytes());
            let connection = handshake(&endpoint, &settings, server, "a.example").await.unwrap();
            let mut control = connection.open_uni().await.unwrap();
            control.write_all(&[CONTROL, SETTINGS, 0]).await.unwrap();
            (endpoint, connection, control)
        });
        Client {
            runtime,
            connection,
            _endpoint: endpoint,
            _control: control,
        }
    }

    fn run<T>(&self, steps: impl Future<Output = T>) -> T {
        self.runtime
            .block_on(async { tokio::time::timeout(PATIENCE, steps).await.expect("the step ends") })
    }

    /// The settings of the server, as they come.
    fn settings(&self) -> Vec<u8> {
        self.run(async {
            loop {
                let mut stream = self.connection.accept_uni().await.unwrap();
                let mut head = [0; 3];
                stream.read_exact(&mut head[..1]).await.unwrap();
                if head[0] != CONTROL {
                    continue;
                }
                stream.read_exact(&mut head[1..]).await.unwrap();
                assert_eq!(head[1], SETTINGS);
                let mut settings = vec![0; head[2].into()];
                stream.read_exact(&mut settings).await.unwrap();
                return settings;
            }
        })
    }

    /// Sends an extended CONNECT in parts of `part` bytes. Returns its stream, and whether the
    /// status is 200.
    fn ask(&self, path: &str, protocol: &str, part: usize) -> (Stream<'_>, bool) {
        let length = |text: &str| u8::try_from(text.len()).unwrap();
        let line = |name: &str, value: &str| {
            let name = [&[0x27, length(name) - 7], name.as_bytes()].concat();
            [&name[..], &[length(value)], value.as_bytes()].concat()
        };
        // CONNECT and https; :authority and :path with names of the static table (RFC 9204 §4.5).
        let mut section = vec![0, 0, 0xcf, 0xd7, 0x50, 9];
        section.extend_from_slice(b"a.example");
        section.extend([0x51, length(path)]);
        section.extend_from_slice(path.as_bytes());
        section.extend(line(":protocol", protocol));
        section.extend(line("sec-websocket-version", "13"));
        let size = 0x4000 | u16::try_from(section.len()).unwrap();
        let head = [&[HEADERS as u8], &size.to_be_bytes()[..], &section].concat();
        let (send, receive) = self.run(async {
            let (mut send, receive) = self.connection.open_bi().await.unwrap();
            for part in head.chunks(part) {
                send.write_all(part).await.unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            (send, receive)
        });
        let mut stream = Stream {
            client: self,
            send,
            receive,
            input: Vec::new(),
            left: 0,
        };
        let (kind, length) = stream.frame().unwrap().expect("a response");
        assert_eq!(kind, HEADERS);
        let head = stream.exactly(length).unwrap();
        (stream, head[2] == 0xd9)
    }

    /// Opens a stream for a WebSocket, which must be accepted.
    pub fn open(&self, path: &str) -> Stream<'_> {
        let (stream, is_accepted) = self.ask(path, "websocket", 1000);
        assert!(is_accepted, "{path}");
        stream
    }
}

/// A stream as a connection.
pub struct Stream<'c> {
    client: &'c Client,
    send: SendStream,
    receive: RecvStream,
    /// Received and not looked at.
    input: Vec<u8>,
    /// Bytes of the present DATA frame that are not read.
    left: usize,
}

impl Stream<'_> {
    /// Receives once. Returns whether the stream goes on.
    fn fill(&mut self) -> io::Result<bool> {
        let chunk = self.client.run(self.receive.read_chunk(1 << 16, true));
        match chunk.map_err(io::Error::other)? {
            Some(chunk) => self.input.extend_from_slice(&chunk.bytes),
            None => return Ok(false),
        }
        Ok(true)
    }

    fn exactly(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.input.len() < length {
            if !self.fill()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.input.drain(..length).collect())
    }

    fn variable(&mut self) -> io::Result<u64> {
        let first = self.exactly(1)?[0];
        let rest = self.exactly((1 << (first >> 6)) - 1)?;
        Ok(rest
            .iter()
            .fold(u64::from(first & 0x3f), |value, byte| value << 8 | u64::from(*byte)))
    }

    /// The type and the length of the next frame; `None` at the end of the stream.
    fn frame(&mut self) -> io::Result<Option<(u64, usize)>> {
        if self.input.is_empty() && !self.fill()? {
            return Ok(None);
        }
        Ok(Some((self.variable()?, self.variable()? as usize)))
    }
}

impl Read for Stream<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        while self.left == 0 {
            match self.frame()? {
                None => return Ok(0),
                Some((DATA, length)) => self.left = length,
                Some((_, length)) => drop(self.exactly(length)?),
            }
        }
        if self.input.is_empty() && !self.fill()? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let count = room.len().min(self.left).min(self.input.len());
        room[..count].copy_from_slice(&self.input[..count]);
        self.input.drain(..count);
        self.left -= count;
        Ok(count)
    }
}

impl Write for Stream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let part = &bytes[..bytes.len().min(10_000)];
        let size = 0x4000 | u16::try_from(part.len()).unwrap();
        let frame = [&[DATA as u8], &size.to_be_bytes()[..], part].concat();
        self.client.run(self.send.write_all(&frame)).map_err(io::Error::other)?;
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A site with HTTP/3 whose folder `ws` is the upstream's.
fn served(upstream: &Upstream, more: &str) -> Served {
    let special = Special {
        site: &upstream.keys(more),
        ..Special::default()
    };
    Served::with(&[(".htaccess", &upstream.rules()), ("file.txt", "a file")], &special)
}

#[test]
fn messages_pass_over_http3() {
    let upstream = Upstream::start();
    let served = served(&upstream, "");
    let client = Client::connect(&served);
    // SETTINGS_ENABLE_CONNECT_PROTOCOL (RFC 9220 §5).
    let settings = client.settings();
    assert!(settings.windows(2).any(|pair| pair == [8, 1]), "{settings:?}");
    let mut first = WebSocket::from_raw_socket(client.open("/ws/a"), Role::Client, None);
    // A head that comes byte by byte.
    let (stream, is_accepted) = client.ask("/ws/b", "websocket", 1);
    assert!(is_accepted);
    let mut other = WebSocket::from_raw_socket(stream, Role::Client, None);
    echo(&mut first);
    echo(&mut other);
    assert_eq!(served.connect().get("/file.txt").text(), "a file");
    close(first);
    wait_until("the tunnel is in the log", || {
        // The client's connection moves.
        client.run(async { tokio::time::sleep(Duration::from_millis(5)).await });
        served.site.access_log().contains("\"GET /ws/a HTTP/3.0\" 200 ")
    });
    echo(&mut other);
}

#[test]
fn each_side_of_a_stream_may_end_before_the_other() {
    let (sender, received) = mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let upstream = Upstream::accepting(move |mut stream| {
        let _ = sender.lock().unwrap().send(rest(&mut stream));
        stream.write_all(b"after").unwrap();
    });
    let served = served(&upstream, "");
    let client = Client::connect(&served);
    let mut stream = client.open("/ws/raw");
    stream.write_all(b"all").unwrap();
    stream.send.finish().unwrap();
    let mut after = Vec::new();
    stream.read_to_end(&mut after).unwrap();
    assert_eq!(after, b"after");
    assert_eq!(received.recv_timeout(PATIENCE).unwrap(), b"all");
}

#[test]
fn a_slow_stream_holds_up_no_other() {
    const TOTAL: usize = 16 << 20;
    let upstream = Upstream::accepting(|mut stream| {
        let block = [b'x'; 1 << 16];
        for _ in 0..TOTAL / block.len() {
            stream.write_all(&block).unwrap();
        }
    });
    let served = served(&upstream, "");
    let client = Client::connect(&served);
    let slow = client.open("/ws/raw");
    let other = client.open("/ws/raw");
    for stream in [other, slow] {
        let mut all = Vec::new();
        stream.take(TOTAL as u64 + 1).read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), TOTAL);
    }
}

#[test]
fn a_stream_that_no_upstream_accepts_gets_a_status() {
    let upstream = Upstream::start();
    let served = served(&upstream, "client_tunnels = 1");
    let client = Client::connect(&served);
    for (path, protocol, line) in [
        ("/ws/refused", "websocket", "\"GET /ws/refused HTTP/3.0\" 403 "),
        ("/file.txt", "websocket", "\"GET /file.txt HTTP/3.0\" 400 "),
        ("/none", "websocket", "\"GET /none HTTP/3.0\" 404 "),
        ("/ws/other", "connect-udp", "\"-\" 501 "),
    ] {
        assert!(!client.ask(path, protocol, 1000).1, "{path} {protocol}");
        wait_until("the request is in the log", || {
            client.run(async { tokio::time::sleep(Duration::from_millis(5)).await });
            served.site.access_log().contains(line)
        });
    }
    // An upstream that breaks off.
    let mut stream = client.open("/ws/chat");
    stream.write_all(&[0xff; 64]).unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
    assert_eq!(served.connect().get("/file.txt").text(), "a file");

    let without = Served::new(&[("file.txt", "a file")]);
    let settings = Client::connect(&without).settings();
    assert!(!settings.windows(2).any(|pair| pair == [8, 1]), "no site has upstreams");
}
