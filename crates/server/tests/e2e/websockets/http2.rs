//! WebSockets over HTTP/2: extended CONNECT (RFC 8441).

use std::io::{self, Read, Write};
use std::sync::mpsc;

use bytes::{Buf, Bytes};
use h2::ext::Protocol;
use h2::{RecvStream, SendStream};
use http::Request;
use tungstenite::WebSocket;
use tungstenite::protocol::Role;

use super::upstream::{Upstream, close, echo, rest};
use crate::http2::client::{Http2, Reply, reply};
use crate::site::Site;
use crate::support::{PATIENCE, wait_until};

/// A stream as a connection.
pub struct Stream<'c> {
    client: &'c Http2,
    sender: SendStream<Bytes>,
    receiver: RecvStream,
    unread: Bytes,
}

impl<'c> Stream<'c> {
    /// Opens a stream for a WebSocket, which must be accepted.
    pub fn open(client: &'c Http2, path: &str) -> Stream<'c> {
        let (response, sender) = client.run(async {
            let (pending, sender) = client.begin(ask(client, path, "websocket"), false).await;
            (pending.await.unwrap(), sender)
        });
        assert_eq!(response.status(), 200);
        for name in ["sec-websocket-accept", "upgrade", "connection", "content-length"] {
            assert!(!response.headers().contains_key(name), "{name}");
        }
        let receiver = response.into_body();
        Stream {
            client,
            sender,
            receiver,
            unread: Bytes::new(),
        }
    }

    fn end(&mut self) {
        self.sender.send_data(Bytes::new(), true).unwrap();
    }
}

impl Read for Stream<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        while self.unread.is_empty() {
            match self.client.run(self.receiver.data()) {
                None => return Ok(0),
                Some(part) => self.unread = part.map_err(io::Error::other)?,
            }
        }
        let count = room.len().min(self.unread.len());
        self.unread.copy_to_slice(&mut room[..count]);
        self.receiver.flow_control().release_capacity(count).unwrap();
        Ok(count)
    }
}

impl Write for Stream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sender.reserve_capacity(bytes.len());
        let sender = &mut self.sender;
        let room = self.client.run(async {
            while sender.capacity() == 0 {
                std::future::poll_fn(|context| sender.poll_capacity(context)).await.unwrap()?;
            }
            Ok::<_, h2::Error>(sender.capacity())
        });
        let count = room.map_err(io::Error::other)?.min(bytes.len());
        let part = Bytes::copy_from_slice(&bytes[..count]);
        self.sender.send_data(part, false).map_err(io::Error::other)?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn ask(client: &Http2, path: &str, protocol: &'static str) -> Request<()> {
    let mut request = client.request("CONNECT", path, &[("sec-websocket-version", "13")]);
    request.extensions_mut().insert(Protocol::from_static(protocol));
    request
}

/// The response to an extended CONNECT that is not accepted.
fn refused(client: &Http2, path: &str, protocol: &'static str) -> Reply {
    client.run(async {
        let (pending, _sender) = client.begin(ask(client, path, protocol), false).await;
        reply(pending).await
    })
}

#[test]
fn messages_pass_over_http2() {
    let upstream = Upstream::start();
    let site = upstream.site("");
    let client = Http2::connect(&site);
    assert_eq!(client.get("/file.txt").text(), "a file");
    assert!(client.takes_websockets());
    let mut first = WebSocket::from_raw_socket(Stream::open(&client, "/ws/a"), Role::Client, None);
    let mut other = WebSocket::from_raw_socket(Stream::open(&client, "/ws/b"), Role::Client, None);
    echo(&mut first);
    echo(&mut other);
    assert_eq!(client.get("/file.txt").text(), "a file");
    close(first);
    wait_until("the tunnel is in the log", || {
        // The client's connection moves.
        client.get("/file.txt");
        site.access_log().contains("\"GET /ws/a HTTP/2.0\" 200 ")
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
    let site = upstream.site("");
    let client = Http2::connect(&site);
    let mut stream = Stream::open(&client, "/ws/raw");
    stream.write_all(b"all").unwrap();
    stream.end();
    let mut after = Vec::new();
    stream.read_to_end(&mut after).unwrap();
    assert_eq!(after, b"after");
    assert_eq!(received.recv_timeout(PATIENCE).unwrap(), b"all");
}

#[test]
fn a_slow_stream_holds_up_no_other() {
    const TOTAL: usize = 32 << 20;
    let upstream = Upstream::accepting(|mut stream| {
        let block = [b'x'; 1 << 16];
        for _ in 0..TOTAL / block.len() {
            stream.write_all(&block).unwrap();
        }
    });
    let site = upstream.site("");
    // The slow stream does not fill the window of the connection.
    let mut builder = h2::client::Builder::new();
    builder.initial_connection_window_size(1 << 20);
    let client = Http2::with(site.server.address(), &builder);
    let slow = Stream::open(&client, "/ws/raw");
    assert_eq!(client.get("/file.txt").text(), "a file");
    let mut all = Vec::new();
    slow.take(TOTAL as u64 + 1).read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), TOTAL);
}

#[test]
fn an_upstream_that_breaks_resets_its_stream() {
    let upstream = Upstream::start();
    let site = upstream.site("");
    let client = Http2::connect(&site);
    let mut stream = Stream::open(&client, "/ws/chat");
    // Not a frame of WebSocket: the upstream gives up.
    stream.write_all(&[0xff; 64]).unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert_eq!(client.get("/file.txt").text(), "a file");
}

#[test]
fn a_stream_that_no_upstream_accepts_gets_a_status() {
    let upstream = Upstream::start();
    let site = upstream.site("client_tunnels = 1");
    let client = Http2::connect(&site);
    for (path, protocol, status) in [
        ("/ws/refused", "websocket", 403),
        ("/file.txt", "websocket", 400),
        ("/none", "websocket", 404),
        ("/ws/chat", "connect-udp", 501),
    ] {
        assert_eq!(refused(&client, path, protocol).status, status, "{path} {protocol}");
    }
    let held = Stream::open(&client, "/ws/chat");
    assert_eq!(refused(&client, "/ws/chat", "websocket").status, 429);
    drop(held);
    // An upstream whose answer belongs to another key.
    let other = Upstream::raw(|_| {});
    let site = other.site("");
    let client = Http2::connect(&site);
    assert_eq!(refused(&client, "/ws/chat", "websocket").status, 502);
    site.server.wait_for_log("Sec-WebSocket-Accept");

    let without = Site::new(&[("file.txt", "a file")]);
    let client = Http2::connect(&without);
    assert_eq!(client.get("/file.txt").text(), "a file");
    assert!(!client.takes_websockets(), "no site has upstreams");
}

#[test]
fn a_stream_that_is_reset_behind_its_end_ends_the_tunnel() {
    let upstream = Upstream::accepting(|_stream| std::thread::sleep(PATIENCE));
    let site = upstream.site("");
    let client = Http2::connect(&site);
    let mut stream = Stream::open(&client, "/ws/a");
    stream.end();
    assert_eq!(client.get("/file.txt").text(), "a file");
    stream.sender.send_reset(h2::Reason::CANCEL);
    drop(stream);
    wait_until("the tunnel is in the log", || {
        client.get("/file.txt");
        site.access_log().contains("\"GET /ws/a HTTP/2.0\" 200 ")
    });
}
