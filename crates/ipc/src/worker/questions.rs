//! Questions to the front while a request runs.

use std::time::{Duration, Instant};

use howdah_sys::futex;

use super::ResponseWriter;
use super::response_writer::SPACE_CHECK;
use crate::sync::Ordering;

impl ResponseWriter<'_> {
    /// Asks the front, and waits for the answer. `None` if the question is too long, nobody wants
    /// the response any more, or no answer has come within half a minute.
    ///
    /// The request area carries both, because the request was copied out of it.
    pub fn ask(&mut self, question: &[u8]) -> Option<Vec<u8>> {
        self.ask_within(question, PATIENCE)
    }

    /// Asks as [`ResponseWriter::ask`] does, with another limit of the wait.
    pub(super) fn ask_within(&mut self, question: &[u8], patience: Duration) -> Option<Vec<u8>> {
        let region = &self.shared.region;
        let words = region.slot(self.slot);
        // The front may still be working on a question that this worker has given up.
        let is_busy = words.asked.load(Ordering::Relaxed) != words.answered.load(Ordering::Acquire);
        if is_busy || question.len() > region.longest_text() {
            return None;
        }
        region.write_text(self.slot, question);
        let number = words.asked.load(Ordering::Relaxed).wrapping_add(1);
        words.asked.store(number, Ordering::Release);
        self.tell();
        let region = &self.shared.region;
        let words = region.slot(self.slot);
        let until = Instant::now() + patience;
        loop {
            let answered = words.answered.load(Ordering::Acquire);
            if answered == number {
                return region.read_text(self.slot, usize::MAX);
            }
            if self.is_aborted() || Instant::now() >= until {
                return None;
            }
            // Every reason to return is a reason to check again.
            let _ = futex::wait(words.answered, answered, Some(SPACE_CHECK));
        }
    }
}

/// The time that a worker waits for an answer. The front answers at once, unless the answer takes
/// much work or nobody reads the response.
const PATIENCE: Duration = Duration::from_secs(30);
