//! Questions of a worker while its request runs.

use super::{FrontRegion, Slot};
use crate::sync::Ordering;

/// A question that a worker waits for the answer of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerQuestion {
    /// Names the question in [`FrontRegion::answer`].
    pub number: u32,
    /// The worker's words, which nothing has checked; empty if there were too many.
    pub text: Vec<u8>,
}

impl FrontRegion {
    /// Returns whether the worker of a slot asks something that [`FrontRegion::question`] has not
    /// returned.
    #[inline]
    pub fn asks(&self, slot: &Slot) -> bool {
        self.region.slot(slot.index()).asked.load(Ordering::Relaxed) != slot.asked
    }

    /// Returns the question that the worker of a slot asks. `None` if there is none, or it was
    /// returned before. Call it after a [`FrontRegion::slot_status`] that says Taken.
    pub fn question(&self, slot: &mut Slot) -> Option<WorkerQuestion> {
        let number = self.region.slot(slot.index()).asked.load(Ordering::Acquire);
        if number == slot.asked {
            return None;
        }
        slot.asked = number;
        let text = self.region.read_text(slot.index(), LONGEST_QUESTION).unwrap_or_default();
        Some(WorkerQuestion { number, text })
    }

    /// Answers a question, and wakes the worker. An answer that does not fit is an empty one.
    pub fn answer(&self, slot: &Slot, number: u32, answer: &[u8]) {
        let fits = answer.len() <= self.region.longest_text();
        self.region.write_text(slot.index(), if fits { answer } else { b"" });
        let words = self.region.slot(slot.index());
        words.answered.store(number, Ordering::Release);
        howdah_sys::futex::wake(words.answered);
    }
}

/// The most bytes of a question. A longer one is taken for an empty one.
const LONGEST_QUESTION: usize = 128 * 1024;
