//! Our side of a stream.
//!
//! The crate writes to it through futures that borrow it. What a future that was dropped early had
//! left to write is kept here and goes on with the next poll of whoever waits, so that a response
//! can wait without such a future.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use ::h3::error::Code;
use ::h3::quic::{StreamErrorIncoming, StreamId, WriteBuf};
use bytes::{Buf, Bytes};
use howdah_http::priority::Priority;
use quinn::{SendStream, StoppedError, VarInt, WriteError};

use super::transport::{connection_error, number};

/// A handle of our side of a stream.
#[derive(Clone)]
pub(super) struct Outgoing(Rc<RefCell<OutgoingState>>);

struct OutgoingState {
    stream: SendStream,
    /// Frames that were not written completely.
    waiting: VecDeque<WriteBuf<Bytes>>,
    /// Waits for the end of the stream, once somebody has asked.
    end: Option<StreamEnd>,
    /// The stream was finished or reset.
    has_ended: bool,
    /// The stream was reset.
    is_broken: bool,
}

type StreamEnd = Pin<Box<dyn Future<Output = Result<Option<VarInt>, StoppedError>>>>;

impl Outgoing {
    pub(super) fn new(stream: SendStream) -> Outgoing {
        Outgoing(Rc::new(RefCell::new(OutgoingState {
            stream,
            waiting: VecDeque::new(),
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

    /// Takes a frame. [`poll_written`](Outgoing::poll_written) writes it.
    pub(super) fn push(&self, frame: WriteBuf<Bytes>) {
        self.0.borrow_mut().waiting.push_back(frame);
    }

    /// Waits until everything was written: QUIC has it, and sends it when it can.
    pub(super) fn poll_written(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), StreamErrorIncoming>> {
        let OutgoingState { stream, waiting, .. } = &mut *self.0.borrow_mut();
        while let Some(frame) = waiting.front_mut() {
            while frame.has_remaining() {
                let written = Pin::new(&mut *stream).poll_write(context, frame.chunk());
                frame.advance(ready!(written).map_err(write_error)?);
            }
            waiting.pop_front();
        }
        Poll::Ready(Ok(()))
    }

    /// Waits as [`poll_written`](Outgoing::poll_written), then ends the stream.
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

    /// Whether the stream was broken off by us.
    pub(super) fn is_broken(&self) -> bool {
        self.0.borrow().is_broken
    }

    /// Sets which of the connection's responses go first.
    pub(super) fn set_priority(&self, priority: Priority) {
        let state = self.0.borrow();
        // A stream that the client has stopped has none.
        let _ = state.stream.set_priority(place(priority, state.stream.id().index()));
    }
}

impl OutgoingState {
    fn reset(&mut self, code: Code) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.is_broken = true;
            self.waiting.clear();
            let _ = self.stream.reset(VarInt::from_u64(code.value()).unwrap_or(VarInt::MAX));
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
