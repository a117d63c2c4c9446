//! Our side of a stream.
//!
//! The crate writes to it through futures that borrow it. The bytes that a future has not written
//! when it is dropped are kept here and go on with the next poll of whoever waits, so that a
//! response can wait without such a future. The streams of requests write in the order of
//! [`WriteTurns`].

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use ::h3::error::Code;
use ::h3::quic::{StreamErrorIncoming, StreamId, WriteBuf};
use bytes::{Buf, Bytes};
use howdah_http::priority::Priority;
use quinn::{SendStream, StoppedError, VarInt, WriteError};

use super::transport::{connection_error, number};
use super::write_turns::{RoomSignal, WriteTurns};
use crate::streams::{ResponsePriority, SinkPlace};

/// A handle of our side of a stream.
#[derive(Clone)]
pub(super) struct OutgoingStream(Rc<RefCell<OutgoingState>>);

struct OutgoingState {
    stream: SendStream,
    /// Frames that were not written completely.
    waiting: VecDeque<WriteBuf<Bytes>>,
    /// The order of the streams; `None` for a stream beside requests, which writes at once.
    order: Option<StreamOrder>,
    /// Waits for the end of the stream, once somebody has asked.
    end: Option<StreamEnd>,
    /// The stream was finished or reset.
    has_ended: bool,
    /// The stream was reset.
    is_broken: bool,
}

/// The stream among those of its connection.
struct StreamOrder {
    turns: Rc<WriteTurns>,
    place: SinkPlace,
    /// The priority as request and response say; `None` until the response's head is sent.
    priority: Option<ResponsePriority>,
    /// The number of the client's updates that `place` follows.
    followed: u64,
    /// The waker of the stream once it has waited. A response that never waits needs none.
    signal: Option<(Arc<RoomSignal>, Waker)>,
    /// Other streams took the room since somebody last asked.
    is_outrun: bool,
}

type StreamEnd = Pin<Box<dyn Future<Output = Result<Option<VarInt>, StoppedError>>>>;

impl OutgoingStream {
    /// The side of a stream beside requests.
    pub(super) fn beside(stream: SendStream) -> OutgoingStream {
        OutgoingStream::new(stream, None)
    }

    /// The side of a request's stream, which writes when its turn has come.
    pub(super) fn of_request(stream: SendStream, turns: &Rc<WriteTurns>) -> OutgoingStream {
        let order = StreamOrder {
            turns: Rc::clone(turns),
            place: SinkPlace::new(stream.id().index(), Priority::UNSAID),
            priority: None,
            followed: 0,
            signal: None,
            is_outrun: false,
        };
        OutgoingStream::new(stream, Some(order))
    }

    fn new(stream: SendStream, order: Option<StreamOrder>) -> OutgoingStream {
        OutgoingStream(Rc::new(RefCell::new(OutgoingState {
            stream,
            waiting: VecDeque::new(),
            order,
            end: None,
            has_ended: false,
            is_broken: false,
        })))
    }

    /// The number of the stream.
    pub(super) fn id(&self) -> StreamId {
        number(self.0.borrow().stream.id())
    }

    /// The number of requests before this one.
    pub(super) fn index(&self) -> u64 {
        self.0.borrow().stream.id().index()
    }

    /// Takes a frame. [`poll_written`](OutgoingStream::poll_written) writes it.
    pub(super) fn push(&self, frame: WriteBuf<Bytes>) {
        self.0.borrow_mut().waiting.push_back(frame);
    }

    /// Waits until everything was written: QUIC has it, and sends it when it can.
    ///
    /// # Errors
    /// The stream or the connection has ended.
    pub(super) fn poll_written(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), StreamErrorIncoming>> {
        let OutgoingState { stream, waiting, order, .. } = &mut *self.0.borrow_mut();
        let mut frames = WaitingFrames { stream, waiting };
        match order {
            _ if frames.waiting.is_empty() => Poll::Ready(Ok(())),
            None => frames.poll_write(context).1,
            Some(order) => order.poll_write(&mut frames, context),
        }
    }

    /// Ends a turn of the request's task: writes what waits and was called, whatever the task waits
    /// for, and lets the next stream go on.
    pub(super) fn rest(&self, context: &mut Context<'_>) {
        let is_called = self.0.borrow().is_called();
        if is_called && self.poll_written(context).is_ready() {
            // The task may wait for that.
            context.waker().wake_by_ref();
        }
        if let Some(order) = &self.0.borrow().order {
            order.turns.call_next();
        }
    }

    /// Returns whether other streams took the room that this one waits for, since this was last
    /// asked.
    pub(super) fn was_outrun(&self) -> bool {
        let order = &mut self.0.borrow_mut().order;
        order.as_mut().is_some_and(|order| std::mem::take(&mut order.is_outrun))
    }

    /// Waits as [`poll_written`](OutgoingStream::poll_written), then ends the stream.
    ///
    /// # Errors
    /// The stream or the connection has ended.
    pub(super) fn poll_finished(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), StreamErrorIncoming>> {
        ready!(self.poll_written(context))?;
        let state = &mut *self.0.borrow_mut();
        if !std::mem::replace(&mut state.has_ended, true) {
            // The client may have stopped the stream; nobody waits for its end then.
            let _ = state.stream.finish();
        }
        Poll::Ready(Ok(()))
    }

    /// Breaks the stream off, unless it has ended.
    pub(super) fn reset(&self, code: Code) {
        self.0.borrow_mut().reset(code);
    }

    /// Waits until the client has everything, or has stopped the stream. Returns whether it has
    /// everything.
    pub(super) fn poll_confirmed(&self, context: &mut Context<'_>) -> Poll<bool> {
        let state = &mut *self.0.borrow_mut();
        let end = state.end.get_or_insert_with(|| Box::pin(state.stream.stopped()));
        let ended = ready!(end.as_mut().poll(context));
        // It ends once; asked again, it ends again.
        state.end = None;
        Poll::Ready(matches!(ended, Ok(None)))
    }

    /// Returns whether the stream was broken off by us.
    pub(super) fn is_broken(&self) -> bool {
        self.0.borrow().is_broken
    }

    /// Sets which of the connection's responses go first.
    pub(super) fn set_priority(&self, priority: ResponsePriority) {
        let OutgoingState { stream, order, .. } = &mut *self.0.borrow_mut();
        if let Some(order) = order {
            order.priority = Some(priority);
            order.prioritize(stream);
        }
    }
}

impl OutgoingState {
    /// Returns whether frames wait, and the stream may have room for them.
    fn is_called(&self) -> bool {
        let signal = self.order.as_ref().and_then(|order| order.signal.as_ref());
        !self.waiting.is_empty() && signal.is_some_and(|(signal, _)| signal.is_called())
    }

    fn reset(&mut self, code: Code) {
        if let Some(order) = &self.order {
            order.leave();
        }
        if !std::mem::replace(&mut self.has_ended, true) {
            self.is_broken = true;
            self.waiting.clear();
            let _ = self.stream.reset(VarInt::from_u64(code.value()).unwrap_or(VarInt::MAX));
        }
    }
}

/// The frames of a stream that wait to be written.
struct WaitingFrames<'s> {
    stream: &'s mut SendStream,
    waiting: &'s mut VecDeque<WriteBuf<Bytes>>,
}

impl WaitingFrames<'_> {
    /// Writes them as far as QUIC has room. Returns whether anything was written, and how it ended.
    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
    ) -> (bool, Poll<Result<(), StreamErrorIncoming>>) {
        let mut has_written = false;
        while let Some(frame) = self.waiting.front_mut() {
            while frame.has_remaining() {
                match Pin::new(&mut *self.stream).poll_write(context, frame.chunk()) {
                    Poll::Ready(Ok(count)) => frame.advance(count),
                    Poll::Ready(Err(error)) => {
                        return (has_written, Poll::Ready(Err(write_error(error))));
                    }
                    Poll::Pending => return (has_written, Poll::Pending),
                }
                has_written = true;
            }
            self.waiting.pop_front();
        }
        (has_written, Poll::Ready(Ok(())))
    }
}

impl StreamOrder {
    /// Gives the stream its priority after the client's last update.
    fn prioritize(&mut self, stream: &SendStream) {
        let (updates, index) = (&self.turns.updates, self.place.stream());
        self.followed = updates.count();
        if let Some(said) = &self.priority {
            let priority = said.after(updates.of(index));
            self.place.set_priority(priority);
            // A stream that the client has stopped has none.
            let _ = stream.set_priority(place(priority, index));
        }
    }

    /// Writes `frames` if the turn of the stream has come.
    fn poll_write(
        &mut self,
        frames: &mut WaitingFrames<'_>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), StreamErrorIncoming>> {
        if self.followed != self.turns.updates.count() {
            self.prioritize(frames.stream);
        }
        if !self.turns.is_turn_of(&self.place) {
            self.is_outrun = true;
            let (signal, _) = self.signal(context);
            signal.call();
            self.wait();
            return Poll::Pending;
        }
        if self.signal.is_none() {
            let (has_written, written) = frames.poll_write(context);
            self.note(has_written);
            if written.is_ready() {
                return written;
            }
        }
        let (signal, waker) = self.signal(context);
        let was_called = signal.is_called();
        signal.answer();
        let (has_written, written) = frames.poll_write(&mut Context::from_waker(waker));
        self.note(has_written);
        match &written {
            Poll::Ready(_) => self.leave(),
            Poll::Pending => {
                self.is_outrun |= was_called && !has_written;
                self.wait();
            }
        }
        written
    }

    /// The signal for the task of `context`.
    fn signal(&mut self, context: &Context<'_>) -> &(Arc<RoomSignal>, Waker) {
        self.signal = self.signal.take().filter(|(signal, _)| signal.wakes(context.waker()));
        self.signal.get_or_insert_with(|| {
            let signal = Arc::new(RoomSignal::new(context.waker().clone()));
            let waker = Waker::from(Arc::clone(&signal));
            (signal, waker)
        })
    }

    fn note(&mut self, has_written: bool) {
        if has_written {
            self.turns.note_turn(&mut self.place);
        }
    }

    fn wait(&self) {
        if let Some((signal, _)) = &self.signal {
            self.turns.wait(self.place, signal);
        }
    }

    /// Lets the next stream go on: nothing of this one waits.
    fn leave(&self) {
        if self.signal.is_some() {
            self.turns.leave(&self.place);
            self.turns.call_next();
        }
    }
}

/// QUIC would end the stream as if it were complete.
impl Drop for OutgoingState {
    fn drop(&mut self) {
        self.reset(Code::H3_INTERNAL_ERROR);
    }
}

/// The place of a stream among others as QUIC knows it: higher ones go first, equal ones in turns.
/// Of those that are sent in one run the earlier goes first.
fn place(priority: Priority, index: u64) -> i32 {
    let urgency = (7 - i32::from(priority.urgency.min(7))) * (2 * RUNS);
    match priority.is_incremental {
        true => urgency,
        false => urgency + RUNS - (index % RUNS as u64) as i32,
    }
}

/// Streams whose order is known among those of one urgency.
const RUNS: i32 = 1 << 20;

fn write_error(error: WriteError) -> StreamErrorIncoming {
    match error {
        WriteError::Stopped(code) => {
            StreamErrorIncoming::StreamTerminated { error_code: code.into_inner() }
        }
        WriteError::ConnectionLost(error) => StreamErrorIncoming::ConnectionErrorIncoming {
            connection_error: connection_error(error),
        },
        other => StreamErrorIncoming::Unknown(Box::new(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_urgent_go_first_then_each_in_one_run_then_the_others_in_turns() {
        let of =
            |urgency, is_incremental, index| place(Priority { urgency, is_incremental }, index);
        assert!(of(0, true, 9) > of(1, false, 0));
        assert!(of(3, false, 1) > of(3, false, 2));
        assert!(of(3, false, RUNS as u64 - 1) > of(3, true, 0));
        assert_eq!(of(3, true, 1), of(3, true, 2));
        assert!(of(7, true, 0) >= 0);
    }
}
