//! Answering with a script, which a pool runs.

mod begun;
mod head;

use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;
use std::rc::Rc;
use std::task::Context;
use std::time::Instant;

use howdah_http::Status;
use howdah_php::{
    AskingConnection, DispatchError, ExchangeError, PoolHandle, QueuePlace, RequestBody,
    RequestEncoder, ScriptExchange, ScriptRun,
};
use howdah_site::{RuledRequest, Script, Site};

use self::begun::BegunResponse;
use self::head::{NoResponseHead, final_head};
use super::call::ScriptCall;
use super::sendfile;
use crate::body::{self, BodyError, ReceivedContent};
use crate::crew::ClientNetwork;
use crate::observe::{Phase, RequestError, RespondError};
use crate::pipeline::{RequestContext, Response};

/// Receives the request's content, lets a worker run the script, and waits for the head of its
/// response. With `is_error` the script makes an error page, which gets no request content.
///
/// # Errors
/// There is no response, and the reason.
pub(crate) async fn respond(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    mut ruled: Option<&mut Rc<RuledRequest>>,
    script: &Script,
    is_error: bool,
) -> Result<Response, RespondError> {
    (context.script_environment, context.script_notes) = (None, None);
    let Some(pool) = context.thread.pool_handle(site.number()) else {
        return Err(Status::FORBIDDEN.into());
    };
    let received = content(context, ruled.as_deref().map(Rc::as_ref), is_error).await?;
    let mut content = WorkerContent::open(context, received)?;
    let mut place = queue_place(context, site);
    context.is_made = true;
    let (head, exchange) = loop {
        // The clock is read for logs that tell the wait.
        let began = context.run.as_ref().map(|_| Instant::now());
        let handed = hand_over(context, pool, ruled.as_deref(), (script, place), &content).await;
        let mut exchange = match handed {
            Some(Ok(exchange)) => exchange,
            // A slot has no room for this head and this content together.
            Some(Err(DispatchError::TooLarge)) if content.received.is_in_memory() => {
                content = content.into_file(context, site).await?;
                continue;
            }
            Some(Err(refused)) => {
                note_wait(context, place.since.or(began));
                return Err(refused_by(pool, place, refused, context));
            }
            None => return Err(RequestError::gone(context.situation()).into()),
        };
        context.phase.set(Phase::WaitingForScript);
        match final_head(context, &mut exchange).await {
            Ok(head) => break (head, exchange),
            // A request that no worker has begun is handed over again, perhaps to the next zygote.
            Err(NoResponseHead::Failed(ExchangeError::NotTaken)) => {
                place.since = Some(exchange.since())
            }
            Err(no_head) => {
                if matches!(no_head, NoResponseHead::Refused) {
                    exchange.detach();
                }
                return Err(no_head.into_error(context, script));
            }
        }
    };
    if site.config().server_timing {
        context.script_times = Some(exchange.times());
    }
    if let (Some(ruled), Some(set)) = (ruled.as_deref_mut(), &context.script_environment) {
        Rc::make_mut(ruled).state.set_variables(set);
    }
    if site.sendfile(&head.fields).is_some() {
        // The worker goes on to the next request as soon as its script has ended.
        exchange.detach();
        return sendfile::respond(context, site, ruled, script, head).await;
    }
    BegunResponse { head, exchange, is_error }
        .respond(context, site, ruled, script)
        .await
}

/// Notes that a request was refused that has waited for a worker since then.
fn note_wait(context: &RequestContext<'_, '_>, since: Option<Instant>) {
    if let Some((run, since)) = context.run.as_ref().zip(since) {
        run.set(Some(ScriptRun::waiting(since.elapsed())));
    }
}

/// Returns the error of a request that the pool has refused.
#[cold]
fn refused_by(
    pool: &PoolHandle,
    place: QueuePlace,
    refused: DispatchError,
    context: &RequestContext<'_, '_>,
) -> RespondError {
    let lane = pool.pool().lanes().get(place.lane).map(|lane| lane.name.as_str());
    RequestError::refused(context.situation(), refused, lane).into()
}

/// Returns the lane of the queue in which the request waits, and the client that it counts for.
fn queue_place(context: &RequestContext<'_, '_>, site: &Site) -> QueuePlace {
    QueuePlace {
        lane: match site.has_lanes() {
            true => site.lane(&context.client()),
            false => 0,
        },
        client: ClientNetwork::of(context.peer.remote.ip()).number(),
        since: None,
    }
}

/// Hands the request to a worker as soon as one is free. `None`: the client is gone meanwhile.
async fn hand_over(
    context: &RequestContext<'_, '_>,
    pool: &PoolHandle,
    ruled: Option<&Rc<RuledRequest>>,
    (script, place): (&Script, QueuePlace),
    content: &WorkerContent,
) -> Option<Result<Box<ScriptExchange>, DispatchError>> {
    context.phase.set(Phase::WaitingForWorker);
    let call = ScriptCall { client: context.client(), script };
    let prepared = context.prepared.as_deref();
    let encode = |encoder: &mut RequestEncoder| call.encode(encoder, ruled, prepared);
    let (remote, local) = (context.peer.remote, context.peer.local);
    let asker = Some(AskingConnection { remote, local });
    let encoder = context.thread.encoder();
    let dispatch = pin!(pool.dispatch(place, asker, encoder, encode, content.as_body()));
    // A request that still waits is given up as soon as the client closes its side: that makes
    // room in the queue.
    let is_gone = |poll: &mut Context<'_>| context.stream.poll_closed(poll);
    let mut exchange = match body::unless(is_gone, dispatch).await? {
        Ok(exchange) => exchange,
        Err(refused) => return Some(Err(refused)),
    };
    if let Some(run) = &context.run {
        exchange.report_to(Rc::clone(run));
    }
    // The bytes of the file count for as long as the worker has it open.
    if let ReceivedContent::File(file, _) = &content.received {
        exchange.keep(Box::new(file.share()));
    }
    Some(Ok(exchange))
}

/// The request's content as a worker gets it.
struct WorkerContent {
    received: ReceivedContent,
    /// The file that the content is in, opened for a worker.
    file: Option<OwnedFd>,
}

impl WorkerContent {
    /// # Errors
    /// The file that the content is in cannot be opened.
    fn open(
        context: &RequestContext<'_, '_>,
        received: ReceivedContent,
    ) -> Result<WorkerContent, RespondError> {
        let file = match &received {
            ReceivedContent::Memory(_) => None,
            ReceivedContent::File(file, _) => file
                .for_a_worker()
                .map_err(|error| content_error(context, &BodyError::Storage(error)))?,
        };
        Ok(WorkerContent { received, file })
    }

    /// Moves content from memory into a file.
    ///
    /// # Errors
    /// The file cannot be written or opened.
    async fn into_file(
        self,
        context: &RequestContext<'_, '_>,
        site: &Site,
    ) -> Result<WorkerContent, RespondError> {
        let stored = self.received.into_file(context.thread.spool_limits(Some(site))).await;
        let received = stored.map_err(|error| content_error(context, &error))?;
        WorkerContent::open(context, received)
    }

    fn as_body(&self) -> RequestBody<'_> {
        match (&self.received, &self.file) {
            (ReceivedContent::Memory(bytes), _) => RequestBody::Memory(bytes),
            (ReceivedContent::File(_, length), Some(file)) => {
                RequestBody::File(file.as_fd(), *length)
            }
            (ReceivedContent::File(..), None) => RequestBody::Memory(b""),
        }
    }
}

fn content_error(context: &RequestContext<'_, '_>, error: &BodyError) -> RespondError {
    RequestError::body(context.situation(), error).into()
}

/// Receives the request's content. Error pages get no request content.
///
/// # Errors
/// The content was not received.
pub(super) async fn content(
    context: &mut RequestContext<'_, '_>,
    ruled: Option<&RuledRequest>,
    is_error: bool,
) -> Result<ReceivedContent, RespondError> {
    if is_error || ruled.is_some_and(|ruled| ruled.is_content_gone) {
        return Ok(ReceivedContent::Memory(Vec::new()));
    }
    match context.receive(ruled.and_then(body_limit)).await {
        Ok(received) => Ok(received),
        Err(error) => Err(content_error(context, &error)),
    }
}

/// Returns the limit of LimitRequestBody; `None` if there is none. The server's own limit applies
/// as well.
fn body_limit(ruled: &RuledRequest) -> Option<u64> {
    let limit = ruled.settings.core.as_ref()?.request_body_limit?;
    (limit > 0).then_some(limit)
}
