//! The answer to a Range request for the output of a script.
//!
//! It needs the length of the whole output: the script has declared it, or has ended before the
//! head is sent. Apache's byterange filter asks for the latter alone; a script that sends a
//! recording with its Content-Length should be sought in, too.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use howdah_http::conditional::{self, Validators};
use howdah_http::range::{self, Multipart, Ranges, Span};
use howdah_http::{Fields, Method, ResponseHead, Status, date, members};

use crate::body::{BodySource, Ranged, ResponseBody, Segment};
use crate::pipeline::{Response, ResponseHeadSource};

/// Returns the part of `response` that the request's `fields` ask for: 206. Where Range does not
/// apply, returns the response as it is. `now` is in seconds since 1970.
///
/// # Errors
/// There is no such part of the content, which has this length.
pub(crate) fn select(
    method: &Method,
    fields: &Fields,
    mut response: Response,
    now: u64,
) -> Result<Response, u64> {
    let (ResponseHeadSource::Own(head), Some(length)) =
        (&mut response.head, response.body.length())
    else {
        return Ok(response);
    };
    let is_asked = *method == Method::Get && length > 0 && response.filters.is_empty();
    if !is_asked || !is_divisible(head) || !applies(fields, head, now) {
        return Ok(response);
    }
    match range::requested(method, fields, length) {
        Ranges::Whole => {}
        Ranges::Unsatisfiable => {
            response.body.discard();
            return Err(length);
        }
        Ranges::One(span) => {
            become_partial(head);
            head.fields.push(b"Content-Range", &range::content_range(span, length));
            response.body = select_segments(response.body, vec![Segment::Span(span)]);
        }
        Ranges::Many(spans) => {
            become_partial(head);
            let is_passing = !matches!(response.body, ResponseBody::Buffer(_, 0));
            let segments = parts(head, spans, length, is_passing);
            response.body = select_segments(response.body, segments);
        }
    }
    Ok(response)
}

/// Returns whether the script leaves ranges to the server: it has sent a plain 200, which is no
/// part already.
fn is_divisible(head: &ResponseHead) -> bool {
    let fields = &head.fields;
    let is_none = |member: &[u8]| member.eq_ignore_ascii_case(b"none");
    head.status == Status::OK
        && !fields.contains(b"content-range")
        && !fields.values(b"accept-ranges").flat_map(members).any(is_none)
}

/// Returns whether If-Range, if there is one, names the validator that the script has sent.
fn applies(fields: &Fields, head: &ResponseHead, now: u64) -> bool {
    let validators = Validators {
        etag: head.fields.value(b"etag"),
        last_modified: head.fields.value(b"last-modified").and_then(date::parse),
    };
    conditional::range_applies(fields, &validators, now)
}

fn become_partial(head: &mut ResponseHead) {
    head.status = Status::PARTIAL_CONTENT;
    head.reason = None;
    head.fields.remove(b"content-length");
}

/// Returns the segments of a multipart response. Those of content that passes are in ascending
/// order, because it cannot be read again; RFC 9110 §15.3.7.2 permits any order.
fn parts(
    head: &mut ResponseHead,
    mut spans: Vec<Span>,
    length: u64,
    is_passing: bool,
) -> Vec<Segment> {
    if is_passing {
        spans.sort_unstable_by_key(|span| span.first);
    }
    let media_type = head.fields.value(b"content-type");
    // A boundary of 64 random bits, which no content contains but by accident.
    let token = RandomState::new().hash_one(spans.len());
    let plan = Multipart::plan(&spans, length, media_type, token);
    head.fields.set(b"Content-Type", &plan.content_type);
    let mut segments = Vec::with_capacity(2 * plan.parts.len() + 1);
    for part in plan.parts {
        segments.push(Segment::Text(part.head, 0));
        segments.push(Segment::Span(part.span));
    }
    segments.push(Segment::Text(plan.tail, 0));
    segments
}

/// Returns the segments of `body`. A single part of content in memory stays where it is.
fn select_segments(body: ResponseBody, segments: Vec<Segment>) -> ResponseBody {
    match (body, &*segments) {
        (ResponseBody::Buffer(mut bytes, 0), [Segment::Span(span)]) => {
            bytes.truncate((span.last + 1) as usize);
            ResponseBody::Buffer(bytes, span.first as usize)
        }
        (ResponseBody::Buffer(bytes, 0), segments) => {
            let parts: Vec<&[u8]> = segments
                .iter()
                .map(|segment| match segment {
                    Segment::Text(text, sent) => &text[*sent..],
                    Segment::Span(span) => &bytes[span.first as usize..=span.last as usize],
                })
                .collect();
            ResponseBody::Buffer(parts.concat(), 0)
        }
        (body, _) => ResponseBody::Stream(Box::new(Ranged::new(body, segments))),
    }
}
