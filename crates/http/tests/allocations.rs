//! The way of an ordinary request takes no memory once its buffers have grown.

use howdah_http::{
    Limits, Method, Request, ResponseHead, Status, Version,
    conditional::{self, Validators},
    date, etag,
    h1::{self, ChunkedDecoder, Framing, HopFields},
    range,
};

const REQUEST: &[u8] = b"POST /index.php?a=b HTTP/1.1\r\nHost: Example.org:8080\r\n\
    User-Agent: Mozilla/5.0\r\n\
    Accept: text/html,*/*;q=0.8\r\nAccept-Encoding: gzip, deflate, br\r\nCookie: a=b; c=d\r\n\
    If-None-Match: \"x\"\r\n\
    Range: bytes=0-99\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n";

const CONTENT: &[u8] = b"5\r\nhello\r\n6;a=b\r\n world\r\n0\r\n\r\n";

/// Reads a request and its content, decides about ranges and conditions, and writes a head.
fn serve(request: &mut Request, head: &mut ResponseHead, out: &mut Vec<u8>, limits: &Limits) {
    h1::parse_request(REQUEST, limits, request).expect("the request is well-formed");
    let mut decoder = ChunkedDecoder::new(limits);
    let mut rest = CONTENT;
    while !rest.is_empty() {
        rest = &rest[decoder.decode(rest).expect("the content is well-formed").consumed..];
    }
    let tag = etag::of_file(12, 784_111_777, 5, b"");
    let current = Validators {
        etag: Some(&tag),
        last_modified: Some(784_111_777),
    };
    assert_eq!(
        conditional::decide(&request.method, &request.fields, Some(&current), 0),
        conditional::PreconditionOutcome::Proceed
    );
    assert!(conditional::range_applies(&request.fields, &current, 0));
    assert!(matches!(range::requested(&Method::Get, &request.fields, 1000), range::Ranges::One(_)));
    head.status = Status::OK;
    head.fields.clear();
    head.push(b"Content-Type", b"text/html").expect("a good field");
    head.push(b"ETag", &tag).expect("a good field");
    head.push(b"Last-Modified", &date::format(784_111_777)).expect("a good field");
    out.clear();
    let hop = HopFields {
        version: Version::Http11,
        is_persistent: true,
        date: &date::format(0),
        alternative: Some(b"h3=\":443\""),
    };
    h1::encode_head(out, head, Framing::Length(12), &hop);
}

#[test]
fn an_ordinary_request_allocates_nothing() {
    let limits = Limits::default();
    let (mut request, mut head, mut out) = (Request::new(), ResponseHead::default(), Vec::new());
    serve(&mut request, &mut head, &mut out, &limits);
    let measured =
        allocation_counter::measure(|| serve(&mut request, &mut head, &mut out, &limits));
    assert_eq!(measured.count_total, 0);
}
