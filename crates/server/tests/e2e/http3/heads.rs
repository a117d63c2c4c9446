//! Heads and trailers that never end: what the server keeps of them counts in the client's memory.

use h3::error::Code;
use quinn::{ReadError, ReadToEndError, RecvStream, SendStream, VarInt};

use super::client::Http3;
use super::frames::{DATA, GET, HEADERS, POST, frame, number, section};
use super::{Served, Special};
use crate::support::{has_php, wait_until};

/// The begin of a HEADERS frame with this section and a long field behind it. [`END`] bytes are
/// missing.
fn unfinished(section: &[u8]) -> Vec<u8> {
    // A literal name and a value of `LONG` bytes (RFC 9204 §4.5.6, RFC 7541 §5.1).
    let line = [&[0x21, b'x'][..], &[0x7f, 0xe1, 0x9d, 0x06], &[b'y'; LONG - END]].concat();
    let length = (section.len() + line.len() + END) as u32 | 0b10 << 30;
    [&[HEADERS][..], &length.to_be_bytes(), section, &line].concat()
}

/// Bytes of the value: 127 + 0x61 + (0x1d << 7) + (0x06 << 14).
const LONG: usize = 127 + 0x61 + (0x1d << 7) + (0x06 << 14);
/// Bytes of the value that are sent last.
const END: usize = 10;

/// A request whose last bytes are missing.
type Begun = (SendStream, RecvStream);

/// Begins that many requests with these bytes.
fn begin(client: &Http3, requests: usize, bytes: &[u8]) -> Vec<Begun> {
    let connection = client.connection.clone();
    client.run(async move {
        let mut begun = Vec::new();
        for _ in 0..requests {
            let (mut send, receive) = connection.open_bi().await.unwrap();
            // A server that refuses the request stops the stream.
            let _ = send.write_all(bytes).await;
            begun.push((send, receive));
        }
        begun
    })
}

/// Sends the rest of a request. Returns the response, or the code with which it was refused.
fn finish(client: &Http3, (mut send, mut receive): Begun) -> Result<Vec<u8>, VarInt> {
    client.run(async move {
        let _ = send.write_all(&[b'y'; END]).await;
        let _ = send.finish();
        match receive.read_to_end(100_000).await {
            Ok(response) => Ok(response),
            Err(ReadToEndError::Read(ReadError::Reset(code))) => Err(code),
            Err(error) => panic!("{error}"),
        }
    })
}

#[test]
fn heads_that_never_end_take_no_more_memory_than_their_client_may_have() {
    let special = Special {
        limits: "client_memory = \"1M\"\nfield_line = \"256K\"\nfields_total = \"256K\"",
        ..Special::default()
    };
    let served = Served::with(&[("a.txt", "hello")], &special);
    let client = served.connect();
    let head = unfinished(&section(GET, "/a.txt"));
    let begun = begin(&client, 30, &head);
    let refused = || served.site.limits_met("http3", "client_memory");
    // Each takes more than 100 KB.
    wait_until("most are refused", || refused() >= 20);
    served
        .site
        .server
        .wait_for_log("the heads of the client's requests take as much memory as `client_memory`");
    let ends: Vec<_> = begun.into_iter().map(|one| finish(&client, one)).collect();
    let answered = ends.iter().flatten().filter(|response| response.ends_with(b"hello")).count();
    let rejected = ends
        .iter()
        .filter(|end| **end == Err(number(Code::H3_REQUEST_REJECTED)))
        .count();
    assert!(answered > 0 && answered + rejected == ends.len(), "{answered} and {rejected}");
    assert_eq!(rejected as u64, refused());
    // There is room again.
    for _ in 0..30 {
        let one = begin(&client, 1, &head).remove(0);
        assert!(finish(&client, one).is_ok_and(|response| response.ends_with(b"hello")));
    }
}

#[test]
fn trailers_that_never_end_take_no_memory() {
    if !has_php() {
        return;
    }
    let script = ("length.php", "<?php echo strlen(file_get_contents('php://input')), '.';");
    let special = Special {
        limits: "client_memory = \"1M\"",
        ..Special::default()
    };
    let served = Served::with(&[script], &special);
    let client = served.connect();
    let parts =
        [frame(HEADERS, &section(POST, "/length.php")), frame(DATA, b"hello"), unfinished(&[0, 0])];
    let begun = begin(&client, 30, &parts.concat());
    for one in begun {
        let response = finish(&client, one).unwrap();
        assert!(response.ends_with(b"5."), "{}", response.escape_ascii());
    }
    assert_eq!(served.site.limits_met("http3", "client_memory"), 0);
}
