//! Upstreams that speak WebSocket, and their clients.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tungstenite::{Message, WebSocket};

use crate::site::{Options, Site};
use crate::support::PATIENCE;

/// A server of WebSockets on a port of its own.
pub struct Upstream {
    pub url: String,
}

impl Upstream {
    /// Starts a server that echoes every message. It refuses `/refused` with 403, and closes its
    /// connection without a word after the first message to `/dies`.
    #[allow(clippy::result_large_err)] // The library's own type.
    pub fn start() -> Upstream {
        Upstream::with(|stream| {
            let mut path = String::new();
            let look = |request: &Request, response: Response| {
                path = request.uri().path().to_owned();
                match path.as_str() {
                    "/refused" => {
                        let mut refusal = ErrorResponse::new(Some("not you".to_owned()));
                        *refusal.status_mut() = http::StatusCode::FORBIDDEN;
                        Err(refusal)
                    }
                    _ => Ok(response),
                }
            };
            let Ok(mut socket) = tungstenite::accept_hdr(stream, look) else {
                return;
            };
            while let Ok(message) = socket.read() {
                if path == "/dies" {
                    return;
                }
                let is_data = message.is_text() || message.is_binary();
                if is_data && socket.send(message).is_err() {
                    return;
                }
            }
        })
    }

    /// Starts a server that handles each connection with `serve`.
    pub fn with(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serve = Arc::new(serve);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serve = Arc::clone(&serve);
                thread::spawn(move || serve(stream));
            }
        });
        Upstream { url }
    }

    /// Starts a server that accepts every WebSocket by hand, and then has `serve` handle the bytes.
    pub fn raw(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Upstream {
        Upstream::with(move |mut stream| {
            read_head(&mut stream);
            stream.write_all(ACCEPTED.as_bytes()).unwrap();
            serve(stream);
        })
    }

    /// Starts a server that accepts every WebSocket with the answer to its key, and then has
    /// `serve` handle the bytes.
    pub fn accepting(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Upstream {
        Upstream::with(move |stream| {
            if let Ok(socket) = tungstenite::accept(stream) {
                serve(socket.get_ref().try_clone().unwrap());
            }
        })
    }

    /// A site whose folder `ws` is this server's.
    pub fn site(&self, more: &str) -> Site {
        self.site_with(&Options {
            site: &self.keys(more),
            ..Options::default()
        })
    }

    /// The keys of such a site.
    pub fn keys(&self, more: &str) -> String {
        let timeout = if more.contains("tunnel_timeout") {
            ""
        } else {
            "tunnel_timeout = \"5m\""
        };
        format!("upstreams = [{:?}]\nupstream_timeout = \"5m\"\n{timeout}\n{more}", self.url)
    }

    /// A site with these options, which have the [keys](Upstream::keys).
    pub fn site_with(&self, options: &Options<'_>) -> Site {
        let rules = self.rules();
        let script = ("script.php", "<?php echo 'from PHP';");
        Site::with(&[(".htaccess", &rules), ("file.txt", "a file"), script], options)
    }

    /// Rules that hand on the folder `ws`.
    pub fn rules(&self) -> String {
        let ws = self.url.replacen("http", "ws", 1);
        format!("RewriteEngine On\nRewriteRule ^ws/(.*)$ {ws}/$1 [P]\n")
    }
}

/// A head that accepts a WebSocket.
pub const ACCEPTED: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\n\
    Connection: Upgrade\r\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// The fields of a request for a WebSocket.
pub const ASKS: [(&str, &str); 4] = [
    ("Connection", "keep-alive, Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

/// Reads a head, and returns it.
pub fn read_head(stream: &mut impl Read) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count > 0) {
        head.extend_from_slice(&byte);
    }
    String::from_utf8(head).unwrap()
}

/// Opens a WebSocket over this connection.
pub fn open<S: Read + Write>(stream: S, path: &str) -> WebSocket<S> {
    let opened = tungstenite::client(format!("ws://localhost{path}"), stream);
    let Ok((socket, response)) = opened else {
        panic!("{path}: {:?}", opened.err())
    };
    assert_eq!(response.status(), 101);
    socket
}

/// A connection to the site.
pub fn connect(site: &Site) -> TcpStream {
    let stream = TcpStream::connect(site.server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A connection on which a WebSocket was opened by hand.
pub fn connect_raw(site: &Site) -> TcpStream {
    let mut stream = connect(site);
    let fields: String = ASKS.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!("GET /ws/raw HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let head = read_head(&mut stream);
    assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
    stream
}

/// Sends messages of many sizes, and compares what comes back.
pub fn echo<S: Read + Write>(socket: &mut WebSocket<S>) {
    for length in [0, 1, 125, 126, 70_000, 3_000_000] {
        let bytes: Vec<u8> = (0..length).map(|number| (number % 251) as u8).collect();
        socket.send(Message::binary(bytes.clone())).unwrap();
        assert_eq!(socket.read().unwrap().into_data(), bytes, "{length}");
    }
    socket.send(Message::text("häh?")).unwrap();
    assert_eq!(socket.read().unwrap(), Message::text("häh?"));
    socket.send(Message::Ping(b"x".to_vec().into())).unwrap();
    assert_eq!(socket.read().unwrap(), Message::Pong(b"x".to_vec().into()));
}

/// Closes with the handshake of WebSocket.
pub fn close<S: Read + Write>(mut socket: WebSocket<S>) {
    socket.close(None).unwrap();
    while socket.read().is_ok() {}
}

/// Reads to the end, which must be an orderly one.
pub fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    rest
}

/// Ends this side alone.
pub fn half_close(stream: &TcpStream) {
    stream.shutdown(Shutdown::Write).unwrap();
}
