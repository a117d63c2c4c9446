//! Having a pool run a script.

use std::future::poll_fn;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use howdah_htaccess::modules::filter;
use howdah_http::{Fields, ResponseHead, Status, Version};
use howdah_php::{Encoder, Exchange, ExchangeError, HeadKind, RequestBody, decode_head};
use howdah_site::{Disk, Ruled, Script, Site};

use super::answer::{Answer, Body, Head};
use super::body::Received;
use super::call::Call;
use super::connection::Connection;
use super::phase::Phase;
use super::rules::{self, Arrival};
use super::stream::PAUSE;
use super::trouble::{Failed, Trouble};
use super::workspace::Workspace;

/// Receives the request's content, has a worker run the script, and waits for the head of its
/// response. With `is_error` the script makes the page of an error that came when the content did,
/// or had come: it gets none, and neither where nobody wanted any.
pub(super) async fn answer(
    connection: &mut Connection,
    work: &mut Workspace,
    site: &Site,
    arrival: &Arrival,
    mut ruled: Option<&mut Rc<Ruled>>,
    script: &Script,
    is_error: bool,
) -> Result<Answer, Failed> {
    let thread = connection.thread().clone();
    let Some(handle) = thread.pool_handle(site.number()) else {
        return Err(Failed::Status(Status::FORBIDDEN));
    };
    let received =
        content(connection, work, site, arrival, ruled.as_deref().map(Rc::as_ref), is_error)
            .await?;
    loop {
        connection.set_phase(Phase::WaitingForWorker);
        let request = &work.request;
        let input = match &received {
            Received::Memory(bytes) => RequestBody::Memory(bytes),
            Received::File(file, length) => RequestBody::File(file.as_fd(), *length),
        };
        let client = connection.client(request, arrival.began);
        let encode = |encoder: &mut Encoder| {
            let call = Call { client, script };
            match ruled.as_deref() {
                Some(ruled) => thread.calls().encode(encoder, &call, ruled),
                None => call.encode(encoder, None),
            }
        };
        // Who leaves the queue makes room in it, so here a closed connection is enough.
        let dispatch = handle.dispatch(thread.encoder(), encode, input);
        let dispatched = match unless(|context| connection.poll_closed(context), dispatch).await {
            Some(dispatched) => dispatched,
            None => return Err(Trouble::gone(connection, request, site).into()),
        };
        let mut exchange =
            dispatched.map_err(|refused| Trouble::refused(connection, request, site, refused))?;
        connection.set_phase(Phase::WaitingForScript);
        match final_head(connection, work, &mut exchange).await {
            Ok(head) => {
                let length = short_length(ruled.as_deref().map(Rc::as_ref), &mut exchange).await;
                let mut answer = Answer::new(Head::Plain(head), Body::Script(exchange));
                answer.length = length;
                answer.modified = ruled
                    .as_deref()
                    .and_then(|ruled| modified(connection, site, arrival, ruled, script));
                return rules::dress(connection, work, site, arrival, ruled.take(), answer);
            }
            // Nothing has happened to it, so it goes to the zygote that comes next.
            Err(NoHead::Failed(ExchangeError::NotTaken)) => {}
            Err(NoHead::Failed(failure)) => {
                return Err(
                    Trouble::script(connection, &work.request, site, script, failure).into()
                );
            }
            Err(NoHead::Gone) => return Err(Trouble::gone(connection, &work.request, site).into()),
        }
    }
}

/// The request's content, as far as it is for whoever makes the response.
pub(super) async fn content(
    connection: &mut Connection,
    work: &mut Workspace,
    site: &Site,
    arrival: &Arrival,
    ruled: Option<&Ruled>,
    is_error: bool,
) -> Result<Received, Failed> {
    if is_error || ruled.is_some_and(|ruled| ruled.is_content_gone) {
        return Ok(Received::Memory(Vec::new()));
    }
    let most = ruled.and_then(body_limit);
    let received = connection.receive_body(work, arrival.expects_continue, most).await;
    received.map_err(|error| Trouble::body(connection, &work.request, site, &error).into())
}

/// LimitRequestBody. The server's own limit stays what it is.
fn body_limit(ruled: &Ruled) -> Option<u64> {
    let limit = ruled.settings.core.as_ref()?.request_body_limit?;
    (limit > 0).then_some(limit)
}

/// The length of what the script says, if it says little and ends at once, and filters want to
/// know.
async fn short_length(ruled: Option<&Ruled>, exchange: &mut Exchange) -> Option<u64> {
    ruled.filter(|ruled| filter::may_choose(&ruled.state, &ruled.settings))?;
    let known = poll_fn(|context| match exchange.poll_progress(context) {
        Ok(news) if news.complete => Poll::Ready(Some(news.available as u64)),
        Ok(news) if news.available as u64 <= filter::TOO_SMALL => Poll::Pending,
        // Whoever sends it will see what has failed.
        Ok(_) | Err(_) => Poll::Ready(None),
    });
    tokio::time::timeout(PAUSE, known).await.ok().flatten()
}

/// When the script was modified, if ExpiresByType may want to know.
fn modified(
    connection: &Connection,
    site: &Site,
    arrival: &Arrival,
    ruled: &Ruled,
    script: &Script,
) -> Option<i64> {
    ruled.settings.expires.as_ref().filter(|expires| expires.is_active())?;
    let path = script.path().absolute().as_os_str().as_bytes();
    let probe = connection.thread().outside(site, arrival.started).probe(path)?;
    Some(probe.modified)
}

/// Why there is no head of a response.
enum NoHead {
    Failed(ExchangeError),
    /// The client is gone.
    Gone,
}

impl From<ExchangeError> for NoHead {
    fn from(failure: ExchangeError) -> NoHead {
        NoHead::Failed(failure)
    }
}

/// Waits for the head of the response, and sends the interim ones that come before it.
async fn final_head(
    connection: &mut Connection,
    work: &mut Workspace,
    exchange: &mut Exchange,
) -> Result<ResponseHead, NoHead> {
    loop {
        // A running script is only told that its client is gone when that is certain, as by Apache.
        let wait = exchange.head(&mut work.head);
        let kind = unless(|context| connection.poll_broken(context), wait)
            .await
            .ok_or(NoHead::Gone)??;
        let head = checked_head(kind, &work.head)?;
        if kind == HeadKind::Final {
            return Ok(head);
        }
        // HTTP/1.0 knows no interim responses (RFC 9110 §15.2).
        if work.request.version != Version::Http10 && head.status.is_informational() {
            super::send::send_interim(connection, work, &head).await;
        }
    }
}

/// Runs `wait` unless `gone` says that its result is not wanted any more.
pub(super) async fn unless<T>(
    gone: impl Fn(&mut Context<'_>) -> bool,
    wait: impl Future<Output = T>,
) -> Option<T> {
    let mut wait = pin!(wait);
    poll_fn(|context| match wait.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if gone(context) => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// A worker's head as HTTP. Fields that cannot be sent are left out. A script may name any number
/// as its status; one that no final response can have becomes 500.
fn checked_head(kind: HeadKind, bytes: &[u8]) -> Result<ResponseHead, ExchangeError> {
    let sent = decode_head(bytes)?;
    let fits = |status: &Status| status.is_informational() == (kind == HeadKind::Interim);
    let status = Status::new(sent.status).filter(fits).unwrap_or(Status::INTERNAL_SERVER_ERROR);
    let mut head = ResponseHead::new(status);
    // Directives may add a few.
    head.fields = Fields::with_capacity(sent.field_count() + 8, bytes.len() + 256);
    if !sent.reason.is_empty() {
        head.reason = Some(sent.reason.into());
    }
    for (name, value) in sent.fields() {
        // PHP itself refuses line breaks in header(); what comes here all the same is not worth a
        // broken response.
        let _ = head.push(name, value);
    }
    Ok(head)
}
