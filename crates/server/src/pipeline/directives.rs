//! Applying the site's directives. The crate `site` decides; this module connects its decisions
//! with the request, the disk and the log.

use std::rc::Rc;
use std::time::Instant;

use howdah_htaccess::response::About;
use howdah_http::Status;
use howdah_site::{CachedResolution, Resolution, Resolved, Ruled, Site};

use super::context::RequestContext;
use super::response::{Head, Response};
use crate::body::Source;
use crate::observe::{Phase, RequestError, RespondError};

/// Resolves the request. If a password has to be compared, that is done outside the event loop, and
/// then the request is resolved again.
pub(super) async fn resolve(context: &mut RequestContext<'_, '_>, site: &Site) -> Resolved {
    context.phase.set(Phase::Resolving);
    let thread = context.thread;
    thread.store().tick(context.arrival.began.seconds());
    for _ in 0..MOST_PASSWORDS {
        let CachedResolution { resolved, prepared } = {
            let client = context.peer.client(context.request, context.arrival.began.microseconds);
            let mut host = thread.host(site, context.arrival.started);
            let mut cache = thread.resolution_cache();
            let scratch = &mut context.scratch.paths;
            howdah_site::resolve_cached(site, &client, &mut host, scratch, &mut cache)
        };
        context.prepared = prepared;
        match resolved.resolution {
            Resolution::Verify { hash, password } => {
                if !thread.passwords().find_out(hash, password).await {
                    break;
                }
            }
            _ => return resolved,
        }
    }
    Resolved {
        resolution: Resolution::Status(Status::SERVICE_UNAVAILABLE),
        ruled: None,
    }
}

/// Resolves the error page of a request that failed with `status` after it was resolved.
pub(super) fn error(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    ruled: Option<Rc<Ruled>>,
    status: Status,
) -> Resolved {
    context.prepared = None;
    let client = context.peer.client(context.request, context.arrival.began.microseconds);
    let mut host = context.thread.host(site, context.arrival.started);
    howdah_site::error(site, &client, ruled, status, &mut host, &mut context.scratch.paths)
}

/// Lets the directives change the head of a response and choose the filters of its content.
///
/// # Errors
/// A directive turns the response into an error.
pub(crate) fn adjust(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    ruled: Option<&mut Rc<Ruled>>,
    mut response: Response,
) -> Result<Response, RespondError> {
    let (Some(ruled), Head::Own(head)) = (ruled, &mut response.head) else {
        return Ok(response);
    };
    let stored = if response.body.is_stored() {
        response.body.length()
    } else {
        None
    };
    let about = About {
        is_error: response.is_own,
        modified: response.modified,
        length: response.length_hint.or(stored),
    };
    let client = context.peer.client(context.request, context.arrival.began.microseconds);
    let mut host = context.thread.host(site, context.arrival.started);
    let scratch = &mut context.scratch.paths;
    response.filters = howdah_site::respond(site, &client, ruled, head, about, &mut host, scratch)?;
    Ok(response)
}

/// Logs the messages of directives.
pub(super) fn log_messages(context: &RequestContext<'_, '_>, ruled: Option<&mut Rc<Ruled>>) {
    let ruled = ruled.filter(|ruled| !ruled.state.complaints.is_empty());
    let messages = ruled.map(|ruled| std::mem::take(&mut Rc::make_mut(ruled).state.complaints));
    for message in messages.iter().flatten() {
        if context.thread.is_news(message, Instant::now()) {
            let error = RequestError::directives(context.situation(), message);
            context.thread.report(&error);
        }
    }
}

/// The most passwords that are compared for one request. Each result is kept for a minute, so a
/// further round needs at most another password.
const MOST_PASSWORDS: usize = 8;
