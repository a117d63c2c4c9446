//! Content that is discarded: LimitRequestBody applies to it as well (`ap_discard_request_body`).

use howdah_http::{Content, Status};

use super::{PhaseEnd, PhaseRequest};

/// Discards the request's content before an answer that does not use it.
///
/// # Errors
/// 413 for content that is too long; [`PhaseEnd::Discard`] for content of an unknown length, which
/// has to arrive first.
pub(super) fn discard(request: &PhaseRequest<'_>) -> Result<(), PhaseEnd> {
    let core = request.settings.core.as_ref();
    let Some(most) = core.and_then(|core| core.request_body_limit).filter(|most| *most > 0) else {
        return Ok(());
    };
    if drops_connection(request.tx.state.status) {
        return Ok(());
    }
    match request.tx.client.content() {
        Content::Length(length) if length > most => {
            Err(PhaseEnd::Status(Status::CONTENT_TOO_LARGE))
        }
        Content::Unknown => Err(PhaseEnd::Discard { most }),
        Content::Length(_) | Content::None => Ok(()),
    }
}

/// Returns whether the connection ends with this status, so that the rest of what the client sends
/// does not matter (`ap_status_drops_connection`).
fn drops_connection(status: Status) -> bool {
    matches!(status.code(), 400 | 408 | 411 | 413 | 414 | 500 | 501 | 503)
}
