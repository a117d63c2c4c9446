//! How many workers a zygote keeps: requests that find none asleep, and workers that sleep.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use howdah_ipc::control::ToZygote;

use super::Zygote;
use crate::roster::Roster;
use crate::scaling::Demand;

impl Zygote {
    /// Wakes a sleeping worker for a request. If there is none, another may be started.
    pub(crate) fn wake_worker(&self) {
        if !self.front.wake_worker() {
            self.lack_workers(1);
        }
    }

    /// Wakes workers for all requests in the queue, from which those awake take nothing.
    pub(crate) fn unstick(&self, queued: usize) {
        self.is_stuck.store(true, Ordering::Relaxed);
        (0..queued).for_each(|_| self.wake_worker());
    }

    /// Notes that requests found no sleeping worker.
    pub(super) fn lack_workers(&self, count: usize) {
        if self.may_grow.load(Ordering::Relaxed) {
            self.lacking.fetch_add(count, Ordering::Relaxed);
            self.lacked.notify_one();
        }
    }

    /// Starts workers that the load needs. With `now`, also ends those that it does not need.
    pub(crate) fn rescale(&self, now: Option<Instant>) {
        if self.scaling.is_fixed() || self.is_dead() {
            return;
        }
        let mut state = self.state();
        let mut demand = self.demand(&state.roster);
        let grown = self.grow(&mut state.roster, demand);
        demand.wanted += grown;
        let ended = now.map_or(0, |now| self.shrink(&mut state.roster, demand, now));
        if grown + ended > 0 || state.is_untold {
            let wanted = state.roster.wanted();
            // A zygote that does not read is told again at the next look.
            state.is_untold = self.control.send_now(&ToZygote::Keep(wanted).encode(), &[]).is_err();
            self.front.set_present(state.roster.present());
        }
        let most = self.front.geometry().workers;
        self.may_grow.store(state.roster.count() < most, Ordering::Relaxed);
    }

    fn demand(&self, roster: &Roster) -> Demand {
        let wanted = roster.count();
        let (queued, _) = self.front.queued();
        let lacking = self.lacking.swap(0, Ordering::Relaxed);
        Demand {
            wanted,
            starting: wanted - roster.present(),
            idle: self.front.idle_workers().min(wanted),
            queued,
            // No worker is there that would notice the request.
            lacking: if wanted == 0 { queued } else { lacking },
        }
    }

    /// Wants more workers. Returns their number.
    fn grow(&self, roster: &mut Roster, demand: Demand) -> usize {
        let room = self.front.geometry().workers - demand.wanted;
        let useful = match self.is_stuck.swap(false, Ordering::Relaxed) {
            true => usize::MAX,
            false => self.awake.room(self.front.awake_workers() + demand.starting),
        };
        let grown = self.scaling.growth(demand, useful).min(room);
        roster.want_more(grown);
        grown
    }

    /// Dismisses workers that sleep. Returns their number.
    fn shrink(&self, roster: &mut Roster, demand: Demand, now: Instant) -> usize {
        let front = &self.front;
        roster.note_sleep(now, |worker| (front.is_idle(worker), front.requests_served(worker)));
        let retire = |workers: Vec<usize>, most: usize| -> Vec<usize> {
            workers.into_iter().filter(|worker| front.retire(*worker)).take(most).collect()
        };
        let spare = demand.idle.saturating_sub(self.scaling.least_spare());
        let mut ended = match self.scaling.idle_timeout() {
            Some(time) if spare > 0 => retire(roster.rested(now, time), spare),
            _ => Vec::new(),
        };
        let surplus = self.scaling.surplus(demand);
        if surplus > 0 && ended.is_empty() {
            ended = retire(roster.rested(now, Duration::ZERO), surplus);
        }
        ended.iter().for_each(|worker| roster.dismiss(*worker));
        ended.len()
    }

    /// Number of workers that are wanted.
    pub(crate) fn wanted(&self) -> usize {
        self.state().roster.count()
    }
}
