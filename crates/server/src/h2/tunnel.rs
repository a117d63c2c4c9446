//! A tunnel over HTTP/2: an extended CONNECT (RFC 8441), then DATA frames in both directions.

use std::task::{Context, Poll, ready};

use ::h2::{Reason, RecvStream};
use bytes::{Buf, Bytes};
use howdah_http::{Method, Status};
use tokio::io::ReadBuf;

use super::head;
use super::outbox::Place;
use super::sink::Sink;
use super::stream::{Stream, priority};
use crate::body::{self, Carried, PumpError, Sink as _, Tunnel, TunnelEnd};
use crate::front::Workspace;
use crate::net::{Buffer, ConnectionError, Piece, SendError};
use crate::pipeline::{Head, Outcome, Response};

impl Stream<'_> {
    /// Sends the head of `response` with status 200, and carries the tunnel to its end. `content` is
    /// the client's side.
    pub(super) async fn carry(
        &self,
        work: &mut Workspace,
        response: &mut Response,
        tunnel: Box<Tunnel>,
        content: RecvStream,
    ) -> Outcome {
        if let Head::Own(head) = &mut response.head {
            head.status = Status::OK;
            head.reason = None;
        }
        let thread = &self.shared.thread;
        let made =
            head::response(response.head.get(), &Method::Connect, None, &thread.date(), None);
        let Ok((stream, number)) = self.send_head(made, false) else {
            return self.outcome(0, Err(PumpError::Client(ConnectionError::Broken)));
        };
        let place = Place::new(number, priority(work, response));
        // A tunnel may be idle for hours: it has no buffers of a request's size.
        work.input = Buffer::default();
        work.out = Vec::new();
        let mut end = End {
            sink: Sink::new(thread, &self.shared.outbox, stream, place),
            content,
            unread: Bytes::new(),
        };
        let carried = body::carry(thread, tunnel, &mut end).await;
        let Carried { received, sent, result, .. } = carried;
        if result.is_err() {
            // RFC 8441 §5: a connection that breaks is a stream that is cancelled.
            end.sink.reset(Reason::CANCEL);
        }
        let mut outcome = self.outcome(sent, result);
        outcome.connection.received = received;
        outcome
    }
}

/// The stream as the client's end of a tunnel.
struct End<'s> {
    sink: Sink<'s>,
    content: RecvStream,
    /// Content that was received and not read.
    unread: Bytes,
}

impl TunnelEnd for End<'_> {
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<Result<(), ConnectionError>> {
        while self.unread.is_empty() {
            match ready!(self.content.poll_data(context)) {
                None => return Poll::Ready(Ok(())),
                Some(Err(_)) => return Poll::Ready(Err(ConnectionError::Broken)),
                Some(Ok(bytes)) => self.unread = bytes,
            }
        }
        let count = room.remaining().min(self.unread.len());
        room.put_slice(&self.unread[..count]);
        self.unread.advance(count);
        // The window opens as far as the upstream's side reads. It fails only for more than that.
        let _ = self.content.flow_control().release_capacity(count);
        Poll::Ready(Ok(()))
    }

    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize, ConnectionError>> {
        self.sink.poll_send(Piece::Memory(bytes), false, context).map_err(broken)
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        self.sink.poll_flush(context).map_err(broken)
    }

    fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        self.sink.poll_finish(context).map_err(broken)
    }
}

fn broken(error: SendError) -> ConnectionError {
    match error {
        SendError::Connection(error) => error,
        SendError::ShortFile => ConnectionError::Broken,
    }
}
