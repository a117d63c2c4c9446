//! Content that nobody reads: the limit of LimitRequestBody holds for it as well
//! (`ap_discard_request_body`).

use howdah_http::{Content, Status};

use super::{Asked, Stop};

/// Has the request's content thrown away, before an answer that has no use for it. Where it is
/// longer than it may be, that is the answer.
pub(super) fn discard(asked: &Asked<'_>) -> Result<(), Stop> {
    let core = asked.settings.core.as_ref();
    let Some(most) = core.and_then(|core| core.request_body_limit).filter(|most| *most > 0) else {
        return Ok(());
    };
    if drops_connection(asked.tx.state.status) {
        return Ok(());
    }
    match asked.tx.client.content() {
        Content::Length(length) if length > most => Err(Stop::Status(Status::CONTENT_TOO_LARGE)),
        Content::Chunked => Err(Stop::Discard { most }),
        Content::Length(_) | Content::None => Ok(()),
    }
}

/// Whether the connection ends with this status, so that the rest of what the client sends does not
/// matter (`ap_status_drops_connection`).
fn drops_connection(status: Status) -> bool {
    matches!(status.code(), 400 | 408 | 411 | 413 | 414 | 500 | 501 | 503)
}
