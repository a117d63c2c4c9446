//! Response heads of HTTP/1 against RFC 9112 and RFC 9110.

use howdah_http::{
    Method, ResponseHead, Status, Version,
    h1::{
        CONTINUE, Framing, HopFields, complete_kept_head, encode_chunk_size, encode_head,
        encode_kept_head, encode_switch,
    },
};

const DATE: &[u8] = b"Sun, 06 Nov 1994 08:49:37 GMT";

fn head(code: u16, lines: &[(&str, &str)]) -> ResponseHead {
    let mut head = ResponseHead::new(Status::new(code).expect("three digits"));
    for (name, value) in lines {
        head.fields.push(name.as_bytes(), value.as_bytes());
    }
    head
}

fn encode(version: Version, head: &ResponseHead, framing: Framing, persistent: bool) -> String {
    let mut out = Vec::new();
    let hop = HopFields {
        version,
        is_persistent: persistent,
        date: DATE,
        alternative: None,
    };
    encode_head(&mut out, head, framing, &hop);
    String::from_utf8(out).expect("the heads here are ASCII")
}

const FIXED: &str = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nServer: Howdah\r\n";

#[test]
fn framing_and_persistence() {
    let (one, zero) = (Version::Http11, Version::Http10);
    let table = [
        (one, 200, Framing::Length(12), true, "Content-Length: 12\r\n"),
        (one, 200, Framing::Length(0), true, "Content-Length: 0\r\n"),
        (
            one,
            200,
            Framing::Length(u64::MAX),
            false,
            "Content-Length: 18446744073709551615\r\nConnection: close\r\n",
        ),
        (one, 200, Framing::Chunked, true, "Transfer-Encoding: chunked\r\n"),
        (one, 200, Framing::Chunked, false, "Transfer-Encoding: chunked\r\nConnection: close\r\n"),
        (one, 200, Framing::Close, true, "Connection: close\r\n"),
        (one, 200, Framing::Head(7), true, "Content-Length: 7\r\n"),
        (one, 200, Framing::None, true, ""),
        (one, 204, Framing::None, true, ""),
        (one, 304, Framing::None, true, ""),
        (zero, 200, Framing::Length(12), true, "Content-Length: 12\r\nConnection: keep-alive\r\n"),
        (zero, 200, Framing::Length(12), false, "Content-Length: 12\r\nConnection: close\r\n"),
        (zero, 200, Framing::Close, true, "Connection: close\r\n"),
        (zero, 304, Framing::None, true, "Connection: keep-alive\r\n"),
    ];
    for (version, code, framing, persistent, lines) in table {
        let head = head(code, &[]);
        let expected = format!("HTTP/1.1 {code} {}\r\n{FIXED}{lines}\r\n", head.status.reason());
        assert_eq!(encode(version, &head, framing, persistent), expected);
    }
}

#[test]
fn a_script_s_fields_in_order_without_those_that_end_at_a_hop() {
    let head = head(
        200,
        &[
            ("Content-Type", "text/html"),
            ("connection", "X-Secret"),
            ("Keep-Alive", "timeout=5"),
            ("Transfer-Encoding", "gzip"),
            ("Upgrade", "h2c"),
            ("Proxy-Connection", "close"),
            ("TE", "trailers"),
            ("Trailer", "X"),
            ("Date", "yesterday"),
            ("Server", "Other"),
            ("CONTENT-LENGTH", "99"),
            ("Set-Cookie", "a=1"),
            ("Set-Cookie", "b=2"),
            ("X-Powered-By", "PHP/8.2"),
        ],
    );
    let expected = format!(
        "HTTP/1.1 200 OK\r\n{FIXED}Content-Type: text/html\r\nSet-Cookie: a=1\r\n\
         Set-Cookie: b=2\r\n\
         X-Powered-By: PHP/8.2\r\nContent-Length: 5\r\n\r\n"
    );
    assert_eq!(encode(Version::Http11, &head, Framing::Length(5), true), expected);
}

/// RFC 9110 §8.6, §15.4.5: to HEAD and with 304 the length of what GET would have got may be told,
/// with 1xx and 204 never.
#[test]
fn a_script_s_own_length_where_no_content_follows() {
    let table = [
        (200, "12", Some("Content-Length: 12\r\n")),
        (304, "12", Some("Content-Length: 12\r\n")),
        (204, "12", None),
        (200, "012", Some("Content-Length: 12\r\n")),
        (200, "12, 12", None),
        (200, "many", None),
    ];
    for (code, value, line) in table {
        let head = head(code, &[("Content-Length", value)]);
        let expected = format!(
            "HTTP/1.1 {code} {}\r\n{FIXED}{}\r\n",
            head.status.reason(),
            line.unwrap_or_default()
        );
        assert_eq!(encode(Version::Http11, &head, Framing::None, true), expected);
    }
    let twice = head(200, &[("Content-Length", "12"), ("Content-Length", "13")]);
    assert!(!encode(Version::Http11, &twice, Framing::None, true).contains("Content-Length"));
}

/// RFC 9110 §15.2: an interim response has no content, and a final one follows on the same
/// connection.
#[test]
fn interim_responses() {
    let early = head(
        103,
        &[("Link", "</a.css>; rel=preload"), ("Content-Length", "5"), ("Connection", "close")],
    );
    let expected = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n";
    assert_eq!(encode(Version::Http11, &early, Framing::None, false), expected);
    assert_eq!(encode(Version::Http11, &head(100, &[]), Framing::None, true).as_bytes(), CONTINUE);
}

#[test]
fn a_switch_names_its_protocol() {
    let mut out = Vec::new();
    encode_switch(&mut out, &head(101, &[("Sec-WebSocket-Accept", "x")]), b"websocket");
    let expected = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
        Connection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn reasons() {
    let table: [(u16, Option<&[u8]>, &str); 6] = [
        (404, None, "HTTP/1.1 404 Not Found\r\n"),
        (404, Some(b"Gone fishing"), "HTTP/1.1 404 Gone fishing\r\n"),
        (404, Some(b""), "HTTP/1.1 404 \r\n"),
        (404, Some(b"x\r\nSet-Cookie: a"), "HTTP/1.1 404 Not Found\r\n"),
        (299, None, "HTTP/1.1 299 \r\n"),
        (299, Some(b"Fine"), "HTTP/1.1 299 Fine\r\n"),
    ];
    for (code, reason, line) in table {
        let head = ResponseHead {
            reason: reason.map(Into::into),
            ..head(code, &[])
        };
        let encoded = encode(Version::Http11, &head, Framing::Length(0), true);
        assert!(encoded.starts_with(&format!("{line}Date")), "{encoded}");
    }
}

#[test]
fn nothing_splits_a_response() {
    let lines = [
        ("X", "a\r\nSet-Cookie: b"),
        ("X", "a\nb"),
        ("X", "a\rb"),
        ("X", "a\0b"),
        ("X\r\nSet-Cookie", "b"),
        ("X: a\r\nY", "b"),
        ("Transfer-Encoding ", "chunked"),
        ("", "b"),
    ];
    for line in lines {
        let encoded = encode(Version::Http11, &head(200, &[line]), Framing::Length(0), true);
        assert_eq!(
            encoded,
            format!("HTTP/1.1 200 OK\r\n{FIXED}Content-Length: 0\r\n\r\n"),
            "{line:?}"
        );
    }
}

#[test]
fn what_is_there_already_stays() {
    let mut out = b"HTTP/1.1 100 Continue\r\n\r\n".to_vec();
    let hop = HopFields {
        version: Version::Http11,
        is_persistent: true,
        date: DATE,
        alternative: None,
    };
    encode_head(&mut out, &head(204, &[]), Framing::None, &hop);
    assert!(out.starts_with(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nDate"));
}

#[test]
fn an_alternative_is_a_line_of_every_final_head() {
    let hop = HopFields {
        version: Version::Http11,
        is_persistent: false,
        date: DATE,
        alternative: Some(b"h3=\":443\""),
    };
    let line = "Alt-Svc: h3=\":443\"\r\n";
    let encode = |code| {
        let mut out = Vec::new();
        encode_head(&mut out, &head(code, &[]), Framing::None, &hop);
        String::from_utf8(out).expect("the heads here are ASCII")
    };
    assert_eq!(
        encode(204),
        format!("HTTP/1.1 204 No Content\r\n{FIXED}{line}Connection: close\r\n\r\n")
    );
    assert_eq!(encode(103), "HTTP/1.1 103 Early Hints\r\n\r\n");
    let mut kept = Vec::new();
    encode_kept_head(&mut kept, &head(200, &[]), 5);
    complete_kept_head(&mut kept, Framing::Length(5), &hop);
    assert_eq!(
        String::from_utf8(kept).expect("the heads here are ASCII"),
        format!(
            "HTTP/1.1 200 OK\r\nServer: Howdah\r\nContent-Length: 5\r\n\
             Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n{line}Connection: close\r\n\r\n"
        )
    );
}

#[test]
fn chunk_sizes() {
    for (length, line) in [(1, "1\r\n"), (255, "ff\r\n"), (65_536, "10000\r\n")] {
        let mut out = Vec::new();
        encode_chunk_size(&mut out, length);
        assert_eq!(out, line.as_bytes());
    }
}

/// RFC 9112 §6.3, from the sender's side.
#[test]
fn the_framing_of_an_answer() {
    let (get, head) = (Method::Get, Method::Head);
    let (one, zero) = (Version::Http11, Version::Http10);
    let table = [
        (&get, one, 200, Some(5), Framing::Length(5)),
        (&get, one, 200, None, Framing::Chunked),
        (&get, zero, 200, None, Framing::Close),
        (&get, zero, 200, Some(5), Framing::Length(5)),
        (&head, one, 200, Some(5), Framing::Head(5)),
        (&head, one, 200, None, Framing::None),
        (&head, zero, 200, None, Framing::None),
        (&get, one, 204, Some(5), Framing::None),
        (&get, one, 304, None, Framing::None),
        (&get, one, 103, None, Framing::None),
        (&head, one, 304, Some(5), Framing::None),
    ];
    for (method, version, code, length, framing) in table {
        let status = Status::new(code).unwrap();
        assert_eq!(
            Framing::of(method, version, status, length),
            framing,
            "{method} {version} {code} {length:?}"
        );
        assert_eq!(
            framing.has_content(),
            matches!(framing, Framing::Length(_) | Framing::Chunked | Framing::Close)
        );
    }
}
