//! A tunnel over a stream: an extended CONNECT (RFC 8441, RFC 9220), then content in both
//! directions.

use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use howdah_http::{Method, Status};
use tokio::io::ReadBuf;

use super::exchange::{StreamExchange, priority};
use super::{ResetCause, Stream, StreamContent, StreamSink, head};
use crate::body::{self, CarriedTunnel, PumpError, Tunnel, TunnelEnd};
use crate::front::Workspace;
use crate::net::{ConnectionError, ContentPiece, ReceiveBuffer, SendError};
use crate::pipeline::{Response, ResponseHeadSource, SendOutcome};

impl<S: Stream> StreamExchange<'_, S> {
    /// Sends the head of `response` with status 200, and carries the tunnel to its end. `content`
    /// is the client's side.
    pub(super) async fn carry(
        &self,
        work: &mut Workspace,
        response: &mut Response,
        tunnel: Box<Tunnel>,
        content: S::Content,
    ) -> SendOutcome {
        if let ResponseHeadSource::Own(head) = &mut response.head {
            head.status = Status::OK;
            head.reason = None;
        }
        let thread = self.stream.thread();
        let made = head::response(&response.head, &Method::Connect, None, &thread.date(), None);
        let Ok(sink) = self.stream.send_head(made, false, priority(work, response)) else {
            return self.outcome(0, Err(PumpError::Client(ConnectionError::Broken)));
        };
        // A tunnel may be idle for hours: it has no buffers of a request's size.
        work.input = ReceiveBuffer::default();
        work.out = Vec::new();
        let mut end = ClientStreamEnd { sink, content, unread: Bytes::new() };
        let carried = body::carry(thread, tunnel, &mut end).await;
        let CarriedTunnel { received, sent, result, .. } = carried;
        if result.is_err() {
            // RFC 8441 §5: a connection that breaks is a stream that is cancelled.
            end.sink.reset(ResetCause::Tunnel);
        }
        let mut outcome = self.outcome(sent, result);
        outcome.connection.received = received;
        outcome
    }
}

/// The stream as the client's end of a tunnel.
struct ClientStreamEnd<K, C> {
    sink: K,
    content: C,
    /// Content that was received and not read.
    unread: Bytes,
}

impl<K: StreamSink, C: StreamContent> TunnelEnd for ClientStreamEnd<K, C> {
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<Result<(), ConnectionError>> {
        while self.unread.is_empty() {
            match ready!(self.content.poll_data(context)) {
                Ok(None) => return Poll::Ready(Ok(())),
                Err(_) => return Poll::Ready(Err(ConnectionError::Broken)),
                Ok(Some(bytes)) => self.unread = bytes,
            }
        }
        let count = room.remaining().min(self.unread.len());
        room.put_slice(&self.unread[..count]);
        self.unread.advance(count);
        // The window opens as far as the upstream's side reads.
        self.content.release(count);
        Poll::Ready(Ok(()))
    }

    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize, ConnectionError>> {
        self.sink.poll_send(ContentPiece::Memory(bytes), false, context).map_err(broken)
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        self.sink.poll_flush(context).map_err(broken)
    }

    fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        self.sink.poll_finish(context).map_err(broken)
    }

    fn poll_broken(&mut self, context: &mut Context<'_>) -> bool {
        self.sink.poll_broken(context)
    }
}

fn broken(error: SendError) -> ConnectionError {
    match error {
        SendError::Connection(error) => error,
        SendError::ShortFile => ConnectionError::Broken,
    }
}
