//! A tunnel over HTTP/1.1: 101 (Switching Protocols), then the connection's bytes (RFC 9110 §7.8).

use std::io;
use std::task::{Context, Poll, ready};

use howdah_http::h1::encode_switch;
use tokio::io::ReadBuf;

use super::connection::{AfterResponse, H1Connection};
use crate::body::{self, CarriedTunnel, PumpError, Tunnel, TunnelEnd};
use crate::front::Workspace;
use crate::net::{ConnectionError, TimedTransport, Transport};
use crate::observe::ConnectionFacts;
use crate::pipeline::{Response, SendOutcome};

impl<T: Transport> H1Connection<T> {
    /// Sends the head of `response`, and carries the tunnel to its end.
    pub(super) async fn carry(
        &mut self,
        work: &mut Workspace,
        response: &Response,
        tunnel: Box<Tunnel>,
    ) -> (SendOutcome, AfterResponse) {
        let mut head = std::mem::take(&mut work.out);
        head.clear();
        encode_switch(&mut head, response.head.get(), b"websocket");
        self.wire.begin_response();
        if let Err(error) = self.wire.write_all(&head).await {
            let result = Err(PumpError::Client(error));
            return (self.last_outcome(0, 0, result), AfterResponse::Close);
        }
        // A tunnel may be idle for hours: it has no buffers of a request's size.
        let input = std::mem::take(&mut work.input);
        let mut end = ClientSocketEnd {
            wire: &mut self.wire,
            early: input.bytes().to_vec(),
        };
        let sent = head.len() as u64;
        drop((head, input));
        let CarriedTunnel {
            received,
            sent: content,
            is_client_open,
            result,
        } = body::carry(&self.thread, tunnel, &mut end).await;
        self.received += received;
        let after = match (&result, is_client_open) {
            (Ok(()), true) => AfterResponse::Linger,
            _ => AfterResponse::Close,
        };
        (self.last_outcome(content, sent + content, result), after)
    }

    /// The outcome of the last response of the connection, of which the client took `sent` bytes,
    /// with `bytes` of content.
    pub(super) fn last_outcome(
        &self,
        bytes: u64,
        sent: u64,
        result: Result<(), PumpError>,
    ) -> SendOutcome {
        let connection = ConnectionFacts {
            received: self.received,
            sent,
            earlier: self.served.saturating_sub(1),
            persists: false,
        };
        SendOutcome { bytes, result, connection }
    }
}

/// The connection as the client's end of a tunnel.
struct ClientSocketEnd<'c, T> {
    wire: &'c mut TimedTransport<T>,
    /// Bytes that were received together with the request's head.
    early: Vec<u8>,
}

impl<T: Transport> ClientSocketEnd<'_, T> {
    /// Writes `bytes`, or without any what waits in the transport.
    fn poll_write_once(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize, ConnectionError>> {
        let transport = &mut self.wire.transport;
        loop {
            match transport.try_write(bytes) {
                Ok(0) if !bytes.is_empty() => return Poll::Ready(Err(ConnectionError::Broken)),
                Ok(count) => return Poll::Ready(Ok(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(transport.poll_write_ready(context)).map_err(broken)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(broken(error))),
            }
        }
    }
}

impl<T: Transport> TunnelEnd for ClientSocketEnd<'_, T> {
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<Result<(), ConnectionError>> {
        if self.early.is_empty() {
            return self.wire.transport.poll_read(context, room).map_err(broken);
        }
        let count = room.remaining().min(self.early.len());
        room.put_slice(&self.early[..count]);
        self.early.drain(..count);
        Poll::Ready(Ok(()))
    }

    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize, ConnectionError>> {
        self.poll_write_once(context, bytes)
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        match T::KEEPS_BYTES {
            true => self.poll_write_once(context, b"").map_ok(drop),
            false => Poll::Ready(Ok(())),
        }
    }

    fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        ready!(self.poll_flush(context))?;
        self.wire.transport.poll_shutdown(context).map_err(broken)
    }

    fn poll_broken(&mut self, context: &mut Context<'_>) -> bool {
        self.wire.poll_broken(context)
    }
}

fn broken(_: io::Error) -> ConnectionError {
    ConnectionError::Broken
}
