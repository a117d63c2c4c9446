//! QUIC's streams as the `h3` crate reads and writes them.
//!
//! The crate keeps a frame in memory until it is complete, whatever its length. Therefore a
//! [`ClientMeter`] counts the bytes beside requests, and [`StreamFrames`] reads requests.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use ::h3::error::Code;
use ::h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf};
use bytes::Bytes;
use howdah_http::h3::{ControlFrames, UpdateMistake};
use howdah_http::priority::PriorityUpdate;
use quinn::{ConnectionError, ReadError, VarInt};

use super::client_meter::ClientMeter;
use super::outgoing::OutgoingStream;
use super::stream_frames::StreamFrames;
use super::write_turns::WriteTurns;
use crate::net::{ArrivingHead, Clients};
use crate::streams::TooManyUpdates;

/// Bytes that a stream beside requests counts for, also where none come. Clients need three.
const STREAM_COST: usize = 64;
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
    pub(super) meter: ClientMeter,
    /// The client has violated the protocol in a request.
    violation: Cell<Option<Code>>,
    /// The order in which the streams of requests write.
    turns: Rc<WriteTurns>,
    /// The connection's task.
    pub(super) task: Waker,
    /// The client's memory; `None` for a proxy's connection.
    memory: Option<(Arc<Clients>, IpAddr)>,
    /// The parts of the request that was accepted last.
    newest: RefCell<Option<NewestRequest>>,
    /// Streams from this number on are refused: the client sends their requests elsewhere.
    end: Cell<u64>,
    /// The number of the stream that was accepted last.
    last: Cell<Option<u64>>,
}

/// The facts about a request that the transport knows beside the crate.
pub(super) struct NewestRequest {
    /// Our side of the stream.
    pub(super) outgoing: OutgoingStream,
    /// The client's side.
    pub(super) frames: StreamFrames,
    /// The stream came in early data.
    pub(super) is_early: bool,
}

impl TransportFacts {
    /// The facts of a connection that may have `streams` requests at a time. `memory` is `None` for
    /// a proxy's connection.
    pub(super) fn new(
        meter: ClientMeter,
        streams: u64,
        task: Waker,
        memory: Option<(Arc<Clients>, IpAddr)>,
    ) -> TransportFacts {
        TransportFacts {
            meter,
            violation: Cell::new(None),
            turns: Rc::new(WriteTurns::new(streams)),
            task,
            memory,
            newest: RefCell::new(None),
            end: Cell::new(u64::MAX),
            last: Cell::new(None),
        }
    }

    /// Takes the parts of the request that was accepted last. `None`: they were taken before, or no
    /// request was accepted.
    pub(super) fn take_newest(&self) -> Option<NewestRequest> {
        self.newest.borrow_mut().take()
    }

    /// The memory of a head that is about to be received; `None` where it is not counted.
    pub(super) fn arriving_head(&self) -> Option<ArrivingHead> {
        let (clients, client) = self.memory.as_ref()?;
        Some(ArrivingHead::of(clients, *client))
    }

    /// Notes that the connection has to end with this code.
    pub(super) fn note_violation(&self, code: Code) {
        self.violation.set(Some(code));
    }

    /// The code with which the connection has to end, because of a mistake in a request. `None`:
    /// there was no mistake.
    pub(super) fn violation(&self) -> Option<Code> {
        self.violation.get()
    }

    /// Notes that a request has ended.
    pub(super) fn end_request(&self, index: u64) {
        self.turns.updates.end(index);
    }

    /// Reads bytes of a stream beside requests, for the priorities in them.
    fn read_priorities(&self, frames: &mut ControlFrames, bytes: &[u8]) {
        let mut take = |update: PriorityUpdate| match self.turns.updates.note(update) {
            Ok(()) => self.turns.call(update.stream),
            Err(TooManyUpdates) => self.note_violation(Code::H3_ID_ERROR),
        };
        match frames.read(bytes, &mut take) {
            Ok(()) => {}
            Err(UpdateMistake::Id) => self.note_violation(Code::H3_ID_ERROR),
            Err(UpdateMistake::Frame) => self.note_violation(Code::H3_FRAME_ERROR),
        }
    }

    /// Lets the connection's task end the connection, and a stream wait for that.
    pub(super) fn wait_for_the_end<T>(&self) -> Poll<T> {
        self.task.wake_by_ref();
        Poll::Pending
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
    type RecvStream = IncomingStream;
    type OpenStreams = StreamOpener;

    fn poll_accept_recv(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<IncomingStream, ConnectionErrorIncoming>> {
        let connection = &self.connection;
        let make = || -> WaitingFor<_> {
            let connection = connection.clone();
            Box::pin(async move { connection.accept_uni().await })
        };
        let stream = ready!(poll_in_place(&mut self.accepting_control, make, context))?;
        let shared = Rc::clone(&self.shared);
        shared.meter.count_control(STREAM_COST);
        let frames = ControlFrames::default();
        Poll::Ready(Ok(IncomingStream::Beside { stream, frames, shared }))
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
                (OutgoingStream::of_request(send, &self.shared.turns), stream.id().index());
            if index >= self.shared.end.get() {
                outgoing.reset(Code::H3_REQUEST_REJECTED);
                let _ = stream.stop(code(Code::H3_REQUEST_REJECTED.value()));
                continue;
            }
            self.shared.last.set(Some(index));
            self.shared.turns.updates.begin(index);
            let is_early = stream.is_0rtt();
            let frames = StreamFrames::new(stream, &self.shared);
            *self.shared.newest.borrow_mut() = Some(NewestRequest {
                outgoing: outgoing.clone(),
                frames: frames.clone(),
                is_early,
            });
            let incoming = IncomingStream::Request(frames);
            return Poll::Ready(Ok(QuicStream { outgoing, incoming }));
        }
    }

    fn opener(&self) -> StreamOpener {
        StreamOpener
    }
}

impl quic::OpenStreams<Bytes> for QuicTransport {
    type BidiStream = QuicStream;
    type SendStream = OutgoingStream;

    fn poll_open_bidi(
        &mut self,
        _: &mut Context<'_>,
    ) -> Poll<Result<QuicStream, StreamErrorIncoming>> {
        Poll::Ready(Err(no_such_stream()))
    }

    fn poll_open_send(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<OutgoingStream, StreamErrorIncoming>> {
        let connection = &self.connection;
        let make = || -> WaitingFor<_> {
            let connection = connection.clone();
            Box::pin(async move { connection.open_uni().await })
        };
        let opened = ready!(poll_in_place(&mut self.opening, make, context));
        Poll::Ready(opened.map(OutgoingStream::beside).map_err(|connection_error| {
            StreamErrorIncoming::ConnectionErrorIncoming { connection_error }
        }))
    }

    fn close(&mut self, with: Code, reason: &[u8]) {
        self.connection.close(code(with.value()), reason);
    }
}

/// A server opens no streams for requests.
pub(super) struct StreamOpener;

impl quic::OpenStreams<Bytes> for StreamOpener {
    type BidiStream = QuicStream;
    type SendStream = OutgoingStream;

    fn poll_open_bidi(
        &mut self,
        _: &mut Context<'_>,
    ) -> Poll<Result<QuicStream, StreamErrorIncoming>> {
        Poll::Ready(Err(no_such_stream()))
    }

    fn poll_open_send(
        &mut self,
        _: &mut Context<'_>,
    ) -> Poll<Result<OutgoingStream, StreamErrorIncoming>> {
        Poll::Ready(Err(no_such_stream()))
    }

    fn close(&mut self, _: Code, _: &[u8]) {}
}

/// Both sides of a request's stream.
pub(super) struct QuicStream {
    outgoing: OutgoingStream,
    incoming: IncomingStream,
}

impl quic::BidiStream<Bytes> for QuicStream {
    type SendStream = OutgoingStream;
    type RecvStream = IncomingStream;

    fn split(self) -> (OutgoingStream, IncomingStream) {
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

impl quic::SendStream<Bytes> for OutgoingStream {
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
        OutgoingStream::reset(self, Code::from(code));
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
pub(super) enum IncomingStream {
    /// The crate gets the head alone.
    Request(StreamFrames),
    /// A stream beside requests.
    Beside {
        stream: quinn::RecvStream,
        /// Its frames, if it is a control stream.
        frames: ControlFrames,
        shared: Rc<TransportFacts>,
    },
}

impl quic::RecvStream for IncomingStream {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        let (stream, frames, shared) = match self {
            IncomingStream::Request(frames) => return frames.poll_head(context),
            IncomingStream::Beside { stream, frames, shared } => (stream, frames, shared),
        };
        let chunk = ready!(pin!(stream.read_chunk(READ, true)).poll(context));
        let Some(chunk) = chunk.map_err(read_error)? else {
            return Poll::Ready(Ok(None));
        };
        shared.meter.count_control(chunk.bytes.len());
        shared.read_priorities(frames, &chunk.bytes);
        match (shared.meter.excess(), shared.violation()) {
            (None, None) => Poll::Ready(Ok(Some(chunk.bytes))),
            _ => shared.wait_for_the_end(),
        }
    }

    fn stop_sending(&mut self, with: u64) {
        match self {
            IncomingStream::Request(frames) => frames.stop(Code::from(with)),
            IncomingStream::Beside { stream, .. } => {
                // It fails for a stream that has ended.
                let _ = stream.stop(code(with));
            }
        }
    }

    fn recv_id(&self) -> StreamId {
        match self {
            IncomingStream::Request(frames) => frames.id(),
            IncomingStream::Beside { stream, .. } => number(stream.id()),
        }
    }
}

/// The number of a stream in the crate's type.
pub(super) fn number(id: quinn::StreamId) -> StreamId {
    let id: u64 = VarInt::from(id).into_inner();
    StreamId::try_from(id).expect("both crates allow the same numbers")
}

pub(super) fn code(code: u64) -> VarInt {
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

pub(super) fn read_error(error: ReadError) -> StreamErrorIncoming {
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
