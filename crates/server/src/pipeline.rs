//! The pipeline: the way of a request from its head to a response, independent of the protocol. No
//! step knows a socket or a protocol.
//!
//! A protocol reads a head, makes a [`RequestContext`], calls [`serve`], and has the pump send the
//! response's content to its own [`Sink`](crate::body::Sink).

mod context;
mod directives;
mod held_variables;
mod notes;
mod response;
mod secure;
mod server_timing;
mod sub_request;
#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::task::Context;
use std::time::Duration;

use howdah_http::{Request, ResponseHead, Scheme, Status, range};
use howdah_site::{Resolution, Resolved, Site};

pub(crate) use self::context::{Arrival, RequestContext, ScratchBuffers};
pub(crate) use self::directives::{CostlySites, adjust, list, look_at};
use self::held_variables::HeldVariables;
pub(crate) use self::held_variables::variables_budget;
pub(crate) use self::response::{RangeRequest, Response, ResponseHeadSource};
pub(crate) use self::sub_request::answers;
use crate::body::{self, BodySource, ResponseBody};
use crate::budget::BudgetUsedUp;
use crate::front::FrontThread;
use crate::net::ConnectionError;
use crate::observe::{
    AccessLog, ConnectionFacts, CountedFigures, ErrorContext, Phase, RecordedResponse,
    RequestError, RequestRecord, ResolutionNotes,
};
use crate::respond::{
    challenge, file, listing, pool_status, script, script_ranges, sent_file, upstream,
};

/// A response, with the site and the user for the request's record.
#[derive(Debug)]
pub(crate) struct ServedRequest<'t> {
    /// `None` where the client is gone.
    pub(crate) response: Option<Response>,
    /// `None` if no site has the host name of the request.
    pub(crate) site: Option<&'t Site>,
    /// The user who has authenticated.
    pub(crate) user: Option<Vec<u8>>,
    /// The way the request was resolved, where the site's access log tells so.
    pub(crate) notes: Option<Box<ResolutionNotes>>,
}

impl<'t> ServedRequest<'t> {
    /// A response that was made before the request was resolved.
    fn early(response: Response, site: Option<&'t Site>) -> ServedRequest<'t> {
        ServedRequest {
            response: Some(response),
            site,
            user: None,
            notes: None,
        }
    }
}

/// Makes the response to a request. Read this function and [`answer`] first.
pub(crate) async fn serve<'t>(context: &mut RequestContext<'t, '_>) -> ServedRequest<'t> {
    if let Some(response) = challenge::respond(context) {
        return ServedRequest::early(response, None);
    }
    // Resolve: find the site, and what the URL means there.
    let Some(site) = context.thread.sites().find_on(context.peer.listener, context.request.host())
    else {
        return ServedRequest::early(Response::error(Status::MISDIRECTED_REQUEST), None);
    };
    context.site = Some(site);
    let _counted = context.thread.count_request(site.number());
    if context.request.is_early
        && let Some(response) = secure::settle_early(context.request, site)
    {
        return ServedRequest::early(response, Some(site));
    }
    if let Some(tls) = &context.thread.shared.tls
        && let Some(response) = secure::settle(context, tls, site)
    {
        return ServedRequest::early(response, Some(site));
    }
    let refused = refuse(context, site);
    let resolved = match &refused {
        Some(refused) => Box::pin(directives::refused(context, site, refused.status)).await,
        None => directives::resolve(context, site).await,
    };
    if refused.is_none() && resolved.is_forbidden() {
        context.report(&RequestError::forbidden(context.situation(), Status::FORBIDDEN));
    }

    // Answer and adjust: a file, a script or a status makes the response, directives change it.
    let mut notes = None;
    let (mut response, user) =
        answer(context, site, resolved, &mut notes, u32::from(refused.is_some())).await;
    if let (Some(notes), Some(log)) = (&mut notes, context.thread.access_log(Some(site))) {
        notes.add(log, context.script_environment.as_deref(), context.script_notes.as_deref());
    }

    // Settle: short content passes its filters before the head states its length.
    if let Some(made) = &mut response
        && is_unsettled(made, context.request)
        && !settle(context, made).await
    {
        response = None;
    }
    if let Some(asked) = response.as_mut().and_then(|response| response.range.take()) {
        // In a box of its own: every connection would have room for it otherwise.
        response = Box::pin(part(context, site, *asked, response, &mut notes)).await;
    }
    if let Some(response) = &mut response {
        complete(context, site, response, refused.and_then(|it| it.wait));
    }
    if let Some(notes) = &mut notes {
        notes.first_byte = Some(context.arrival.started.elapsed());
    }
    context.phase.set(Phase::Sending);
    // Nothing needs them any more, and the client may take its time.
    (context.script_environment, context.script_notes) = (None, None);
    if context.scratch.head.capacity() > LARGE_HEAD {
        context.scratch.head = Vec::new();
    }
    ServedRequest { response, site: Some(site), user, notes }
}

/// Bytes of a buffer for a script's head that a connection does not keep while it sends.
const LARGE_HEAD: usize = 16 << 10;

/// Completes a head with what concerns every response of the site: the time after which a refused
/// client may try again (`wait`), the promise of https, and the times of the request.
fn complete(
    context: &RequestContext<'_, '_>,
    site: &Site,
    response: &mut Response,
    wait: Option<Duration>,
) {
    if let Some(wait) = wait {
        response.retry_after(wait);
    }
    response.drop_description();
    if context.request.scheme == Scheme::Https && response.tunnel.is_none() {
        secure::promise(context, response, site);
    }
    if site.config().server_timing {
        server_timing::state(context, response);
    }
    response.excuse = context.excuse(response.status());
    response.is_made = context.is_made;
}

/// The refusal of a request whose site is known, before it is resolved.
struct RefusedRequest {
    status: Status,
    /// The time after which the client may try again.
    wait: Option<Duration>,
}

/// Refuses a request of a client that sends too many, and one whose content or expectation the
/// protocol has refused. Reports it.
fn refuse(context: &mut RequestContext<'_, '_>, site: &Site) -> Option<RefusedRequest> {
    let client = context.peer.remote.ip();
    if let Err(wait) = context.thread.clients().request(client, site.number()) {
        context.report(&RequestError::too_many(context.situation()));
        return Some(RefusedRequest {
            status: Status::TOO_MANY_REQUESTS,
            wait: Some(wait),
        });
    }
    let refusal = context.refused?;
    context.phase.set(Phase::ReadingHead);
    context.report(&RequestError::head(context.situation(), refusal.status, refusal.why));
    Some(RefusedRequest { status: refusal.status, wait: None })
}

/// The result of sending a response.
#[derive(Debug)]
pub(crate) struct SendOutcome {
    /// Bytes of content that the client took.
    pub(crate) bytes: u64,
    pub(crate) result: Result<(), body::PumpError>,
    pub(crate) connection: ConnectionFacts,
}

/// Ends a request whose response was sent: gives back what the response holds of its source, and
/// records the request. `length` is that of the content, if it was known before sending. Returns
/// the buffer of short content, for the next request; `None` if the content was in no buffer.
#[inline]
pub(crate) fn end(
    thread: &FrontThread,
    situation: ErrorContext<'_>,
    arrival: Arrival,
    (response, length): (&mut Response, Option<u64>),
    (user, notes): (Option<&[u8]>, Option<&ResolutionNotes>),
    outcome: SendOutcome,
) -> Option<Vec<u8>> {
    response.body.release();
    let recorded = RecordedResponse {
        head: response.head.get(),
        excuse: response.excuse,
        is_made: response.is_made,
        length,
        user,
        notes,
    };
    record(thread, situation, arrival, recorded, outcome);
    match &mut response.body {
        ResponseBody::Buffer(buffer, _) => Some(std::mem::take(buffer)),
        _ => None,
    }
}

/// Makes the record of a request that has ended. Counts it, and writes its line in the access log,
/// and one in the error log where the content of its response broke off.
#[inline]
fn record(
    thread: &FrontThread,
    situation: ErrorContext<'_>,
    arrival: Arrival,
    response: RecordedResponse<'_>,
    outcome: SendOutcome,
) {
    let site = situation.site;
    let record = RequestRecord {
        site: site.map_or("-", |site| site.name()),
        encoded_slashes: site.map_or_else(Default::default, |site| site.config().encoded_slashes),
        peer: situation.peer,
        began: arrival.began,
        took: arrival.started.elapsed(),
        request: situation.request,
        response,
        sent: outcome.bytes,
        complete: outcome.result.is_ok(),
        connection: outcome.connection,
    };
    let client = thread.clients().network(situation.peer.remote.ip());
    thread
        .counters()
        .count(site.map(Site::number), CountedFigures::of(&record, client));
    if let Err(error) = outcome.result
        && let Some(error) = RequestError::content(situation, error)
    {
        thread.report(&error);
    }
    if let Some(access_log) = thread.access_log(site) {
        access_log.record(&record);
    }
}

/// Records a request whose client was gone before there was a response, with the status that nginx
/// gives such requests.
#[cold]
pub(crate) fn record_gone(
    thread: &FrontThread,
    situation: ErrorContext<'_>,
    arrival: Arrival,
    (user, notes): (Option<&[u8]>, Option<&ResolutionNotes>),
    connection: ConnectionFacts,
) {
    let head = ResponseHead::new(Status::CLIENT_CLOSED_REQUEST);
    let answer = RecordedResponse {
        head: &head,
        excuse: None,
        is_made: false,
        length: None,
        user,
        notes,
    };
    let result = Err(body::PumpError::Client(ConnectionError::Broken));
    let outcome = SendOutcome { bytes: 0, result, connection };
    record(thread, situation, arrival, answer, outcome);
}

/// Makes the response for `resolved`. Returns it with the user, if a password has authenticated
/// one. The site's directives decide how an error is answered. `errors`: how many errors have led
/// to `resolved`. `None`: the client is gone.
async fn answer(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    mut resolved: Resolved,
    notes: &mut Option<Box<ResolutionNotes>>,
    mut errors: u32,
) -> (Option<Response>, Option<Vec<u8>>) {
    if errors == 0
        && let Some(response) = pool_status::respond(context, site, &resolved)
    {
        return (Some(response), None);
    }
    let access_log = context.thread.access_log(Some(site));
    let noting_log = access_log.filter(|log| log.takes_notes());
    let tells_script = access_log.is_some_and(AccessLog::tells_script);
    loop {
        let is_error = errors > 0;
        if let Some(log) = noting_log {
            let asks_disk = log.tells_file() && !is_error;
            let taken = notes.insert(notes::of(context, site, &resolved, (log, asks_disk)));
            context.run = tells_script.then(|| Rc::clone(&taken.run));
        }
        let Resolved { resolution, mut ruled } = resolved;
        let held = HeldVariables::of(&context.thread.shared, site, ruled.as_deref());
        let _held = match held {
            Ok(held) => held,
            Err(no_room) => return (without_room(context, no_room), None),
        };
        let is_script = access_log.is_some() && matches!(resolution, Resolution::Php(_));
        let rules = ruled.as_mut();
        let mut made = match resolution {
            Resolution::File { path, file } => {
                file::respond(context, site, rules, (path, file)).await
            }
            Resolution::Php(found) => {
                let made = script::respond(context, site, rules, &found, is_error).await;
                context.scratch.paths.reuse(found.into_path());
                made
            }
            Resolution::Proxy { upstream, target } => {
                // In a box of its own: every connection would have room for it otherwise.
                let proxied =
                    upstream::respond(context, site, rules, (upstream, &target), is_error);
                Box::pin(proxied).await
            }
            Resolution::Discard { most } => match context.discard_content(most).await {
                Ok(()) => {
                    resolved = directives::resolve(context, site).await;
                    continue;
                }
                Err(error) => Err(RequestError::body(context.situation(), &error).into()),
            },
            Resolution::Listing { path } => listing::respond(context, site, rules, path).await,
            Resolution::Allow { methods, path: Some(path), .. } => {
                file::respond_with_methods(context, site, rules, (methods, path)).await
            }
            // The directives are not asked how the page looks: they are too costly.
            Resolution::Exhausted => Ok(Response::error(Status::INTERNAL_SERVER_ERROR)),
            other => {
                let mut response = Response::of(other);
                // A 503 that directives ask for is answered as they say.
                let is_own = rules.is_none();
                adjust(context, site, rules, &mut response).await.map(|()| match is_own {
                    true => response.with_retry_after(),
                    false => response,
                })
            }
        };
        // In place: to hand a response over is to copy it.
        if let Ok(response) = &mut made
            && let Err(failed) = sent_file::hold(context, site, response).await
        {
            made = Err(failed);
        }
        let user = notes::user_of(context.request, ruled.as_deref(), is_script);
        directives::log_messages(context, ruled.as_mut());
        let failed = match made {
            Ok(response) if is_error => return (Some(response.with_retry_after()), user),
            Ok(response) => return (Some(response), user),
            Err(failed) => failed,
        };
        let Some(status) = context.report_failed(&failed) else {
            return (None, user);
        };
        if ruled.is_none() || errors == MOST_ERRORS {
            return (Some(Response::error(status).with_retry_after()), user);
        }
        errors += 1;
        resolved = directives::error(context, site, ruled, status).await;
    }
}

/// Returns the response to a request for which directives have set more than there is room for. A
/// page of the site's own would take as much. `None`: the client is gone.
#[cold]
fn without_room(context: &RequestContext<'_, '_>, no_room: BudgetUsedUp) -> Option<Response> {
    let error = RequestError::too_many_variables(context.situation(), no_room);
    let status = context.report(&error)?;
    Some(Response::error(status).with_retry_after())
}

/// Returns the part of a script's output that the request asks for. Where there is no such part,
/// the site's directives decide how that is answered. `None`: the client is gone.
async fn part(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    asked: RangeRequest,
    whole: Option<Response>,
    notes: &mut Option<Box<ResolutionNotes>>,
) -> Option<Response> {
    let (method, now) = (&context.request.method, context.arrival.began.seconds());
    let length = match script_ranges::select(method, &asked.fields, whole?, now) {
        Ok(response) => return Some(response),
        Err(length) => length,
    };
    let resolved =
        directives::error(context, site, asked.ruled, Status::RANGE_NOT_SATISFIABLE).await;
    let (page, _) = answer(context, site, resolved, notes, 1).await;
    let mut page = page?;
    if is_unsettled(&page, context.request) && !settle(context, &mut page).await {
        return None;
    }
    if page.status() == Status::RANGE_NOT_SATISFIABLE {
        page.own_head();
        page.push(b"Content-Range", &range::unsatisfied_content_range(length));
    }
    Some(page)
}

/// Returns whether content is sent that is still being produced, or that passes filters.
fn is_unsettled(response: &Response, request: &Request) -> bool {
    response.has_content(request) && (!response.filters.is_empty() || !response.body.is_stored())
}

/// Lets short content pass its filters. Replaces the response by an error page if its content
/// cannot be read at all. `false`: the client is gone meanwhile.
async fn settle(context: &mut RequestContext<'_, '_>, response: &mut Response) -> bool {
    let cache = context.thread.compressed_cache();
    let place = context.thread.filter_place(context.site, context.peer);
    let limits = context.thread.spool_limits(context.site);
    let buffer = &mut context.scratch.content;
    let settled = body::settle(response, buffer, cache, place, limits);
    let is_gone = |poll: &mut Context<'_>| context.stream.poll_broken(poll);
    let error = match body::unless(is_gone, settled).await {
        Some(Ok(())) => return true,
        Some(Err(error)) => error,
        None => return false,
    };
    context.phase.set(Phase::Sending);
    let Some(error) = RequestError::content(context.situation(), error) else {
        return true;
    };
    let status = context.report(&error).unwrap_or(Status::INTERNAL_SERVER_ERROR);
    *response = Response::error(status).with_retry_after();
    true
}

/// An error page may fail, too. Then the first error is answered without it.
const MOST_ERRORS: u32 = 2;
