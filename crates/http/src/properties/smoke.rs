//! A few thousand mutated seeds for each property, the same ones on every run.

use super::*;

/// A multiplicative generator (splitmix64): good enough to mutate with, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn pick<'a>(&mut self, from: &[&'a [u8]]) -> &'a [u8] {
        from[self.below(from.len())]
    }

    /// One change of the kinds that find seams in parsers.
    fn mutate(&mut self, bytes: &mut Vec<u8>, words: &[&[u8]]) {
        let at = self.below(bytes.len() + 1);
        let end = bytes.len().min(at + 1 + self.below(8));
        match self.below(7) {
            0 if at < bytes.len() => bytes[at] = self.next() as u8,
            1 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            2 => drop(bytes.drain(at..end)),
            3 => drop(bytes.splice(at..at, self.pick(words).iter().copied())),
            4 => drop(bytes.splice(at..end, self.pick(words).iter().copied())),
            5 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => bytes.insert(at, b"\r\n\t :;,\0"[self.below(8)]),
        }
    }
}

/// Runs `property` over the seeds and `count` mutations of them; returns how many inputs
/// `interesting` counted, so that a test can say that it did not only see rubbish.
fn run(
    seeds: &[&[u8]],
    words: &[&[u8]],
    count: usize,
    property: fn(&[u8]),
    interesting: fn(&[u8]) -> bool,
) -> usize {
    let mut random = Random(seeds.len() as u64);
    let mut found = 0;
    let mut check = |bytes: &[u8]| {
        if let Err(panic) = std::panic::catch_unwind(|| property(bytes)) {
            eprintln!("input: \"{}\"", bytes.escape_ascii());
            std::panic::resume_unwind(panic);
        }
        found += usize::from(interesting(bytes));
    };
    seeds.iter().for_each(|seed| check(seed));
    for _ in 0..count {
        let mut bytes = random.pick(seeds).to_vec();
        for _ in 0..=random.below(3) {
            random.mutate(&mut bytes, words);
        }
        check(&bytes);
    }
    found
}

const REQUESTS: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    b"\r\nGET /a?b=c HTTP/1.1\r\nHost: example.org:8080\r\nAccept: */*\r\nConnection: close\r\n\
      \r\nrest",
    b"POST /x HTTP/1.1\r\nHost: [::1]:80\r\nContent-Length: 12\r\nExpect: 100-continue\r\n\r\n",
    b"PUT http://A.b/c HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"OPTIONS * HTTP/1.0\r\nX: \t y z \t\r\nEmpty:\r\n\r\n",
    b"CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n",
    b"GET /caf\xc3\xa9/\xe9?q=\xff HTTP/1.1\r\nHost: h\r\n\r\n",
];

const RESPONSES: &[&[u8]] = &[
    b"\0HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n",
    b"\0HTTP/1.0 404 Not Found\r\nServer: x\r\nDate: now\r\n\r\nrest",
    b"\0HTTP/1.1 200 OK\r\nConnection: close, Transfer-Encoding, X-Hop\r\n\
      Transfer-Encoding: chunked\r\nX-Hop: 1\r\n\r\n0\r\n\r\n",
    b"\x01HTTP/1.1 299 \r\nContent-Length: 5\r\nContent-Length: 5, 5\r\n\r\n",
    b"\x02HTTP/1.1 200\r\nX: \t y z \t\r\nEmpty:\r\n\r\n",
    b"\0HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    b"\0HTTP/1.1 304 caf\xe9\r\nETag: \"\xff\"\r\nTransfer-Encoding: gzip\r\n\r\n",
    b"\0HTTP/1.0 200 OK\nX: a\r\nContent-Length: 2\n\nhi",
    b"\0HTTP/1.1 200\nTransfer-Encoding: chunked\r\n\n0\r\n\r\n",
];

const RESPONSE_WORDS: &[&[u8]] = &[
    b"\n",
    b"\n\n",
    b"\r",
    b"\r\n",
    b"\r\n\r\n",
    b" ",
    b":",
    b"\r\nContent-Length: 5",
    b"\r\nTransfer-Encoding: chunked",
    b"\r\nConnection: x, close",
    b"\r\n folded",
    b"HTTP/1.0 ",
    b"204",
    b"100",
    b",5",
    b"\xff",
    b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
];

const REQUEST_WORDS: &[&[u8]] = &[
    b"\r\n",
    b"\r\n\r\n",
    b" ",
    b":",
    b"\r\nHost: x",
    b"\r\nContent-Length: 5",
    b"\r\nTransfer-Encoding: chunked",
    b"chunked, ",
    b"\r\n folded",
    b"HTTP/1.0",
    b"HTTP/2.0",
    b"http://",
    b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    b"\xff",
    b"@",
];

fn is_accepted(bytes: &[u8]) -> bool {
    let verdict = h1::parse_request(bytes, &Limits::default(), &mut Request::new());
    matches!(verdict, Ok(HeadProgress::Complete(_)))
}

#[test]
fn request_heads() {
    let accepted = run(REQUESTS, REQUEST_WORDS, 20_000, h1_request, is_accepted);
    assert!(accepted > 1_000, "{accepted}");
}

fn is_accepted_response(bytes: &[u8]) -> bool {
    let head = bytes.get(1..).unwrap_or_default();
    matches!(h1::parse_response(head, &Method::Get, &Limits::default()), Ok(Some(_)))
}

#[test]
fn upstream_heads() {
    let accepted = run(RESPONSES, RESPONSE_WORDS, 20_000, h1_response, is_accepted_response);
    assert!(accepted > 1_000, "{accepted}");
}

/// Heads that are accepted here are read by `httparse` with the same status, reason and lines.
#[test]
fn upstream_heads_read_as_another_parser_reads_them() {
    run(RESPONSES, RESPONSE_WORDS, 20_000, response_same_as_httparse, is_accepted_response);
}

fn response_same_as_httparse(bytes: &[u8]) {
    let bytes = bytes.get(1..).unwrap_or_default();
    let Ok(Some(ours)) = h1::parse_response(bytes, &Method::Get, &Limits::default()) else {
        return;
    };
    let mut lines = [httparse::EMPTY_HEADER; 128];
    let mut theirs = httparse::Response::new(&mut lines);
    match theirs.parse(bytes) {
        // It has no HTTP/1.2, which is read as 1.1 here.
        Err(httparse::Error::Version) if !matches!(bytes[7], b'0' | b'1') => return,
        status => assert_eq!(status, Ok(httparse::Status::Complete(ours.head_length))),
    }
    assert_eq!(theirs.code, Some(ours.head.status.code()));
    // It gives no reason where one has bytes beyond ASCII.
    let reason = ours.head.reason.as_deref().unwrap_or_default();
    assert!(!reason.is_ascii() || theirs.reason.unwrap_or_default().as_bytes() == reason);
    let mut rest = theirs.headers.iter();
    let is_length = |name: &[u8]| name.eq_ignore_ascii_case(b"content-length");
    for (name, value) in ours.head.fields.iter().filter(|(name, _)| !is_length(name)) {
        assert!(rest.any(|line| line.name.as_bytes() == name && line.value == value));
    }
}

/// Heads that are accepted here are read by `httparse` as the same method, target and lines.
/// `httparse` accepts more.
#[test]
fn request_heads_read_as_another_parser_reads_them() {
    run(REQUESTS, REQUEST_WORDS, 20_000, same_as_httparse, is_accepted);
}

fn same_as_httparse(bytes: &[u8]) {
    let mut ours = Request::new();
    let Ok(HeadProgress::Complete(parsed)) =
        h1::parse_request(bytes, &Limits::default(), &mut ours)
    else {
        return;
    };
    let mut lines = [httparse::EMPTY_HEADER; 128];
    let mut theirs = httparse::Request::new(&mut lines);
    // It takes a target for text.
    if std::str::from_utf8(&ours.target).is_err() {
        return;
    }
    // It has no HTTP/1.2, which is read as 1.1 here.
    let known = bytes.windows(8).any(|window| window == b"HTTP/1.0" || window == b"HTTP/1.1");
    match theirs.parse(bytes) {
        Err(httparse::Error::Version) if !known => return,
        status => assert_eq!(status, Ok(httparse::Status::Complete(parsed.head_length))),
    }
    assert_eq!(theirs.method, Some(ours.method.as_str()));
    assert!(
        theirs.path.unwrap().as_bytes().ends_with(&ours.target)
            || ours.method != Method::Get
            || ours.target == b"/"
    );
    // A target with a host of its own takes the place of Host.
    let is_path = theirs.path.unwrap().starts_with('/');
    let is_compared = |name: &[u8]| is_path || !name.eq_ignore_ascii_case(b"host");
    let theirs = theirs.headers.iter().map(|line| (line.name.as_bytes(), line.value));
    assert!(
        ours.fields
            .iter()
            .filter(|(name, _)| is_compared(name))
            .eq(theirs.filter(|(name, _)| is_compared(name)))
    );
}

#[test]
fn chunked_content() {
    let seeds: &[&[u8]] = &[
        b"\x000\r\n\r\n",
        b"\x015\r\nhello\r\n0\r\n\r\nGET",
        b"\x025;a=b\r\nhello\r\n6 ;c\r\n world\r\n0\r\n\r\n",
        b"\x03A\r\n0123456789\r\n0\r\nX: y\r\nZ:\r\n\r\n",
        b"\x0400\r\n\r\n",
    ];
    let words: &[&[u8]] = &[
        b"\r\n",
        b"0\r\n\r\n",
        b"5\r\n",
        b";x",
        b"\n",
        b"\r",
        b"ffffffffffffffff",
        b"0000000000",
        b"X: y\r\n",
        b" ",
        b"1\r\nz\r\n",
    ];
    let done = run(seeds, words, 20_000, chunked, |bytes| {
        bytes.split_first().is_some_and(|(_, input)| {
            matches!(reference::chunked(input), reference::Chunked::Done(..))
        })
    });
    assert!(done > 2_000, "{done}");
}

#[test]
fn ranges() {
    let seeds: &[&[u8]] = &[
        b"\x01\x3f......bytes=0-9",
        b"\x01\x20......bytes=-5",
        b"\x01\x30......bytes=0-0,5-6, 20-",
        b"\x01\x30......bytes=30-31,0-3,4-5,-1",
        b"\xf0\xff\xff\xff\xff\xff\xff\xffbytes=0-,1-18446744073709551615",
        b"\x01\x00......bytes=0-",
    ];
    let words: &[&[u8]] =
        &[b"-", b",", b"0-1", b"9", b"bytes=", b"18446744073709551616", b" ", b"-7,", b"2-3,"];
    let partial = run(seeds, words, 20_000, range, |bytes| {
        bytes.get(8..).is_some_and(|value| {
            matches!(range::select(value, 48), Ranges::One(_) | Ranges::Many(_))
        })
    });
    assert!(partial > 1_000, "{partial}");
}

#[test]
fn dates() {
    let seeds: &[&[u8]] = &[
        b"Sun, 06 Nov 1994 08:49:37 GMT",
        b"Sunday, 06-Nov-94 08:49:37 GMT",
        b"Sun Nov  6 08:49:37 1994",
        b"Thu, 29 Feb 2024 23:59:60 GMT",
        b"\0\0\0\0\0\0\0\0",
    ];
    let words: &[&[u8]] =
        &[b"00", b"29", b"Feb", b"1970", b"9999", b"31", b" GMT", b"Mon, ", b"60"];
    let read = run(seeds, words, 20_000, date, |bytes| date::parse(bytes).is_some());
    assert!(read > 100, "{read}");
}

#[test]
fn conditions() {
    let seeds: &[&[u8]] = &[
        b"If-Match: \"v2\"\nIf-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
        b"If-None-Match: \"v1\", W/\"v2\"\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT",
        b"if-none-match: *\nIf-Range: \"v2\"",
        b"If-Range: Sun, 06 Nov 1994 08:49:37 GMT\nIf-Match: *",
        b"If-Modified-Since: Sun, 06 Nov 1994 08:49:38 GMT\nHost: h",
    ];
    let words: &[&[u8]] = &[
        b"\n",
        b"\"v2\"",
        b"W/",
        b",",
        b"*",
        b"\nIf-Match: ",
        b"\nIf-None-Match: ",
        b"\"",
        b"\nIf-Range: ",
    ];
    let reached = run(seeds, words, 6_000, conditional, |bytes| {
        bytes.windows(4).any(|window| window == b"\"v2\"")
    });
    assert!(reached > 1_000, "{reached}");
}

#[test]
fn response_heads() {
    let seeds: &[&[u8]] = &[
        b"\x00\xc8\x01Content-Type=text/html;Set-Cookie=a;Set-Cookie=b",
        b"\x01\x30\x00Content-Length=12;ETag=\"x\"",
        b"\x00\x67\x02Link=</a>;Connection=close;Transfer-Encoding=chunked",
        b"\x03\xe7\x03Location=/x;Upgrade=h2c;Date=now;Server=none",
    ];
    let words: &[&[u8]] = &[
        b"\r\n",
        b"\r\nSet-Cookie: x",
        b"\0",
        b";",
        b"=",
        b"Content-Length=5;",
        b"Transfer-Encoding=chunked;",
        b"\n\n",
        b" ",
    ];
    run(seeds, words, 20_000, response_head, |_| true);
}

#[test]
fn proxy_protocol() {
    let tcp4 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x01\xc0\0\x02\x02\x04\xd2\0\x50";
    let ssl = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x14\xc0\0\x02\x01\xc0\0\x02\x02\x04\xd2\0\x50\x20\0\x05\x01\0\0\0\0";
    let seeds: [&[u8]; 5] = [
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1234 80\r\nGET / HTTP/1.1\r\n",
        b"PROXY TCP6 2001:db8::1 ::1 1 2\r\n",
        b"PROXY UNKNOWN\r\n",
        tcp4,
        ssl,
    ];
    let words: [&[u8]; 6] = [b"PROXY ", b"\r\n", b"TCP4", b"UNKNOWN ", b"\0\0", b"\x20\0\x01\x01"];
    let is_whole = |data: &[u8]| {
        let mut length = 0;
        while let Some(bytes) = data.get(..length) {
            match crate::proxy_protocol::read(bytes) {
                Ok(crate::proxy_protocol::HeaderProgress::Missing(count)) => length += count,
                Ok(crate::proxy_protocol::HeaderProgress::Complete(_)) => return true,
                Err(_) => return false,
            }
        }
        false
    };
    let whole = run(&seeds, &words, 20_000, super::proxy_protocol, is_whole);
    assert!(whole > 500, "{whole}");
}

#[test]
fn forwarded() {
    let seeds: [&[u8]; 6] = [
        b"192.0.2.1:80",
        b"[2001:db8::1]:80",
        b"for=192.0.2.1;proto=https;host=\"a.example:80\", for=\"[::1]\"",
        b"192.0.2.1, 192.0.2.2\n10.0.0.1",
        b"for=_x;by=unknown",
        b"for=\"a\\\"b\"",
    ];
    let words: [&[u8]; 7] = [b"for=", b"proto=", b"\"", b"\\", b", ", b";", b"::"];
    let is_list = |data: &[u8]| crate::forwarded::elements(data, &mut Vec::new()).is_ok();
    let lists = run(&seeds, &words, 20_000, super::forwarded, is_list);
    assert!(lists > 500, "{lists}");
}

#[test]
fn http2_request_heads() {
    let seeds: [&[u8]; 6] = [
        b"\x01GET\thttp\texample.org\t/a?b\naccept\t*/*\ncookie\ta=1\ncookie\tb=2",
        b"\x00POST\thttp\th:80\t/\ncontent-length\t12\nexpect\t100-continue",
        b"\x00PUT\thttp\t-\t/x\nhost\tH.org\nte\ttrailers\npriority\tu=1, i",
        b"\x01OPTIONS\thttp\t[::1]:8\t*\nhost\t[::1]:8",
        b"\x00CONNECT\t-\th:443\t-",
        b"\x01HEAD\thttp\th\t/\ncontent-length\t0",
    ];
    let words: [&[u8]; 12] = [
        b"\n",
        b"\t",
        b"\nhost\t",
        b"\ncookie\t",
        b"\nconnection\tclose",
        b"\ntransfer-encoding\tchunked",
        b"\ncontent-length\t5",
        b"-",
        b"https",
        b"*",
        b"A",
        b" ",
    ];
    let accepted = run(&seeds, &words, 20_000, super::h2_request, super::http2::is_accepted);
    assert!(accepted > 1_000, "{accepted}");
}

#[test]
fn http2_frames() {
    let seeds: [&[u8]; 4] = [
        b"\x00\0\0\x08\x06\0\0\0\0\0abcdefgh\0\0\x04\x03\0\0\0\0\x01abcd",
        b"\x03\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0",
        b"\x0a\0\0\x01\x01\0\0\0\0\x01a\0\0\x01\x09\0\0\0\0\x01a",
        b"\x05\0\0\x04\x08\0\0\0\0\0abcd\0\0\0\0\0\0\0\0\x01",
    ];
    let words: [&[u8]; 4] = [
        b"\0\0\0\0\0\0\0\0\x01",
        b"\0\0\x08\x06\0\0\0\0\0",
        b"\0\0\0",
        b"\0\0\x05\x10\0\0\0\0\0\0\0\0\x03i",
    ];
    run(&seeds, &words, 20_000, super::h2_frames, |_| true);
}

#[test]
fn http3_first_heads() {
    let coded = b"\x01\x14\0\0\xcf\x2f\0\xb9]\x87I\xc8z?\x87\xf0X\xd0ru*\x7f\xd7\0\x04data";
    let plain = b"\x21\x02xx\x01\x17\0\0\x27\x02:protocol\x09websocket";
    let seeds: [&[u8]; 3] = [coded, plain, b"\x01\x06\0\0\xd1\x51\x01/"];
    let words: [&[u8]; 4] = [b"\x27\x02:protocol", b"\x09websocket", b"\xff\xff", b"\x01\x40\x20"];
    let found = run(&seeds, &words, 20_000, super::h3_first_head, super::http3::is_websocket);
    assert!(found > 1_000, "{found}");
}

#[test]
fn http3_control() {
    let seeds: [&[u8]; 2] = [
        b"\0\x04\x02\x33\0\x80\x0f\x07\0\x06\x08u=1,i\x21\0\x80\x0f\x07\0\x01\x0c",
        b"\0\x04\0\x80\x0f\x07\0\x05\x40\x04u=7",
    ];
    let words: [&[u8]; 5] =
        [b"\x80\x0f\x07\0\x02\x04i", b"\x80\x0f\x07\x01\x01\0", b"\0", b"\x40\x21", b"u=0"];
    let found = run(&seeds, &words, 20_000, super::h3_control, super::http3::has_update);
    assert!(found > 1_000, "{found}");
}
