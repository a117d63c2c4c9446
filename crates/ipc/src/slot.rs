//! The state word of a slot: who may move it where.

use crate::layout::{Phase, State};
use crate::sync::{AtomicU64, Ordering};

/// The word, with one method per arrow of the diagram in the crate's documentation.
#[derive(Debug, Clone, Copy)]
pub struct StateWord<'r>(pub &'r AtomicU64);

impl StateWord<'_> {
    /// Front: publishes everything written to the slot until now, for whoever takes it.
    pub fn submit(&self, generation: u32) {
        self.0.store(queued(generation).pack(), Ordering::Release);
    }

    /// Front: takes a request back that no worker has begun. `false`: one has.
    pub fn cancel(&self, generation: u32) -> bool {
        let free = State { phase: Phase::Free, ..queued(generation) };
        self.swap(queued(generation), free)
    }

    /// Worker: takes whatever waits here. `None`: nothing does, or another worker was faster.
    pub fn take(&self, worker: u16, life: u16) -> Option<State> {
        let found = State::unpack(self.0.load(Ordering::Acquire))?;
        let taken = State {
            worker,
            life,
            phase: Phase::Taken,
            ..found
        };
        (found.phase == Phase::Queued && self.swap(found, taken)).then_some(taken)
    }

    /// Worker: the last that it does to the slot. Publishes all it wrote there.
    pub fn finish(&self, taken: State) {
        let done = State { phase: Phase::Done, ..taken };
        self.0.store(done.pack(), Ordering::Release);
    }

    /// The present state; `None` for a word that is no state. A reader that sees Done sees all that
    /// the worker wrote.
    pub fn load(&self) -> Option<State> {
        State::unpack(self.0.load(Ordering::Acquire))
    }

    fn swap(&self, from: State, to: State) -> bool {
        self.0
            .compare_exchange(from.pack(), to.pack(), Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

/// Nobody has taken a queued slot, so who took it is 0.
fn queued(generation: u32) -> State {
    State {
        generation,
        worker: 0,
        life: 0,
        phase: Phase::Queued,
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
        assert_eq!((taken.generation, taken.worker, taken.life), (7, 3, 9));
        assert_eq!(state.take(4, 0), None);
        assert!(!state.cancel(7));
        state.finish(taken);
        assert_eq!(state.load().unwrap().phase, Phase::Done);
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
