//! Content-Length and Transfer-Encoding.

use super::*;

/// RFC 9112 §6.2, §6.3; identical duplicates and lists are refused too.
#[test]
fn content_lengths() {
    for (text, length) in [("0", 0), ("5", 5), ("007", 7), ("1073741824", 1 << 30)] {
        let head = format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {text}\r\n\r\n");
        assert_eq!(complete(head.as_bytes()).1.content, Content::Length(length));
    }
    let table = [
        ("Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 400, "more than one"),
        ("Content-Length: 5\r\nContent-Length: 5\r\n\r\n", 400, "more than one"),
        ("Content-Length: 5\r\ncontent-length: 5\r\n\r\n", 400, "more than one"),
        ("Content-Length: 5, 5\r\n\r\n", 400, "list of numbers"),
        ("Content-Length: 5,6\r\n\r\n", 400, "list of numbers"),
        ("Content-Length: 5,x\r\n\r\n", 400, "not a number"),
        ("Content-Length:\r\n\r\n", 400, "empty"),
        ("Content-Length: +5\r\n\r\n", 400, "not a number"),
        ("Content-Length: -5\r\n\r\n", 400, "not a number"),
        ("Content-Length: 5 5\r\n\r\n", 400, "not a number"),
        ("Content-Length: 0x5\r\n\r\n", 400, "not a number"),
        ("Content-Length: 5;a\r\n\r\n", 400, "not a number"),
        ("Content-Length: \u{b2}\r\n\r\n", 400, "not a number"),
        ("Content-Length: 18446744073709551616\r\n\r\n", 400, "beyond 64 bits"),
        ("Content-Length: 18446744073709551615\r\n\r\n", 413, "over the body limit"),
        ("Content-Length: 1073741825\r\n\r\n", 413, "over the body limit"),
    ];
    for (lines, status, why) in table {
        all_refused(&[(&format!("POST / HTTP/1.1\r\nHost: h\r\n{lines}"), status, why)]);
    }
}

/// RFC 9112 §6.1, §6.3.
#[test]
fn transfer_encodings() {
    for text in ["chunked", "Chunked", " chunked "] {
        let head = format!("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: {text}\r\n\r\n");
        assert_eq!(complete(head.as_bytes()).1.content, Content::Unknown);
    }
    let table = [
        ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", 400, "both"),
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "both"),
        ("Content-Length: 5\r\nTransfer-Encoding: identity\r\n\r\n", 400, "both"),
        ("Transfer-Encoding: gzip\r\n\r\n", 400, "not end in chunked"),
        ("Transfer-Encoding: identity\r\n\r\n", 400, "not end in chunked"),
        ("Transfer-Encoding: xchunked\r\n\r\n", 400, "not end in chunked"),
        ("Transfer-Encoding: chunked;q=1\r\n\r\n", 400, "not end in chunked"),
        ("Transfer-Encoding: \"chunked\"\r\n\r\n", 400, "not end in chunked"),
        ("Transfer-Encoding: chunked, gzip\r\n\r\n", 400, "behind chunked"),
        ("Transfer-Encoding: chunked, chunked\r\n\r\n", 400, "behind chunked"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "behind chunked"),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
            400,
            "behind chunked",
        ),
        ("Transfer-Encoding:\r\n\r\n", 400, "empty member"),
        ("Transfer-Encoding: ,chunked\r\n\r\n", 400, "empty member"),
        ("Transfer-Encoding: chunked,\r\n\r\n", 400, "empty member"),
        ("Transfer-Encoding: \u{b}chunked\r\n\r\n", 400, "control byte"),
        ("Transfer-Encoding : chunked\r\n\r\n", 400, "before the colon"),
        ("Transfer-Encoding: gzip, chunked\r\n\r\n", 501, "other than chunked"),
        ("Transfer-Encoding: gzip, gzip, chunked\r\n\r\n", 501, "other than chunked"),
        (
            "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n",
            501,
            "other than chunked",
        ),
        ("Transfer-Encoding: cow, chunked\r\n\r\n", 501, "other than chunked"),
    ];
    for (lines, status, why) in table {
        all_refused(&[(&format!("POST / HTTP/1.1\r\nHost: h\r\n{lines}"), status, why)]);
    }
    all_refused(&[("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "in HTTP/1.0")]);
}

#[test]
fn a_client_of_http_1_0_that_names_no_host_has_none() {
    let (_, request) = complete(b"GET / HTTP/1.0\r\n\r\n");
    assert!(request.fields.is_empty() && request.authority.is_empty(), "{request:?}");
}

#[test]
fn fields_whose_names_are_only_as_long_have_no_meaning_for_the_framing() {
    let head = b"GET / HTTP/1.1\r\nHost: h\r\nHunt: x\r\nExpert: x\r\nCondiction: close\r\n\
        Content-Weight: x\r\nTransfer-Endowing: x\r\n\r\n";
    let (parsed, request) = complete(head);
    assert_eq!((parsed.persistent, parsed.expect_continue), (true, false));
    assert_eq!((request.host(), request.content), (&b"h"[..], Content::None));
}
