//! Response heads of upstreams against RFC 9112 and RFC 9110, section by section.

use howdah_http::{
    Limits, Method, Refusal, Status,
    h1::{Framing, ParsedResponse, parse_response},
};

fn parse(head: &str, method: &Method, limits: &Limits) -> Result<Option<ParsedResponse>, Refusal> {
    let at_once = parse_response(head.as_bytes(), method, limits);
    let bytewise = (0..=head.len())
        .map(|end| parse_response(&head.as_bytes()[..end], method, limits))
        .find(|outcome| *outcome != Ok(None));
    assert_eq!(bytewise.unwrap_or(Ok(None)), at_once, "byte by byte: {head:?}");
    at_once
}

/// The parsed head of a response to GET.
#[track_caller]
fn complete(head: &str) -> ParsedResponse {
    match parse(head, &Method::Get, &Limits::default()) {
        Ok(Some(parsed)) => parsed,
        other => panic!("{head:?}: {other:?}"),
    }
}

fn lines(parsed: &ParsedResponse) -> String {
    let lines = parsed.head.fields.iter().map(|(name, value)| [name, b"=", value].concat());
    String::from_utf8(lines.collect::<Vec<_>>().join(&b' ')).expect("the heads here are ASCII")
}

#[test]
fn the_head_of_an_application() {
    let head = "HTTP/1.1 201 Made here\r\nContent-Type: text/plain\r\nSet-Cookie: a=1\r\n\
                X-Padded: \t b c \t\r\nX-Empty:\r\nset-cookie:d\r\nContent-Length: 4\r\n\r\ntext";
    let parsed = complete(head);
    assert_eq!(parsed.head_length, head.len() - 4);
    assert_eq!(parsed.head.status, Status::new(201).unwrap());
    assert_eq!(parsed.head.reason.as_deref(), Some(&b"Made here"[..]));
    assert_eq!(
        lines(&parsed),
        "Content-Type=text/plain Set-Cookie=a=1 X-Padded=b c X-Empty= set-cookie=d Content-Length=4"
    );
    assert_eq!(
        (parsed.framing, parsed.persistent, parsed.upgrade),
        (Framing::Length(4), true, None)
    );
}

#[test]
fn status_lines() {
    for (line, code, reason) in [
        ("HTTP/1.1 200 OK", 200, Some("OK")),
        ("HTTP/1.0 404 Not \t Found", 404, Some("Not \t Found")),
        ("HTTP/1.1 999 ", 999, None),
        ("HTTP/1.1 201", 201, None),
        ("HTTP/1.9 100 x", 100, Some("x")),
        ("HTTP/1.1 234  two", 234, Some(" two")),
    ] {
        let parsed = complete(&format!("{line}\r\n\r\n"));
        let reason = reason.map(str::as_bytes);
        assert_eq!((parsed.head.status.code(), parsed.head.reason.as_deref()), (code, reason));
        assert_eq!(parsed.head_length, line.len() + 4, "{line}");
    }
}

/// RFC 9112 §2.2: "a recipient MAY recognize a single LF as a line terminator". The content begins
/// behind the first empty line, whichever way that one ends.
#[test]
fn a_line_may_end_in_lf_alone() {
    for head in [
        "HTTP/1.1 201 Made\nA: b\nContent-Length: 2\n\n",
        "HTTP/1.1 201 Made\r\nA: \tb \nContent-Length: 2\n\r\n",
        "HTTP/1.1 201 Made\nA:b\r\nContent-Length: 2\r\n\n",
    ] {
        let parsed = complete(&format!("{head}\n\nB: c\n\n"));
        assert_eq!(parsed.head_length, head.len(), "{head:?}");
        assert_eq!(parsed.head.reason.as_deref(), Some(&b"Made"[..]));
        assert_eq!(lines(&parsed), "A=b Content-Length=2", "{head:?}");
        assert_eq!((parsed.framing, parsed.persistent), (Framing::Length(2), true));
    }
    assert_eq!(complete("HTTP/1.0 200\n\n\n").head_length, 14);
    for unfinished in ["HTTP/1.1 200 OK\n", "HTTP/1.1 200 OK\nA: b\n", "HTTP/1.1 200 OK\n\r"] {
        assert_eq!(parse(unfinished, &Method::Get, &Limits::default()), Ok(None));
    }
}

#[test]
fn heads_that_are_refused() {
    let table = [
        ("SSH-2.0-OpenSSH\r\n", "HTTP/1"),
        ("\r\nHTTP/1.1 200 OK\r\n\r\n", "HTTP/1"),
        ("HTTP/2.0 200 OK\r\n\r\n", "HTTP/1"),
        ("HTTP/1.x 200 OK\r\n\r\n", "HTTP/1"),
        ("HTTP/1.1  200 OK\r\n\r\n", "HTTP/1"),
        ("HTTP/1.1 2x0 OK\r\n\r\n", "HTTP/1"),
        ("HTTP/1.1 20 OK\r\n\r\n", "HTTP/1"),
        ("http/1.1 200 OK\r\n\r\n", "HTTP/1"),
        ("HTTP/1.1 099 OK\r\n\r\n", "below 100"),
        ("HTTP/1.1 2000 OK\r\n\r\n", "three digits"),
        ("HTTP/1.1 200\tOK\r\n\r\n", "three digits"),
        ("HTTP/1.1 200\rX", "control byte"),
        ("HTTP/1.1 200 OK\rX", "control byte"),
        ("HTTP/1.1 200 OK\r\r\n\r\n", "control byte"),
        ("HTTP/1.1 200 OK\n A: b\n\n", "white space before the first"),
        ("HTTP/1.1 200 OK\nA: b\n c\n\n", "folded"),
        ("HTTP/1.1 200 OK\nA: b\rC: d\n\n", "bare CR"),
        ("HTTP/1.1 200 OK\nA: b\r\r\n\n", "bare CR"),
        ("HTTP/1.1 200 OK\n\rX", "bare CR"),
        ("HTTP/1.1 200 O\0K\r\n\r\n", "control byte"),
        ("HTTP/1.1 200 OK\r\n A: b\r\n\r\n", "white space before the first"),
        ("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "folded"),
        ("HTTP/1.1 200 OK\r\nA : b\r\n\r\n", "before the colon"),
        ("HTTP/1.1 200 OK\r\nA\r\n\r\n", "without a colon"),
        ("HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n", "NUL"),
        ("HTTP/1.1 200 OK\r\n\rX", "bare CR"),
        ("HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\n", "not a number"),
        ("HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n", "not a number"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 3,\r\n\r\n", "not a number"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", "not a number"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 3, 4\r\n\r\n", "several"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\ncontent-length: 4\r\n\r\n", "several"),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
            "both Content-Length",
        ),
        ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.0"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "other than chunked"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", "other than chunked"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n", "other than chunked"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n\r\n", "other than chunked"),
    ];
    let names = format!("HTTP/1.1 200 OK\r\nConnection: {}\r\n\r\n", "a,".repeat(65));
    for (head, why) in table.into_iter().chain([(&names[..], "more than 64 names")]) {
        let refusal = parse(head, &Method::Get, &Limits::default()).expect_err(head);
        assert_eq!(refusal.status, Status::BAD_GATEWAY, "{head:?}");
        assert!(refusal.why.contains(why), "{head:?}: {}", refusal.why);
    }
}

#[test]
fn the_content_that_follows() {
    let (get, head, connect) = (Method::Get, Method::Head, Method::Connect);
    let (two, chunked) = ("Content-Length: 2\r\n", "Transfer-Encoding: Chunked\r\n");
    let table = [
        ("1.1 200", &get, "", Framing::Close, false),
        ("1.1 200", &get, two, Framing::Length(2), true),
        ("1.0 200", &get, two, Framing::Length(2), false),
        (
            "1.1 200",
            &get,
            "Content-Length: 2\r\nContent-Length: 2 , 02\r\n",
            Framing::Length(2),
            true,
        ),
        ("1.1 500", &get, chunked, Framing::Chunked, true),
        ("1.1 200", &get, "Transfer-Encoding: , chunked ,\r\n", Framing::Chunked, true),
        ("1.1 200", &head, two, Framing::None, true),
        ("1.1 200", &head, "Transfer-Encoding: gzip\r\nContent-Length: x\r\n", Framing::None, true),
        ("1.1 204", &get, two, Framing::None, true),
        ("1.1 304", &get, chunked, Framing::None, true),
        ("1.1 103", &get, "", Framing::None, true),
        ("1.0 304", &get, "", Framing::None, false),
        ("1.1 200", &connect, two, Framing::None, true),
        ("1.1 400", &connect, two, Framing::Length(2), true),
        (
            "1.1 200",
            &get,
            "Content-Length: 2\r\nConnection: x, Close\r\n",
            Framing::Length(2),
            false,
        ),
        ("1.1 200", &head, "Connection: close\r\n", Framing::None, false),
    ];
    for (start, method, fields, framing, persistent) in table {
        let head = format!("HTTP/{start} x\r\n{fields}\r\n");
        let parsed = parse(&head, method, &Limits::default()).unwrap().unwrap();
        assert_eq!((parsed.framing, parsed.persistent), (framing, persistent), "{head:?}");
    }
}

#[test]
fn fields_of_the_connection_end_here_and_the_framing_is_known_before() {
    let table = [
        (
            "Connection: Transfer-Encoding, X-Hop\r\nTransfer-Encoding: chunked\r\nx-hop: 1\r\n\
             X-End: 2\r\n",
            Framing::Chunked,
            "X-End=2",
        ),
        ("Transfer-Encoding: chunked\r\nX-End: 2\r\n", Framing::Chunked, "X-End=2"),
        (
            "Connection: Content-Length\r\nCONTENT-LENGTH: 7\r\n",
            Framing::Length(7),
            "Content-Length=7",
        ),
        (
            "Content-Length: 7\r\nA: b\r\nContent-Length: 7\r\n",
            Framing::Length(7),
            "A=b Content-Length=7",
        ),
        ("A: b\r\nConnection: keep-alive\r\nConnection: a\r\n", Framing::Close, ""),
        ("Keep: b\r\nUpgrade: h2c\r\n", Framing::Close, "Keep=b Upgrade=h2c"),
    ];
    for (fields, framing, expected) in table {
        let parsed = complete(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n"));
        let found = lines(&parsed).replace("CONTENT-LENGTH", "Content-Length");
        assert_eq!((parsed.framing, found.as_str()), (framing, expected), "{fields:?}");
    }
    // The length that GET would have got.
    let head = "HTTP/1.1 200 OK\r\nConnection: Content-Length\r\nContent-Length: 7\r\n\r\n";
    let parsed = parse(head, &Method::Head, &Limits::default()).unwrap().unwrap();
    assert_eq!((parsed.framing, lines(&parsed).as_str()), (Framing::None, "Content-Length=7"));
}

#[test]
fn a_response_switches_where_connection_says_so() {
    for (fields, upgrade) in [
        ("Connection: x, upgrade\r\nUpgrade: websocket, h2c\r\n", Some("websocket, h2c")),
        ("Connection: x\r\nUpgrade: websocket\r\n", None),
        ("Connection: Upgrade\r\n", None),
    ] {
        let parsed = complete(&format!("HTTP/1.1 101 Switching\r\n{fields}\r\nbytes"));
        assert_eq!(parsed.upgrade.as_deref(), upgrade.map(str::as_bytes), "{fields:?}");
        assert_eq!(parsed.framing, Framing::None);
    }
}

/// At each limit a head passes, one byte beyond it is refused.
#[test]
fn limits() {
    let limits = Limits {
        request_line: 20,
        field_line: 50,
        fields_total: 120,
        field_count: 3,
        body: 0,
    };
    type Row = (usize, &'static [usize], Option<&'static str>);
    let table: [Row; 9] = [
        (7, &[], None),
        (8, &[], Some("status line over")),
        (0, &[47], None),
        (0, &[48], Some("field lines over")),
        (0, &[0, 0, 0], None),
        (0, &[0, 0, 0, 0], Some("more field lines")),
        // `X: ` and CRLF are 5 bytes.
        (0, &[47, 47, 11], None),
        (0, &[47, 47, 12], Some("field lines over")),
        (0, &[47, 47, 47], Some("field lines over")),
    ];
    for (reason, values, refused) in table {
        let mut head = format!("HTTP/1.1 200 {}\r\n", "r".repeat(reason));
        for length in values {
            head += &format!("X: {}\r\n", "v".repeat(*length));
        }
        head += "\r\n";
        match (parse(&head, &Method::Get, &limits), refused) {
            (Ok(Some(parsed)), None) => assert_eq!(parsed.head_length, head.len()),
            (Err(refusal), Some(why)) => assert!(refusal.why.contains(why), "{head}: {refusal}"),
            (outcome, _) => panic!("{head}: {outcome:?}"),
        }
    }
    let endless = "HTTP/1.1 200".to_owned() + &" ".repeat(11);
    let refused = parse(&endless, &Method::Get, &limits).expect_err("over the limit");
    assert!(refused.why.contains("status line over"), "{refused}");
    for (length, is_refused) in [(48, false), (49, true)] {
        let endless = format!("HTTP/1.1 200\r\nX: {}", "v".repeat(length));
        assert_eq!(parse(&endless, &Method::Get, &limits).is_err(), is_refused, "{length}");
    }
    assert_eq!(parse("HTTP/1.1 200", &Method::Get, &limits), Ok(None));
}
