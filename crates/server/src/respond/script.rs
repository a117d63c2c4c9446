//! Answering with a script, which a pool runs.

use std::future::poll_fn;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use howdah_htaccess::modules::filter;
use howdah_htaccess::response;
use howdah_http::{Fields, Method, ResponseHead, Status, members};
use howdah_ipc::Corrupt;
use howdah_ipc::response::MOST_FIELDS;
use howdah_php::{
    AskingConnection, DispatchError, ExchangeError, HeadKind, PoolHandle, QueuePlace, RequestBody,
    RequestEncoder, ScriptExchange, ScriptRun, decode_head,
};
use howdah_site::{RuledRequest, Script, Site, SiteHost};

use super::call::ScriptCall;
use super::codings::{self, CodingFacts};
use super::sendfile;
use crate::body::{self, BodyError, PAUSE, ReceivedContent, ResponseBody, Unchunked};
use crate::crew::ClientNetwork;
use crate::observe::{Phase, RequestError, RespondError};
use crate::pipeline::{RangeRequest, RequestContext, Response, ResponseHeadSource, adjust};

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
                let lanes = pool.pool().lanes();
                let lane = lanes.get(place.lane).map(|lane| lane.name.as_str());
                return Err(RequestError::refused(context.situation(), refused, lane).into());
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
            Err(NoResponseHead::Failed(failure)) => {
                return Err(RequestError::script(context.situation(), script, failure).into());
            }
            // The worker has said why.
            Err(NoResponseHead::Refused) => {
                exchange.detach();
                return Err(Status::INTERNAL_SERVER_ERROR.into());
            }
            Err(NoResponseHead::Gone) => return Err(RequestError::gone(context.situation()).into()),
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

/// A response whose head has come.
struct BegunResponse {
    head: ResponseHead,
    exchange: Box<ScriptExchange>,
    /// The script makes an error page.
    is_error: bool,
}

impl BegunResponse {
    /// Lets directives and the site's configuration change the head, and choose the filters of the
    /// content.
    ///
    /// # Errors
    /// A directive turns the response into an error.
    async fn respond(
        mut self,
        context: &mut RequestContext<'_, '_>,
        site: &Site,
        mut ruled: Option<&mut Rc<RuledRequest>>,
        script: &Script,
    ) -> Result<Response, RespondError> {
        let rules = ruled.as_deref().map(Rc::as_ref);
        let environment = rules.map(|ruled| &ruled.state.env);
        let environment = environment.or(context.script_environment.as_deref());
        let compresses = codings::compresses(site, true, environment) && !self.is_error;
        let is_head = context.request.method == Method::Head;
        let is_chunked = take_chunked(&mut self.head);
        let mut length_hint = None;
        if !is_chunked {
            length_hint = short_length(rules, compresses && !is_head, &mut self.exchange).await;
        }
        let modified = rules.and_then(|ruled| modified(context, site, ruled, script));
        let edited = rules.and_then(|ruled| ruled.state.request_fields.clone());
        let fields = edited.as_ref().unwrap_or(&context.request.fields);
        let range = (fields.contains(b"range") && !self.is_error).then(|| RangeRequest {
            fields: fields.clone(),
            ruled: ruled.as_deref().cloned(),
        });
        let body = match is_chunked {
            false => ResponseBody::script(self.exchange, self.head.content_length()),
            true => unchunked(context, script, self.exchange),
        };
        let mut response = Response::new(ResponseHeadSource::Own(self.head), body);
        (response.length_hint, response.modified) = (length_hint, modified);
        adjust(context, site, ruled.as_deref_mut(), &mut response).await?;
        let fields = edited.as_ref().unwrap_or(&context.request.fields);
        if compresses {
            let environment = ruled.as_deref().map(|ruled| &ruled.state.env);
            let environment = environment.or(context.script_environment.as_deref());
            let facts = CodingFacts { fields, environment, asked: None };
            // PHP makes no output for HEAD. The fields are those of the output that GET would get.
            response.length_hint = response.length_hint.filter(|_| !is_head);
            response = codings::compress(context, site, facts, response);
        }
        response.range = range.filter(|_| response.filters.is_empty()).map(Box::new);
        Ok(response)
    }
}

/// Returns whether the script says that it has divided its output into chunks. Takes the fields
/// that say so from the head, and a length, which would be that of the chunks.
fn take_chunked(head: &mut ResponseHead) -> bool {
    let last = head.fields.values(b"transfer-encoding").flat_map(members).last();
    let is_chunked = last.is_some_and(|coding| coding.eq_ignore_ascii_case(b"chunked"));
    if is_chunked {
        head.fields.remove(b"transfer-encoding");
        head.fields.remove(b"content-length");
    }
    is_chunked
}

/// The output of a script that has divided it into chunks itself.
fn unchunked(
    context: &RequestContext<'_, '_>,
    script: &Script,
    exchange: Box<ScriptExchange>,
) -> ResponseBody {
    let thread = Rc::clone(context.thread);
    let error = RequestError::chunks(context.situation(), script);
    let report = Box::new(move |malformed| thread.report(&error(malformed)));
    ResponseBody::Stream(Box::new(Unchunked::new(ResponseBody::script(exchange, None), report)))
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

/// Returns the length of the script's output, if there are filters and the output is short and ends
/// at once.
async fn short_length(
    ruled: Option<&RuledRequest>,
    compresses: bool,
    exchange: &mut ScriptExchange,
) -> Option<u64> {
    let is_filtered =
        ruled.is_some_and(|ruled| response::passes_filters(&ruled.state, &ruled.settings));
    if !is_filtered && !compresses {
        return None;
    }
    let most = if compresses {
        codings::SHORTEST
    } else {
        filter::TOO_SMALL
    };
    let known = poll_fn(|context| match exchange.poll_progress(context) {
        Ok(news) if news.complete => Poll::Ready(Some(news.available as u64)),
        Ok(news) if news.available as u64 <= most => Poll::Pending,
        // The failure is reported when the content is sent.
        Ok(_) | Err(_) => Poll::Ready(None),
    });
    tokio::time::timeout(PAUSE, known).await.ok().flatten()
}

/// Returns the script's modification time, if ExpiresByType may need it.
fn modified(
    context: &RequestContext<'_, '_>,
    site: &Site,
    ruled: &RuledRequest,
    script: &Script,
) -> Option<i64> {
    ruled.settings.expires.as_ref().filter(|expires| expires.is_active())?;
    let mut host = context.thread.host(site, context.arrival.started, &context.compared);
    let probe = host.probe_document(script.path())??;
    Some(probe.modified)
}

/// The reason why there is no head of a response.
enum NoResponseHead {
    Failed(ExchangeError),
    /// The worker has no response: [`HeadKind::Refused`].
    Refused,
    /// The client is gone.
    Gone,
}

impl From<ExchangeError> for NoResponseHead {
    fn from(failure: ExchangeError) -> NoResponseHead {
        NoResponseHead::Failed(failure)
    }
}

/// Waits for the head of the final response, and sends the interim responses that precede it.
async fn final_head(
    context: &mut RequestContext<'_, '_>,
    exchange: &mut ScriptExchange,
) -> Result<ResponseHead, NoResponseHead> {
    loop {
        // A running script is told that its client is gone only when that is certain, as with
        // Apache. A request that waits is given up as soon as the client closes its side.
        let is_gone = |poll: &mut Context<'_>, waits| match waits {
            true => context.stream.poll_closed(poll),
            false => context.stream.poll_broken(poll),
        };
        let wait = exchange.head_unless(is_gone, &mut context.scratch.head);
        let kind = wait.await.ok_or(NoResponseHead::Gone)??;
        match kind {
            HeadKind::Environment => {
                context.script_environment = Some(texts(context, "apache_setenv()")?);
            }
            HeadKind::Notes => context.script_notes = Some(texts(context, "apache_note()")?),
            HeadKind::Refused => return Err(NoResponseHead::Refused),
            HeadKind::Final => return Ok(checked_head(kind, &context.scratch.head)?),
            HeadKind::Interim => {
                let head = checked_head(kind, &context.scratch.head)?;
                if head.status.is_informational() {
                    context.stream.send_interim(&head).await;
                }
            }
        }
        // A script that sends them without end does not keep the thread: other connections get
        // their turn, and it is told when its client is gone.
        let is_gone = |poll: &mut Context<'_>| context.stream.poll_broken(poll);
        body::unless(is_gone, tokio::task::yield_now())
            .await
            .ok_or(NoResponseHead::Gone)?;
    }
}

/// The variables or notes that a script has set with `function`: the first [`MOST_TEXTS`] of them.
fn texts(context: &RequestContext<'_, '_>, function: &str) -> Result<Box<Fields>, ExchangeError> {
    let sent = decode_head(&context.scratch.head)?;
    let number = sent.field_count();
    let mut texts = Fields::with_capacity(number.min(MOST_TEXTS), 0);
    sent.fields().take(MOST_TEXTS).for_each(|(name, value)| texts.push(name, value));
    if let Some(site) = context.site.filter(|_| number > MOST_TEXTS) {
        let what = format!(
            "the script has set {number} names with {function}: the server takes \
                            the first {MOST_TEXTS}"
        );
        let message = (None, what);
        if context.thread.is_news(site.number(), &message, Instant::now()) {
            context.thread.report(&RequestError::directives(context.situation(), &message));
        }
    }
    Ok(Box::new(texts))
}

/// The variables, and the notes, that one script may set for directives and the access log. Further
/// ones are left out.
const MOST_TEXTS: usize = 1_000;

/// A worker's head as HTTP. Fields that cannot be sent are left out. A script may name any number
/// as its status; one that no final response can have becomes 500.
fn checked_head(kind: HeadKind, bytes: &[u8]) -> Result<ResponseHead, ExchangeError> {
    let sent = decode_head(bytes)?;
    if sent.field_count() > MOST_FIELDS {
        return Err(ExchangeError::Malformed(Corrupt("a response head has too many fields")));
    }
    let fits = |status: &Status| status.is_informational() == (kind == HeadKind::Interim);
    let status = Status::new(sent.status).filter(fits).unwrap_or(Status::INTERNAL_SERVER_ERROR);
    let mut head = ResponseHead::new(status);
    // Room for fields that directives add.
    head.fields = Fields::with_capacity(sent.field_count() + 8, bytes.len() + 256);
    if !sent.reason.is_empty() && head.status.code() == sent.status {
        head.reason = Some(sent.reason.into());
    }
    for (name, value) in sent.fields() {
        // PHP's header() refuses line breaks. Any other field that cannot be sent is left out,
        // because the response matters more.
        let _ = head.push(name, value);
    }
    Ok(head)
}
