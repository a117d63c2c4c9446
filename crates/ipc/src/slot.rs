//! The state word of a slot and its transitions.

use crate::layout::{SlotPhase, SlotState};
use crate::sync::{AtomicU64, Ordering};

/// The state word, with one method per arrow of the diagram in the crate's documentation.
#[derive(Debug, Clone, Copy)]
pub struct StateWord<'r>(pub &'r AtomicU64);

impl StateWord<'_> {
    /// Front: publishes everything written to the slot until now to the worker that takes it.
    pub fn submit(&self, generation: u32) {
        self.0.store(queued(generation).pack(), Ordering::Release);
    }

    /// Front: takes a request back that no worker has taken. Returns `false` if a worker has taken
    /// it.
    pub fn cancel(&self, generation: u32) -> bool {
        let free = SlotState {
            phase: SlotPhase::Free,
            ..queued(generation)
        };
        self.swap(queued(generation), free)
    }

    /// Worker: takes the request of a Queued slot. `None` if the slot is not Queued, or another
    /// worker was faster.
    pub fn take(&self, worker: u16, incarnation: u16) -> Option<SlotState> {
        let found = SlotState::unpack(self.0.load(Ordering::Acquire))?;
        let taken = SlotState {
            worker,
            incarnation,
            phase: SlotPhase::Taken,
            ..found
        };
        (found.phase == SlotPhase::Queued && self.swap(found, taken)).then_some(taken)
    }

    /// Worker: finishes the slot, as its last access. Publishes everything that the worker wrote to
    /// the slot.
    pub fn finish(&self, taken: SlotState) {
        let done = SlotState { phase: SlotPhase::Done, ..taken };
        self.0.store(done.pack(), Ordering::Release);
    }

    /// Reads the state; `None` for a word that is not a state. A reader that sees Done sees
    /// everything that the worker wrote.
    pub fn load(&self) -> Option<SlotState> {
        SlotState::unpack(self.0.load(Ordering::Acquire))
    }

    fn swap(&self, from: SlotState, to: SlotState) -> bool {
        self.0
            .compare_exchange(from.pack(), to.pack(), Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

/// The state of a queued slot. Its worker is 0 because no worker has taken it.
fn queued(generation: u32) -> SlotState {
    SlotState {
        generation,
        worker: 0,
        incarnation: 0,
        phase: SlotPhase::Queued,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_request_goes_round() {
        let word = AtomicU64::new(0);
        let state = StateWord(&word);
        assert_eq!(state.take(1, 1), None);
        state.submit(7);
        let taken = state.take(3, 9).unwrap();
        assert_eq!((taken.generation, taken.worker, taken.incarnation), (7, 3, 9));
        assert_eq!(state.take(4, 0), None);
        assert!(!state.cancel(7));
        state.finish(taken);
        assert_eq!(state.load().unwrap().phase, SlotPhase::Done);
    }

    #[test]
    fn only_the_waiting_generation_is_cancelled() {
        let word = AtomicU64::new(0);
        let state = StateWord(&word);
        state.submit(7);
        assert!(!state.cancel(6));
        assert!(state.cancel(7));
        assert_eq!(state.take(0, 0), None);
    }
}
