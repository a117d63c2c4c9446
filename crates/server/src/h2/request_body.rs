//! The content of a request, and the interim responses to it.

use std::cell::RefCell;
use std::future::{Future, ready};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ::h2::RecvStream;
use ::h2::server::SendResponse;
use howdah_http::{Refusal, ResponseHead, Status};

use super::head;
use super::outbox::Chunk;
use crate::body::{BodyError, RequestStream};
use crate::front::Thread;
use crate::net::Watch;

/// The request's end of a stream.
pub(super) struct RequestBody<'s> {
    pub(super) thread: &'s Thread,
    pub(super) content: RecvStream,
    pub(super) respond: &'s RefCell<SendResponse<Chunk>>,
    /// Whether the client waits for a 100 (Continue) before it sends its content.
    pub(super) expects_continue: bool,
    /// Bytes of content so far.
    pub(super) received: u64,
    /// The time limit of the wait that is under way, once there was something to wait for.
    pub(super) watch: Option<Rc<Watch>>,
    pub(super) is_waiting: bool,
}

impl RequestBody<'_> {
    /// Waits for the client, at most `patience`.
    fn wait(
        &mut self,
        patience: Duration,
        context: &mut Context<'_>,
    ) -> Poll<Result<bool, BodyError>> {
        if std::mem::take(&mut self.expects_continue) {
            self.send(&ResponseHead::new(Status::CONTINUE));
        }
        let watches = self.thread.watches();
        let watch = self.watch.get_or_insert_with(|| watches.add(context.waker().clone()));
        if !std::mem::replace(&mut self.is_waiting, true) {
            watch.arm(Instant::now(), patience);
        }
        match watch.is_expired() {
            true => Poll::Ready(Err(BodyError::TimedOut)),
            false => Poll::Pending,
        }
    }

    fn send(&self, head: &ResponseHead) {
        // The response itself notices a client that is gone.
        let _ = self.respond.borrow_mut().send_informational(head::interim(head));
    }
}

impl RequestStream for RequestBody<'_> {
    fn poll_content(
        &mut self,
        patience: Duration,
        take: &mut dyn FnMut(&[u8]) -> Result<(), BodyError>,
        context: &mut Context<'_>,
    ) -> Poll<Result<bool, BodyError>> {
        let bytes = match self.content.poll_data(context) {
            Poll::Pending => return self.wait(patience, context),
            Poll::Ready(None) => return Poll::Ready(Ok(false)),
            Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(BodyError::Closed)),
            Poll::Ready(Some(Ok(bytes))) => bytes,
        };
        if std::mem::take(&mut self.is_waiting)
            && let Some(watch) = &self.watch
        {
            watch.disarm();
        }
        self.received += bytes.len() as u64;
        if self.thread.limits().body_exceeded_by(self.received) {
            return Poll::Ready(Err(BodyError::Refused(TOO_LARGE)));
        }
        take(&bytes)?;
        // The window opens as far as content was taken. It fails only for more than was received.
        let _ = self.content.flow_control().release_capacity(bytes.len());
        Poll::Ready(Ok(true))
    }

    /// HTTP/2 has no 101 (RFC 9113 §8.6).
    fn send_interim<'s>(
        &'s mut self,
        head: &'s ResponseHead,
    ) -> Pin<Box<dyn Future<Output = ()> + 's>> {
        if head.status != Status::SWITCHING_PROTOCOLS {
            self.send(head);
        }
        Box::pin(ready(()))
    }

    /// A client that has ended its side of the stream waits for the response. One that is gone has
    /// reset it.
    fn poll_closed(&self, context: &mut Context<'_>) -> bool {
        self.poll_broken(context)
    }

    fn poll_broken(&self, context: &mut Context<'_>) -> bool {
        self.respond.borrow_mut().poll_reset(context).is_ready()
    }
}

const TOO_LARGE: Refusal = Refusal {
    status: Status::CONTENT_TOO_LARGE,
    why: "content over the body limit",
};
