//! The number of a zygote's workers: requests that find none asleep, and workers that sleep.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use howdah_ipc::control::ToZygote;

use super::{Zygote, ZygoteState};
use crate::memory::{MemoryRecord, MemorySum};
use crate::roster::WorkerRoster;
use crate::scaling::{Scaling, WorkerDemand};

impl Zygote {
    /// Wakes a sleeping worker for a request. If there is none, another may be started.
    pub(crate) fn wake_worker(&self) {
        if !self.front.wake_worker() {
            self.lack_workers(1);
        }
    }

    /// Wakes workers for all requests in the queue, from which those awake take nothing, as far as
    /// the memory has room.
    pub(crate) fn unstick(&self, queued: usize) {
        self.is_stuck.store(true, Ordering::Relaxed);
        let room = self.awake.memory_room(self.front.awake_workers());
        (0..queued.min(room)).for_each(|_| self.wake_worker());
    }

    /// Notes that requests found no sleeping worker.
    pub(super) fn lack_workers(&self, count: usize) {
        if self.may_grow.load(Ordering::Relaxed) {
            self.lacking.fetch_add(count, Ordering::Relaxed);
            self.lacked.notify_one();
        }
    }

    /// Ends workers and holds requests back where a limit of memory has become smaller. To be
    /// called for each request.
    #[inline]
    pub(crate) fn heed_limits(self: &Arc<Self>, now: Instant) {
        if self.scaling.depends_on_memory()
            && self.memory.cuts(now) != self.cuts.load(Ordering::Relaxed)
        {
            self.rescale(Some(now));
        }
    }

    /// Writes what is measured to `record`. Begins with what is there, if PHP has the settings that
    /// it was measured with, once the zygote has told them.
    pub(crate) fn remember(&self, record: &MemoryRecord) {
        let _ = self.record.set(record.clone());
    }

    /// Takes the number of PHP's settings.
    pub(super) fn note_settings(&self, settings: u64) {
        let is_first = self.settings.set(settings).is_ok();
        let former = self.record.get().and_then(MemoryRecord::read);
        if let Some(former) = former.filter(|former| is_first && former.settings == settings) {
            let mut state = self.state();
            state.footprint.recall(former);
            self.look_at_memory(&mut state, false);
        }
    }

    /// Keeps workers for the requests that there are, and no others. Further requests get workers
    /// of their own.
    pub(crate) fn drain(&self) {
        self.drains.store(true, Ordering::Relaxed);
    }

    /// The way the number of workers follows the load now.
    fn present_scaling(&self) -> Scaling {
        match self.drains.load(Ordering::Relaxed) {
            true => Scaling::DRAINING,
            false => self.scaling,
        }
    }

    /// Starts workers that the load needs. With `now`, also ends those that it does not need.
    pub(crate) fn rescale(self: &Arc<Self>, now: Option<Instant>) {
        if self.present_scaling().is_fixed() || self.is_dead() {
            return;
        }
        let mut state = self.state();
        self.look_at_memory(&mut state, now.is_some());
        let most = self.front.geometry().workers;
        let room = state.memory.map_or(most, |sum| sum.room.min(most));
        let mut demand = self.demand(&mut state.roster, now.is_some());
        let affordable = state.memory.map_or(most, |sum| self.memory.affordable(&sum));
        let most = room.min(demand.wanted.saturating_add(affordable));
        let grown = self.grow(&mut state.roster, demand, most);
        demand.wanted += grown;
        state.memory.iter().for_each(|sum| self.memory.set_aside(sum, grown));
        let ended = now.map_or(0, |now| self.shrink(&mut state, demand, now));
        if grown + ended > 0 || state.is_untold {
            let wanted = state.roster.wanted();
            // A zygote that does not read is told again at the next look.
            state.is_untold = self.control.send_now(&ToZygote::Keep(wanted).encode(), &[]).is_err();
            self.front.set_present(state.roster.present());
            self.wanted.store(state.roster.count(), Ordering::Relaxed);
        }
        self.may_grow.store(state.roster.count() < room, Ordering::Relaxed);
        drop(state);
        if grown > 0 {
            self.serve_waiting();
        }
        if now.is_some() {
            self.wake_for_queue();
        }
    }

    /// Wakes workers for requests in the queue, where there has become room for more of them.
    pub(super) fn wake_for_queue(&self) {
        let (queued, _) = self.front.queued();
        let count = queued.min(self.front.idle_workers()).min(self.awake_room());
        (0..count).for_each(|_| _ = self.front.wake_worker());
    }

    /// Notes that a script took `took` nanoseconds, and which share of them it worked.
    pub(crate) fn note_service(&self, took: u32, share: Option<u32>) {
        // With lanes, the configuration says how many workers take turns on the processors.
        if let Some(limit) = self.awake.note(took, share)
            && !self.has_lanes
        {
            // 0 would be no limit.
            self.front.limit_awake(limit.max(1));
        }
    }

    /// Whether a new request is left to the workers that are awake, because more of them would only
    /// take turns on the processors, or because the memory has no room for their scripts.
    pub(crate) fn holds_back(&self) -> bool {
        self.awake_room() == 0
    }

    /// Workers that should be awake at most; 0 for any number.
    fn most_awake(&self) -> usize {
        match self.has_lanes {
            true => self.awake.memory_room(0).max(1),
            false => self.awake.most().map_or(0, |most| most.max(1)),
        }
    }

    /// The number of further workers that should be awake. With lanes, the requests that run are
    /// chosen, whatever the processors.
    fn awake_room(&self) -> usize {
        let awake = self.front.awake_workers();
        match self.has_lanes {
            true => self.awake.memory_room(awake),
            false => self.awake.room(awake),
        }
    }

    /// Notes that the scripts that run now take long.
    pub(crate) fn note_long(&self) {
        self.awake.note_long();
    }

    /// The time that a request that was held back may wait while none is taken from the queue.
    pub(crate) fn patience(&self) -> Duration {
        self.awake.patience()
    }

    /// Adds up how many workers the memory has room for. `is_due`: workers may have published new
    /// figures.
    pub(super) fn look_at_memory(&self, state: &mut ZygoteState, is_due: bool) {
        if !self.scaling.depends_on_memory() {
            return;
        }
        let cuts = self.memory.cuts(Instant::now());
        state.is_cut |= self.cuts.swap(cuts, Ordering::Relaxed) != cuts;
        let sum = self.memory.figures().and_then(|figures| {
            let most = self.scaling.most_memory(figures.limit)?;
            let former = state.footprint.own;
            if is_due {
                let workers = state.roster.living().map(|worker| self.front.memory_of(worker));
                state.footprint.note(workers, self.front.awake_workers());
                let settings = self.settings.get().copied().unwrap_or_default();
                let measured = state.footprint.measured(settings);
                let record = self.record.get().zip(measured);
                record.into_iter().for_each(|(record, measured)| record.write(measured));
                // Workers may tell any number, and other pools give back less where one has much.
                state.footprint.own = state.footprint.own.min(figures.limit);
            }
            let pools = self.memory.account(former, state.footprint.own);
            Some(MemorySum::of(figures, state.footprint, pools, most))
        });
        state.memory = sum;
        let leaving = state.roster.leaving_busy();
        // The memory in use by scripts that are the last of their workers is not counted as
        // available.
        let scripts = |sum: MemorySum| sum.room.saturating_sub(leaving).min(sum.runnable).max(1);
        self.awake.bound_by_memory(sum.map(scripts));
        if sum.is_some() {
            self.front.limit_awake(self.most_awake());
        }
    }

    /// Notes that the kernel has ended a worker because memory ran out: the scripts that ran, that
    /// worker's among them, needed more than there was room for. Call it before the worker is
    /// forgotten.
    pub(super) fn note_out_of_memory(&self) {
        let mut state = self.state();
        if let Some(sum) = state.memory {
            state.footprint.note_need(sum.need_of(self.front.awake_workers()));
        }
        self.look_at_memory(&mut state, false);
    }

    /// `is_due`: requests count that found no worker before there was room for one.
    fn demand(&self, roster: &mut WorkerRoster, is_due: bool) -> WorkerDemand {
        let front = &self.front;
        let wanted = roster.count();
        let (queued, _) = self.front.queued();
        let idle = self.front.idle_workers().min(wanted);
        let lacking = self.lacking.swap(0, Ordering::Relaxed);
        // Where no worker is there, none notices a request.
        let all_lack = wanted == 0 || is_due && idle == 0 && !self.holds_back();
        WorkerDemand {
            wanted,
            starting: roster.starting(|worker| front.is_idle(worker) || front.has_worked(worker)),
            idle,
            queued,
            lacking: if all_lack { queued } else { lacking },
        }
    }

    /// Wants more workers, up to `room`. Returns their number.
    fn grow(&self, roster: &mut WorkerRoster, demand: WorkerDemand, room: usize) -> usize {
        let room = room.saturating_sub(demand.wanted);
        let useful = match self.is_stuck.swap(false, Ordering::Relaxed) {
            true => usize::MAX,
            false if self.has_lanes => usize::MAX,
            // Those that start and live are counted as awake already.
            false => self.awake.room(self.front.awake_workers() + roster.unborn()),
        };
        let grown = self.present_scaling().growth(demand, useful).min(room);
        roster.want_more(grown);
        grown
    }

    /// Dismisses workers that sleep, and others where memory is short. Returns their number.
    fn shrink(&self, state: &mut ZygoteState, demand: WorkerDemand, now: Instant) -> usize {
        let ZygoteState { roster, memory, excess, is_cut, .. } = state;
        let (front, scaling) = (&self.front, self.present_scaling());
        roster.note_sleep(now, |worker| (front.is_idle(worker), front.requests_served(worker)));
        let retire = |workers: Vec<usize>, most: usize| -> Vec<usize> {
            workers.into_iter().filter(|worker| front.retire(*worker)).take(most).collect()
        };
        let spare = demand.idle.saturating_sub(scaling.least_spare());
        let spare = spare.min(demand.wanted.saturating_sub(scaling.least()));
        let mut ended = match scaling.idle_timeout() {
            Some(time) if spare > 0 => retire(roster.rested(now, time), spare),
            _ => Vec::new(),
        };
        let surplus = match *memory {
            None => scaling.surplus(demand),
            Some(sum) => {
                let surplus = demand.wanted.saturating_sub(sum.room.max(1));
                *excess = if surplus > 0 { *excess + 1 } else { 0 };
                *is_cut &= surplus > 0;
                match sum.is_short || *is_cut {
                    true => surplus,
                    // One at a time, and not for a moment's figure.
                    false => surplus.min(usize::from(*excess > PATIENCE)),
                }
            }
        };
        if surplus > ended.len() {
            ended.iter().for_each(|worker| roster.dismiss(*worker));
            let more = surplus - ended.len();
            ended.extend(retire(roster.rested(now, Duration::ZERO), more));
        }
        ended.iter().for_each(|worker| roster.dismiss(*worker));
        let missing = surplus.saturating_sub(ended.len());
        let is_short = memory.is_some_and(|sum| sum.is_short);
        // The workers that are busy end after their present request.
        let busy = if is_short { roster.dismiss_highest(missing) } else { 0 };
        ended.len() + busy
    }

    /// Number of workers that are wanted.
    pub(crate) fn wanted(&self) -> usize {
        self.state().roster.count()
    }

    /// The sum that says how many workers the memory has room for; `None` where the number of
    /// workers does not depend on memory.
    pub(crate) fn memory_sum(&self) -> Option<MemorySum> {
        self.state().memory
    }
}

/// Looks with more workers than the memory has room for, after which one of them ends.
const PATIENCE: u32 = 4;
