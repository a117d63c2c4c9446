//! Early data (0-RTT): requests before the end of the handshake.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

use howdah_sys::signal::SIGHUP;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use super::client::{self, Authority, Trust};
use super::{LISTEN, site_with_tls};
use crate::http2::client::Http2;
use crate::site::Site;
use crate::support::{Folder, PATIENCE, has_php, wait_until};
use crate::wire::Wire;

/// Counts its runs, and tells whether the request was early.
pub const SCRIPT: (&str, &str) = (
    "early.php",
    "<?php file_put_contents($_GET['in'] . '/runs', 'x', FILE_APPEND); echo 'early=', \
        $_SERVER['HTTP_EARLY_DATA'] ?? 'no', '.';",
);

/// A client that has begun a handshake, and sent early data with its first message.
struct Early {
    session: ClientConnection,
    socket: TcpStream,
    /// The bytes of the client's first message and of the early data.
    sent: Vec<u8>,
    received: Vec<u8>,
}

impl Early {
    fn begin(address: SocketAddr, settings: &Arc<ClientConfig>, data: &[u8]) -> Early {
        let mut session = session(settings);
        let mut early = session.early_data().expect("the server takes early data");
        early.write_all(data).unwrap();
        let mut sent = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut sent).unwrap();
        }
        let mut socket = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(&sent).unwrap();
        Early {
            session,
            socket,
            sent,
            received: Vec::new(),
        }
    }

    /// Reads, and sends nothing, until `what` has come.
    fn read_until(&mut self, what: &str) -> String {
        loop {
            let at = self.received.windows(what.len()).position(|part| part == what.as_bytes());
            if let Some(at) = at {
                let text: Vec<u8> = self.received.drain(..at + what.len()).collect();
                return String::from_utf8_lossy(&text).into_owned();
            }
            let is_open = self.read();
            assert!(is_open, "no {what:?} in {}", String::from_utf8_lossy(&self.received));
        }
    }

    /// Reads once. Returns whether the server has not closed the connection.
    fn read(&mut self) -> bool {
        let count = self.session.read_tls(&mut self.socket).unwrap();
        let state = self.session.process_new_packets().unwrap();
        let mut bytes = vec![0; state.plaintext_bytes_to_read()];
        self.session.reader().read_exact(&mut bytes).unwrap();
        self.received.extend(bytes);
        count > 0
    }

    /// Ends the handshake, and sends `data`.
    fn go_on(&mut self, data: &[u8]) {
        while self.session.is_handshaking() {
            assert!(self.read(), "the server ends the handshake");
        }
        self.session.writer().write_all(data).unwrap();
        while self.session.wants_write() {
            self.session.write_tls(&mut self.socket).unwrap();
        }
    }
}

fn session(settings: &Arc<ClientConfig>) -> ClientConnection {
    let name = ServerName::try_from("a.example").unwrap();
    ClientConnection::new(Arc::clone(settings), name).unwrap()
}

/// A site that takes early data or not, the folder of its certificate, and a client that has a
/// session with it.
fn visited(tls: &str) -> (Site, Folder, Arc<ClientConfig>) {
    let (site, authority, folder) = early_site(tls);
    let mut settings = authority.client(Trust::Tls13).settings();
    settings.enable_early_data = true;
    let settings = Arc::new(settings);
    let mut wire = Wire::encrypted(site.server.addresses()[1], session(&settings));
    assert_eq!(wire.get("/a.txt").text(), "hello");
    (site, folder, settings)
}

fn early_site(tls: &str) -> (Site, Authority, Folder) {
    site_with_tls(&[("a.txt", "hello"), SCRIPT], tls, "")
}

pub fn runs(site: &Site) -> usize {
    std::fs::read(site.scratch().join("runs")).unwrap_or_default().len()
}

fn get(site: &Site, target: &str) -> Vec<u8> {
    format!("GET {} HTTP/1.1\r\nHost: a.example\r\n\r\n", site.awaiting(target)).into_bytes()
}

#[test]
fn a_safe_request_is_answered_before_the_end_of_the_handshake() {
    let (site, _folder, settings) = visited(", early_data = true");
    let address = site.server.addresses()[1];
    // Some clients say that they send nothing.
    for more in ["", "Content-Length: 0\r\n"] {
        let asked = format!("GET /a.txt HTTP/1.1\r\nHost: a.example\r\n{more}\r\n");
        let mut early = Early::begin(address, &settings, asked.as_bytes());
        assert!(early.read_until("hello").starts_with("HTTP/1.1 200 "), "{more}");
        assert!(early.session.is_early_data_accepted());
        early.go_on(b"");
        let mut wire = Wire::encrypted(address, session(&settings));
        assert_eq!(wire.get("/a.txt").text(), "hello");
    }
    if has_php() {
        let mut early = Early::begin(address, &settings, &get(&site, "/a.txt"));
        early.read_until("hello");
        early.go_on(&get(&site, "/early.php"));
        early.read_until("early=no.");
        let mut early = Early::begin(address, &settings, &get(&site, "/early.php"));
        early.read_until("early=1.");
        // The same connection goes on after the handshake.
        early.go_on(&get(&site, "/early.php"));
        early.read_until("early=no.");
        assert_eq!(runs(&site), 3);
        // A request that is complete only after the client's early data is not early any more.
        let request = get(&site, "/early.php");
        let (first, rest) = request.split_at(30);
        let mut early = Early::begin(address, &settings, first);
        early.go_on(rest);
        early.read_until("early=no.");
    }
}

#[test]
fn a_request_that_may_change_something_is_too_early() {
    let (site, _folder, settings) = visited(", early_data = true");
    let address = site.server.addresses()[1];
    let more = |more: &str| format!("/early.php HTTP/1.1\r\nHost: a.example\r\n{more}\r\n");
    for request in [
        format!("POST {}", more("Content-Length: 0\r\n")),
        format!("POST {}x=1", more("Content-Length: 3\r\n")),
        format!("GET {}x=1", more("Content-Length: 3\r\n")),
        format!("DELETE {}", more("")),
        format!("OPTIONS {}", more("")),
        format!("GET {}", more("Connection: Upgrade\r\nUpgrade: websocket\r\n")),
    ] {
        let mut early = Early::begin(address, &settings, request.as_bytes());
        let answer = early.read_until("\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 425 Too Early\r\n"), "{request}: {answer}");
        // Each session is used once, and the end of a handshake brings others.
        early.go_on(b"");
        let mut wire = Wire::encrypted(address, session(&settings));
        assert_eq!(wire.get("/a.txt").text(), "hello");
    }
    if has_php() {
        assert_eq!(runs(&site), 0);
        let mut wire = Wire::encrypted(address, session(&settings));
        let reply = wire.ask("POST", &site.awaiting("/early.php"), &[], b"x=1");
        assert_eq!((reply.status, reply.text()), (200, "early=no."));
    }
}

#[test]
fn early_data_for_another_site_with_the_certificate_is_too_early() {
    let authority = Authority::new();
    let pair = authority.certify(&["a.example", "b.example"]);
    let folder = client::files(&[("a", &pair)]);
    let table = |name: &str, more: &str| {
        format!(
            "[[site]]\nhosts = [\"{name}\"]\nroot = \"public\"\nphp = false\n\
             tls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\"{more} }}\n",
            folder.path().display()
        )
    };
    let tables = table("a.example", ", early_data = true") + &table("b.example", "");
    let site = Site::configured(&[("a.txt", "hello")], &format!("{LISTEN}{tables}"));
    let address = site.server.addresses()[1];
    let mut settings = authority.client(Trust::Tls13).settings();
    settings.enable_early_data = true;
    let settings = Arc::new(settings);
    for (host, status) in [("a.example", "200 OK"), ("b.example", "425 Too Early")] {
        let mut wire = Wire::encrypted(address, session(&settings));
        assert_eq!(wire.ask("GET", "/a.txt", &[("Host", host)], b"").text(), "hello");
        let asked = format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let mut early = Early::begin(address, &settings, asked.as_bytes());
        let answer = early.read_until("\r\n\r\n");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{host}: {answer}");
    }
}

#[test]
fn recorded_early_data_is_not_answered_again() {
    if !has_php() {
        return;
    }
    let (site, _folder, settings) = visited(", early_data = true");
    let address = site.server.addresses()[1];
    let mut early = Early::begin(address, &settings, &get(&site, "/early.php"));
    early.read_until("early=1.");
    for _ in 0..3 {
        let mut replay = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
        replay.set_read_timeout(Some(PATIENCE)).unwrap();
        replay.write_all(&early.sent).unwrap();
        replay.read_exact(&mut [0]).unwrap();
        replay.shutdown(Shutdown::Write).unwrap();
        // The server has done what it does with the bytes.
        let _ = replay.read_to_end(&mut Vec::new());
    }
    assert_eq!(runs(&site), 1);
}

#[test]
fn sessions_end_with_a_reload() {
    let (site, _folder, settings) = visited(", early_data = true");
    let address = site.server.addresses()[1];
    let front = site.server.front();
    site.server.signal(SIGHUP);
    wait_until("the former front has ended", || !front.lives());
    let asked = b"GET /a.txt HTTP/1.1\r\nHost: a.example\r\n\r\n";
    let mut early = Early::begin(address, &settings, asked);
    early.go_on(asked);
    assert!(!early.session.is_early_data_accepted());
    assert!(early.read_until("hello").starts_with("HTTP/1.1 200 "));
}

#[test]
fn no_early_data_is_taken_without_the_key() {
    let (_site, _folder, settings) = visited("");
    assert!(session(&settings).early_data().is_none());
}

#[test]
fn early_data_carries_requests_of_http2() {
    if !has_php() {
        return;
    }
    let (site, authority, _folder) = early_site(", early_data = true");
    let address = site.server.addresses()[1];
    let mut settings = authority.client(Trust::Tls13).settings();
    settings.enable_early_data = true;
    settings.alpn_protocols = vec![b"h2".to_vec()];
    let client = Http2::encrypted_as(address, settings.clone(), "a.example");
    assert_eq!(client.get("/a.txt").text(), "hello");
    let settings = Arc::new(settings);
    let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
    };
    // :method, :scheme, :path and :authority without compression (RFC 7541 §6.2.2).
    let head = |method: u8| {
        let path = site.awaiting("/early.php").into_bytes();
        let path = [&[0x04, u8::try_from(path.len()).unwrap()], &path[..]].concat();
        [&[method, 0x87], &path[..], &[0x01, 9], b"a.example"].concat()
    };
    let settings_frame = frame(4, 0, 0, &[]);
    let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &settings_frame[..]].concat();
    let [get, post] = [0x82, 0x83].map(|method| frame(1, 5, 1, &head(method)));
    for (request, answer) in [(get, "early=1."), (post, "Too Early")] {
        let mut early = Early::begin(address, &settings, &[&preface[..], &request].concat());
        early.read_until(answer);
        early.go_on(&frame(1, 5, 3, &head(0x83)));
        early.read_until("early=no.");
    }
    assert_eq!(runs(&site), 3);
}
