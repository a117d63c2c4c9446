//! Heads in the types of the `http` crate, which the `h2` and `h3` crates share.

use howdah_http::h2::{PseudoFields, content_length, read_request};
use howdah_http::{Limits, Method, Refusal, Request, ResponseHead, Version};
use http::header::{ALT_SVC, CONTENT_LENGTH, DATE, HeaderMap, HeaderValue, SERVER};
use http::request::Parts;
use http::{Response, StatusCode};

use super::made_fields::{self, made};

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
    head: &ResponseHead,
    method: &Method,
    length: Option<u64>,
    date: &[u8],
    alternative: Option<&HeaderValue>,
) -> Response<()> {
    let mut response = interim(head);
    let fields = response.headers_mut();
    if let Some(alternative) = alternative {
        fields.entry(ALT_SVC).or_insert_with(|| alternative.clone());
    }
    fields.insert(SERVER, HeaderValue::from_static("Howdah"));
    if let Some(date) = made_fields::date(date) {
        fields.insert(DATE, date);
    }
    if let Some(length) = content_length(method, head, length) {
        fields.insert(CONTENT_LENGTH, length.into());
    }
    response
}

/// Returns the head of an interim response, which has its own fields only.
pub(super) fn interim(head: &ResponseHead) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() =
        StatusCode::from_u16(head.status.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut fields = HeaderMap::with_capacity(head.fields.len().min(MOST_FIELDS) + 3);
    for (name, value) in head.fields.iter() {
        // A head with more fields than the map takes is sent without the rest.
        if let Some((name, value)) = made(name, value)
            && fields.try_append(name, value).is_err()
        {
            break;
        }
    }
    *response.headers_mut() = fields;
    response
}

/// Fields for which room is made at once.
const MOST_FIELDS: usize = 1000;
