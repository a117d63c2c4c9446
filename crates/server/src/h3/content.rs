//! The content of a request as it arrives.

use std::cell::Cell;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use ::h3::server::RequestStream;
use bytes::{Buf, Bytes};

use super::transport::Incoming;
use crate::streams::{Gone, StreamContent};

/// The client's side of a stream, from the end of the request's head on.
pub(super) struct ReceivedStream {
    stream: RequestStream<Incoming, Bytes>,
    /// Bytes that are not decoded.
    unseen: Rc<Cell<u64>>,
    /// The content that came with the head, or how the content has ended.
    next: Option<Result<Option<Bytes>, Gone>>,
}

impl ReceivedStream {
    pub(super) fn new(
        stream: RequestStream<Incoming, Bytes>,
        unseen: Rc<Cell<u64>>,
    ) -> ReceivedStream {
        ReceivedStream { stream, unseen, next: None }
    }

    /// Takes what has come with the head.
    pub(super) fn look(&mut self, context: &mut Context<'_>) {
        if let Poll::Ready(first) = self.poll_stream(context) {
            self.next = Some(first);
        }
    }

    /// Whether it is known that no content follows.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.next, Some(Ok(None)))
    }

    fn poll_stream(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Gone>> {
        let received = ready!(self.stream.poll_recv_data(context));
        self.unseen.set(0);
        Poll::Ready(match received {
            Ok(data) => Ok(data.map(|mut data| data.copy_to_bytes(data.remaining()))),
            Err(_) => Err(Gone),
        })
    }
}

impl StreamContent for ReceivedStream {
    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Gone>> {
        let data = match self.next.take() {
            Some(next) => next,
            None => ready!(self.poll_stream(context)),
        };
        if !matches!(data, Ok(Some(_))) {
            self.next = Some(data.clone());
        }
        Poll::Ready(data)
    }

    /// QUIC's window opens when the crate reads.
    fn release(&mut self, _: usize) {}
}
