//! The heads that a worker sends before the output of its script: interim ones, what the script has
//! told the server, and the final one.

use std::task::Context;
use std::time::Instant;

use howdah_http::{Fields, ResponseHead, Status};
use howdah_ipc::Corrupt;
use howdah_ipc::response::MOST_FIELDS;
use howdah_php::{ExchangeError, HeadKind, ScriptExchange, decode_head};
use howdah_site::Script;

use crate::body;
use crate::observe::{RequestError, RespondError};
use crate::pipeline::RequestContext;

/// The reason why there is no head of a response.
pub(super) enum NoResponseHead {
    Failed(ExchangeError),
    /// The worker has no response: [`HeadKind::Refused`].
    Refused,
    /// The client is gone.
    Gone,
}

impl NoResponseHead {
    /// Returns the error of the request.
    #[cold]
    pub(super) fn into_error(
        self,
        context: &RequestContext<'_, '_>,
        script: &Script,
    ) -> RespondError {
        match self {
            NoResponseHead::Failed(failure) => {
                RequestError::script(context.situation(), script, failure).into()
            }
            // The worker has said why.
            NoResponseHead::Refused => Status::INTERNAL_SERVER_ERROR.into(),
            NoResponseHead::Gone => RequestError::gone(context.situation()).into(),
        }
    }
}

impl From<ExchangeError> for NoResponseHead {
    fn from(failure: ExchangeError) -> NoResponseHead {
        NoResponseHead::Failed(failure)
    }
}

/// Waits for the head of the final response, and sends the interim responses that precede it.
pub(super) async fn final_head(
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

/// The variables, and the notes, that one script may set for directives and the access log. Further
/// ones are left out.
const MOST_TEXTS: usize = 1_000;
