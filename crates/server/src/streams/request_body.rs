//! The content of a request, and the interim responses to it.

use std::future::{Future, ready};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use howdah_http::{Refusal, ResponseHead, Status};

use super::{Stream, StreamContent, StreamGone, head};
use crate::body::{BodyError, RequestStream};
use crate::net::DeadlineWatch;

/// The request's end of a stream.
pub(super) struct StreamRequestBody<'s, S: Stream> {
    stream: &'s S,
    content: S::Content,
    /// Whether the client waits for a 100 (Continue) before it sends its content.
    expects_continue: bool,
    /// Bytes of content so far.
    received: u64,
    /// Bytes of content that the head has promised.
    promised: Option<u64>,
    /// The time limit of the wait that is under way, once there was something to wait for.
    watch: Option<Rc<DeadlineWatch>>,
    is_waiting: bool,
    /// Bytes of interim responses that may still be sent.
    interim_room: usize,
}

/// Bytes of interim responses to one request. Their heads have no window: where the client reads
/// nothing they wait in memory. Further ones are left out; the final response follows.
const MOST_INTERIM: usize = 64 * 1024;
/// Bytes that an interim response takes in memory beside its fields.
const INTERIM_OVERHEAD: usize = 256;

impl<'s, S: Stream> StreamRequestBody<'s, S> {
    /// The content of a request whose head has promised that many bytes.
    pub(super) fn new(
        stream: &'s S,
        content: S::Content,
        promised: howdah_http::Content,
        expects_continue: bool,
    ) -> StreamRequestBody<'s, S> {
        StreamRequestBody {
            stream,
            content,
            expects_continue,
            received: 0,
            promised: match promised {
                howdah_http::Content::Length(length) => Some(length),
                howdah_http::Content::None | howdah_http::Content::Unknown => None,
            },
            watch: None,
            is_waiting: false,
            interim_room: MOST_INTERIM,
        }
    }

    /// Returns the client's side of the stream, and the bytes of content so far.
    pub(super) fn into_parts(self) -> (S::Content, u64) {
        (self.content, self.received)
    }

    /// Waits for the client, at most `patience`.
    fn wait(
        &mut self,
        patience: Duration,
        context: &mut Context<'_>,
    ) -> Poll<Result<bool, BodyError>> {
        if std::mem::take(&mut self.expects_continue) {
            self.stream.send_interim(head::interim(&ResponseHead::new(Status::CONTINUE)));
        }
        let watches = self.stream.thread().watches();
        let watch = self.watch.get_or_insert_with(|| watches.add(context.waker().clone()));
        if !std::mem::replace(&mut self.is_waiting, true) {
            watch.arm(patience);
        }
        match watch.is_expired() {
            true => Poll::Ready(Err(BodyError::TimedOut)),
            false => Poll::Pending,
        }
    }

    /// Checks the bytes so far (RFC 9113 §8.1.1, RFC 9114 §4.1.2).
    fn check(&self, is_over: bool) -> Result<(), BodyError> {
        let differs = match self.promised {
            Some(promised) if is_over => self.received != promised,
            Some(promised) => self.received > promised,
            None => false,
        };
        if differs {
            return Err(BodyError::Refused(OTHER_LENGTH));
        }
        match self.stream.thread().limits().body_exceeded_by(self.received) {
            true => Err(BodyError::Refused(TOO_LARGE)),
            false => Ok(()),
        }
    }
}

impl<S: Stream> RequestStream for StreamRequestBody<'_, S> {
    fn poll_content(
        &mut self,
        patience: Duration,
        take: &mut dyn FnMut(&[u8]) -> Result<(), BodyError>,
        context: &mut Context<'_>,
    ) -> Poll<Result<bool, BodyError>> {
        let bytes = match self.content.poll_data(context) {
            Poll::Pending => return self.wait(patience, context),
            Poll::Ready(Ok(None)) => return Poll::Ready(self.check(true).map(|()| false)),
            Poll::Ready(Err(StreamGone)) => return Poll::Ready(Err(BodyError::Closed)),
            Poll::Ready(Ok(Some(bytes))) => bytes,
        };
        if std::mem::take(&mut self.is_waiting)
            && let Some(watch) = &self.watch
        {
            watch.disarm();
        }
        self.received += bytes.len() as u64;
        self.check(false)?;
        take(&bytes)?;
        self.content.release(bytes.len());
        Poll::Ready(Ok(true))
    }

    /// Neither protocol has a 101 (RFC 9113 §8.6, RFC 9114 §4.5).
    fn send_interim<'s>(
        &'s mut self,
        head: &'s ResponseHead,
    ) -> Pin<Box<dyn Future<Output = ()> + 's>> {
        let fields = head.fields.iter().map(|(name, value)| name.len() + value.len());
        let size = INTERIM_OVERHEAD + fields.sum::<usize>();
        if head.status != Status::SWITCHING_PROTOCOLS && size <= self.interim_room {
            self.interim_room -= size;
            self.stream.send_interim(head::interim(head));
        }
        Box::pin(ready(()))
    }

    /// A client that has ended its side of the stream waits for the response. One that is gone has
    /// broken the stream off.
    fn poll_closed(&self, context: &mut Context<'_>) -> bool {
        self.poll_broken(context)
    }

    fn poll_broken(&self, context: &mut Context<'_>) -> bool {
        self.stream.poll_broken(context)
    }
}

const TOO_LARGE: Refusal = Refusal {
    status: Status::CONTENT_TOO_LARGE,
    why: "content over the body limit, `body`",
};
const OTHER_LENGTH: Refusal = Refusal {
    status: Status::BAD_REQUEST,
    why: "content of another length than Content-Length says",
};
