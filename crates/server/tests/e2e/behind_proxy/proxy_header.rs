//! Listeners that take the PROXY protocol.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;

use super::SCRIPT;
use crate::site::Site;
use crate::support::{PATIENCE, has_php, wait_until};
use crate::wire::Wire;

/// A listener without the protocol, and others with it.
fn site(trusted: &str) -> Site {
    site_with(trusted, "5m")
}

fn site_with(trusted: &str, head_timeout: &str) -> Site {
    let config = format!(
        "listen = [\"127.0.0.1:0\", {{ address = \"127.0.0.2:0\", proxy_protocol = true, trusted = \
         {trusted} }},\
         {{ address = \"unix:proxy.sock\", proxy_protocol = true, trusted = {trusted} }}]\n\
         trusted_proxies = [\"10.0.0.0/8\"]\ncontrol = \"control\"\n[limits]\n\
         head_timeout = \"{head_timeout}\"\n\
         [log]\naccess = \"access.log\"\n[[site]]\nroot = \"public\"\n\
         rules = '''\nRewriteEngine On\n\
         RewriteRule ^ - \
         [E=SEEN:%{{REMOTE_ADDR}}|%{{HTTPS}}|%{{SERVER_ADDR}}|%{{CONN_REMOTE_ADDR}}]\n\
         Header set X-Seen %{{SEEN}}e\n'''\n\
         [site.php]\nworkers = 1\nstate_dir = \"state\"\n"
    );
    Site::configured(&[("a.txt", "a"), ("a.php", SCRIPT)], &config)
}

fn address(site: &Site) -> SocketAddr {
    site.server.addresses()[1]
}

const LINE: &[u8] = b"PROXY TCP4 192.0.2.7 198.51.100.1 4444 443\r\n";
const TLS: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x14\xc0\0\x02\x08\xc6\x33\x64\x01\x11\x5c\x01\xbb\x20\0\x05\x01\0\0\0\0";
const HEALTH_CHECK: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

#[test]
fn a_header_whose_value_of_tls_is_cut_is_refused() {
    let site = site("true");
    // One byte, which says that the client spoke TLS, without the four that follow it.
    let mut cut = TLS[..TLS.len() - 4].to_vec();
    (cut[15], cut[30]) = (0x10, 1);
    let mut wire = Wire::connect(address(&site));
    wire.send(&cut);
    wire.expect_close();
    site.server.wait_for_log(
        "closed a connection that needs a PROXY header: the value of TLS (PP2_TYPE_SSL) in the \
         PROXY header has less than 5 bytes",
    );
}

#[test]
fn the_header_names_the_client() {
    let site = site("true");
    for (header, expected) in [
        (LINE, "192.0.2.7|off|198.51.100.1|127.0.0.1"),
        (TLS, "192.0.2.8|on|198.51.100.1|127.0.0.1"),
        (HEALTH_CHECK, "127.0.0.1|off|127.0.0.2|127.0.0.1"),
        (b"PROXY UNKNOWN\r\n", "127.0.0.1|off|127.0.0.2|127.0.0.1"),
        (b"PROXY TCP6 2001:db8::7 2001:db8::1 1 2\r\n", "2001:db8::7|off|2001:db8::1|127.0.0.1"),
    ] {
        let mut wire = Wire::connect(address(&site));
        wire.send(header);
        for _ in 0..3 {
            let forged = [("X-Forwarded-For", "203.0.113.66"), ("X-Forwarded-Proto", "https")];
            let reply = wire.ask("GET", "/a.txt", &forged, b"");
            assert_eq!(reply.field("x-seen"), Some(expected), "{}", header.escape_ascii());
        }
    }
    wait_until("it is logged", || site.access_log().contains("192.0.2.7 - - "));
    // A trusted proxy behind the one that sends the header.
    let mut wire = Wire::connect(address(&site));
    wire.send("PROXY TCP4 10.0.0.1 198.51.100.1 4444 443\r\n");
    let reply = wire.ask("GET", "/a.txt", &[("X-Forwarded-For", "203.0.113.5")], b"");
    assert_eq!(reply.field("x-seen"), Some("203.0.113.5|off|198.51.100.1|127.0.0.1"));
}

#[test]
fn scripts_see_https_behind_a_proxy_that_ends_tls() {
    if !has_php() {
        return;
    }
    let site = site("true");
    let mut wire = Wire::connect(address(&site));
    wire.send(TLS);
    let reply = wire.ask("GET", "/a.php", &[("Host", "a.example")], b"");
    assert!(
        reply.text().starts_with(
            "REMOTE_ADDR=192.0.2.8\nHTTPS=on\nREQUEST_SCHEME=https\nSERVER_PORT=443\n\
             SERVER_NAME=a.example\n"
        ),
        "{}",
        reply.text()
    );
}

#[test]
fn the_header_may_come_in_any_pieces_and_with_the_request() {
    let site = site("true");
    for header in [LINE, TLS] {
        let whole =
            [header, b"GET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"].concat();
        for step in [1, 7, 13, whole.len()] {
            let mut stream = TcpStream::connect(address(&site)).unwrap();
            stream.set_nodelay(true).unwrap();
            for piece in whole.chunks(step) {
                stream.write_all(piece).unwrap();
            }
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.contains("X-Seen: 192.0.2."), "{answer}");
        }
    }
    let mut stream = UnixStream::connect(site.path().join("proxy.sock")).unwrap();
    let request = [LINE, b"GET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"].concat();
    stream.write_all(&request).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("X-Seen: 192.0.2.7|"), "{answer}");
}

/// Everything that the server says to these bytes before it closes the connection.
fn answer(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    // A reset is a closed connection as well.
    let _ = stream.read_to_end(&mut answer);
    answer
}

#[test]
fn a_connection_without_the_header_is_closed() {
    let (site, impatient) = (site("true"), site_with("true", "1s"));
    for (site, bytes) in [
        (&site, &b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n"[..]),
        (&site, b"PROXY TCP4 rubbish\r\nGET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n"),
        (&impatient, b"PROXY TCP4 192.0.2.7"),
        (&impatient, b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff"),
        (&impatient, b""),
    ] {
        let answer = answer(address(site), bytes);
        assert_eq!(answer, b"", "{}", bytes.escape_ascii());
    }
    site.server
        .wait_for_log("needs a PROXY header: it does not begin with a PROXY header");
    impatient.server.wait_for_log("the header took longer than `head_timeout`");
    // The other listener takes the header for what it is there: no HTTP.
    let mut wire = site.connect();
    wire.send([LINE, b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
    assert_eq!(wire.reply("GET").status, 400);
}

#[test]
fn an_untrusted_peer_may_not_send_the_header() {
    let site = site("[\"192.0.2.1\"]");
    let request = [LINE, b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
    assert_eq!(answer(address(&site), &request), b"");
    site.server
        .wait_for_log("needs a PROXY header: the peer is not trusted to send it");
    wait_until("the connections are gone", || site.get("/a.txt").status == 200);
}
