//! The answer to an authority for certificates that checks whether a name leads here.

use howdah_http::{Method, ResponseHead, Status};

use crate::body::ResponseBody;
use crate::pipeline::{RequestContext, Response, ResponseHeadSource};

/// Returns the response to an authority's request for an HTTP-01 challenge (RFC 8555 §8.3); `None`
/// for all other requests. No rule of a site can prevent the answer.
#[inline]
pub(crate) fn respond(context: &RequestContext<'_, '_>) -> Option<Response> {
    let challenges = context.thread.challenges();
    if challenges.is_empty() || !matches!(context.request.method, Method::Get | Method::Head) {
        return None;
    }
    let content = challenges.http(context.request.path())?;
    let head = ResponseHeadSource::Own(ResponseHead::new(Status::OK));
    let mut response = Response::new(head, ResponseBody::whole(content.into()));
    response.push(b"Content-Type", b"application/octet-stream");
    Some(response)
}
