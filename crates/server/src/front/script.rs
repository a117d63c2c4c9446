//! Having a pool run a script.

use std::future::poll_fn;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::pin::pin;
use std::task::{Context, Poll};

use howdah_http::{ResponseHead, Status, Version};
use howdah_php::{Body as Input, Encoder, Exchange, Failure, Kind, decode_head};
use howdah_site::{Client, Script, Site, server_variables};

use super::answer::{Answer, Body, Head};
use super::body::Received;
use super::clock::Now;
use super::connection::Connection;
use super::phase::Phase;
use super::trouble::Trouble;
use super::workspace::Workspace;

/// Receives the request's content, has a worker run the script, and waits for the head of its response.
pub(super) async fn answer(
    connection: &mut Connection,
    work: &mut Workspace,
    site: &Site,
    script: &Script,
    began: Now,
    expect_continue: bool,
) -> Result<Answer, Trouble> {
    let thread = connection.thread().clone();
    let Some(desk) = thread.desk(site.number()) else {
        return Ok(Answer::error(Status::FORBIDDEN));
    };
    let received = connection.receive_body(work, expect_continue).await;
    let received = received.map_err(|error| Trouble::body(connection, &work.request, site, &error))?;
    loop {
        connection.set_phase(Phase::WaitingForWorker);
        let request = &work.request;
        let input = match &received {
            Received::Memory(bytes) => Input::Memory(bytes),
            Received::File(file, length) => Input::File(file.as_fd(), *length),
        };
        let client = connection.client(request, began);
        let encode = |encoder: &mut Encoder| encode(encoder, &client, script, began);
        // Who leaves the queue makes room in it, so here a closed connection is enough.
        let dispatch = desk.dispatch(thread.encoder(), encode, input);
        let dispatched = match unless(|context| connection.poll_closed(context), dispatch).await {
            Some(dispatched) => dispatched,
            None => return Err(Trouble::gone(connection, request, site)),
        };
        let mut exchange =
            dispatched.map_err(|refused| Trouble::refused(connection, request, site, refused))?;
        connection.set_phase(Phase::WaitingForScript);
        match final_head(connection, work, &mut exchange).await {
            Ok(head) => {
                return Ok(Answer {
                    head: Head::Plain(head),
                    body: Body::Script(exchange),
                });
            }
            // Nothing has happened to it, so it goes to the zygote that comes next.
            Err(NoHead::Failed(Failure::NotTaken)) => {}
            Err(NoHead::Failed(failure)) => {
                return Err(Trouble::script(connection, &work.request, site, script, failure));
            }
            Err(NoHead::Gone) => return Err(Trouble::gone(connection, &work.request, site)),
        }
    }
}

/// Why there is no head of a response.
enum NoHead {
    Failed(Failure),
    /// The client is gone.
    Gone,
}

impl From<Failure> for NoHead {
    fn from(failure: Failure) -> NoHead {
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
        if kind == Kind::Final {
            return Ok(head);
        }
        // HTTP/1.0 knows no interim responses (RFC 9110 §15.2).
        if work.request.version != Version::Http10 && head.status.is_informational() {
            super::send::send_interim(connection, work, &head).await;
        }
    }
}

/// Runs `wait` unless `gone` says that its result is not wanted any more.
async fn unless<T>(gone: impl Fn(&mut Context<'_>) -> bool, wait: impl Future<Output = T>) -> Option<T> {
    let mut wait = pin!(wait);
    poll_fn(|context| match wait.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if gone(context) => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// The request as its worker gets it.
fn encode(encoder: &mut Encoder, client: &Client<'_>, script: &Script, began: Now) {
    let request = client.request;
    let path = script.path();
    let mut cookies = request.fields.values(b"cookie");
    let joined;
    let cookie = match (cookies.next(), cookies.next()) {
        (Some(first), Some(second)) => {
            joined = [first, second]
                .into_iter()
                .chain(cookies)
                .collect::<Vec<_>>()
                .join(&b"; "[..]);
            Some(joined.as_slice())
        }
        (only, _) => only,
    };
    encoder.begin(
        began.microseconds,
        [
            Some(request.method.as_str().as_bytes()),
            Some(path.absolute().as_os_str().as_bytes()),
            Some(&request.target),
            request.query(),
            request.fields.value(b"content-type"),
            cookie,
            request.fields.value(b"authorization"),
            Some(path.root().as_os_str().as_bytes()),
        ],
    );
    server_variables(client, script, None, &mut |name, value| {
        encoder.variable(name, value)
    });
}

/// A worker's head as HTTP. Fields that cannot be sent are left out. A script may name any number as its status; one that no
/// final response can have becomes 500.
fn checked_head(kind: Kind, bytes: &[u8]) -> Result<ResponseHead, Failure> {
    let sent = decode_head(bytes)?;
    let fits = |status: &Status| status.is_informational() == (kind == Kind::Interim);
    let status = Status::new(sent.status)
        .filter(fits)
        .unwrap_or(Status::INTERNAL_SERVER_ERROR);
    let mut head = ResponseHead::new(status);
    if !sent.reason.is_empty() {
        head.reason = Some(sent.reason.into());
    }
    for (name, value) in sent.fields() {
        // PHP itself refuses line breaks in header(); what comes here all the same is not worth a broken response.
        let _ = head.push(name, value);
    }
    Ok(head)
}
