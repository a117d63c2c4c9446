//! Heads in the types of the `http` crate, which the `h2` and `h3` crates share.

use std::cell::RefCell;

use howdah_http::h2::{PseudoFields, content_length, read_request};
use howdah_http::{Limits, Method, Refusal, Request, ResponseHead, SharedHead, Version};
use http::header::{ALT_SVC, CONTENT_LENGTH, DATE, HeaderMap, HeaderValue, SERVER};
use http::request::Parts;
use http::{Response, StatusCode};

use super::made_fields::{self, made};
use crate::pipeline::ResponseHeadSource;

/// Reads the head of a request of that version into `into`. `protocol`: that of an extended
/// CONNECT. `ends`: no content follows. `is_proxied`: a trusted proxy brings the request. Returns
/// whether the client waits for 100 (Continue).
///
/// # Errors
/// The request is refused.
pub(super) fn read(
    version: Version,
    head: &Parts,
    protocol: Option<&str>,
    ends: bool,
    is_proxied: bool,
    limits: &Limits,
    into: &mut Request,
) -> Result<bool, Refusal> {
    let uri = &head.uri;
    let pseudo = PseudoFields {
        method: head.method.as_str().as_bytes(),
        scheme: uri.scheme_str().filter(|_| !is_proxied).map(str::as_bytes),
        authority: uri.authority().map(|authority| authority.as_str().as_bytes()),
        path: uri.path_and_query().map(|path| path.as_str().as_bytes()),
        protocol: protocol.map(str::as_bytes),
    };
    let fields = head.headers.iter();
    let fields = fields.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    read_request(version, &pseudo, fields, ends, limits, into)
}

/// Returns the head of a response to `method` whose content has `length` bytes; `None`: not known
/// yet. `alternative` is the value of Alt-Svc, unless the head has its own.
pub(super) fn response(
    head: &ResponseHeadSource,
    method: &Method,
    length: Option<u64>,
    date: &[u8],
    alternative: Option<&HeaderValue>,
) -> Response<()> {
    let date = made_fields::date(date);
    match head {
        ResponseHeadSource::Own(head) => {
            let length = content_length(method, head, length);
            with_fields(head, complete(head, length, date, alternative))
        }
        ResponseHeadSource::Shared(shared) => shared_response(shared, date, alternative),
        ResponseHeadSource::File(representation) => {
            shared_response(representation.head(), date, alternative)
        }
    }
}

/// The fields of a head that many responses share.
#[derive(Default)]
struct KeptFields {
    /// `None`: they are yet to be made.
    fields: Option<HeaderMap>,
    /// The values that `fields` has of what changes.
    date: Option<HeaderValue>,
    alternative: Option<HeaderValue>,
}

/// Returns the head of a response whose head was made before, or is made for the next ones.
fn shared_response(
    shared: &SharedHead,
    date: Option<HeaderValue>,
    alternative: Option<&HeaderValue>,
) -> Response<()> {
    let head = shared.head();
    // The length is known: the method does not matter.
    let length = content_length(&Method::Get, head, Some(shared.length()));
    let Some(kept) = shared.made::<RefCell<KeptFields>>() else {
        return with_fields(head, complete(head, length, date, alternative));
    };
    let KeptFields {
        fields,
        date: kept_date,
        alternative: kept_alternative,
    } = &mut *kept.borrow_mut();
    let fields = match fields {
        Some(fields) if kept_alternative.as_ref() == alternative => {
            if *kept_date != date {
                date.iter().for_each(|date| drop(fields.insert(DATE, date.clone())));
                *kept_date = date;
            }
            fields
        }
        fields => {
            *kept_date = date.clone();
            *kept_alternative = alternative.cloned();
            fields.insert(complete(head, length, date, alternative))
        }
    };
    // A copy has exactly the memory that its lines need.
    with_fields(head, fields.clone())
}

/// Returns the fields of a final response.
fn complete(
    head: &ResponseHead,
    length: Option<u64>,
    date: Option<HeaderValue>,
    alternative: Option<&HeaderValue>,
) -> HeaderMap {
    let mut fields = own_fields(head);
    if let Some(alternative) = alternative {
        fields.entry(ALT_SVC).or_insert_with(|| alternative.clone());
    }
    fields.insert(SERVER, HeaderValue::from_static("Howdah"));
    if let Some(date) = date {
        fields.insert(DATE, date);
    }
    if let Some(length) = length {
        fields.insert(CONTENT_LENGTH, made_fields::length(length));
    }
    fields
}

/// Returns the head of an interim response, which has its own fields only.
pub(super) fn interim(head: &ResponseHead) -> Response<()> {
    with_fields(head, own_fields(head))
}

fn with_fields(head: &ResponseHead, fields: HeaderMap) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() =
        StatusCode::from_u16(head.status.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.headers_mut() = fields;
    response
}

fn own_fields(head: &ResponseHead) -> HeaderMap {
    let mut fields = HeaderMap::with_capacity(head.fields.len().min(MOST_FIELDS) + ADDED_FIELDS);
    // A head with more fields than the map takes is sent without the rest.
    for (name, value) in head.fields.iter().take(MOST_LINES) {
        if let Some((name, value)) = made(name, value)
            && fields.try_append(name, value).is_err()
        {
            break;
        }
    }
    fields
}

/// Fields of a response that are sent, of scripts and directives together. A map that is full would
/// panic when Date is put into it: it takes 24,576.
const MOST_LINES: usize = 24_000;
/// Date, Server and Content-Length.
const ADDED_FIELDS: usize = 3;
/// Fields for which room is made at once. The room grows for more.
const MOST_FIELDS: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_with_more_fields_than_a_map_takes_is_sent_with_the_first_ones() {
        let mut head = ResponseHead::new(howdah_http::Status::OK);
        for number in 0..40_000 {
            head.fields.push(format!("x-{number}").as_bytes(), b"");
        }
        let date = made_fields::date(b"Sun, 06 Nov 1994 08:49:37 GMT");
        let fields = complete(&head, Some(7), date, Some(&HeaderValue::from_static("h3")));
        assert_eq!(fields.len(), MOST_LINES + 4);
        assert_eq!(fields[CONTENT_LENGTH], "7");
        assert!(fields.contains_key("x-0") && !fields.contains_key(format!("x-{MOST_LINES}")));
    }
}
