//! A stream as the pump's sink: content in DATA frames, as far as QUIC takes it.
//!
//! QUIC takes what the client's windows allow, and at most `send_buffer` bytes of a connection. Of
//! the streams that have content the one with the highest priority writes and is sent first.

use std::cell::RefCell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ::h3::error::Code;
use ::h3::server::RequestStream;
use bytes::Bytes;
use tokio::time::{Sleep, sleep};

use super::connection::H3Shared;
use super::outgoing::OutgoingStream;
use crate::body;
use crate::net::{ConnectionError, ContentPiece, HeldMemory, SendError};
use crate::streams::{Pace, ResetCause, StreamSink, trailer_map};

/// Bytes of a DATA frame.
const CHUNK: usize = 32 * 1024;
/// Bytes of one for a client whose account is full. They are not counted.
const SMALL_CHUNK: usize = 4 * 1024;

/// The time, beside two round trips, that a client has to read content before the stream is reset.
const READING: Duration = Duration::from_millis(20);
/// Round trips take no longer than that here.
const LONGEST: Duration = Duration::from_secs(1);

/// A response that is being sent.
pub(super) struct H3Sink<'s> {
    shared: &'s H3Shared,
    stream: &'s RefCell<RequestStream<OutgoingStream, Bytes>>,
    outgoing: &'s OutgoingStream,
    pace: Pace<'s>,
    /// The frame that QUIC has not taken completely, in the client's account.
    held: HeldMemory<'s>,
    /// The time in which the last content arrives, before a reset.
    arrival: Option<Pin<Box<Sleep>>>,
    has_ended: bool,
    /// `None`: no fields follow the content, or they were handed over.
    trailers: Option<body::Trailers>,
}

impl<'s> H3Sink<'s> {
    /// The sink of a response whose head was sent.
    pub(super) fn new(
        shared: &'s H3Shared,
        stream: &'s RefCell<RequestStream<OutgoingStream, Bytes>>,
        outgoing: &'s OutgoingStream,
    ) -> H3Sink<'s> {
        H3Sink {
            shared,
            stream,
            outgoing,
            pace: Pace::new(&shared.thread),
            held: shared.thread.held_memory(&shared.peer),
            arrival: None,
            has_ended: false,
            trailers: None,
        }
    }

    /// Waits until QUIC has taken what was handed over.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        if let Poll::Ready(written) = self.outgoing.poll_written(context) {
            self.pace.go_on();
            return Poll::Ready(written.map_err(|_| ConnectionError::Broken.into()));
        }
        match self.outgoing.was_outrun() {
            // The client takes content, of other streams.
            true => self.pace.wait_for_others(context),
            false => self.pace.wait(context),
        }
        match self.pace.is_expired() {
            Some(true) => {
                self.pace.count_end("http3");
                Poll::Ready(Err(ConnectionError::TimedOut.into()))
            }
            _ => Poll::Pending,
        }
    }

    /// Hands a frame over. The part that QUIC does not take at once waits in `outgoing`.
    fn hand_over(&mut self, bytes: Vec<u8>, context: &mut Context<'_>) -> Result<(), SendError> {
        let mut stream = self.stream.borrow_mut();
        match pin!(stream.send_data(Bytes::from(bytes))).poll(context) {
            Poll::Ready(Err(_)) => Err(ConnectionError::Broken.into()),
            Poll::Ready(Ok(())) | Poll::Pending => Ok(()),
        }
    }
}

impl body::Sink for H3Sink<'_> {
    fn poll_send(
        &mut self,
        piece: ContentPiece<'_>,
        _: bool,
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, SendError>> {
        let all = piece.length();
        if all == 0 {
            return Poll::Ready(Ok(0));
        }
        ready!(self.poll_room(context))?;
        let mut room = usize::try_from(all).map_or(CHUNK, |all| all.min(CHUNK));
        if room > SMALL_CHUNK && !self.held.hold(room) {
            room = SMALL_CHUNK;
        }
        let mut bytes = vec![0; room];
        let count = piece.read(&mut bytes).map_err(SendError::of_reading)?;
        bytes.truncate(count);
        self.pace.take(count);
        self.hand_over(bytes, context)?;
        Poll::Ready(Ok(count))
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.poll_room(context)
    }

    fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        ready!(self.poll_room(context))?;
        if let Some(trailers) = self.trailers.take().and_then(|trailers| trailer_map(&trailers)) {
            let mut stream = self.stream.borrow_mut();
            // The part that QUIC does not take at once waits in `outgoing`.
            if let Poll::Ready(Err(_)) = pin!(stream.send_trailers(trailers)).poll(context) {
                return Poll::Ready(Err(ConnectionError::Broken.into()));
            }
            drop(stream);
            ready!(self.poll_room(context))?;
        }
        if !std::mem::replace(&mut self.has_ended, true) {
            let finished = pin!(self.stream.borrow_mut().finish()).poll(context);
            ready!(finished).map_err(|_| ConnectionError::Broken)?;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_broken(&self, context: &mut Context<'_>) -> bool {
        self.outgoing.poll_confirmed(context).is_ready()
    }
}

impl StreamSink for H3Sink<'_> {
    fn set_trailers(&mut self, trailers: body::Trailers) {
        self.trailers = Some(trailers);
    }

    /// QUIC does not tell what has arrived before a stream has ended, and drops what it has not
    /// sent of one that is reset. So does the client's QUIC with what the client has not read.
    fn poll_arrived(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.arrival.is_none() && ready!(self.poll_room(context)).is_err() {
            return Poll::Ready(());
        }
        let shared = self.shared;
        self.arrival.get_or_insert_with(|| {
            Box::pin(sleep((2 * shared.round_trip()).min(LONGEST) + READING))
        });
        if body::Sink::poll_broken(self, context) {
            return Poll::Ready(());
        }
        self.arrival
            .as_mut()
            .map_or(Poll::Ready(()), |arrival| arrival.as_mut().poll(context))
    }

    fn reset(&mut self, cause: ResetCause) {
        if cause == ResetCause::Client {
            self.shared.count_reset();
        }
        self.outgoing.reset(match cause {
            ResetCause::Client | ResetCause::Tunnel => Code::H3_REQUEST_CANCELLED,
            ResetCause::Server => Code::H3_INTERNAL_ERROR,
        });
    }
}
