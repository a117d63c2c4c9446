//! php-fpm's status page and its ping, at the paths that the site's configuration names.

use std::time::{SystemTime, UNIX_EPOCH};

use howdah_config::Php;
use howdah_http::{Request, ResponseHead, Status};
use howdah_php::PoolStatePiece;
use howdah_site::{Resolution, Resolved, Site};

use crate::body::ResponseBody;
use crate::front::FrontThread;
use crate::observe::RequestError;
use crate::pipeline::{RequestContext, Response, ResponseHeadSource};
use crate::status::{FpmQuery, PoolSnapshot, fpm_function_piece, fpm_page};

/// Answers a request for the status page or for the ping. `None` for every other request. The
/// site's directives were asked before: what they refuse or redirect stays so.
pub(crate) fn respond(
    context: &RequestContext<'_, '_>,
    site: &Site,
    resolved: &Resolved,
) -> Option<Response> {
    let php = context.thread.config().sites.get(site.number())?.php.as_ref()?;
    let is_ping = page_of(php, context.request)?;
    if !is_open(resolved) {
        return None;
    }
    if !php.status_allow.contains(context.peer.remote.ip()) {
        context.report(&RequestError::forbidden(context.situation(), Status::FORBIDDEN));
        return Some(Response::error(Status::FORBIDDEN));
    }
    let (content_type, content) = match is_ping {
        true => (PING_TYPE, php.ping_response.clone()),
        false => {
            let query = FpmQuery::of(context.request.query());
            let (pool, now) = of_site(context.thread, site)?;
            (query.content_type(), fpm_page(site.name(), &pool, query, now))
        }
    };
    Some(Response::new(
        ResponseHeadSource::Own(head_of(content_type)),
        ResponseBody::whole(content.into_bytes().into()),
    ))
}

/// Returns the head of such a page.
pub(crate) fn head_of(content_type: &str) -> ResponseHead {
    let mut head = ResponseHead::new(Status::OK);
    for (name, value) in [
        ("Content-Type", content_type),
        ("Expires", "Thu, 01 Jan 1970 00:00:00 GMT"),
        ("Cache-Control", "no-cache, no-store, must-revalidate, max-age=0"),
    ] {
        head.fields.push(name.as_bytes(), value.as_bytes());
    }
    head
}

/// The content type of the ping.
pub(crate) const PING_TYPE: &str = "text/plain;charset=UTF-8";

/// Returns whether the request is for the ping (`true`) or the status page; `None` for neither.
pub(crate) fn page_of(php: &Php, request: &Request) -> Option<bool> {
    if php.status_path.is_none() && php.ping_path.is_none() {
        return None;
    }
    let is_at = |path: &Option<String>| {
        path.as_deref().is_some_and(|path| path.as_bytes() == request.path())
    };
    match is_at(&php.ping_path) {
        true => Some(true),
        false => is_at(&php.status_path).then_some(false),
    }
}

/// Returns whether the site lets the client have what is at the URL, or nothing is there.
fn is_open(resolved: &Resolved) -> bool {
    let status = resolved.ruled.as_ref().map_or(Status::OK, |ruled| ruled.state.status);
    let is_found = matches!(
        resolved.resolution,
        Resolution::File { .. }
            | Resolution::Php(_)
            | Resolution::Listing { .. }
            | Resolution::Status(Status::NOT_FOUND)
    );
    is_found && matches!(status, Status::OK | Status::NOT_FOUND)
}

/// Returns a piece of what `fpm_get_status()` returns in a script of the site: the one that begins
/// with the worker `first`. `None`: the site has no pool.
pub(crate) fn function_piece(thread: &FrontThread, site: &Site, first: usize) -> Option<Vec<u8>> {
    let (pool, now) = of_site(thread, site)?;
    let (json, next) = fpm_function_piece(site.name(), &pool, first, now);
    Some(PoolStatePiece { next, json: json.as_bytes() }.encode())
}

/// Returns the state of the site's pool, and the time in seconds since 1970. `None`: the site has
/// no pool.
fn of_site(thread: &FrontThread, site: &Site) -> Option<(PoolSnapshot, f64)> {
    let shared = &thread.shared;
    let pool = shared.pools.get(site.number())?.as_deref()?;
    let totals = shared.facts.ledger.site(site.name());
    let snapshot = PoolSnapshot::of(pool, totals.site(site.name()), shared.facts.began);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Some((snapshot, now.as_secs_f64()))
}
