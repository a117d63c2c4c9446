//! Content on its way from the sinks of a connection to its wire, and the order of the sinks.
//!
//! The `h2` crate sends content in the order in which it gets it. The outbox gives it little at a
//! time, and lets the sink with the highest priority (RFC 9218) go first. A sink without a window
//! has no place in the order, so it holds up no other. Nor does content whose window the client has
//! closed after the crate got it: it is set aside.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Buf;

use super::spare_buffers::CHUNKS;
use crate::streams::SinkPlace;

/// Bytes of content that a sink hands over at a time: a frame as every client takes it.
pub(super) const CHUNK: usize = 16 * 1024;
/// Bytes of content that the crate holds, for all streams together. Beyond it sinks wait.
const MOST: usize = 4 * CHUNK;
/// Bytes of content, beside [`MOST`], that the crate may hold for closed windows. Beyond it all
/// sinks of the connection wait until a window opens, or `send_timeout` is over.
const MOST_ASIDE: usize = 16 * MOST;

/// The outbox of one connection.
#[derive(Debug, Default)]
pub(super) struct H2Outbox {
    /// Bytes that the crate holds and is about to send.
    held: Cell<usize>,
    /// Bytes that the crate holds for windows that the client has closed.
    aside: Cell<usize>,
    /// The number of times that content was set aside. Chunks of an earlier time are aside.
    round: Cell<u64>,
    /// Sinks that have content and a window, and wait for their turn.
    waiting: RefCell<Vec<WaitingSink>>,
    /// Turns so far.
    turns: Cell<u64>,
    /// Chunks that were sent or dropped so far.
    moved: Cell<u64>,
}

#[derive(Debug)]
struct WaitingSink {
    place: SinkPlace,
    waker: Waker,
}

/// A piece of content that the crate holds.
#[derive(Debug)]
pub(super) struct OutboxChunk {
    bytes: Vec<u8>,
    /// Bytes that were sent.
    sent: usize,
    /// The outbox's `round` when the crate got the chunk.
    round: u64,
    outbox: Rc<H2Outbox>,
    stream: Rc<StreamChunks>,
}

/// The chunks of one stream that the crate holds.
#[derive(Debug, Default)]
pub(super) struct StreamChunks {
    count: Cell<usize>,
    /// Woken when there is none left.
    waiting: RefCell<Option<Waker>>,
}

impl StreamChunks {
    /// Waits until the crate holds none.
    pub(super) fn poll_none(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.count.get() == 0 {
            return Poll::Ready(());
        }
        self.waiting.replace(Some(context.waker().clone()));
        Poll::Pending
    }
}

impl H2Outbox {
    /// Waits for the turn of the sink at `place`. Ready: the sink may hand over a chunk now.
    pub(super) fn poll_turn(&self, place: &mut SinkPlace, context: &mut Context<'_>) -> Poll<()> {
        let mut waiting = self.waiting.borrow_mut();
        let own = waiting.iter().position(|other| other.place.stream() == place.stream());
        let first = waiting.iter().map(|other| other.place).min();
        let has_room = self.held.get() < MOST;
        if has_room && first.is_none_or(|first| *place <= first) {
            own.into_iter().for_each(|own| drop(waiting.swap_remove(own)));
            let turn = self.turns.get() + 1;
            self.turns.set(turn);
            place.take_turn(turn);
            return Poll::Ready(());
        }
        let entry = WaitingSink {
            place: *place,
            waker: context.waker().clone(),
        };
        match own {
            Some(own) => waiting[own] = entry,
            None => waiting.push(entry),
        }
        drop(waiting);
        if has_room {
            self.call_next();
        }
        Poll::Pending
    }

    /// Whether a sink may hand over a chunk, and none waits for its turn.
    pub(super) fn is_free(&self) -> bool {
        self.held.get() < MOST && self.waiting.borrow().is_empty()
    }

    /// Ends the wait of a stream that has ended or has no window.
    pub(super) fn leave(&self, place: &SinkPlace) {
        self.waiting.borrow_mut().retain(|other| other.place.stream() != place.stream());
        // Also a stream that had its turn and could not use it.
        self.call_next();
    }

    /// Wakes the sink whose turn it is, if there is room.
    pub(super) fn call_next(&self) {
        if self.held.get() < MOST
            && let Some(next) = self.waiting.borrow().iter().min_by_key(|waiting| waiting.place)
        {
            next.waker.wake_by_ref();
        }
    }

    /// Wakes the sink of a stream whose priority has changed, if it waits for its turn.
    pub(super) fn call(&self, stream: u64) {
        let waiting = self.waiting.borrow();
        let own = waiting.iter().find(|waiting| waiting.place.stream() == stream);
        own.into_iter().for_each(|own| own.waker.wake_by_ref());
    }

    /// The number of chunks that have left the crate. While it stays the same, nothing moves.
    pub(super) fn moved(&self) -> u64 {
        self.moved.get()
    }

    /// Makes a chunk of `bytes`, which the crate holds from now on, for a stream with these chunks.
    pub(super) fn chunk(
        self: &Rc<H2Outbox>,
        bytes: Vec<u8>,
        stream: &Rc<StreamChunks>,
    ) -> OutboxChunk {
        self.held.set(self.held.get() + bytes.len());
        stream.count.set(stream.count.get() + 1);
        OutboxChunk {
            bytes,
            sent: 0,
            round: self.round.get(),
            outbox: Rc::clone(self),
            stream: Rc::clone(stream),
        }
    }

    /// Bytes that the crate holds for windows that the client has closed.
    pub(super) fn aside(&self) -> usize {
        self.aside.get()
    }

    /// Sets aside what the crate holds, if `may_hold` allows the bytes aside. Call it when the
    /// crate has sent all that it may: what is left waits for windows, and other sinks may have
    /// one.
    pub(super) fn set_aside(&self, may_hold: impl FnOnce(usize) -> bool) {
        let (held, aside) = (self.held.get(), self.aside.get());
        if held == 0 || held + aside > MOST_ASIDE || !may_hold(held + aside) {
            return;
        }
        self.aside.set(held + aside);
        self.held.set(0);
        self.round.set(self.round.get() + 1);
        self.call_next();
    }

    /// Releases the memory of an idle connection.
    pub(super) fn release(&self) {
        *self.waiting.borrow_mut() = Vec::new();
    }
}

impl Buf for OutboxChunk {
    fn remaining(&self) -> usize {
        self.bytes.len() - self.sent
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    fn advance(&mut self, count: usize) {
        self.sent += count;
        debug_assert!(self.sent <= self.bytes.len());
    }
}

impl Drop for OutboxChunk {
    fn drop(&mut self) {
        let outbox = &self.outbox;
        let place = match self.round == outbox.round.get() {
            true => &outbox.held,
            false => &outbox.aside,
        };
        place.set(place.get() - self.bytes.len());
        outbox.moved.set(outbox.moved.get() + 1);
        let bytes = std::mem::take(&mut self.bytes);
        // The thread may end.
        let _ = CHUNKS.try_with(|spare| spare.borrow_mut().keep(bytes));
        outbox.call_next();
        self.stream.count.set(self.stream.count.get() - 1);
        if self.stream.count.get() == 0
            && let Some(waiting) = self.stream.waiting.take()
        {
            waiting.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use howdah_http::priority::Priority;

    use super::*;

    fn place(stream: u64, urgency: u8, is_incremental: bool) -> SinkPlace {
        SinkPlace::new(stream, Priority { urgency, is_incremental })
    }

    fn chunk(outbox: &Rc<H2Outbox>, length: usize) -> OutboxChunk {
        outbox.chunk(vec![0; length], &Rc::default())
    }

    /// Lets `places` send `count` chunks as they get their turns, one chunk leaving the crate at a
    /// time. Returns the streams in the order of their chunks.
    fn order(places: &mut [SinkPlace], count: usize) -> Vec<u64> {
        let outbox = Rc::new(H2Outbox::default());
        let mut context = Context::from_waker(Waker::noop());
        // The crate holds as much as it may.
        let mut held = vec![chunk(&outbox, MOST)];
        let mut order = Vec::new();
        while order.len() < count {
            for place in places.iter_mut() {
                assert!(outbox.poll_turn(place, &mut context).is_pending());
            }
            held.clear();
            for place in places.iter_mut() {
                while order.len() < count && outbox.poll_turn(place, &mut context).is_ready() {
                    order.push(place.stream());
                    held.push(chunk(&outbox, MOST));
                }
            }
        }
        order
    }

    #[test]
    fn the_urgent_go_first_then_each_in_one_run_then_the_others_in_turns() {
        let mut places = [place(1, 3, true), place(3, 3, true), place(5, 3, true)];
        assert_eq!(order(&mut places, 6), [1, 3, 5, 1, 3, 5]);
        let mut places = [place(3, 3, false), place(1, 3, false), place(5, 0, true)];
        assert_eq!(order(&mut places, 3), [5, 5, 5]);
        let mut places = [place(3, 3, false), place(1, 3, false), place(5, 3, true)];
        assert_eq!(order(&mut places, 3), [1, 1, 1]);
    }

    #[test]
    fn content_without_a_window_is_set_aside_up_to_a_limit() {
        let outbox = Rc::new(H2Outbox::default());
        let mut context = Context::from_waker(Waker::noop());
        let mut other = place(3, 3, true);
        let mut held = Vec::new();
        for _ in 0..MOST_ASIDE / MOST {
            held.push(chunk(&outbox, MOST));
            assert!(outbox.poll_turn(&mut other, &mut context).is_pending());
            outbox.set_aside(|_| true);
            assert!(outbox.poll_turn(&mut other, &mut context).is_ready());
        }
        let last = chunk(&outbox, MOST);
        outbox.set_aside(|_| true);
        assert!(outbox.poll_turn(&mut other, &mut context).is_pending(), "that is too much");
        // The first ones find their windows open.
        held.clear();
        outbox.set_aside(|_| true);
        assert!(outbox.poll_turn(&mut other, &mut context).is_ready());
        drop(last);
        assert_eq!((outbox.held.get(), outbox.aside.get()), (0, 0));
        let last = chunk(&outbox, MOST);
        outbox.set_aside(|bytes| bytes < MOST);
        assert!(outbox.poll_turn(&mut other, &mut context).is_pending(), "the client's account");
        drop(last);
    }

    #[test]
    fn one_that_leaves_lets_the_next_go() {
        let outbox = Rc::new(H2Outbox::default());
        let mut context = Context::from_waker(Waker::noop());
        let held = chunk(&outbox, MOST);
        let (mut urgent, mut usual) = (place(3, 0, false), place(1, 3, false));
        assert!(outbox.poll_turn(&mut urgent, &mut context).is_pending());
        assert!(outbox.poll_turn(&mut usual, &mut context).is_pending());
        drop(held);
        assert!(outbox.poll_turn(&mut usual, &mut context).is_pending());
        outbox.leave(&urgent);
        assert!(outbox.poll_turn(&mut usual, &mut context).is_ready());
    }
}
