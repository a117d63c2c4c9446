//! Pools that a generation starts without: their PHP does not start, or not in time.

use std::time::{Duration, Instant};

use howdah_sys::credentials::Identity;

use super::super::pool::PoolProcesses;
use super::{Generation, GenerationPhase, START_TIMEOUT};

/// Time that pools have after another one has started: at the start of the server, and beside what
/// their PHP took before at a reload. A site's owner can make his pool's start as long as he
/// likes. Where many pools start, each has this time after the last one.
pub(in crate::supervisor) const LATE_AFTER: Duration = Duration::from_secs(5);

impl Generation {
    /// Leaves a pool out whose zygote has ended or was not started, because of `reason`. Returns
    /// `false` if the generation cannot do without it: then its start has failed. At least one pool
    /// has to start anew, unless the sites' owners have spoilt the state folders of all. `ours` is
    /// this process's user.
    pub(in crate::supervisor) fn leave_out(
        &mut self,
        position: usize,
        reason: &str,
        ours: &Identity,
    ) -> bool {
        let others = self.pools.iter().enumerate().filter(|(other, _)| *other != position);
        let missing = others.filter(|(_, pool)| pool.start_failure.is_some()).count();
        // The mistake is not in the configuration, and the owner of one site must not keep the
        // others from a reload.
        let is_spoilt = self.pools.get(position).is_some_and(|pool| pool.has_spoilt_state(ours));
        let may = self.front.is_none() && is_spoilt
            || self.may_do_without(position) && missing + 1 < self.planned;
        if may && let Some(pool) = self.pools.get_mut(position) {
            pool.is_left_out = true;
            pool.start_failure = Some(reason.to_owned());
            pool.due = None;
            self.channels[position].zygote = None;
        }
        may
    }

    /// Leaves a pool out for this reason, whatever becomes of the others: the file system of the
    /// site's root hangs. When it answers, another generation starts.
    pub(super) fn hold(&mut self, position: usize, why: Option<String>) {
        if let Some(pool) = self.pools.get_mut(position) {
            pool.is_left_out = true;
            pool.start_failure = why;
        }
    }

    /// Lets a pool whose zygote has died be without one until the generation serves. PHP had
    /// started in the zygote: the configuration is not the cause, and perhaps a script has sent a
    /// signal, which must not keep the other sites from a reload.
    pub(in crate::supervisor) fn replace_later(&mut self, position: usize) {
        if let Some(pool) = self.pools.get_mut(position) {
            pool.is_left_out = true;
            pool.due = None;
        }
        // A front that has started has taken all of them.
        if let Some(channel) = self.channels.get_mut(position) {
            channel.zygote = None;
        }
    }

    /// Ends the zygotes in which PHP has not started in time, so that their pools are left out.
    /// Returns `false` if the generation cannot do without them.
    pub(in crate::supervisor) fn give_up_late_pools(&mut self) -> bool {
        let is_early = self.late_at.take().is_some_and(|at| Instant::now() >= at);
        let late: Vec<usize> =
            (0..self.pools.len()).filter(|pool| !self.pools[*pool].is_settled()).collect();
        let may = (1..self.planned).contains(&late.len())
            && late.iter().all(|position| self.may_do_without(*position));
        if may {
            self.phase = GenerationPhase::Starting { until: Instant::now() + START_TIMEOUT };
            for pool in self.pools.iter_mut().filter(|pool| !pool.is_settled()) {
                let own = self.patience.get(&pool.name).filter(|_| is_early);
                pool.give_up_start(own.copied().unwrap_or(START_TIMEOUT));
            }
        }
        may
    }

    /// Notes how far the start is: the pools that have not started get their time from now on, if
    /// another one has, or if they have none.
    pub(in crate::supervisor) fn note_progress(&mut self) {
        let has_started = |pool: &PoolProcesses| {
            pool.zygote.as_ref().is_some_and(|zygote| zygote.ready.is_some())
        };
        let missing = self.pools.iter().filter(|pool| !pool.is_settled());
        let times = missing.map(|pool| self.patience.get(&pool.name).copied());
        let longest = times.collect::<Option<Vec<_>>>().and_then(|times| times.into_iter().max());
        let has_begun = self.pools.iter().any(has_started);
        let longest = longest.filter(|time| self.front.is_none() && (has_begun || time.is_zero()));
        self.late_at = longest.map(|time| Instant::now() + time);
    }

    /// Lets the front wait for no pool that it can do without: nothing is served until the front
    /// starts.
    pub(in crate::supervisor) fn hurry(&mut self) {
        let waits = |pool: &&PoolProcesses| !self.required.contains(&pool.name);
        let pools = self.pools.iter().filter(waits);
        self.patience = pools.map(|pool| (pool.name.clone(), Duration::ZERO)).collect();
    }

    /// Lets the front start without the pools in which PHP has not started, and these join it
    /// later. Returns their positions.
    pub(in crate::supervisor) fn set_late_aside(&mut self) -> Vec<usize> {
        self.late_at = None;
        let late: Vec<usize> = (0..self.pools.len())
            .filter(|at| !self.pools[*at].is_settled() && self.may_do_without(*at))
            .collect();
        for position in &late {
            let (pool, channel) = (&mut self.pools[*position], &mut self.channels[*position]);
            let patience = self.patience.get(&pool.name).copied().unwrap_or_default();
            channel.grace = LATE_AFTER.saturating_sub(patience);
            let seconds = LATE_AFTER.as_secs();
            let why = match channel.grace {
                Duration::ZERO => format!(
                    "PHP has not started within {seconds} s of the others; the site is answered \
                     with 503 until it has"
                ),
                _ => format!(
                    "PHP has not started; the site's requests wait for it, and are answered with \
                     503 from {seconds} s on"
                ),
            };
            pool.set_aside(channel.zygote.take(), why);
        }
        late
    }

    fn may_do_without(&self, position: usize) -> bool {
        let pool = self.pools.get(position);
        self.front.is_none() && pool.is_some_and(|pool| !self.required.contains(&pool.name))
    }

    /// Returns whether the pool of a site has no zygote, or PHP does not start in it.
    pub(in crate::supervisor) fn is_without(&self, pool: &str) -> bool {
        self.pools
            .iter()
            .any(|one| one.name == pool && !one.is_adopted() && !one.is_settled())
    }

    /// Starts the pools that were left out again. Call it when the generation serves.
    pub(in crate::supervisor) fn start_left_out(&mut self) {
        let now = Instant::now();
        for pool in self.pools.iter_mut().filter(|pool| pool.is_left_out) {
            pool.is_left_out = false;
            if pool.standby.pid().is_some() {
                pool.bring_back(now);
            } else if !pool.is_silent() {
                pool.start_failed(now);
            }
        }
    }
}
