//! The content of a request, and the interim responses to it.

use std::cell::{Cell, RefCell};
use std::future::{Future, ready};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ::h3::server::RequestStream as ServerStream;
use bytes::{Buf, Bytes};
use howdah_http::{Content, Refusal, ResponseHead, Status};

use super::outgoing::Outgoing;
use super::transport::Incoming;
use crate::body::{BodyError, RequestStream};
use crate::front::Thread;
use crate::h2::head;
use crate::net::Watch;

/// The request's end of a stream.
pub(super) struct RequestBody<'s> {
    pub(super) thread: &'s Thread,
    pub(super) content: Received,
    pub(super) respond: &'s RefCell<ServerStream<Outgoing, Bytes>>,
    pub(super) outgoing: &'s Outgoing,
    /// Whether the client waits for a 100 (Continue) before it sends its content.
    pub(super) expects_continue: bool,
    /// Bytes of content so far.
    pub(super) received: u64,
    /// Bytes of content that the head has promised.
    pub(super) promised: Option<u64>,
    /// The time limit of the wait that is under way, once there was something to wait for.
    pub(super) watch: Option<Rc<Watch>>,
    pub(super) is_waiting: bool,
}

/// The content of a request as it arrives.
pub(super) struct Received {
    stream: ServerStream<Incoming, Bytes>,
    /// Bytes that are not decoded.
    unseen: Rc<Cell<u64>>,
    /// The content that came with the head.
    first: Option<Result<Option<Bytes>, Broken>>,
}

/// The client has broken its side of the stream off, or violated the protocol.
#[derive(Debug, Clone, Copy)]
pub(super) struct Broken;

impl Received {
    pub(super) fn new(stream: ServerStream<Incoming, Bytes>, unseen: Rc<Cell<u64>>) -> Received {
        Received { stream, unseen, first: None }
    }

    /// Takes what has come with the head.
    pub(super) fn look(&mut self, context: &mut Context<'_>) {
        if let Poll::Ready(first) = self.poll(context) {
            self.first = Some(first);
        }
    }

    /// Whether it is known that no content follows.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.first, Some(Ok(None)))
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Broken>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(first);
        }
        let polled = self.stream.poll_recv_data(context).map(|received| match received {
            Ok(None) => Ok(None),
            Ok(Some(mut data)) => Ok(Some(data.copy_to_bytes(data.remaining()))),
            Err(_) => Err(Broken),
        });
        if polled.is_ready() {
            self.unseen.set(0);
        }
        polled
    }
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

    /// Checks the bytes so far (RFC 9114 §4.1.2).
    fn check(&self, is_over: bool) -> Result<(), BodyError> {
        let differs = match self.promised {
            Some(promised) if is_over => self.received != promised,
            Some(promised) => self.received > promised,
            None => false,
        };
        if differs {
            return Err(BodyError::Refused(OTHER_LENGTH));
        }
        match self.thread.limits().body_exceeded_by(self.received) {
            true => Err(BodyError::Refused(TOO_LARGE)),
            false => Ok(()),
        }
    }

    fn send(&self, head: &ResponseHead) {
        let mut respond = self.respond.borrow_mut();
        let mut context = Context::from_waker(std::task::Waker::noop());
        // What QUIC does not take at once goes before the response, which also notices a client
        // that is gone.
        let _ = pin!(respond.send_response(head::interim(head))).poll(&mut context);
    }
}

/// Returns the length that the head promises.
pub(super) fn promised(content: Content) -> Option<u64> {
    match content {
        Content::Length(length) => Some(length),
        Content::None | Content::Unknown => None,
    }
}

impl RequestStream for RequestBody<'_> {
    fn poll_content(
        &mut self,
        patience: Duration,
        take: &mut dyn FnMut(&[u8]) -> Result<(), BodyError>,
        context: &mut Context<'_>,
    ) -> Poll<Result<bool, BodyError>> {
        let bytes = match self.content.poll(context) {
            Poll::Pending => return self.wait(patience, context),
            Poll::Ready(Ok(None)) => {
                self.content.first = Some(Ok(None));
                return Poll::Ready(self.check(true).map(|()| false));
            }
            Poll::Ready(Err(Broken)) => {
                self.content.first = Some(Err(Broken));
                return Poll::Ready(Err(BodyError::Closed));
            }
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
        Poll::Ready(Ok(true))
    }

    /// HTTP/3 has no 101 (RFC 9114 §4.5).
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
    /// stopped ours.
    fn poll_closed(&self, context: &mut Context<'_>) -> bool {
        self.poll_broken(context)
    }

    fn poll_broken(&self, context: &mut Context<'_>) -> bool {
        self.outgoing.poll_confirmed(context).is_ready()
    }
}

const TOO_LARGE: Refusal = Refusal {
    status: Status::CONTENT_TOO_LARGE,
    why: "content over the body limit",
};
const OTHER_LENGTH: Refusal = Refusal {
    status: Status::BAD_REQUEST,
    why: "content of another length than Content-Length says",
};
