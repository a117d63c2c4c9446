//! Records of clients that arrive in parts.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::LISTEN;
use super::client::{self, Authority, Trust};
use crate::site::Site;
use crate::support::PATIENCE;

/// A connection whose records the test sends by hand.
struct ByHand {
    tls: rustls::ClientConnection,
    socket: TcpStream,
}

impl ByHand {
    fn connect(site: &Site, authority: &Authority) -> ByHand {
        let mut tls = authority.client(Trust::Tls13).session("a.example");
        let mut socket = TcpStream::connect(site.server.addresses()[1]).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        while tls.is_handshaking() {
            tls.complete_io(&mut socket).unwrap();
        }
        ByHand { tls, socket }
    }

    /// The record with a request.
    fn request(&mut self) -> Vec<u8> {
        self.tls
            .writer()
            .write_all(b"GET /a.txt HTTP/1.1\r\nHost: a.example\r\n\r\n")
            .unwrap();
        let mut record = Vec::new();
        self.tls.write_tls(&mut record).unwrap();
        record
    }

    /// Reads a response up to its content, which is `x`.
    fn expect_response(&mut self) {
        let mut response = Vec::new();
        let mut stream = rustls::Stream::new(&mut self.tls, &mut self.socket);
        while !response.ends_with(b"\r\n\r\nx") {
            let mut room = [0; 1024];
            let count = stream.read(&mut room).expect("the server answers");
            assert!(count > 0, "closed after {}", response.escape_ascii());
            response.extend_from_slice(&room[..count]);
        }
        assert!(response.starts_with(b"HTTP/1.1 200 "), "{}", response.escape_ascii());
    }
}

/// The time limit of the connection passes while half of the record with its request is there. One
/// thread reads it before it answers the other connection.
#[test]
fn a_request_that_has_arrived_in_part_is_answered_though_its_connection_was_idle() {
    let authority = Authority::new();
    let folder = client::files(&[("a", &authority.certify(&["a.example"]))]);
    let site = Site::configured(
        &[("a.txt", "x")],
        &format!(
            "{LISTEN}threads = 1\n[limits]\nkeep_alive_timeout = \"1s\"\nhead_timeout = \"5m\"\n\
             [[site]]\nhosts = [\"a.example\"]\nroot = \"public\"\nphp = false\n\
             tls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\" }}\n",
            folder.path().display()
        ),
    );
    let mut first = ByHand::connect(&site, &authority);
    for split in [1, 4, 5, 20] {
        let whole = first.request();
        first.socket.write_all(&whole).unwrap();
        first.expect_response();
        let record = first.request();
        first.socket.write_all(&record[..split]).unwrap();
        let mut other = authority.connect(site.server.addresses()[1], "a.example", Trust::Tls13);
        assert_eq!(other.get("/a.txt").text(), "x");
        // It has been idle for less time than the first.
        other.expect_close();
        first.socket.write_all(&record[split..]).unwrap();
        first.expect_response();
    }
}

/// A client that never sends the rest is not waited for.
#[test]
fn a_record_that_never_ends_keeps_no_connection() {
    let authority = Authority::new();
    let folder = client::files(&[("a", &authority.certify(&["a.example"]))]);
    let site = Site::configured(
        &[("a.txt", "x")],
        &format!(
            "{LISTEN}[limits]\nkeep_alive_timeout = \"1s\"\nhead_timeout = \"2s\"\n\
             [[site]]\nhosts = [\"a.example\"]\nroot = \"public\"\nphp = false\n\
             tls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\" }}\n",
            folder.path().display()
        ),
    );
    let mut client = ByHand::connect(&site, &authority);
    let whole = client.request();
    client.socket.write_all(&whole).unwrap();
    client.expect_response();
    let record = client.request();
    client.socket.write_all(&record[..9]).unwrap();
    let mut rest = Vec::new();
    client.socket.read_to_end(&mut rest).expect("the server closes the connection");
}
