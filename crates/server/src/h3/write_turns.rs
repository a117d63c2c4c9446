//! The order in which the streams of a connection write.
//!
//! QUIC takes content as far as the client's windows and `send_buffer` allow. Once there is room
//! again it wakes every stream that waits for room of the connection, in no order of urgency, and
//! the first one that writes would get the room. Here the most urgent one writes first (RFC 9218
//! §10). A stream that QUIC did not wake has no window of its own: it holds up no other. Neither
//! does one that waits for its source, because it has nothing that waits to be written.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use crate::streams::{PriorityUpdates, SinkPlace};

/// The streams of one connection that have frames which QUIC has not taken.
#[derive(Debug)]
pub(super) struct WriteTurns {
    /// The priorities that the client has changed.
    pub(super) updates: PriorityUpdates,
    waiting: RefCell<Vec<WaitingWriter>>,
    /// Turns so far.
    turns: Cell<u64>,
}

#[derive(Debug)]
struct WaitingWriter {
    place: SinkPlace,
    signal: Arc<RoomSignal>,
}

/// The waker that QUIC gets of a stream that waits for room.
#[derive(Debug)]
pub(super) struct RoomSignal {
    /// The task of the stream.
    task: Waker,
    /// Whether there may be room, and the stream has not tried to write since.
    is_called: AtomicBool,
}

impl RoomSignal {
    /// The signal of the stream with this task.
    pub(super) fn new(task: Waker) -> RoomSignal {
        RoomSignal { task, is_called: AtomicBool::new(false) }
    }

    /// Returns whether this signal wakes the same task as that waker.
    pub(super) fn wakes(&self, task: &Waker) -> bool {
        self.task.will_wake(task)
    }

    /// Returns whether there may be room, and the stream has not tried to write since.
    pub(super) fn is_called(&self) -> bool {
        self.is_called.load(Ordering::Relaxed)
    }

    /// Notes that the stream waits for its turn.
    pub(super) fn call(&self) {
        self.is_called.store(true, Ordering::Relaxed);
    }

    /// Notes that the stream tries to write.
    pub(super) fn answer(&self) {
        self.is_called.store(false, Ordering::Relaxed);
    }
}

impl Wake for RoomSignal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.call();
        self.task.wake_by_ref();
    }
}

impl WriteTurns {
    /// The order of a connection that may have `most` requests at a time.
    pub(super) fn new(most: u64) -> WriteTurns {
        WriteTurns {
            updates: PriorityUpdates::new(most),
            waiting: RefCell::default(),
            turns: Cell::default(),
        }
    }

    /// Wakes a stream whose priority has changed, if frames of it wait.
    pub(super) fn call(&self, stream: u64) {
        let waiting = self.waiting.borrow();
        let own = waiting.iter().find(|waiting| waiting.place.stream() == stream);
        own.into_iter().for_each(|own| own.signal.task.wake_by_ref());
    }

    /// Returns whether the stream at `place` may write: no other one that goes before it may have
    /// room.
    pub(super) fn is_turn_of(&self, place: &SinkPlace) -> bool {
        let goes_before = |other: &WaitingWriter| {
            other.place.stream() != place.stream()
                && other.place < *place
                && other.signal.is_called()
        };
        !self.waiting.borrow().iter().any(goes_before)
    }

    /// Notes that the stream at `place` has written.
    pub(super) fn note_turn(&self, place: &mut SinkPlace) {
        let turn = self.turns.get() + 1;
        self.turns.set(turn);
        place.take_turn(turn);
    }

    /// Notes that the stream at `place` waits: for its turn if its signal is called, otherwise for
    /// room.
    pub(super) fn wait(&self, place: SinkPlace, signal: &Arc<RoomSignal>) {
        let mut waiting = self.waiting.borrow_mut();
        let own = waiting.iter_mut().find(|other| other.place.stream() == place.stream());
        match own {
            Some(own) => {
                own.place = place;
                if !Arc::ptr_eq(&own.signal, signal) {
                    own.signal = Arc::clone(signal);
                }
            }
            None => waiting.push(WaitingWriter { place, signal: Arc::clone(signal) }),
        }
    }

    /// Notes that nothing of the stream waits any more.
    pub(super) fn leave(&self, place: &SinkPlace) {
        let mut waiting = self.waiting.borrow_mut();
        let own = waiting.iter().position(|other| other.place.stream() == place.stream());
        own.into_iter().for_each(|own| drop(waiting.swap_remove(own)));
    }

    /// Wakes the stream whose turn it is, if one waits for its turn.
    pub(super) fn call_next(&self) {
        let waiting = self.waiting.borrow();
        let called = waiting.iter().filter(|waiting| waiting.signal.is_called());
        if let Some(next) = called.min_by_key(|waiting| waiting.place) {
            next.signal.task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use howdah_http::priority::Priority;

    use super::*;

    /// A stream that always has content.
    struct Writer {
        place: SinkPlace,
        signal: Arc<RoomSignal>,
    }

    impl Writer {
        fn new(stream: u64, urgency: u8, is_incremental: bool) -> Writer {
            Writer {
                place: SinkPlace::new(stream, Priority { urgency, is_incremental }),
                signal: Arc::new(RoomSignal::new(Waker::noop().clone())),
            }
        }

        /// Writes as far as there is `room`, if its turn has come. Returns whether it has written.
        fn run(&mut self, turns: &WriteTurns, room: &mut usize) -> bool {
            let is_turn = turns.is_turn_of(&self.place);
            let has_written = is_turn && *room > 0;
            match is_turn {
                true => self.signal.answer(),
                false => self.signal.call(),
            }
            if has_written {
                *room -= 1;
                turns.note_turn(&mut self.place);
            }
            turns.wait(self.place, &self.signal);
            has_written
        }
    }

    /// Makes room for one frame after the other, for which all are woken, the last first. Returns
    /// the streams in the order of their frames.
    fn order(writers: &mut [Writer], frames: usize) -> Vec<u64> {
        let turns = WriteTurns::new(100);
        let mut none = 0;
        for writer in writers.iter_mut() {
            writer.run(&turns, &mut none);
        }
        let mut order = Vec::new();
        for _ in 0..frames {
            let mut room = 1;
            for writer in writers.iter() {
                Waker::from(Arc::clone(&writer.signal)).wake();
            }
            while writers.iter().any(|writer| writer.signal.is_called()) {
                for writer in writers.iter_mut().rev() {
                    if writer.run(&turns, &mut room) {
                        order.push(writer.place.stream());
                    }
                }
            }
        }
        order
    }

    #[test]
    fn the_urgent_write_first_then_each_in_one_run_then_the_others_in_turns() {
        let new = Writer::new;
        let mut writers = [new(1, 3, true), new(2, 3, true), new(3, 3, true)];
        assert_eq!(order(&mut writers, 6), [1, 2, 3, 1, 2, 3]);
        let mut writers = [new(2, 3, false), new(1, 3, false), new(3, 0, true)];
        assert_eq!(order(&mut writers, 3), [3, 3, 3]);
        let mut writers = [new(2, 3, false), new(1, 3, false), new(3, 3, true)];
        assert_eq!(order(&mut writers, 3), [1, 1, 1]);
    }

    #[test]
    fn a_stream_without_room_and_one_without_content_hold_up_no_other() {
        let turns = WriteTurns::new(100);
        let (mut urgent, mut usual) = (Writer::new(2, 0, false), Writer::new(1, 3, false));
        assert!(!urgent.run(&turns, &mut 0));
        assert!(usual.run(&turns, &mut 1), "the urgent one was not woken");
        urgent.signal.call();
        assert!(!usual.run(&turns, &mut 1), "the urgent one goes first");
        turns.leave(&urgent.place);
        assert!(usual.run(&turns, &mut 1), "the urgent one has nothing more");
    }

    #[test]
    fn the_next_one_is_woken_when_its_turn_has_come() {
        struct Woken(AtomicBool);
        impl Wake for Woken {
            fn wake(self: Arc<Self>) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let turns = WriteTurns::new(100);
        let (mut urgent, mut usual) = (Writer::new(2, 0, false), Writer::new(1, 3, false));
        usual.signal = Arc::new(RoomSignal::new(Waker::from(Arc::clone(&woken))));
        urgent.run(&turns, &mut 0);
        urgent.signal.call();
        usual.run(&turns, &mut 0);
        turns.call_next();
        assert!(!woken.0.load(Ordering::Relaxed), "the urgent one has not tried");
        urgent.run(&turns, &mut 0);
        turns.call_next();
        assert!(woken.0.load(Ordering::Relaxed));
    }
}
