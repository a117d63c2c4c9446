//! Requests whose frames a test writes itself: empty and short ones, cut ones, repeated fields.

use std::time::{Duration, Instant};

use h3::error::Code;
use quinn::{ConnectionError, ReadToEndError, VarInt};

use super::client::Http3;
use super::{Served, Special};
use crate::support::has_php;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;

/// A frame with a payload of less than 16 KiB.
pub(super) fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(payload.len()).unwrap().to_be_bytes();
    [&[kind, 0x40 | high, low], payload].concat()
}

/// The field section of a request: lines of the static table, and a path.
pub(super) fn section(method: u8, target: &str) -> Vec<u8> {
    let mut section = vec![0, 0, method, 0xd7, 0x50, 9];
    section.extend_from_slice(b"a.example");
    section.extend_from_slice(&[0x51, u8::try_from(target.len()).unwrap()]);
    section.extend_from_slice(target.as_bytes());
    section
}

/// `:method: POST` and `:method: GET`.
pub(super) const POST: u8 = 0xd4;
pub(super) const GET: u8 = 0xd1;

/// Sends `bytes` on a new stream, and ends it. Returns what the server sends there.
fn exchange(client: &Http3, bytes: &[u8]) -> Result<Vec<u8>, ReadToEndError> {
    let connection = client.connection.clone();
    client.run(async move {
        let (mut send, mut receive) = connection.open_bi().await.unwrap();
        // A server that refuses the request may stop the stream.
        let _ = send.write_all(bytes).await;
        let _ = send.finish();
        receive.read_to_end(100_000).await
    })
}

pub(super) fn number(code: Code) -> VarInt {
    VarInt::from_u64(code.value()).unwrap()
}

const LENGTH: (&str, &str) =
    ("length.php", "<?php echo 'length ', strlen(file_get_contents('php://input')), '.';");

#[test]
fn an_upload_goes_on_behind_an_empty_frame() {
    if !has_php() {
        return;
    }
    let served = Served::new(&[LENGTH]);
    let client = served.connect();
    let head = frame(HEADERS, &section(POST, "/length.php"));
    let (empty, unknown) = (frame(DATA, b""), frame(0x21, b"grease"));
    let trailers = frame(HEADERS, &[0, 0, 0x21, b'x', 1, b'y']);
    let parts = [
        &unknown[..],
        &head,
        &empty,
        &frame(DATA, b"he"),
        &empty,
        &unknown,
        &frame(DATA, b"llo"),
        &empty,
        &trailers,
        &unknown,
    ];
    let answer = exchange(&client, &parts.concat()).unwrap();
    assert!(answer.ends_with(b"length 5."), "{}", answer.escape_ascii());
    // More frames than anybody would send, each with a byte.
    let short: Vec<u8> = [head, [DATA, 1, b'x'].repeat(100_000)].concat();
    let answer = exchange(&client, &short).unwrap();
    assert!(answer.ends_with(b"length 100000."), "{}", answer.escape_ascii());
}

/// Sends a short content after the response to its request. Returns whether the server has told the
/// client not to send it.
fn is_stopped_after_the_response(client: &Http3) -> bool {
    let connection = client.connection.clone();
    client.run(async move {
        let (mut send, mut receive) = connection.open_bi().await.unwrap();
        send.write_all(&frame(HEADERS, &section(POST, "/none"))).await.unwrap();
        receive.read_to_end(100_000).await.unwrap();
        let sent = send.write_all(&frame(DATA, b"a=b")).await;
        sent.is_err() || send.finish().is_err() || send.stopped().await.unwrap().is_some()
    })
}

#[test]
fn a_short_content_is_taken_after_the_response() {
    let served = Served::new(&[("a.txt", "hello")]);
    let client = served.connect();
    for _ in 0..20 {
        let began = Instant::now();
        let is_stopped = is_stopped_after_the_response(&client);
        // The server waits two seconds for the rest of the content.
        if began.elapsed() < Duration::from_millis(1500) {
            assert!(!is_stopped);
            return;
        }
    }
    panic!("the machine is too slow for this test");
}

#[test]
fn half_a_frame_is_no_whole_upload() {
    if !has_php() {
        return;
    }
    let script = ("length.php", "<?php error_log('the script has run');");
    let served = Served::new(&[script, ("a.txt", "hello")]);
    let head = frame(HEADERS, &section(POST, "/length.php"));
    let nothing_of_a_frame = [&head[..], &[DATA, 10]].concat();
    let cut = [&head[..], &[DATA, 10], b"half"].concat();
    let misplaced = frame(DATA, b"content");
    let (again, late) = (frame(HEADERS, &[0, 0]).repeat(2), frame(4, b""));
    for (bytes, code) in [
        (nothing_of_a_frame, Code::H3_FRAME_ERROR),
        (cut.clone(), Code::H3_FRAME_ERROR),
        (cut[..head.len() - 3].to_vec(), Code::H3_FRAME_ERROR),
        (misplaced, Code::H3_FRAME_UNEXPECTED),
        ([&head[..], &again].concat(), Code::H3_FRAME_UNEXPECTED),
        ([&head[..], &late].concat(), Code::H3_FRAME_UNEXPECTED),
    ] {
        let client = served.connect();
        let connection = client.connection.clone();
        let ended = client.run(async move {
            let (mut send, _receive) = connection.open_bi().await.unwrap();
            let _ = send.write_all(&bytes).await;
            let _ = send.finish();
            connection.closed().await
        });
        let ConnectionError::ApplicationClosed(close) = &ended else {
            panic!("{ended}");
        };
        assert_eq!(close.error_code, number(code), "{ended}");
    }
    assert_eq!(served.connect().get("/a.txt").text(), "hello");
    let log = served.site.server.log();
    assert!(!log.contains("the script has run"), "{log}");
}

#[test]
fn a_head_with_a_pseudo_field_too_many_is_refused() {
    let served = Served::new(&[("a.txt", "hello"), ("b.txt", "other")]);
    let client = served.connect();
    let usual = section(GET, "/a.txt");
    assert!(exchange(&client, &frame(HEADERS, &usual)).unwrap().ends_with(b"hello"));
    let path = [0x51, 6, b'/', b'b', b'.', b't', b'x', b't'];
    let field = [0x21, b'x', 1, b'y'];
    for more in [
        &path[..],
        &[GET],
        &[POST],
        &[0xd7],
        &[0xd6],
        &[0x50, 9, b'a', b'.', b'e', b'x', b'a', b'm', b'p', b'l', b'e'],
        // :status
        &[0xd9],
        &[&field[..], &path].concat(),
    ] {
        let refused = exchange(&client, &frame(HEADERS, &[&usual[..], more].concat()));
        let Err(ReadToEndError::Read(quinn::ReadError::Reset(code))) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(code, number(Code::H3_MESSAGE_ERROR), "{more:x?}");
    }
    // Behind other fields.
    let mut late = usual.clone();
    let path_at = late.len() - 8;
    late.splice(path_at..path_at, field);
    assert!(exchange(&client, &frame(HEADERS, &late)).is_err());
    assert_eq!(client.get("/a.txt").text(), "hello");
}

#[test]
fn as_many_fields_as_a_large_limit_allows_are_refused() {
    let special = Special {
        http3: "header_list = \"16M\"\nstream_window = \"1M\"",
        ..Special::default()
    };
    let served = Served::with(&[("a.txt", "hello")], &special);
    let client = served.connect();
    for count in [30_000, 70_000] {
        let mut head = section(GET, "/a.txt");
        // `x: `, 33 bytes each.
        head.extend([0x21, b'x', 0].repeat(count));
        let length = u32::try_from(head.len()).unwrap() | 0x8000_0000;
        let sent = [&[HEADERS], &length.to_be_bytes()[..], &head].concat();
        // 431, or the end of the stream.
        let _ = exchange(&client, &sent);
        assert_eq!(client.get("/a.txt").text(), "hello", "{count}");
    }
    assert!(served.site.server.log().lines().all(|line| !line.contains("panicked")));
}
