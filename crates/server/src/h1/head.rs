//! Encoding the head of a response for HTTP/1.

use howdah_http::h1::{Framing, HopFields, complete_kept_head, encode_head, encode_kept_head};
use howdah_http::{Method, ResponseHead, SharedHead};

use crate::pipeline::{Response, ResponseHeadSource};

/// Appends the head of `response` to a request with `method` to `out`. An Alt-Svc of the response
/// itself goes before that of `hop`. Returns the framing of the content.
#[inline]
pub(super) fn encode(
    out: &mut Vec<u8>,
    response: &Response,
    method: &Method,
    mut hop: HopFields<'_>,
) -> Framing {
    if hop.alternative.is_some() && response.head.get().fields.contains(b"alt-svc") {
        hop.alternative = None;
    }
    match &response.head {
        ResponseHeadSource::Own(head) => {
            let framing = Framing::of(method, hop.version, head.status, response.length());
            encode_head(out, head, framing, &hop);
            framing
        }
        ResponseHeadSource::Shared(shared) => encode_shared(out, shared, method, &hop),
        ResponseHeadSource::File(representation) => {
            encode_shared(out, representation.head(), method, &hop)
        }
    }
}

/// The bytes that stay the same are encoded once. The fields of the connection are added.
#[inline]
fn encode_shared(
    out: &mut Vec<u8>,
    shared: &SharedHead,
    method: &Method,
    hop: &HopFields<'_>,
) -> Framing {
    let encode = |head: &ResponseHead, length| {
        let mut bytes = Vec::new();
        encode_kept_head(&mut bytes, head, length);
        bytes.into_boxed_slice()
    };
    out.extend_from_slice(shared.encoded(encode));
    let length = Some(shared.length());
    let framing = Framing::of(method, hop.version, shared.head().status, length);
    complete_kept_head(out, framing, hop);
    framing
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use howdah_http::{Method, Status, Version, date};

    use super::*;
    use crate::body::ResponseBody;

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
        let shared = ResponseHeadSource::Shared(Rc::new(SharedHead::new(head.clone(), 4)));
        let shared = Response::new(shared, ResponseBody::whole((*b"1234").into()));
        let own =
            Response::new(ResponseHeadSource::Own(head), ResponseBody::whole((*b"1234").into()));
        let date = date::format(1_000_000);
        for method in [Method::Get, Method::Head] {
            for version in [Version::Http10, Version::Http11] {
                for is_persistent in [false, true] {
                    let hop = HopFields {
                        version,
                        is_persistent,
                        date: &date,
                        alternative: Some(b"h3=\":443\""),
                    };
                    let encode = |response| {
                        let mut out = Vec::new();
                        let framing = super::encode(&mut out, response, &method, hop);
                        (lines(&out), framing)
                    };
                    assert_eq!(encode(&shared), encode(&own), "{method:?} {hop:?}");
                }
            }
        }
    }
}
