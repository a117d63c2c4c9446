//! The request line.

use super::*;

/// RFC 9112 §2.2.
#[test]
fn empty_lines_before_the_request_line() {
    let get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    for empty in 0..=2 {
        let head = "\r\n".repeat(empty) + get;
        assert_eq!(complete(head.as_bytes()).0.head_length, head.len());
    }
    all_refused(&[
        ("\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 400, "too many empty lines"),
        ("\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 400, "without a target"),
        ("\rGET / HTTP/1.1\r\nHost: h\r\n\r\n", 400, "without a target"),
    ]);
}

/// RFC 9112 §3.
#[test]
fn bad_request_lines() {
    all_refused(&[
        (" GET / HTTP/1.1\r\n", 400, "begins with a space"),
        ("GET\r\n", 400, "without a target"),
        ("GET\0 / HTTP/1.1\r\n", 400, "NUL in the method"),
        ("G{T / HTTP/1.1\r\n", 400, "method that is no token"),
        ("G\u{c9}T / HTTP/1.1\r\n", 400, "method that is no token"),
        ("GET\t/ HTTP/1.1\r\n", 400, "method that is no token"),
        ("\u{16}\u{3}\u{1}\0", 400, "TLS handshake"),
        ("GET  / HTTP/1.1\r\n", 400, "more than one space before the target"),
        ("GET /\r\n", 400, "without a version"),
        ("GET /\n", 400, "without a version"),
        ("GET /\0 HTTP/1.1\r\n", 400, "NUL in the target"),
        ("GET /\u{1} HTTP/1.1\r\n", 400, "control byte in the target"),
        ("GET /\t HTTP/1.1\r\n", 400, "control byte in the target"),
        ("GET /\u{7f} HTTP/1.1\r\n", 400, "control byte in the target"),
        ("GET /a b HTTP/1.1\r\n", 400, "version that is not"),
        ("GET /  HTTP/1.1\r\n", 400, "more than one space before the version"),
        ("GET / HTTP/1.1 \r\n", 400, "bytes behind the version"),
        ("GET / HTTP/1.1\n", 400, "not ended by CRLF"),
        ("GET / HTTP/1.1\rX", 400, "not ended by CRLF"),
        ("GET / HTTP/1.1\r\r\n", 400, "not ended by CRLF"),
    ]);
}

/// RFC 9112 §2.3, RFC 9110 §2.5.
#[test]
fn versions() {
    for (version, expected) in
        [("1.0", Version::Http10), ("1.1", Version::Http11), ("1.2", Version::Http11)]
    {
        let head = format!("GET / HTTP/{version}\r\nHost: h\r\n\r\n");
        assert_eq!(complete(head.as_bytes()).1.version, expected);
    }
    all_refused(&[
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "HTTP/2"),
        ("GET / HTTP/2.0\r\n", 505, "HTTP/2"),
        ("GET / HTTP/3.0\r\n", 505, "major version"),
        ("GET / HTTP/0.9\r\n", 505, "major version"),
        ("GET / HTTP/2\r\n", 400, "version that is not"),
        ("GET / HTTP/1.10\r\n", 400, "version that is not"),
        ("GET / HTTP/11.1\r\n", 400, "version that is not"),
        ("GET / http/1.1\r\n", 400, "version that is not"),
        ("GET / HTTP/1,1\r\n", 400, "version that is not"),
        ("GET / HTTP/1.x\r\n", 400, "version that is not"),
        ("GET / HTTPS/1.1\r\n", 400, "version that is not"),
        ("GET / ICY/1.0\r\n", 400, "version that is not"),
    ]);
}

/// RFC 9110 §9.1: a server answers 501 or 405 to a method it does not know; that is not this
/// parser's business.
#[test]
fn any_token_is_a_method() {
    for method in ["get", "PROPFIND", "M-SEARCH", "!#$%&'*+-.^_`|~09azAZ"] {
        let head = format!("{method} / HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(complete(head.as_bytes()).1.method, Method::Other(method.into()));
    }
}

/// RFC 3986 §2 asks clients to encode such bytes. Old browsers, scanners and links in e-mails do
/// not.
#[test]
fn bytes_beyond_ascii_in_a_target_stay_as_they_are() {
    for target in [&b"/caf\xe9"[..], b"/caf\xc3\xa9?q=\xff\x80&r=1", b"/\x80", b"/%c3\xa9%"] {
        let head = [b"GET ", target, b" HTTP/1.1\r\nHost: h\r\n\r\n"].concat();
        assert_eq!(complete(&head).1.target, target);
    }
    let (_, request) = complete(b"GET http://h/\xe9 HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(request.target, b"/\xe9");
    all_refused(&[
        ("GET \u{e9} HTTP/1.1\r\n", 400, "four forms"),
        ("GET http://\u{e9}/ HTTP/1.1\r\n", 400, "byte in the host"),
        ("CONNECT \u{e9}:80 HTTP/1.1\r\n", 400, "byte in the host"),
        ("GET /\u{e9}\u{7f} HTTP/1.1\r\n", 400, "control byte in the target"),
        ("GET /\u{e9}#x HTTP/1.1\r\n", 400, "fragment"),
    ]);
}

/// RFC 9112 §3.2. The forms one by one are tested beside their code.
#[test]
fn target_forms() {
    let table = [
        ("GET /a/?b#c HTTP/1.1\r\n", 400, "fragment"),
        ("GET * HTTP/1.1\r\n", 400, "for OPTIONS only"),
        ("GET h:80 HTTP/1.1\r\n", 400, "four forms"),
        ("GET ftp://h/ HTTP/1.1\r\n", 400, "four forms"),
        ("GET http://u:p@h/ HTTP/1.1\r\n", 400, "user information"),
        ("GET http:///a HTTP/1.1\r\n", 400, "empty host"),
        ("GET https://h/ HTTP/1.1\r\n", 421, "in the clear"),
        ("CONNECT / HTTP/1.1\r\n", 400, "byte in the host name"),
        ("CONNECT h HTTP/1.1\r\n", 400, "without a port"),
    ];
    all_refused(&table);
    let (_, request) = complete(b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!((&request.target[..], &request.authority[..]), (&b"*"[..], &b"h"[..]));
    let (_, request) = complete(b"CONNECT h:443 HTTP/1.1\r\nHost: other:1\r\n\r\n");
    assert_eq!((&request.target[..], &request.authority[..]), (&b"h:443"[..], &b"h:443"[..]));
}

/// RFC 9112 §3.2.2.
#[test]
fn the_absolute_form_overrules_host() {
    let (_, request) = complete(b"GET http://A.org:81/x?y HTTP/1.1\r\nHost: b.org\r\n\r\n");
    assert_eq!((&request.target[..], &request.authority[..]), (&b"/x?y"[..], &b"a.org:81"[..]));
    let (_, request) = complete(b"GET http://a.org HTTP/1.1\r\nHost:\r\n\r\n");
    assert_eq!((&request.target[..], &request.authority[..]), (&b"/"[..], &b"a.org"[..]));
    let (_, request) = complete(b"GET http://a.org/ HTTP/1.0\r\n\r\n");
    assert_eq!(&request.authority[..], b"a.org");
    for (target, sent, seen) in [
        ("http://A.org:81/", "b.org", "a.org:81"),
        ("http://a.org/", "A.org.", "A.org."),
        ("http://a.org/", "a.org:80", "a.org"),
        ("http://a.org/", "", "a.org"),
        ("/", "B.org", "B.org"),
    ] {
        let head = format!("GET {target} HTTP/1.1\r\nHost: {sent}\r\nX: y\r\n\r\n");
        let (_, request) = complete(head.as_bytes());
        let hosts: Vec<_> = request.fields.values(b"host").map(String::from_utf8_lossy).collect();
        assert_eq!(hosts, [seen], "{head}");
        assert_eq!(request.fields.value(b"x"), Some(&b"y"[..]));
    }
    all_refused(&[
        ("GET http://a.org/ HTTP/1.1\r\n\r\n", 400, "without Host"),
        ("GET http://a.org/ HTTP/1.1\r\nHost: a/b\r\n\r\n", 400, "byte in the host name"),
        ("GET http://a.org/ HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400, "more than one Host"),
        ("GET / HTTP/1.1\r\nHost: a:0\r\n\r\n", 400, "port 0"),
        ("GET http://a:0/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, "port 0"),
    ]);
}
