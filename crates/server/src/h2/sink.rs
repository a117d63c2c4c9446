//! A stream as the pump's sink: content in DATA frames, as far as the client's windows allow.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use ::h2::{Reason, SendStream};

use super::outbox::{CHUNK, H2Outbox, OutboxChunk, StreamChunks};
use super::shared::H2Shared;
use super::spare_buffers::{CHUNKS, SpareBuffers};
use crate::body;
use crate::net::{ConnectionError, ContentPiece, SendError};
use crate::streams::{
    Pace, PriorityUpdates, ResetCause, ResponsePriority, SinkPlace, StreamSink, trailer_map,
};

/// A response that is being sent.
pub(super) struct H2Sink<'s> {
    outbox: &'s Rc<H2Outbox>,
    stream: RefCell<SendStream<OutboxChunk>>,
    place: SinkPlace,
    priority: ResponsePriority,
    updates: &'s PriorityUpdates,
    /// The number of updates that `place` follows.
    followed: u64,
    pace: Pace<'s>,
    /// The content that the crate holds.
    chunks: Rc<StreamChunks>,
    /// Chunks that had left the crate when the present wait for a turn began.
    turn: Option<u64>,
    has_ended: bool,
    /// `None`: no fields follow the content.
    trailers: Option<body::Trailers>,
}

impl<'s> H2Sink<'s> {
    /// The sink of a response whose head was sent. `has_ended`: nothing follows the head.
    pub(super) fn new(
        shared: &'s H2Shared,
        (id, stream): (u64, SendStream<OutboxChunk>),
        priority: ResponsePriority,
        has_ended: bool,
    ) -> H2Sink<'s> {
        let updates = &shared.updates;
        H2Sink {
            outbox: &shared.outbox,
            stream: RefCell::new(stream),
            place: SinkPlace::new(id, priority.after(updates.of(id))),
            priority,
            updates,
            followed: updates.count(),
            pace: Pace::new(&shared.thread),
            chunks: Rc::default(),
            turn: None,
            has_ended,
            trailers: None,
        }
    }

    /// Gives the stream the priority of the client's last update.
    fn follow_updates(&mut self) {
        let count = self.updates.count();
        if self.followed != count {
            self.followed = count;
            let update = self.updates.of(self.place.stream());
            self.place.set_priority(self.priority.after(update));
        }
    }

    /// Waits until there is a window. Returns how many of `wanted` bytes it takes.
    fn poll_window(
        &mut self,
        wanted: usize,
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, SendError>> {
        let stream = self.stream.get_mut();
        stream.reserve_capacity(wanted);
        let mut capacity = stream.capacity();
        while capacity == 0 {
            capacity = match stream.poll_capacity(context) {
                Poll::Ready(Some(Ok(capacity))) => capacity,
                Poll::Ready(Some(Err(_)) | None) => {
                    return Poll::Ready(Err(ConnectionError::Broken.into()));
                }
                Poll::Pending => {
                    self.outbox.leave(&self.place);
                    return self.wait_for_window(context);
                }
            };
        }
        self.turn = None;
        self.pace.go_on();
        Poll::Ready(Ok(capacity.min(wanted)))
    }

    /// Waits for a window.
    fn wait_for_window(&mut self, context: &mut Context<'_>) -> Poll<Result<usize, SendError>> {
        self.turn = None;
        self.pace.wait(context);
        self.give_up_when_expired()
    }

    /// Waits for a turn, for `send_timeout` after the last chunk of any stream has moved. While the
    /// transport takes nothing, the wire has its own time limit.
    fn wait_for_turn(&mut self, context: &mut Context<'_>) -> Poll<Result<usize, SendError>> {
        let moved = self.outbox.moved();
        let is_expired = self.pace.is_expired().unwrap_or(true);
        match self.turn {
            Some(since) if !is_expired || since == moved => {}
            _ => {
                self.pace.wait_for_others(context);
                self.turn = Some(moved);
            }
        }
        self.give_up_when_expired()
    }

    fn give_up_when_expired(&self) -> Poll<Result<usize, SendError>> {
        match self.pace.is_expired() {
            Some(true) => {
                self.pace.count_end("http2");
                Poll::Ready(Err(ConnectionError::TimedOut.into()))
            }
            _ => Poll::Pending,
        }
    }

    fn hand_over(&mut self, bytes: Vec<u8>, is_last: bool) -> Result<(), SendError> {
        let chunk = self.outbox.chunk(bytes, &self.chunks);
        let sent = self.stream.get_mut().send_data(chunk, is_last);
        self.has_ended |= is_last;
        sent.map_err(|_| ConnectionError::Broken.into())
    }
}

impl body::Sink for H2Sink<'_> {
    /// Takes short content that need not wait.
    fn take_whole(&mut self, content: &[u8]) -> bool {
        if content.len() > CHUNK || self.trailers.is_some() || !self.outbox.is_free() {
            return false;
        }
        let stream = self.stream.get_mut();
        stream.reserve_capacity(content.len());
        if stream.capacity() < content.len() {
            return false;
        }
        let mut bytes = CHUNKS.with_borrow_mut(SpareBuffers::take);
        bytes.extend_from_slice(content);
        // A stream that is broken is found so at its end.
        self.hand_over(bytes, true).is_ok()
    }

    fn poll_send(
        &mut self,
        piece: ContentPiece<'_>,
        is_last: bool,
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, SendError>> {
        let all = piece.length();
        if all == 0 {
            return Poll::Ready(Ok(0));
        }
        self.follow_updates();
        if self.outbox.poll_turn(&mut self.place, context).is_pending() {
            return self.wait_for_turn(context);
        }
        let wanted = usize::try_from(all).map_or(CHUNK, |all| all.min(CHUNK));
        let room = ready!(self.poll_window(wanted, context))?;
        let mut bytes = CHUNKS.with_borrow_mut(SpareBuffers::take);
        bytes.resize(room, 0);
        let count = piece.read(&mut bytes).map_err(SendError::of_reading)?;
        bytes.truncate(count);
        self.pace.take(count);
        let is_end = is_last && count as u64 == all && self.trailers.is_none();
        self.hand_over(bytes, is_end)?;
        self.outbox.call_next();
        Poll::Ready(Ok(count))
    }

    /// The crate has got the head already.
    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        Poll::Ready(Ok(()))
    }

    fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        if self.has_ended {
            return Poll::Ready(Ok(()));
        }
        let Some(trailers) = self.trailers.as_ref().and_then(trailer_map) else {
            return Poll::Ready(self.hand_over(Vec::new(), true));
        };
        self.has_ended = true;
        let sent = self.stream.get_mut().send_trailers(trailers);
        Poll::Ready(sent.map_err(|_| ConnectionError::Broken.into()))
    }

    fn poll_broken(&self, context: &mut Context<'_>) -> bool {
        self.stream.borrow_mut().poll_reset(context).is_ready()
    }
}

impl StreamSink for H2Sink<'_> {
    fn set_trailers(&mut self, trailers: body::Trailers) {
        self.trailers = Some(trailers);
    }

    /// The crate drops what it holds of a stream that is reset.
    fn poll_arrived(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.chunks.poll_none(context).is_ready() || body::Sink::poll_broken(self, context) {
            return Poll::Ready(());
        }
        self.pace.wait(context);
        match self.pace.is_expired() {
            Some(true) => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }

    fn reset(&mut self, cause: ResetCause) {
        self.stream.get_mut().send_reset(match cause {
            ResetCause::Client | ResetCause::Tunnel => Reason::CANCEL,
            ResetCause::Server => Reason::INTERNAL_ERROR,
        });
    }
}

impl Drop for H2Sink<'_> {
    fn drop(&mut self) {
        self.outbox.leave(&self.place);
    }
}
