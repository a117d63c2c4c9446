//! Request heads of HTTP/1 against RFC 9112 and RFC 9110, section by section.

mod fields;
mod framing;
mod limits;
mod line;

use howdah_http::{
    Content, Limits, Method, Refusal, Request, Version,
    h1::{HeadProgress, ParsedHead, parse_request, worth_parsing},
};

fn parse(head: &[u8]) -> Result<(HeadProgress, Request), Refusal> {
    parse_within(head, &Limits::default())
}

fn parse_within(head: &[u8], limits: &Limits) -> Result<(HeadProgress, Request), Refusal> {
    let mut request = Request::new();
    parse_request(head, limits, &mut request).map(|progress| (progress, request))
}

#[track_caller]
fn complete(head: &[u8]) -> (ParsedHead, Request) {
    match parse(head) {
        Ok((HeadProgress::Complete(parsed), request)) => (parsed, request),
        other => panic!("{}: {other:?}", head.escape_ascii()),
    }
}

/// Every row is refused with that status, for a reason that contains that text, however the bytes
/// arrive.
#[track_caller]
fn all_refused(table: &[(&str, u16, &str)]) {
    for &(head, status, why) in table {
        let refusal = parse(head.as_bytes()).expect_err(head);
        assert_eq!(refusal.status.code(), status, "{head:?}: {refusal}");
        assert!(refusal.why.contains(why), "{head:?}: {refusal}");
        let first = (0..=head.len()).find_map(|end| parse(&head.as_bytes()[..end]).err());
        assert_eq!(first, Some(refusal), "byte by byte: {head:?}");
    }
}

#[test]
fn a_browser_s_request() {
    let head = b"GET /wp-admin/?page=1 HTTP/1.1\r\nHost: Example.ORG:8080\r\n\
        User-Agent: Mozilla/5.0\r\nAccept:*/*\r\n\
        X-Empty:\r\nX-Padded: \t a b \t\r\nConnection: keep-alive\r\n\r\nrest";
    let (parsed, request) = complete(head);
    assert_eq!(
        parsed,
        ParsedHead {
            head_length: head.len() - 4,
            persistent: true,
            expect_continue: false
        }
    );
    assert_eq!((request.method.clone(), request.version), (Method::Get, Version::Http11));
    assert_eq!((request.path(), request.query()), (&b"/wp-admin/"[..], Some(&b"page=1"[..])));
    assert_eq!((request.host(), request.port()), (&b"example.org"[..], Some(8080)));
    assert_eq!(request.content, Content::None);
    let lines: [(&[u8], &[u8]); 6] = [
        (b"Host", b"Example.ORG:8080"),
        (b"User-Agent", b"Mozilla/5.0"),
        (b"Accept", b"*/*"),
        (b"X-Empty", b""),
        (b"X-Padded", b"a b"),
        (b"Connection", b"keep-alive"),
    ];
    assert!(request.fields.iter().eq(lines), "{:?}", request.fields);
}

#[test]
fn a_head_is_incomplete_until_its_last_byte() {
    let head = b"\r\nPOST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n";
    for end in 0..head.len() {
        let (progress, request) = parse(&head[..end]).unwrap();
        assert_eq!(progress, HeadProgress::Incomplete, "{end}");
        assert!(request.fields.is_empty() && request.fields.iter().len() == 0);
    }
    assert_eq!(complete(head).0.head_length, head.len());
}

#[test]
fn a_request_is_reused_without_remains() {
    let mut request = Request::new();
    let limits = Limits::default();
    let first = b"POST http://a.org/long HTTP/1.0\r\nContent-Length: 5\r\nX: y\r\n\r\n";
    parse_request(first, &limits, &mut request).unwrap();
    assert_eq!(request.content, Content::Length(5));
    let second = b"GET / HTTP/1.1\r\nHost: b\r\n\r\n";
    parse_request(second, &limits, &mut request).unwrap();
    assert_eq!(request, complete(second).1);
    parse_request(b"GET / HTTP/1.1\r\nHost: b\r\nX: \0", &limits, &mut request).unwrap_err();
    assert!(request.fields.is_empty());
    assert_eq!(request.target, b"/", "a refusal's request line is there for the log");
}
