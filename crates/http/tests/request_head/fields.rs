//! Field lines and the fields that concern the connection.

use super::*;

/// RFC 9112 §3.2, RFC 9110 §7.2.
#[test]
fn hosts() {
    all_refused(&[
        ("GET / HTTP/1.1\r\n\r\n", 400, "without Host"),
        ("GET / HTTP/1.2\r\n\r\n", 400, "without Host"),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "more than one Host"),
        ("GET / HTTP/1.1\r\nHost: a\r\nhOST: a\r\n\r\n", 400, "more than one Host"),
        ("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", 400, "more than one Host"),
        ("GET / HTTP/1.1\r\nHost:\r\n\r\n", 400, "empty host name"),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400, "byte in the host name"),
        ("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400, "byte in the host name"),
        ("GET / HTTP/1.1\r\nHost: ../a\r\n\r\n", 400, "empty label"),
        ("GET / HTTP/1.1\r\nHost: a/..\r\n\r\n", 400, "byte in the host name"),
        ("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", 400, "user information"),
        ("GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", 400, "port that is not"),
        ("GET / HTTP/1.1\r\nHost: a:99999\r\n\r\n", 400, "port beyond"),
        ("GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400, "unclosed bracket"),
        ("GET / HTTP/1.1\r\nHost: caf\u{e9}\r\n\r\n", 400, "byte in the host name"),
        ("GET / HTTP/1.0\r\nHost: a b\r\n\r\n", 400, "byte in the host name"),
    ]);
    for head in [
        "GET / HTTP/1.0\r\n\r\n",
        "GET / HTTP/1.0\r\nHost:\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: \r\n\r\n",
    ] {
        assert!(complete(head.as_bytes()).1.authority.is_empty(), "{head}");
    }
    assert_eq!(complete(b"GET / HTTP/1.0\r\nHost: A\r\n\r\n").1.authority, b"a");
}

/// RFC 9112 §2.2, §5, §5.1, §5.2; RFC 9110 §5.5.
#[test]
fn bad_field_lines() {
    let prefix = "GET / HTTP/1.1\r\n";
    let table = [
        (" Host: h\r\n\r\n", "white space before the first"),
        ("\tHost: h\r\n\r\n", "white space before the first"),
        ("Host: h\r\n folded\r\n\r\n", "folded"),
        ("Host: h\r\n\tfolded\r\n\r\n", "folded"),
        ("Host : h\r\n\r\n", "before the colon"),
        ("Host\t: h\r\n\r\n", "before the colon"),
        (": h\r\n\r\n", "without a name"),
        ("Host\r\n\r\n", "without a colon"),
        ("Host\n\r\n", "without a colon"),
        ("Ho st: h\r\n\r\n", "before the colon"),
        ("Ho\0st: h\r\n\r\n", "NUL in a field name"),
        ("Ho(st): h\r\n\r\n", "name that is no token"),
        ("H\u{f6}st: h\r\n\r\n", "name that is no token"),
        ("Host: h\n\r\n", "bare LF"),
        ("Host: h\rX: y\r\n\r\n", "bare CR"),
        ("Host: h\r\r\n\r\n", "bare CR"),
        ("Host: h\r\n\n", "bare LF"),
        ("Host: h\r\n\rX", "bare CR"),
        ("X: a\0b\r\n\r\n", "NUL in a field value"),
        ("X: a\u{1}b\r\n\r\n", "control byte in a field value"),
        ("X: a\u{7f}b\r\n\r\n", "control byte in a field value"),
        ("X: a\u{b}b\r\n\r\n", "control byte in a field value"),
        ("X:\u{0}\r\n\r\n", "NUL in a field value"),
    ];
    for (lines, why) in table {
        all_refused(&[(&format!("{prefix}{lines}"), 400, why)]);
    }
    let (_, request) = complete(b"GET / HTTP/1.1\r\nHost: h\r\nX: caf\xe9\ta\r\n\r\n");
    assert_eq!(request.fields.value(b"x"), Some(&b"caf\xe9\ta"[..]));
}

/// RFC 9112 §9.3.
#[test]
fn persistence() {
    let table = [
        ("1.1", "", true),
        ("1.1", "Connection: keep-alive\r\n", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "Connection: CLOSE\r\n", false),
        ("1.1", "Connection: upgrade, close\r\n", false),
        ("1.1", "Connection: close, close\r\n", false),
        ("1.0", "Connection: keep-alive, keep-alive\r\n", true),
        ("1.1", "Connection: keep-alive, close\r\n", false),
        ("1.1", "Connection: keep-alive\r\nConnection: close\r\n", false),
        ("1.1", "Connection: closed\r\n", true),
        ("1.1", "Proxy-Connection: close\r\n", true),
        ("1.1", "User-Agent: close\r\n", true),
        ("1.2", "", true),
        ("1.0", "", false),
        ("1.0", "Connection: keep-alive\r\n", true),
        ("1.0", "Connection: Keep-Alive\r\n", true),
        ("1.0", "Connection: keep-alive, close\r\n", false),
        ("1.0", "Keep-Alive: 5\r\n", false),
        ("1.0", "Proxy-Connection: keep-alive\r\n", false),
    ];
    for (version, lines, persistent) in table {
        let head = format!("GET / HTTP/{version}\r\nHost: h\r\n{lines}\r\n");
        assert_eq!(complete(head.as_bytes()).0.persistent, persistent, "{version} {lines}");
    }
}

/// RFC 9110 §10.1.1.
#[test]
fn expectations() {
    let table = [
        ("1.1", "Content-Length: 3\r\nExpect: 100-continue\r\n", true),
        ("1.1", "Expect: 100-Continue\r\nTransfer-Encoding: chunked\r\n", true),
        ("1.1", "Expect: 100-continue\r\n", false),
        ("1.1", "Content-Length: 3\r\nExpect:\r\n", false),
        ("1.0", "Content-Length: 3\r\nExpect: 100-continue\r\n", false),
        ("1.0", "Content-Length: 3\r\nExpect: something\r\n", false),
    ];
    for (version, lines, expected) in table {
        let head = format!("POST / HTTP/{version}\r\nHost: h\r\n{lines}\r\n");
        assert_eq!(complete(head.as_bytes()).0.expect_continue, expected, "{version} {lines}");
    }
    all_refused(&[
        ("POST / HTTP/1.1\r\nHost: h\r\nExpect: something\r\n\r\n", 417, "other than 100-continue"),
        (
            "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue, x\r\n\r\n",
            417,
            "other than 100-continue",
        ),
        (
            "POST / HTTP/1.1\r\nHost: h\r\nExpect: x\r\nExpect: 100-continue\r\n\r\n",
            417,
            "other than 100-continue",
        ),
    ]);
}
