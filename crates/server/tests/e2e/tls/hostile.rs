//! Clients that attack the handshake, or speak what is no longer safe.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::client::{Authority, TlsClient, Trust};
use super::{LISTEN, client, file_with_certificate, site};
use crate::site::Site;
use crate::support::{Folder, PATIENCE, wait_until};
use crate::wire::Wire;

/// Types of records (RFC 8446 §5.1).
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
/// Alerts (RFC 8446 §6).
const PROTOCOL_VERSION: u8 = 70;

/// The record with the client's first message, as the library makes it.
pub fn first_record(client: &TlsClient) -> Vec<u8> {
    let mut record = Vec::new();
    client.session("a.example").write_tls(&mut record).unwrap();
    record
}

/// A first message of that version, which knows no later one.
pub fn old_hello(minor: u8, with_signatures: bool) -> Vec<u8> {
    let extension = |kind: u16, content: &[u8]| {
        let length = u16::try_from(content.len()).unwrap();
        [&kind.to_be_bytes()[..], &length.to_be_bytes(), content].concat()
    };
    let name = b"a.example";
    let named = [&[0, 12, 0, 0, 9][..], name].concat();
    let mut extensions = extension(0, &named);
    extensions.extend(extension(10, &[0, 4, 0, 29, 0, 23]));
    extensions.extend(extension(11, &[1, 0]));
    if with_signatures {
        extensions.extend(extension(13, &[0, 4, 4, 3, 4, 1]));
    }
    let mut hello = vec![3, minor];
    hello.extend([7; 32]);
    hello.push(0);
    // Suites that every server of that time had, and one of TLS 1.2.
    hello.extend([0, 6, 0xc0, 0x0a, 0xc0, 0x14, 0xc0, 0x2b]);
    hello.extend([1, 0]);
    hello.extend(u16::try_from(extensions.len()).unwrap().to_be_bytes());
    hello.extend(extensions);
    let length = u32::try_from(hello.len()).unwrap().to_be_bytes();
    let message = [&[1][..], &length[1..], &hello].concat();
    record(HANDSHAKE, &message)
}

pub fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[kind, 3, 1][..], &length, content].concat()
}

/// The alert in what a server has sent before it closed the connection.
fn alert(received: &[u8]) -> Option<u8> {
    match received {
        [ALERT, 3, _, 0, 2, 2, what] => Some(*what),
        _ => None,
    }
}

#[test]
fn old_versions_are_refused_with_the_alert_for_versions() {
    let (site, authority) = site(&[("a.txt", "x")], "");
    let address = site.server.addresses()[1];
    for minor in [0, 1, 2] {
        for with_signatures in [false, true] {
            let mut wire = Wire::connect(address);
            wire.send(old_hello(minor, with_signatures));
            let answer = wire.rest();
            assert_eq!(
                alert(&answer),
                Some(PROTOCOL_VERSION),
                "3.{minor} {with_signatures}: {answer:?}"
            );
        }
    }
    assert_eq!(authority.connect(address, "a.example", Trust::Tls12).get("/a.txt").text(), "x");
}

#[test]
fn records_of_one_byte_are_understood() {
    let (site, authority) = site(&[("a.txt", "x")], "");
    let address = site.server.addresses()[1];
    for trust in [Trust::Tls13, Trust::Tls12] {
        let mut session = authority.client(trust).session("a.example");
        let mut first = Vec::new();
        session.write_tls(&mut first).unwrap();
        let mut wire = Wire::connect(address);
        for byte in &first[5..] {
            wire.send(record(HANDSHAKE, &[*byte]));
        }
        let mut wire = wire.encrypt(session);
        for byte in b"GET /a.txt HTTP/1.1\r\nHost: a.example\r\n\r\n" {
            wire.send([*byte]);
        }
        assert_eq!(wire.reply("GET").text(), "x", "{trust:?}");
    }
}

#[test]
fn what_never_becomes_a_handshake_is_refused() {
    let (site, authority) = site(&[("a.txt", "x")], "");
    let address = site.server.addresses()[1];
    let hello = first_record(&authority.client(Trust::Tls13));
    // A message that claims 16 MB, in records of one byte.
    let endless: Vec<u8> = [1, 0xff, 0xff, 0xff]
        .iter()
        .flat_map(|byte| record(HANDSHAKE, &[*byte]))
        .collect();
    let empty = record(HANDSHAKE, &[]).repeat(1000);
    // Change-cipher-spec means nothing any more, and may come once (RFC 8446 §5).
    let changes = [&hello[..], &record(20, &[1]).repeat(1000)].concat();
    let warnings = [&hello[..], &record(ALERT, &[1, 90]).repeat(1000)].concat();
    for (what, bytes) in [
        ("an endless message", endless),
        ("empty records", empty),
        ("changes of the cipher", changes),
        ("warnings", warnings),
        ("the record of a request", record(23, b"GET / HTTP/1.1\r\n\r\n")),
    ] {
        let mut wire = Wire::connect(address);
        wire.try_send(bytes);
        // Before `handshake_timeout`, whose line the log would have.
        wire.rest();
        assert!(site.log_lines("handshake_timeout").is_empty(), "{what}");
    }
    assert_eq!(authority.connect(address, "a.example", Trust::Tls13).get("/a.txt").text(), "x");
}

/// Each change of keys asks for one of the server's, which is an answer and a computation.
#[test]
fn a_flood_of_key_changes_ends_the_connection() {
    let (site, authority) = site(&[("a.txt", "x")], "");
    let address = site.server.addresses()[1];
    let mut tls = authority.client(Trust::Tls13).session("a.example");
    let mut socket = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    while tls.is_handshaking() {
        tls.complete_io(&mut socket).unwrap();
    }
    let mut records = Vec::new();
    for _ in 0..10_000 {
        tls.refresh_traffic_keys().unwrap();
        tls.write_tls(&mut records).unwrap();
    }
    // The server may have closed the connection already.
    let _ = socket.write_all(&records);
    let mut answers = Vec::new();
    let _ = socket.read_to_end(&mut answers);
    // Tickets, and some answers: no answer for each.
    assert!(answers.len() < 10_000, "{} bytes", answers.len());
    assert_eq!(authority.connect(address, "a.example", Trust::Tls13).get("/a.txt").text(), "x");
}

#[test]
fn what_is_no_content_behind_the_handshake_ends_the_connection() {
    let (site, authority) = site(&[("a.txt", "x")], "");
    let address = site.server.addresses()[1];
    let hello = first_record(&authority.client(Trust::Tls13));
    for trust in [Trust::Tls13, Trust::Tls12] {
        for (what, bytes) in [
            ("a first message", hello.clone()),
            ("a record without encryption", record(23, b"GET /a.txt HTTP/1.1\r\n\r\n")),
            ("a warning", record(ALERT, &[1, 90])),
            ("a record that is too long", [&[23, 3, 3, 0xff, 0xff][..], &[7; 70_000]].concat()),
            ("an unknown kind", record(99, b"x")),
        ] {
            let mut tls = authority.client(trust).session("a.example");
            let mut socket = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            while tls.is_handshaking() {
                tls.complete_io(&mut socket).unwrap();
            }
            let _ = socket.write_all(&bytes);
            let mut rest = Vec::new();
            let ended = socket.read_to_end(&mut rest);
            // The end, or a reset: no time limit.
            let is_late = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
            assert!(!ended.as_ref().is_err_and(is_late), "{trust:?} {what}: {ended:?}");
        }
    }
    assert_eq!(authority.connect(address, "a.example", Trust::Tls13).get("/a.txt").text(), "x");
}

/// Runs a client of OpenSSL. `None`: the machine has none, and the test says so.
fn openssl(site: &Site, authority: &Authority, options: &[&str]) -> Option<std::process::Child> {
    let file = site.path().join("authority.pem");
    std::fs::write(&file, authority.pem()).unwrap();
    let client = Command::new("openssl")
        .args(["s_client", "-connect", &site.server.addresses()[1].to_string()])
        .args(["-servername", "a.example", "-CAfile", file.to_str().unwrap()])
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    match client {
        Ok(client) => Some(client),
        Err(error) => {
            howdah_skip::skip!("openssl: {error}");
            None
        }
    }
}

#[test]
fn a_renegotiation_is_refused() {
    let (site, authority) = site(&[("a.txt", "x")], "");
    let Some(mut client) = openssl(&site, &authority, &["-tls1_2"]) else {
        return;
    };
    let mut input = client.stdin.take().unwrap();
    let mut output = client.stdout.take().unwrap();
    let mut seen = Vec::new();
    let mut read_until = |what: &str| {
        while !String::from_utf8_lossy(&seen).contains(what) {
            let mut room = [0; 4096];
            let count = output.read(&mut room).unwrap();
            assert!(count > 0, "no {what:?} in {}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&room[..count]);
        }
    };
    read_until("Verify return code: 0");
    // It takes this word as an order.
    input.write_all(b"R\n").unwrap();
    let mut said = String::new();
    client.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    client.wait().unwrap();
    assert!(said.contains("no renegotiation"), "{said}");
    assert_eq!(
        authority
            .connect(site.server.addresses()[1], "a.example", Trust::Tls12)
            .get("/a.txt")
            .text(),
        "x"
    );
}

/// A client of long ago, whose handshake cannot be agreed on: the log says so.
#[test]
fn a_client_without_a_common_cipher_is_named_as_such() {
    let (site, authority) = site(&[("a.txt", "x")], "");
    let old = ["-tls1_2", "-cipher", "AES128-SHA:@SECLEVEL=0"];
    let Some(client) = openssl(&site, &authority, &old) else {
        return;
    };
    let output = client.wait_with_output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("alert number 40"), "{said}");
    site.server.wait_for_log("the client has no cipher suite or kind of signature");
}

/// The findings of sslscan, a scanner of Debian.
#[test]
fn a_scanner_finds_nothing_unsafe() {
    if Command::new("sslscan").arg("--version").output().is_err() {
        howdah_skip::skip!("no sslscan; scripts/install-packages.sh test installs it");
        return;
    }
    let authority = Authority::new();
    let pair = authority.certify_rsa(&["a.example"]);
    let folder = client::files(&[("a", &pair)]);
    let site = file_with_certificate(&folder);
    let output = Command::new("sslscan")
        .args(["--no-colour", "--sni-name=a.example", "--connect-timeout=60", "--timeout=60"])
        // It begins a handshake for each group, and waits for the server to give them up.
        .arg("--no-groups")
        .arg(site.server.addresses()[1].to_string())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let words: String = told.split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in [
        "SSLv2 disabled",
        "SSLv3 disabled",
        "TLSv1.0 disabled",
        "TLSv1.1 disabled",
        "TLSv1.2 enabled",
        "TLSv1.3 enabled",
        "Session renegotiation not supported",
        "TLSv1.3 not vulnerable to heartbleed",
        "TLSv1.2 not vulnerable to heartbleed",
    ] {
        assert!(words.contains(expected), "no {expected:?} in {told}");
    }
    let suites: Vec<&str> = told
        .lines()
        .filter(|line| line.starts_with("Preferred") || line.starts_with("Accepted"))
        .collect();
    assert!(suites.len() >= 5, "{told}");
    for suite in suites {
        let is_known = ["GCM", "CHACHA20", "POLY1305"].iter().any(|word| suite.contains(word));
        assert!(is_known && !suite.contains("CBC"), "{suite}");
        let is_forward = suite.contains("TLS_") || suite.contains("ECDHE");
        assert!(is_forward, "{suite}");
    }
}

/// Connections of clients at several addresses that go a part of the handshake's way.
pub fn half_open(address: SocketAddr, client: &TlsClient, count: usize) -> Vec<TcpStream> {
    let hello = first_record(client);
    let parts = [&hello[..0], &hello[..1], &hello[..hello.len() / 2], &hello[..]];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let open = |number: usize| {
        let last = u8::try_from(number % 200 + 20).unwrap();
        let mut stream = runtime.block_on(async {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind((Ipv4Addr::new(127, 0, 0, last), 0).into()).unwrap();
            socket.connect(address).await.unwrap().into_std().unwrap()
        });
        // The server may have closed the connection to make room.
        let _ = stream.write_all(parts[number % parts.len()]);
        stream
    };
    (0..count).map(open).collect()
}

/// The memory of the front, in KB.
pub fn memory(site: &Site) -> u64 {
    let told = site.server.front().status("VmRSS").unwrap();
    told.split(' ').next().unwrap().parse().unwrap()
}

/// The longest of 99 of 100 times that a new client's first response takes.
fn p99(site: &Site, authority: &Authority, visits: usize) -> Duration {
    let address = site.server.addresses()[1];
    let visit = |_| {
        let began = Instant::now();
        let reply = authority.connect(address, "a.example", Trust::Tls13).get("/a.txt");
        assert_eq!(reply.text(), "x");
        began.elapsed()
    };
    let mut times: Vec<Duration> = (0..visits).map(visit).collect();
    times.sort();
    times[(visits * 99 / 100).min(visits - 1)]
}

/// Begins `count` handshakes twice and never ends them, at a server that allows `most` connections.
/// Others are served meanwhile, and the memory comes back.
fn attack(count: usize, most: usize, visits: usize) {
    let authority = Authority::new();
    let folder: Folder = client::files(&[("a", &authority.certify(&["a.example"]))]);
    let site = Site::configured(
        &[("a.txt", "x")],
        &format!(
            "{LISTEN}threads = 2\ncontrol = \"control\"\n[limits]\nconnections = {most}\n\
             client_connections = 4000\n\
             handshake_timeout = \"5m\"\nhead_timeout = \"5m\"\n[[site]]\nhosts = [\"a.example\"]\n\
             root = \"public\"\nphp = false\ntls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\", \
             redirect = false }}\n",
            folder.path().display()
        ),
    );
    let address = site.server.addresses()[1];
    let mut figures = vec![p99(&site, &authority, visits)];
    let mut sizes = vec![memory(&site)];
    for _ in 0..2 {
        let held = half_open(address, &authority.client(Trust::Tls13), count);
        wait_until("the connections are open", || site.connections() >= count.min(most) - 1);
        // Each of the two threads may have looked at the number before the other accepted.
        assert!(site.connections() <= most + 1, "{} connections", site.connections());
        figures.push(p99(&site, &authority, visits));
        sizes.push(memory(&site));
        drop(held);
        wait_until("the connections are closed", || site.connections() == 0);
        sizes.push(memory(&site));
    }
    println!("{count} handshakes: p99 {figures:?}; memory in KB {sizes:?}");
    // The second time needs no more than the first has left: 4 MB for what the allocator does.
    assert!(sizes[4] <= sizes[2] + 4096, "memory in KB {sizes:?}");
    let lines = site.log_lines("the TLS handshake failed").len();
    assert!(lines <= 2 * count / 3, "{lines} lines in the log");
}

#[test]
fn half_open_handshakes_keep_nobody_out() {
    attack(300, 4000, 20);
}

#[test]
fn half_open_handshakes_make_room_for_others() {
    attack(300, 100, 20);
}

#[test]
#[ignore = "takes a minute and 20,000 descriptors: make attacks"]
fn ten_thousand_half_open_handshakes_keep_nobody_out() {
    // Both ends are of this machine; the server's process inherits the limit.
    let limit = howdah_sys::process::raise_descriptor_limit(20_000).unwrap();
    assert!(limit >= 12_000, "ulimit -n is {limit}");
    attack(10_000, 11_000, 500);
    attack(10_000, 5_000, 500);
}

#[test]
fn a_wait_in_the_handshake_is_no_wait_for_others() {
    let (site, authority) = site(&[("a.txt", "x")], "");
    let address = site.server.addresses()[1];
    let hello = first_record(&authority.client(Trust::Tls13));
    let mut slow = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
    for part in hello.chunks(hello.len() / 4) {
        slow.write_all(part).unwrap();
        assert_eq!(authority.connect(address, "a.example", Trust::Tls13).get("/a.txt").text(), "x");
    }
    slow.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut first = [0; 6];
    slow.read_exact(&mut first).unwrap();
    assert_eq!((first[0], first[5]), (HANDSHAKE, 2), "the server's first message");
}

#[test]
fn a_client_that_takes_nothing_is_not_waited_for_twice() {
    let authority = Authority::new();
    let folder = client::files(&[("a", &authority.certify(&["a.example"]))]);
    let config = format!(
        "{LISTEN}[limits]\nsend_timeout = \"2s\"\n[[site]]\nhosts = [\"a.example\"]\n\
         root = \"public\"\nphp = false\n\
         tls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\" }}\n",
        folder.path().display()
    );
    let site = Site::configured(&[], &config);
    site.file("big.bin", vec![b'x'; 64 << 20]);
    let mut wire = authority.connect(site.server.addresses()[1], "a.example", Trust::Tls13);
    wire.request("GET", "/big.bin", &[("Host", "a.example")], b"");
    site.server.wait_for_log("nothing was taken for `send_timeout`");
    // A server that waits again would send the rest of what it has encrypted, and a goodbye.
    assert!(!wire.ends_in_order());
}

/// The last bytes of a response wait in the server, the socket is full, and the rest of the request
/// is still to come.
#[test]
fn clients_that_do_not_read_the_end_of_a_response_are_given_up() {
    let authority = Authority::new();
    let folder = client::files(&[("a", &authority.certify(&["a.example"]))]);
    let config = format!(
        "{LISTEN}control = \"control\"\n[limits]\nsend_timeout = \"1s\"\n[http3]\n\
         enabled = false\n[[site]]\nhosts = [\"a.example\"]\nroot = \"public\"\nphp = false\n\
         tls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\" }}\n",
        folder.path().display()
    );
    let site = Site::configured(&[], &config);
    site.file("big.bin", vec![b'x'; 5 << 20]);
    let mut trusting = authority.client(Trust::Tls13);
    // The system chooses how much a socket takes. The server takes 64 KiB at once.
    let held = (8..80).map(|many: usize| {
        let mut wire = trusting.connect(site.server.addresses()[1], "a.example");
        let range = format!("bytes=0-{}", many * 65_536 - 4096);
        let fields = [
            ("Host", "a.example"),
            ("Range", &range),
            ("Content-Length", "1"),
            ("Expect", "100-continue"),
        ];
        wire.request("GET", "/big.bin", &fields, b"");
        wire
    });
    let held: Vec<Wire> = held.collect();
    wait_until("the connections are closed", || site.connections() == 0);
    drop(held);
}
