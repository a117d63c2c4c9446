//! A worker that waits for room in its ring, and the front that gives it or wants nothing more.

use howdah_ipc::flow_control::{AbortReason, FlowControl};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread;

use crate::{Futex, model};

/// The words of a [`FlowControl`], and the futex.
struct Ring {
    consumed: AtomicU64,
    starved: AtomicU32,
    aborted: AtomicU32,
    bed: Futex,
}

impl Ring {
    fn new() -> Arc<Ring> {
        Arc::new(Ring {
            consumed: AtomicU64::new(0),
            starved: AtomicU32::new(0),
            aborted: AtomicU32::new(0),
            bed: Futex::new(),
        })
    }

    fn flow_control(&self) -> FlowControl<'_> {
        FlowControl {
            consumed: &self.consumed,
            starved: &self.starved,
            aborted: &self.aborted,
        }
    }

    /// Waits until `wanted` bytes are consumed, like `ResponseWriter::write` with a ring of one
    /// byte. `false`: nobody wants more.
    fn wait_for(&self, wanted: u64) -> bool {
        loop {
            if self.flow_control().is_aborted() {
                return false;
            }
            let seen = self.consumed.load(Ordering::Acquire);
            if seen >= wanted {
                return true;
            }
            self.flow_control().wait(seen, || {}, |word| self.bed.wait(word, 1));
        }
    }

    fn give_back(&self, consumed: u64, worth_waking: bool) {
        if self.flow_control().give_back(consumed, worth_waking) {
            self.bed.wake();
        }
    }
}

/// Guards: the fences of `FlowControl::wait` and `give_back`, and the look at `consumed` between
/// them.
#[test]
fn a_worker_that_waits_for_room_is_woken_each_time() {
    model(4, || {
        let ring = Ring::new();
        let worker = {
            let ring = ring.clone();
            thread::spawn(move || ring.wait_for(1) && ring.wait_for(2))
        };
        ring.give_back(1, true);
        ring.give_back(2, true);
        assert!(worker.join().unwrap());
    });
}

/// Room that was not worth a wake-up is announced with the next that is.
/// Guards: `give_back` leaving `starved` alone when it wakes nobody.
#[test]
fn a_worker_sleeps_until_there_is_room_worth_waking_for() {
    model(4, || {
        let ring = Ring::new();
        let worker = {
            let ring = ring.clone();
            thread::spawn(move || ring.wait_for(1))
        };
        ring.give_back(1, false);
        ring.give_back(2, true);
        assert!(worker.join().unwrap());
    });
}

/// Guards: the fence of `FlowControl::abort`, the look at `aborted` after the fence of
/// `FlowControl::wait`.
#[test]
fn a_worker_that_waits_for_room_hears_that_nobody_wants_more() {
    model(4, || {
        let ring = Ring::new();
        let worker = {
            let ring = ring.clone();
            thread::spawn(move || ring.wait_for(2))
        };
        ring.give_back(1, true);
        ring.flow_control().abort(AbortReason::Unread);
        ring.bed.wake();
        assert!(!worker.join().unwrap());
    });
}
