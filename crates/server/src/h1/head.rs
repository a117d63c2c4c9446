//! Encoding the head of a response for HTTP/1.

use howdah_http::h1::{Framing, complete_kept_head, encode_head, encode_kept_head};
use howdah_http::{Request, ResponseHead, SharedHead};

use crate::pipeline::{Head, Response};

/// Appends the head of `response` to `out`. Returns the framing of the content.
#[inline]
pub(super) fn encode(
    out: &mut Vec<u8>,
    response: &Response,
    request: &Request,
    is_persistent: bool,
    date: &[u8],
) -> Framing {
    let (version, method) = (request.version, &request.method);
    match &response.head {
        Head::Own(head) => {
            let framing = Framing::of(method, version, head.status, response.length());
            encode_head(out, version, head, framing, is_persistent, date);
            framing
        }
        Head::Shared(shared) => encode_shared(out, shared, request, is_persistent, date),
        Head::File(representation) => {
            encode_shared(out, representation.head(), request, is_persistent, date)
        }
    }
}

/// Adds Alt-Svc to the head that `out` ends with, unless the response has its own.
pub(super) fn offer(out: &mut Vec<u8>, response: &Response, alternative: &[u8]) {
    const NAME: &[u8] = b"Alt-Svc";
    if response.head.get().fields.value(NAME).is_none() {
        out.truncate(out.len() - b"\r\n".len());
        for part in [NAME, b": ", alternative, b"\r\n\r\n"] {
            out.extend_from_slice(part);
        }
    }
}

/// The bytes that stay the same are encoded once; Date, Connection and the empty line are added.
#[inline]
fn encode_shared(
    out: &mut Vec<u8>,
    shared: &SharedHead,
    request: &Request,
    is_persistent: bool,
    date: &[u8],
) -> Framing {
    let encode = |head: &ResponseHead, length| {
        let mut bytes = Vec::new();
        encode_kept_head(&mut bytes, head, length);
        bytes.into_boxed_slice()
    };
    out.extend_from_slice(shared.encoded(encode));
    complete_kept_head(out, request.version, is_persistent, date);
    let length = Some(shared.length());
    Framing::of(&request.method, request.version, shared.head().status, length)
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use howdah_http::{Method, Status, Version, date};

    use super::*;
    use crate::body::Body;

    fn lines(bytes: &[u8]) -> Vec<String> {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let mut lines: Vec<String> = text.split("\r\n").map(str::to_lowercase).collect();
        lines.sort();
        lines
    }

    #[test]
    fn a_shared_head_is_encoded_as_the_same_head_of_one_response() {
        let mut head = ResponseHead::new(Status::OK);
        head.fields.push(b"Content-Type", b"text/html");
        head.fields.push(b"ETag", b"\"x\"");
        let shared = Head::Shared(Rc::new(SharedHead::new(head.clone(), 4)));
        let shared = Response::new(shared, Body::whole((*b"1234").into()));
        let own = Response::new(Head::Own(head), Body::whole((*b"1234").into()));
        let date = date::format(1_000_000);
        for method in [Method::Get, Method::Head] {
            for version in [Version::Http10, Version::Http11] {
                for is_persistent in [false, true] {
                    let request = Request {
                        method: method.clone(),
                        version,
                        ..Request::default()
                    };
                    let encode = |response| {
                        let mut out = Vec::new();
                        let framing =
                            super::encode(&mut out, response, &request, is_persistent, &date);
                        (lines(&out), framing)
                    };
                    assert_eq!(encode(&shared), encode(&own), "{request:?} {is_persistent}");
                }
            }
        }
    }
}
