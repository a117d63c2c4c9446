//! Ends the processes that scripts have started and that outlived their pool.
//!
//! A zygote is the parent of all orphans of its workers, and this process is the parent of all
//! orphans of a dead zygote. A child of this process that is neither a front nor a zygote therefore
//! belonged to a pool whose zygote has ended, and is killed with all its descendants. Control
//! groups do the same at once where there are any.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use howdah_sys::process::{self, Pid, RemainingDescendants};
use howdah_sys::signal::SIGKILL;

use super::Supervisor;
use super::survey::Survey;
use crate::log::Level;

/// Rounds over all processes within one call. A process that is killed forks no more, therefore few
/// rounds are enough even for processes that fork all the time.
const ROUNDS: usize = 20;
/// The delay before the next call while processes are left.
const AGAIN: Duration = Duration::from_millis(10);
/// The delay before the next call while a zygote forks another one.
const AFTER_TWIN: Duration = Duration::from_millis(100);
/// Time after which processes that do not end are left alone, and reported.
const LONGEST: Duration = Duration::from_secs(10);

/// The search for orphans.
#[derive(Debug, Default)]
pub(super) struct OrphanSearch {
    /// The next search, and its end; `None` if no orphans are expected.
    due: Option<(Instant, Instant)>,
    /// Nothing is served any more: the search is for the server's own processes as well.
    is_last: bool,
}

impl OrphanSearch {
    /// Searches from now on until nothing is found.
    pub(super) fn expect(&mut self, now: Instant) {
        self.due = Some((now, now + LONGEST));
    }

    /// The time of the next search. `None`: no search is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due.map(|(due, _)| due)
    }
}

impl Supervisor {
    /// Returns whether all processes are gone, once no generation is left. Those that were killed a
    /// moment ago, such as the one that orders certificates, may live on for another.
    pub(super) fn has_ended_all(&mut self) -> bool {
        if !self.orphans.is_last {
            let now = Instant::now();
            self.orphans.is_last = true;
            self.orphans.expect(now);
            self.end_orphans(now);
        }
        self.orphans.due.is_none()
    }

    /// Ends the orphans if a search is due.
    pub(super) fn end_orphans(&mut self, now: Instant) {
        let Some((_, until)) = self.orphans.due.filter(|(due, _)| now >= *due) else {
            return;
        };
        if self.awaits_twin() {
            // It would be taken for an orphan.
            self.orphans.due = Some((now + AFTER_TWIN, now + LONGEST));
            return;
        }
        self.graveyard.retain(|group| !group.remove());
        let remaining = self.kill_orphans();
        let is_over = remaining.killed == 0 && self.graveyard.is_empty();
        let is_late = now >= until;
        if (is_over && remaining.refused > 0) || (!is_over && is_late) {
            let left = remaining.killed + remaining.refused;
            self.say(
                Level::Warning,
                &format!(
                    "{left} processes that scripts have started cannot be ended, or do not end"
                ),
            );
            self.graveyard.clear();
        }
        self.orphans.due = (!is_over && !is_late).then_some((now + AGAIN, until));
    }

    /// Ends the processes that log the output of dead pools for too long.
    pub(super) fn end_late_readers(&mut self, now: Instant) {
        self.output_readers.retain(|(reader, until)| {
            if now >= *until {
                // It was not reaped yet, so no other process has its id.
                let _ = reader.signal(SIGKILL);
            }
            now < *until
        });
    }

    fn kill_orphans(&self) -> RemainingDescendants {
        let known = self.known_children();
        let users = self.users_of_pools();
        // Process 1 of a container is also the parent of processes that are no business of a pool.
        let is_first = std::process::id() == 1;
        let spare = |pid: Pid| {
            known.contains(&pid)
                || (is_first && process::user(pid).is_none_or(|user| !users.contains(&user)))
        };
        let mut remaining = RemainingDescendants::default();
        for _ in 0..ROUNDS {
            // Without `/proc` nothing can be found.
            remaining = process::end_descendants(spare).unwrap_or_default();
            if remaining.killed == 0 {
                break;
            }
        }
        remaining
    }

    /// The children that this process knows.
    pub(super) fn known_children(&self) -> HashSet<Pid> {
        let fronts = self.generations.iter().filter_map(|one| Some(one.front.as_ref()?.pid));
        let pools = self.generations.iter().flat_map(|generation| &generation.pools);
        let check = self.check.as_ref().map(|check| check.pid());
        let preparation = self.preparation.as_ref().map(|one| one.survey.pid());
        let look = self.releases.survey().map(Survey::pid);
        let surveys = preparation.into_iter().chain(look);
        let readers = self.output_readers.iter().map(|(reader, _)| *reader);
        // At the end it was told to end, and is waited for.
        let orders = self.orders.pid().filter(|_| !self.orphans.is_last);
        let others = check.into_iter().chain(orders).chain(surveys).chain(readers);
        fronts.chain(pools.flat_map(|pool| pool.pids())).chain(others).collect()
    }

    fn users_of_pools(&self) -> HashSet<u32> {
        let pools = self.generations.iter().flat_map(|generation| &generation.pools);
        pools.map(|pool| pool.uid(&self.environment)).collect()
    }
}
