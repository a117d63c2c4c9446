//! The answer to `howdah reload`.
//!
//! It comes when the former front accepts no more connections: every connection that a client opens
//! after the answer meets the new generation. A client that asks while another change is in
//! progress waits for the reload that follows, which reads the configuration as it is then.

use std::time::{Duration, Instant};

use super::Supervisor;
use super::control::ControlCommand;
use super::generation::Generation;

/// Maximum time to wait for the former front. Afterwards the answer comes without its word.
const PATIENCE: Duration = Duration::from_secs(2);

/// The answer to a reload that has succeeded, while the former front still accepts connections.
#[derive(Debug)]
pub(super) struct ReloadAnswer {
    text: String,
    /// Numbers of the generations that served before.
    former: Vec<u64>,
    until: Instant,
}

impl ReloadAnswer {
    pub(super) fn new(text: String, former: Vec<u64>, now: Instant) -> ReloadAnswer {
        ReloadAnswer { text, former, until: now + PATIENCE }
    }

    fn waits_for(&self, generation: &Generation) -> bool {
        self.former.contains(&generation.number)
            && generation.front.as_ref().is_some_and(|front| !front.has_closed)
    }
}

impl Supervisor {
    /// A reload begins: it is for the clients that have asked by now.
    pub(super) fn begin_reload_of_clients(&mut self) {
        self.answer_reload_at_once();
        self.answer_before_next_reload();
        if let Some(control) = &mut self.control {
            control.begin_all(ControlCommand::Reload);
        }
    }

    /// The reload that has begun is given up, and another one follows.
    pub(super) fn put_off_reload_of_clients(&mut self) {
        if let Some(control) = &mut self.control {
            control.put_off_all(ControlCommand::Reload);
        }
    }

    /// Answers the clients whose reload has begun.
    pub(super) fn answer_reload(&mut self, answer: Result<&str, &str>) {
        if let Some(control) = &mut self.control {
            control.answer_begun(ControlCommand::Reload, answer);
        }
    }

    /// The time at which the answer is given in any case. `None`: nobody waits for an answer.
    pub(super) fn reload_answer_due(&self) -> Option<Instant> {
        self.reload_answer.as_ref().map(|answer| answer.until)
    }

    /// Gives the answer if no former front accepts connections any more, or the time is over.
    pub(super) fn answer_finished_reload(&mut self, now: Instant) {
        let Some(answer) = &self.reload_answer else {
            return;
        };
        if now >= answer.until || !self.generations.iter().any(|one| answer.waits_for(one)) {
            self.answer_reload_at_once();
        }
    }

    /// Gives the answer that waits for a former front, if there is one.
    pub(super) fn answer_reload_at_once(&mut self) {
        if let Some(answer) = self.reload_answer.take() {
            self.answer_reload(Ok(&answer.text));
        }
    }
}
