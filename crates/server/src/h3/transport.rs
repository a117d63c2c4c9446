//! QUIC's streams as the `h3` crate reads and writes them.
//!
//! The crate keeps a frame in memory until it is complete, whatever its length. Therefore a
//! [`ClientMeter`] counts the bytes of a request that the crate has not given out.
//! Where WebSockets are offered, a request's head passes [`FirstHead`] before the crate reads it.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use ::h3::error::Code;
use ::h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf};
use bytes::Bytes;
use howdah_http::h3::FirstHead;
use quinn::{ConnectionError, ReadError, VarInt};

use super::client_meter::ClientMeter;
use super::outgoing::Outgoing;
use super::write_turns::WriteTurns;

/// Bytes that are read at once.
pub(super) const READ: usize = 64 * 1024;

/// A connection of QUIC.
pub(super) struct QuicTransport {
    connection: quinn::Connection,
    accepting: Option<WaitingFor<(quinn::SendStream, quinn::RecvStream)>>,
    accepting_control: Option<WaitingFor<quinn::RecvStream>>,
    opening: Option<WaitingFor<quinn::SendStream>>,
    shared: Rc<TransportFacts>,
}

type WaitingFor<T> = Pin<Box<dyn Future<Output = Result<T, ConnectionError>>>>;

/// The facts that the transport tells beside the crate.
pub(super) struct TransportFacts {
    /// Whether clients may ask for WebSockets.
    offers_websockets: bool,
    pub(super) meter: ClientMeter,
    /// The order in which the streams of requests write.
    turns: Rc<WriteTurns>,
    /// The connection's task.
    task: Waker,
    /// The parts of the request that was accepted last.
    newest: RefCell<Option<Newest>>,
    /// Streams from this number on are refused: the client sends their requests elsewhere.
    end: Cell<u64>,
    /// The number of the stream that was accepted last.
    last: Cell<Option<u64>>,
}

/// The facts about a request that the transport knows beside the crate.
pub(super) struct Newest {
    /// Our side of the stream.
    pub(super) outgoing: Outgoing,
    /// The bytes that are not decoded.
    pub(super) unseen: Rc<Cell<u64>>,
    /// The head asks for a WebSocket. It is known when the crate has read the head.
    pub(super) is_websocket: Rc<Cell<bool>>,
    /// The stream came in early data.
    pub(super) is_early: bool,
}

impl TransportFacts {
    pub(super) fn new(meter: ClientMeter, task: Waker, offers_websockets: bool) -> TransportFacts {
        TransportFacts {
            offers_websockets,
            meter,
            turns: Rc::default(),
            task,
            newest: RefCell::new(None),
            end: Cell::new(u64::MAX),
            last: Cell::new(None),
        }
    }

    /// Takes what belongs to the request that was accepted last.
    pub(super) fn take_newest(&self) -> Option<Newest> {
        self.newest.borrow_mut().take()
    }

    /// Refuses all requests after those that were accepted.
    pub(super) fn refuse_further(&self) {
        self.end.set(self.last.get().map_or(0, |last| last + 1));
    }
}

impl QuicTransport {
    pub(super) fn new(connection: quinn::Connection, shared: Rc<TransportFacts>) -> QuicTransport {
        QuicTransport {
            connection,
            accepting: None,
            accepting_control: None,
            opening: None,
            shared,
        }
    }
}

/// Polls the future in `place`, which `make` makes when there is none.
fn poll_in_place<T>(
    place: &mut Option<WaitingFor<T>>,
    make: impl FnOnce() -> WaitingFor<T>,
    context: &mut Context<'_>,
) -> Poll<Result<T, ConnectionErrorIncoming>> {
    let made = ready!(place.get_or_insert_with(make).as_mut().poll(context));
    *place = None;
    Poll::Ready(made.map_err(connection_error))
}

impl quic::Connection<Bytes> for QuicTransport {
    type RecvStream = Incoming;
    type OpenStreams = Opener;

    fn poll_accept_recv(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Incoming, ConnectionErrorIncoming>> {
        let connection = &self.connection;
        let make = || -> WaitingFor<_> {
            let connection = connection.clone();
            Box::pin(async move { connection.accept_uni().await })
        };
        let stream = ready!(poll_in_place(&mut self.accepting_control, make, context))?;
        Poll::Ready(Ok(Incoming {
            stream,
            shared: Rc::clone(&self.shared),
            unseen: None,
            first_head: None,
        }))
    }

    fn poll_accept_bidi(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<QuicStream, ConnectionErrorIncoming>> {
        loop {
            let connection = &self.connection;
            let make = || -> WaitingFor<_> {
                let connection = connection.clone();
                Box::pin(async move { connection.accept_bi().await })
            };
            let (send, mut stream) = ready!(poll_in_place(&mut self.accepting, make, context))?;
            let (outgoing, index) =
                (Outgoing::of_request(send, &self.shared.turns), stream.id().index());
            if index >= self.shared.end.get() {
                outgoing.reset(Code::H3_REQUEST_REJECTED);
                let _ = stream.stop(code(Code::H3_REQUEST_REJECTED.value()));
                continue;
            }
            let unseen = Rc::new(Cell::new(0));
            let is_websocket = Rc::default();
            self.shared.last.set(Some(index));
            *self.shared.newest.borrow_mut() = Some(Newest {
                outgoing: outgoing.clone(),
                unseen: Rc::clone(&unseen),
                is_websocket: Rc::clone(&is_websocket),
                is_early: stream.is_0rtt(),
            });
            let incoming = Incoming {
                stream,
                shared: Rc::clone(&self.shared),
                unseen: Some(unseen),
                first_head: self.shared.offers_websockets.then(|| (Box::default(), is_websocket)),
            };
            return Poll::Ready(Ok(QuicStream { outgoing, incoming }));
        }
    }

    fn opener(&self) -> Opener {
        Opener
    }
}

impl quic::OpenStreams<Bytes> for QuicTransport {
    type BidiStream = QuicStream;
    type SendStream = Outgoing;

    fn poll_open_bidi(
        &mut self,
        _: &mut Context<'_>,
    ) -> Poll<Result<QuicStream, StreamErrorIncoming>> {
        Poll::Ready(Err(no_such_stream()))
    }

    fn poll_open_send(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Outgoing, StreamErrorIncoming>> {
        let connection = &self.connection;
        let make = || -> WaitingFor<_> {
            let connection = connection.clone();
            Box::pin(async move { connection.open_uni().await })
        };
        let opened = ready!(poll_in_place(&mut self.opening, make, context));
        Poll::Ready(opened.map(Outgoing::beside).map_err(|connection_error| {
            StreamErrorIncoming::ConnectionErrorIncoming { connection_error }
        }))
    }

    fn close(&mut self, with: Code, reason: &[u8]) {
        self.connection.close(code(with.value()), reason);
    }
}

/// A server opens no streams for requests.
pub(super) struct Opener;

impl quic::OpenStreams<Bytes> for Opener {
    type BidiStream = QuicStream;
    type SendStream = Outgoing;

    fn poll_open_bidi(
        &mut self,
        _: &mut Context<'_>,
    ) -> Poll<Result<QuicStream, StreamErrorIncoming>> {
        Poll::Ready(Err(no_such_stream()))
    }

    fn poll_open_send(
        &mut self,
        _: &mut Context<'_>,
    ) -> Poll<Result<Outgoing, StreamErrorIncoming>> {
        Poll::Ready(Err(no_such_stream()))
    }

    fn close(&mut self, _: Code, _: &[u8]) {}
}

/// Both sides of a request's stream.
pub(super) struct QuicStream {
    outgoing: Outgoing,
    incoming: Incoming,
}

impl quic::BidiStream<Bytes> for QuicStream {
    type SendStream = Outgoing;
    type RecvStream = Incoming;

    fn split(self) -> (Outgoing, Incoming) {
        (self.outgoing, self.incoming)
    }
}

impl quic::SendStream<Bytes> for QuicStream {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.outgoing.poll_written(context)
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.outgoing.push(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.outgoing.poll_finished(context)
    }

    fn reset(&mut self, code: u64) {
        self.outgoing.reset(Code::from(code));
    }

    fn send_id(&self) -> StreamId {
        self.outgoing.id()
    }
}

impl quic::SendStream<Bytes> for Outgoing {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.poll_written(context)
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.push(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.poll_finished(context)
    }

    fn reset(&mut self, code: u64) {
        Outgoing::reset(self, Code::from(code));
    }

    fn send_id(&self) -> StreamId {
        self.id()
    }
}

impl quic::RecvStream for QuicStream {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.incoming.poll_data(context)
    }

    fn stop_sending(&mut self, code: u64) {
        self.incoming.stop_sending(code);
    }

    fn recv_id(&self) -> StreamId {
        self.incoming.recv_id()
    }
}

/// The client's side of a stream.
pub(super) struct Incoming {
    stream: quinn::RecvStream,
    shared: Rc<TransportFacts>,
    /// Bytes of a request that the crate has not given out; `None` for a stream beside requests.
    unseen: Option<Rc<Cell<u64>>>,
    /// The begin of a request that may be one for a WebSocket, and the place where that is told.
    first_head: Option<(Box<FirstHead>, Rc<Cell<bool>>)>,
}

impl Incoming {
    /// Reads once, and counts the bytes.
    fn poll_chunk(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        let chunk = ready!(pin!(self.stream.read_chunk(READ, true)).poll(context));
        let Some(chunk) = chunk.map_err(read_error)? else {
            return Poll::Ready(Ok(None));
        };
        let (meter, length) = (&self.shared.meter, chunk.bytes.len());
        match &self.unseen {
            Some(unseen) => meter.count_undecoded(unseen, length),
            None => meter.count_control(length),
        }
        if meter.excess().is_none() {
            return Poll::Ready(Ok(Some(chunk.bytes)));
        }
        // The connection's task ends the connection.
        self.shared.task.wake_by_ref();
        Poll::Pending
    }
}

impl quic::RecvStream for Incoming {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        loop {
            let bytes = ready!(self.poll_chunk(context))?;
            let Some((first, is_websocket)) = &mut self.first_head else {
                return Poll::Ready(Ok(bytes));
            };
            let released = match &bytes {
                Some(bytes) => first.take(bytes),
                // The stream has ended in its head, about which the crate complains.
                None => Some(first.release()),
            };
            if let Some(released) = released {
                is_websocket.set(released.is_websocket);
                self.first_head = None;
                let has_bytes = !released.bytes.is_empty();
                return Poll::Ready(Ok(has_bytes.then(|| Bytes::from(released.bytes))));
            }
        }
    }

    fn stop_sending(&mut self, with: u64) {
        // It fails for a stream that has ended.
        let _ = self.stream.stop(code(with));
    }

    fn recv_id(&self) -> StreamId {
        number(self.stream.id())
    }
}

/// The client need not send what nobody reads any more (RFC 9114 §4.1).
impl Drop for Incoming {
    fn drop(&mut self) {
        let _ = self.stream.stop(code(Code::H3_NO_ERROR.value()));
    }
}

/// The number of a stream in the crate's type.
pub(super) fn number(id: quinn::StreamId) -> StreamId {
    let id: u64 = VarInt::from(id).into_inner();
    StreamId::try_from(id).expect("both crates allow the same numbers")
}

fn code(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

/// The end of a connection in the crate's type.
pub(super) fn connection_error(error: ConnectionError) -> ConnectionErrorIncoming {
    match error {
        ConnectionError::ApplicationClosed(close) => {
            ConnectionErrorIncoming::ApplicationClose { error_code: close.error_code.into() }
        }
        ConnectionError::TimedOut => ConnectionErrorIncoming::Timeout,
        other => ConnectionErrorIncoming::Undefined(Arc::new(other)),
    }
}

fn read_error(error: ReadError) -> StreamErrorIncoming {
    match error {
        ReadError::Reset(code) => {
            StreamErrorIncoming::StreamTerminated { error_code: code.into_inner() }
        }
        ReadError::ConnectionLost(error) => StreamErrorIncoming::ConnectionErrorIncoming {
            connection_error: connection_error(error),
        },
        other => StreamErrorIncoming::Unknown(Box::new(other)),
    }
}

fn no_such_stream() -> StreamErrorIncoming {
    StreamErrorIncoming::Unknown("a server opens no such stream".into())
}
