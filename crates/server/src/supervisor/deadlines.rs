//! The times at which the supervisor has something to do.

use std::time::{Duration, Instant};

use super::control::{ControlCommand, ControlSocket};
use super::generation::{Generation, GenerationPhase};
use super::{NO_ANSWER, Supervisor};
use crate::log::Level;

/// Maximum time to wait for the front's status. Afterwards `howdah status` answers without it.
pub(super) const STATUS_PATIENCE: Duration = Duration::from_secs(2);
/// Maximum time to wait until the front takes the question of `howdah status --json`.
const JSON_PATIENCE: Duration = Duration::from_secs(10);
/// Interval at which the deadlines of the control socket's clients are checked.
const CLIENT_TURN: Duration = Duration::from_millis(500);

impl Supervisor {
    /// Returns the time of the next deadline. `None` if there is none.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let generations = self.generations.iter().filter_map(Generation::deadline);
        let check = self.check.as_ref().map(|check| check.until);
        let client = self
            .control
            .as_ref()
            .is_some_and(ControlSocket::is_busy)
            .then(|| Instant::now() + CLIENT_TURN);
        let certificates = self.certificate_files.due().filter(|_| !self.stopping);
        let may_change = !self.stopping && !self.is_changing();
        let preparation = self.preparation.as_ref().map(|one| one.survey.until());
        let releases = self.releases.due().filter(|_| may_change);
        let missing = self.missing_listeners.due().filter(|_| may_change);
        let manager = self.manager.due();
        let due = [self.restart, check, client, certificates, self.orphans.due(), manager];
        let due = due.into_iter().chain([
            self.ticket_keys_due,
            self.orders.due(),
            preparation,
            releases,
            missing,
            self.probation_due(),
            self.reload_answer_due(),
            self.former_answers_due(),
            self.output_readers.iter().map(|(_, until)| *until).min(),
            self.log.repeats_due(),
        ]);
        generations.chain(due.flatten()).min()
    }

    /// Handles the deadlines that have passed.
    pub(super) fn handle_deadlines(&mut self, now: Instant) {
        for position in 0..self.generations.len() {
            self.continue_zygotes(position, now);
            self.handle_generation_deadlines(position, now);
        }
        self.handle_change_deadlines(now);
        self.answer_finished_reload(now);
        self.start_orders(now);
        self.look_at_certificates(now);
        self.look_at_releases(now);
        self.look_at_missing_listeners(now);
        self.look_at_probation(now);
        self.note_former_answers(now);
        if self.ticket_keys_due.is_some_and(|due| now >= due)
            && let Err(why) = self.rotate_ticket_keys(now)
        {
            self.say(Level::Error, &format!("session tickets keep their keys: {why}"));
        }
        self.log.report_repeats(now);
        self.keep_manager_informed(now);
        self.answer_late_clients(now);
    }

    /// Handles the deadlines of the generation at `position`.
    fn handle_generation_deadlines(&mut self, position: usize, now: Instant) {
        let generation = &mut self.generations[position];
        let number = generation.number;
        match generation.phase {
            GenerationPhase::Starting { until } if now >= until => {
                let what = format!("{} was not ready in time", generation.missing());
                if !generation.give_up_late_pools() {
                    self.abort(number, &what);
                }
            }
            GenerationPhase::Starting { .. } if generation.late_at.is_some_and(|at| now >= at) => {
                self.go_on_without_late(number);
            }
            GenerationPhase::Draining { until: Some(until) }
                if now >= until && !generation.is_kept() =>
            {
                let remains = generation.remains();
                generation.kill();
                self.say(
                    Level::Warning,
                    &format!(
                        "requests were cut off because `drain_timeout` is over; killed: \
                         {remains}"
                    ),
                );
            }
            GenerationPhase::Ending { until } if now >= until => {
                let remains = generation.remains();
                generation.give_up();
                self.say(
                    Level::Error,
                    &format!("these processes were killed but have not ended: {remains}"),
                );
            }
            GenerationPhase::Serving => {
                self.replace_zygotes(number, now);
                self.give_up_late_twins(number, now);
                self.start_standby(number, now);
                self.ask_for_lists(number, now);
                self.look_at_heart(number, now);
                self.tell_start_failures(position);
            }
            _ => {}
        }
    }

    /// Drops clients of the control socket that have sent no command in time, and answers those
    /// whom the front has not answered in time.
    fn answer_late_clients(&mut self, now: Instant) {
        if let Some(control) = &mut self.control {
            control.drop_silent(now);
            let mut late = control.overdue(ControlCommand::StatusJson, now, JSON_PATIENCE);
            late.extend(control.overdue(ControlCommand::Monitor, now, JSON_PATIENCE));
            for client in control.overdue(ControlCommand::Status, now, STATUS_PATIENCE) {
                self.answer_status(client, None);
            }
            for client in late {
                self.answer(client, Err(NO_ANSWER));
            }
        }
    }
}
