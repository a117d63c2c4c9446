//! The number of workers that the memory has room for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use howdah_sys::usage;

/// The memory that this server may use, at one moment: that of the machine, or of a control group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryFigures {
    /// Bytes in all.
    pub limit: u64,
    /// Bytes that can be used without swapping.
    pub available: u64,
}

/// The memory that all pools share. One thread brings it up to date, about once a second.
#[derive(Debug, Default)]
pub struct MemoryWatch {
    /// 0 while nothing is known.
    limit: AtomicU64,
    available: AtomicU64,
    /// Bytes for workers that were started since the last figures.
    aside: AtomicU64,
    /// Bytes that the workers of all pools use.
    pools: AtomicU64,
    /// Processes that the kernel has ended because memory ran out.
    kills: Mutex<Kills>,
}

/// The number of processes that the kernel has ended because memory ran out, and the time at which
/// it grew.
#[derive(Debug, Default)]
struct Kills {
    /// `None` while nothing is known.
    count: Option<u64>,
    grown: Option<Instant>,
}

impl Kills {
    fn note(&mut self, count: u64, now: Instant) {
        if self.count.is_some_and(|former| count > former) {
            self.grown = Some(now);
        }
        self.count = Some(count);
    }

    fn were_lately(&self, now: Instant) -> bool {
        self.grown.is_some_and(|grown| now.saturating_duration_since(grown) < LATELY)
    }
}

impl MemoryWatch {
    /// Publishes new figures.
    pub fn publish(&self, figures: MemoryFigures) {
        self.available.store(figures.available, Ordering::Relaxed);
        self.aside.store(0, Ordering::Relaxed);
        self.limit.store(figures.limit, Ordering::Relaxed);
        self.has_run_out();
    }

    /// Returns whether the kernel has lately ended a process because memory ran out. A process that
    /// was killed at that time was probably that one.
    pub(crate) fn has_run_out(&self) -> bool {
        let (count, now) = (usage::out_of_memory_kills(), Instant::now());
        let mut kills = self.kills.lock().unwrap_or_else(PoisonError::into_inner);
        count.into_iter().for_each(|count| kills.note(count, now));
        kills.were_lately(now)
    }

    /// The last figures; `None` while nothing is known.
    pub fn figures(&self) -> Option<MemoryFigures> {
        let limit = self.limit.load(Ordering::Relaxed);
        let available = self.available.load(Ordering::Relaxed);
        (limit > 0).then_some(MemoryFigures { limit, available })
    }

    /// Number of workers that may start until the next figures are published. Their scripts may
    /// need much more than those before; the next figures tell.
    pub(crate) fn affordable(&self, sum: &MemorySum) -> usize {
        let aside = self.aside.load(Ordering::Relaxed);
        let free = sum.available.saturating_sub(sum.reserve);
        let count = free.saturating_sub(aside) / sum.unproven_worker();
        match usize::try_from(count) {
            // Slowly, where little is free.
            Ok(0) => usize::from(free > 0 && aside == 0),
            count => count.unwrap_or(usize::MAX),
        }
    }

    /// Sets memory aside for workers that start, until new figures are published.
    pub(crate) fn set_aside(&self, sum: &MemorySum, workers: usize) {
        let bytes = sum.unproven_worker().saturating_mul(workers as u64);
        self.aside.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Replaces the bytes that a pool uses. Returns those of all pools.
    pub(crate) fn account(&self, former: u64, present: u64) -> u64 {
        let change = |pools: u64| Some(pools.saturating_sub(former).saturating_add(present));
        let _ = self.pools.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
        self.pools.load(Ordering::Relaxed)
    }
}

/// The memory that the workers of a pool need.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Footprint {
    /// Bytes that the workers use together, as far as they have told, with an average script for
    /// each that is busy.
    pub(crate) own: u64,
    /// Bytes of one worker between requests, on average; 0 while nothing is known.
    resting: u64,
    /// Bytes that scripts needed at most lately.
    peak: u64,
    /// Looks at which scripts ran and none had ended yet.
    looks: u32,
}

impl Footprint {
    /// Takes the figures of the workers that live into account: for each the bytes between
    /// requests, if they are known, and those that PHP had at most for the last script. `busy` of
    /// the workers run one.
    pub(crate) fn note(&mut self, workers: impl Iterator<Item = (Option<u64>, u64)>, busy: usize) {
        let (mut own, mut known) = (0_u64, 0);
        let (mut peak, mut peaks, mut with_peak) = (0, 0_u64, 0);
        for (proportional, last_peak) in workers {
            own = own.saturating_add(proportional.unwrap_or(0));
            known += u64::from(proportional.is_some());
            peak = last_peak.max(peak);
            peaks = peaks.saturating_add(last_peak);
            with_peak += u64::from(last_peak > 0);
        }
        self.resting = own.checked_div(known).unwrap_or(self.resting);
        let scripts = peaks.checked_div(with_peak).unwrap_or(0).saturating_mul(busy as u64);
        self.own = own.saturating_add(scripts);
        if self.is_unknown() && busy > 0 {
            self.looks = self.looks.saturating_add(1);
        }
        // A script that needed much counts for a while.
        self.peak = peak.max(self.peak - self.peak / FORGETTING);
    }

    /// Notes that a worker with its script needed that many bytes.
    pub(crate) fn note_need(&mut self, bytes: u64) {
        self.peak = self.peak.max(bytes.saturating_sub(self.resting));
    }

    fn is_unknown(&self) -> bool {
        (self.resting, self.peak) == (0, 0)
    }

    /// Bytes that a worker with a script needs.
    fn per_worker(&self) -> u64 {
        match (self.resting, self.peak) {
            (0, 0) if self.looks < CAREFUL_LOOKS => FIRST_WORKER,
            (0, 0) => UNPROVEN_WORKER,
            (0, peak) => peak.saturating_add(RESTING_WORKER).max(UNPROVEN_WORKER),
            (resting, peak) => resting.saturating_add(peak).max(LEAST_WORKER),
        }
    }
}

/// The sum that says how many workers there is room for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemorySum {
    /// Bytes that are available now.
    pub available: u64,
    /// Bytes that this pool's workers use.
    pub own: u64,
    /// Bytes that stay free.
    pub reserve: u64,
    /// Bytes that the pool may use at most.
    pub share: u64,
    /// Bytes of a worker with a script.
    pub per_worker: u64,
    /// Workers that there is room for, at least 1.
    pub room: usize,
    /// Less is available than should stay free.
    pub is_short: bool,
}

impl MemorySum {
    /// Bytes that are set aside for a worker that starts.
    fn unproven_worker(&self) -> u64 {
        self.per_worker.max(UNPROVEN_WORKER)
    }

    /// Returns what a worker needed at least if memory ran out while that many ran a script: a
    /// quarter more than there was for each.
    pub(crate) fn need_of(&self, running: usize) -> u64 {
        let room = self.per_worker.saturating_mul(self.room as u64);
        room / running.max(1) as u64 / 4 * 5
    }

    /// Adds up. `pools` are the bytes that the workers of all pools use, `most` those that this
    /// pool may use.
    pub(crate) fn of(
        figures: MemoryFigures,
        footprint: Footprint,
        pools: u64,
        most: u64,
    ) -> MemorySum {
        let reserve = (figures.limit / 16).clamp(LEAST_RESERVE, MOST_RESERVE);
        let own = footprint.own;
        let budget = match figures.available.checked_sub(reserve) {
            Some(free) => own.saturating_add(free),
            // Every pool gives back its part of what is missing.
            None => {
                let missing = u128::from(reserve - figures.available);
                let part = missing * u128::from(own) / u128::from(pools.max(own).max(1));
                own.saturating_sub(u64::try_from(part).unwrap_or(u64::MAX))
            }
        };
        let per_worker = footprint.per_worker();
        let room = budget.min(most) / per_worker;
        MemorySum {
            available: figures.available,
            own,
            reserve,
            share: most,
            per_worker,
            room: usize::try_from(room).unwrap_or(usize::MAX).max(1),
            is_short: figures.available < reserve,
        }
    }
}

/// The part of a peak that is forgotten with each look, twice a second: half of it in 22 seconds.
const FORGETTING: u64 = 64;
/// Bytes of a worker as long as no script has ended: half of PHP's own default of `memory_limit`.
const FIRST_WORKER: u64 = 64 << 20;
/// Looks, two in a second, after which scripts that do not end are thought to wait, and to need no
/// more than others.
const CAREFUL_LOOKS: u32 = 10;
/// Bytes of a worker that starts, at least: its scripts may need more than those before.
const UNPROVEN_WORKER: u64 = 32 << 20;
/// Bytes of a worker between requests that has not measured itself yet.
const RESTING_WORKER: u64 = 16 << 20;
/// The time for which a process that was killed is taken for one that the kernel has ended.
const LATELY: Duration = Duration::from_secs(2);
/// Bytes that are assumed at least, whatever workers tell.
const LEAST_WORKER: u64 = 4 << 20;
/// Bounds of the memory that stays free, of which a sixteenth of all memory is usual.
const LEAST_RESERVE: u64 = 16 << 20;
const MOST_RESERVE: u64 = 512 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn footprint(workers: &[(u64, u64)]) -> Footprint {
        busy_footprint(workers, 0)
    }

    fn busy_footprint(workers: &[(u64, u64)], busy: usize) -> Footprint {
        let mut footprint = Footprint::default();
        let of = |&(proportional, peak): &(u64, u64)| {
            ((proportional > 0).then_some(proportional * MIB), peak * MIB)
        };
        footprint.note(workers.iter().map(of), busy);
        footprint
    }

    fn figures(limit: u64, available: u64) -> MemoryFigures {
        MemoryFigures {
            limit: limit * MIB,
            available: available * MIB,
        }
    }

    fn room(limit: u64, available: u64, workers: &[(u64, u64)], pools: u64) -> usize {
        let sum =
            MemorySum::of(figures(limit, available), footprint(workers), pools * MIB, u64::MAX);
        sum.room
    }

    #[test]
    fn there_is_room_for_what_workers_need_with_their_scripts() {
        // 256 MiB: 16 stay free. A worker needs 20 between requests and 10 for a script.
        assert_eq!(room(256, 116, &[(20, 10)], 20), (100 + 20) / 30);
        assert_eq!(room(256, 76, &[(20, 10), (20, 4), (20, 2)], 60), (60 + 60) / 30);
        // Nothing is known yet.
        assert_eq!(room(256, 200, &[(0, 0), (0, 0)], 0), (200 - 16) / 64);
        assert_eq!(room(64, 60, &[(0, 0), (0, 0)], 0), 1);
        // Scripts have ended, and no worker has measured itself yet.
        assert_eq!(room(256, 200, &[(0, 2), (0, 1)], 0), (200 - 16) / 32);
        assert_eq!(room(256, 200, &[(0, 40), (0, 1)], 0), (200 - 16) / (40 + 16));
        // The unknown are taken for the known.
        assert_eq!(room(256, 136, &[(20, 10), (0, 0)], 20), (120 + 20) / 30);
        assert_eq!(room(64, 20, &[(30, 30)], 30), 1);
    }

    #[test]
    fn each_pool_gives_back_its_part_of_what_is_missing() {
        let large = [(20, 0); 8];
        let small = [(20, 0); 2];
        assert_eq!(room(256, 0, &large, 160), 7, "16 are missing, all of them here");
        assert_eq!(room(256, 0, &large, 200), 7);
        assert_eq!(room(256, 0, &small, 200), 1);
        let sum = MemorySum::of(figures(256, 15), footprint(&small), 200 * MIB, u64::MAX);
        assert!(sum.is_short, "{sum:?}");
        let sum = MemorySum::of(figures(256, 16), footprint(&small), 200 * MIB, u64::MAX);
        assert!(!sum.is_short, "{sum:?}");
    }

    #[test]
    fn a_share_and_false_figures_are_bounded() {
        let workers = [(20, 0)];
        let sum = MemorySum::of(figures(4096, 4000), footprint(&workers), 20 * MIB, 90 * MIB);
        assert_eq!((sum.room, sum.reserve), (4, 256 * MIB));
        assert_eq!(room(4096, 4000, &[(1 << 40, 1 << 40)], 20), 1);
        let tiny = Footprint {
            own: 1,
            resting: 1,
            ..Footprint::default()
        };
        let sum = MemorySum::of(figures(1024, 104), tiny, 0, u64::MAX);
        assert_eq!(sum.room, (104 - 64) / 4);
    }

    #[test]
    fn a_high_peak_counts_for_a_while() {
        let mut footprint = footprint(&[(20, 64)]);
        let quiet = || std::iter::once((Some(20 * MIB), MIB));
        let before = footprint.per_worker();
        footprint.note(quiet(), 0);
        assert!(footprint.per_worker() < before && footprint.per_worker() > 80 * MIB);
        (0..1000).for_each(|_| footprint.note(quiet(), 0));
        assert!(footprint.per_worker() < 23 * MIB, "{footprint:?}");
    }

    #[test]
    fn workers_that_ran_out_of_memory_needed_more_than_there_was() {
        let mut footprint = footprint(&[(20, 10), (20, 10)]);
        footprint.note_need(25 * MIB);
        assert_eq!(footprint.per_worker(), 30 * MIB);
        footprint.note_need(50 * MIB);
        assert_eq!(footprint.per_worker(), 50 * MIB);
    }

    #[test]
    fn scripts_that_do_not_end_are_thought_to_wait() {
        let mut footprint = Footprint::default();
        let mut look = |busy| {
            footprint.note(std::iter::once((None, 0)), busy);
            footprint.per_worker()
        };
        let careful = CAREFUL_LOOKS - 1;
        assert!((0..2 * careful).all(|_| look(0) == FIRST_WORKER), "none runs");
        assert!((0..careful).all(|_| look(1) == FIRST_WORKER));
        assert_eq!(look(1), UNPROVEN_WORKER);
    }

    #[test]
    fn kills_count_for_a_while_after_the_number_has_grown() {
        let start = Instant::now();
        let mut kills = Kills::default();
        kills.note(7, start);
        assert!(!kills.were_lately(start), "they were before");
        kills.note(8, start);
        kills.note(8, start + LATELY / 2);
        assert!(kills.were_lately(start + LATELY / 2) && !kills.were_lately(start + LATELY));
    }

    #[test]
    fn the_memory_of_all_pools_is_added_up() {
        let watch = MemoryWatch::default();
        assert_eq!(watch.figures(), None);
        watch.publish(figures(100, 50));
        assert_eq!(watch.figures(), Some(figures(100, 50)));
        assert_eq!((watch.account(0, 7), watch.account(0, 5), watch.account(7, 3)), (7, 12, 8));
    }

    #[test]
    fn a_busy_worker_uses_what_its_script_needs() {
        let workers = [(20, 10), (20, 10), (20, 10)];
        assert_eq!(busy_footprint(&workers, 2).own, 80 * MIB);
        // Scripts of workers that have not measured themselves are no larger than the others'.
        assert_eq!(busy_footprint(&[(20, 10), (0, 10), (0, 10)], 3).own, 50 * MIB);
        assert_eq!(busy_footprint(&[(20, 10), (20, 0), (20, 0)], 1).own, 70 * MIB);
        // Whether the scripts run or not, the room is the same.
        let sum = |available, busy| {
            let footprint = busy_footprint(&workers, busy);
            MemorySum::of(figures(256, available), footprint, 0, u64::MAX).room
        };
        assert_eq!((sum(136, 0), sum(106, 3)), (6, 6));
    }

    #[test]
    fn few_workers_start_at_a_time_because_their_scripts_may_be_larger_than_those_before() {
        let watch = MemoryWatch::default();
        watch.publish(figures(256, 120));
        let sum = MemorySum::of(figures(256, 120), footprint(&[(2, 1)]), 0, u64::MAX);
        assert!(sum.room > 20, "{sum:?}");
        assert_eq!(watch.affordable(&sum), (120 - 16) / 32);
        watch.set_aside(&sum, 2);
        assert_eq!(watch.affordable(&sum), 1);
        watch.set_aside(&sum, 1);
        assert_eq!(watch.affordable(&sum), 0);
        watch.publish(figures(256, 30));
        let sum = MemorySum { available: 30 * MIB, ..sum };
        assert_eq!(watch.affordable(&sum), 1, "little is free");
        watch.set_aside(&sum, 1);
        assert_eq!(watch.affordable(&sum), 0);
        assert_eq!(watch.affordable(&MemorySum { available: 15 * MIB, ..sum }), 0);
        watch.publish(figures(256, 16));
        assert_eq!(watch.affordable(&MemorySum { available: 16 * MIB, ..sum }), 0);
    }
}
