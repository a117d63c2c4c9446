//! The head of a response into HTTP/1's bytes.

use howdah_http::h1::{Framing, encode_head, encode_kept_head};
use howdah_http::{Request, ResponseHead, SharedHead, Version};

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
    out.extend_from_slice(b"Date: ");
    out.extend_from_slice(date);
    out.extend_from_slice(match (is_persistent, request.version) {
        (false, _) => b"\r\nConnection: close\r\n\r\n",
        (true, Version::Http10) => b"\r\nConnection: keep-alive\r\n\r\n",
        (true, _) => b"\r\n\r\n",
    });
    let length = Some(shared.length());
    Framing::of(&request.method, request.version, shared.head().status, length)
}
