//! The refusal of a change: what was served goes on.

use super::super::generation::{Generation, GenerationPhase};
use super::super::service_manager::ServiceEvent;
use super::super::{CommandError, Supervisor};
use super::ChangeCause;
use crate::log::Level;

impl Supervisor {
    /// Ends the generation that is starting. The former generation continues.
    pub(in crate::supervisor) fn abort(&mut self, number: u64, reason: &str) {
        if let Some(generation) = self.generation(number) {
            generation.kill();
        }
        // The failed generation may have taken some.
        let serving = self.generations.iter_mut();
        serving
            .filter(|one| one.phase == GenerationPhase::Serving)
            .for_each(Generation::prepare_for_deaths);
        if let Some(change) = self.change.take_if(|change| change.generation == number) {
            self.refuse(change.cause, CommandError::Failed(reason.to_owned()));
        }
    }

    /// Says that the change is refused, to the log and to those who have asked for it.
    pub(super) fn refuse(&mut self, cause: ChangeCause, refusal: CommandError) {
        let reason = refusal.to_string();
        match cause {
            ChangeCause::Start => {
                self.tell_manager(ServiceEvent::Status, &reason);
                self.failure = Some(refusal);
                self.stopping = true;
            }
            ChangeCause::Reload => {
                let what = "the reload is refused, and what was served goes on";
                self.tell_refused(what, &reason);
                self.answer_reload(Err(&reason));
            }
            ChangeCause::RollBack => {
                let what = "the former configuration cannot be served again, and the new one goes \
                            on";
                self.rolled_back = None;
                self.tell_refused(what, &reason);
                self.answer_reload(Err(&format!("{what}: {reason}")));
            }
            ChangeCause::NewRelease => {
                let what = "the new release is not served, and what was served goes on; \
                            `howdah reload` tries again";
                self.tell_refused(what, &reason);
                if self.hold_unstarted(&reason) {
                    return;
                }
            }
            ChangeCause::HeldRelease => {
                let what = "no generation serves the former release again, and what was served \
                            goes on";
                self.rolled_back = None;
                // Another release may be on probation.
                if self.probation.is_none() {
                    self.end_probation();
                }
                self.note_half_served();
                self.say_lines(what, &reason);
                for told in self.describe_held() {
                    self.say(Level::Error, &told);
                }
                self.tell_manager(ServiceEvent::Ready, &format!("{what}: {reason}"));
                self.answer_reload(Err(&format!("{what}: {reason}")));
            }
            ChangeCause::ListenerFound => {
                let what = "no generation listens on the further address, and what was served \
                            goes on";
                self.tell_refused(what, &reason);
            }
            ChangeCause::TakeOver => {
                let what = "what the former program serves goes on";
                self.tell_refused(what, &reason);
            }
            ChangeCause::FrontDied => {
                let what = "there is no front";
                self.say_lines(what, &reason);
                self.tell_manager(ServiceEvent::Status, &format!("{what}: {reason}"));
            }
        }
        self.change_is_over();
    }

    /// Tells the log and the service manager that a change is refused, while requests are served.
    fn tell_refused(&mut self, what: &str, reason: &str) {
        self.say_lines(what, reason);
        self.tell_manager(ServiceEvent::Ready, &format!("{what}: {reason}"));
    }

    fn say_lines(&self, what: &str, lines: &str) {
        for line in lines.lines() {
            self.say(Level::Error, line);
        }
        self.say(Level::Error, what);
    }
}
