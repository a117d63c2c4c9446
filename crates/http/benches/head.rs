//! Nanoseconds for reading a request head and for writing a response head, in a bare loop with warm
//! caches.
//!
//! `cargo bench -p howdah-http --bench head -- [WORD]`, where WORD selects the lines that contain
//! it. The best of several rounds is the time of the code; the rest is the machine.

use std::{hint::black_box, time::Instant};

use howdah_http::{
    Fields, Limits, Method, Request, ResponseHead, Status, Version,
    conditional::{self, Validators},
    date,
    h1::{self, ChunkedDecoder, Framing, HeadProgress},
};

fn main() {
    for (name, head) in [("wrk", WRK), ("curl", CURL), ("chromium", CHROMIUM)] {
        parse(name, head);
        parse_httparse(name, head);
    }
    encode("file", &response(FILE_FIELDS), Framing::Length(12));
    encode("script", &response(SCRIPT_FIELDS), Framing::Chunked);
    let mut seconds = 784_111_777;
    report("date, format", 29, || {
        seconds += 1;
        black_box(date::format(black_box(seconds)));
    });
    report("date, parse", 29, || {
        black_box(date::parse(black_box(b"Sun, 06 Nov 1994 08:49:37 GMT")));
    });
    chunked();
    decide();
}

fn parse(name: &str, head: &[u8]) {
    let limits = Limits::default();
    let mut request = Request::new();
    report(&format!("parse, {name}"), head.len(), || {
        let progress = h1::parse_request(black_box(head), &limits, &mut request);
        assert!(matches!(progress, Ok(HeadProgress::Complete(_))));
        black_box(&request);
    });
}

/// The same head only tokenised: no Host, no framing, no copy, fewer checks.
fn parse_httparse(name: &str, head: &[u8]) {
    report(&format!("  httparse alone, {name}"), head.len(), || {
        let mut lines = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut lines);
        assert!(request.parse(black_box(head)).is_ok_and(|status| status.is_complete()));
        black_box(&request);
    });
}

fn encode(name: &str, head: &ResponseHead, framing: Framing) {
    let date = date::format(784_111_777);
    let hop = h1::HopFields {
        version: Version::Http11,
        is_persistent: true,
        date: &date,
        alternative: None,
    };
    let mut out = Vec::new();
    h1::encode_head(&mut out, head, framing, &hop);
    let length = out.len();
    report(&format!("encode, {name}"), length, || {
        out.clear();
        h1::encode_head(&mut out, black_box(head), framing, &hop);
        black_box(&out);
    });
}

fn chunked() {
    let content = vec![b'x'; 8192];
    let input = [b"2000\r\n", &content[..], b"\r\n0\r\n\r\n"].concat();
    let limits = Limits::default();
    report("chunked, one chunk of 8 KiB", input.len(), || {
        let mut decoder = ChunkedDecoder::new(&limits);
        let mut rest = black_box(&input[..]);
        while !rest.is_empty() {
            let decoded = decoder.decode(rest).expect("the input is well-formed");
            rest = &rest[decoded.consumed..];
        }
        assert!(decoder.is_done());
    });
}

fn decide() {
    let mut request = Request::new();
    h1::parse_request(CHROMIUM, &Limits::default(), &mut request).expect("the head is well-formed");
    let fields: &Fields = &request.fields;
    let current = Validators {
        etag: Some(b"\"c-3b9aca00\""),
        last_modified: Some(784_111_777),
    };
    report("conditional, chromium's fields without one", 0, || {
        black_box(conditional::decide(&Method::Get, black_box(fields), Some(&current), 0));
    });
}

fn report(name: &str, bytes: usize, mut work: impl FnMut()) {
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with('-')).peekable();
    if words.peek().is_some() && !words.any(|word| name.contains(&word)) {
        return;
    }
    let mut nanoseconds = || {
        let start = Instant::now();
        (0..BATCH).for_each(|_| work());
        start.elapsed().as_nanos() as f64 / f64::from(BATCH)
    };
    nanoseconds();
    let best = (0..ROUNDS).map(|_| nanoseconds()).fold(f64::INFINITY, f64::min);
    println!("{name:<45} {bytes:>5} bytes {best:>8.1} ns");
}

fn response(lines: &[(&str, &str)]) -> ResponseHead {
    let mut head = ResponseHead::new(Status::OK);
    for (name, value) in lines {
        head.push(name.as_bytes(), value.as_bytes()).expect("the lines are well-formed");
    }
    head
}

const BATCH: u32 = 20_000;
const ROUNDS: usize = 40;

const WRK: &[u8] = b"GET /hello.txt HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";

const CURL: &[u8] =
    b"GET /index.php?a=b HTTP/1.1\r\nHost: example.org:8080\r\nUser-Agent: curl/8.5.0\r\n\
      Accept: */*\r\n\r\n";

const CHROMIUM: &[u8] = b"GET /wp-content/themes/a/style.css?ver=6.1.1 HTTP/1.1\r\n\
Host: www.example.org\r\n\
Connection: keep-alive\r\n\
sec-ch-ua: \"Chromium\";v=\"128\", \"Not;A=Brand\";v=\"24\"\r\n\
sec-ch-ua-mobile: ?0\r\n\
User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
Chrome/128.0.0.0 Safari/537.36\r\n\
sec-ch-ua-platform: \"Linux\"\r\n\
Accept: text/css,*/*;q=0.1\r\n\
Sec-Fetch-Site: same-origin\r\n\
Sec-Fetch-Mode: no-cors\r\n\
Sec-Fetch-Dest: style\r\n\
Referer: https://www.example.org/2026/11/a-post-about-elephants/\r\n\
Accept-Encoding: gzip, deflate, br, zstd\r\n\
Accept-Language: en-GB,en;q=0.9,de;q=0.8\r\n\
Cookie: wp-settings-1=libraryContent%3Dbrowse; wp-settings-time-1=1731000000; \
wordpress_test_cookie=WP%20Cookie\r\n\
\r\n";

const FILE_FIELDS: &[(&str, &str)] = &[
    ("Content-Type", "text/plain; charset=utf-8"),
    ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
    ("ETag", "\"c-ae1b29a3d3a2a00\""),
    ("Accept-Ranges", "bytes"),
];

const SCRIPT_FIELDS: &[(&str, &str)] =
    &[("X-Powered-By", "PHP/8.2.29"), ("Content-Type", "text/html; charset=UTF-8")];
