//! The number of workers that the memory has room for.

mod record;
mod watch;

pub use self::record::{MeasuredMemory, MemoryRecord};
pub use self::watch::{LimitProbe, MemoryWatch};

/// The memory that this server may use, at one moment: that of the machine, or of a control group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryFigures {
    /// Bytes in all.
    pub limit: u64,
    /// Bytes that can be used without swapping.
    pub available: u64,
}

/// The memory that the workers of a pool need.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MemoryFootprint {
    /// Bytes that the workers use together, as far as they have told, with an average script for
    /// each that is busy.
    pub(crate) own: u64,
    /// The part of `own` that scripts use.
    scripts: u64,
    /// Bytes of one worker between requests, on average; 0 while nothing is known.
    resting: u64,
    /// Bytes that scripts needed at most lately.
    peak: u64,
    /// No script has ended here yet: `peak` was measured in a former zygote, of this generation
    /// or of the one before.
    is_former: bool,
    /// Looks at which scripts ran and none had ended yet.
    looks: u32,
}

impl MemoryFootprint {
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
        (self.own, self.scripts) = (own.saturating_add(scripts), scripts);
        if self.is_unknown() && busy > 0 {
            self.looks = self.looks.saturating_add(1);
        }
        self.is_former &= with_peak == 0;
        let forgotten = match self.is_former {
            true => 0,
            // A script that needed much counts for a while.
            false => self.peak / FORGETTING,
        };
        self.peak = peak.max(self.peak - forgotten);
    }

    /// Takes what was measured in a former zygote for the truth until something is measured here.
    pub(crate) fn recall(&mut self, former: MeasuredMemory) {
        (self.resting, self.peak, self.is_former) = (former.resting, former.script, true);
    }

    /// Returns the bytes that were measured with these settings; `None` before any were measured.
    pub(crate) fn measured(&self, settings: u64) -> Option<MeasuredMemory> {
        let (resting, script) = (self.resting, self.peak);
        (!self.is_unknown()).then_some(MeasuredMemory { resting, script, settings })
    }

    /// Notes that a worker with its script needed that many bytes.
    pub(crate) fn note_need(&mut self, bytes: u64) {
        self.peak = self.peak.max(bytes.saturating_sub(self.resting));
    }

    fn is_unknown(&self) -> bool {
        (self.resting, self.peak) == (0, 0)
    }

    /// Bytes that a script needs, beside those of its worker between requests.
    fn per_script(&self) -> u64 {
        self.per_worker().saturating_sub(self.resting).max(LEAST_SCRIPT)
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
    /// Scripts that there is room for at this moment, at least 1: fewer than `room` where there are
    /// more workers than room for them, which have not ended yet.
    pub(crate) runnable: usize,
    /// Less is available than should stay free.
    pub is_short: bool,
    /// `per_worker` was measured in a former zygote of the pool, of this generation or of the one
    /// before.
    pub is_former: bool,
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
        footprint: MemoryFootprint,
        pools: u64,
        most: u64,
    ) -> MemorySum {
        let reserve = (figures.limit / 16).clamp(LEAST_RESERVE, MOST_RESERVE);
        let own = footprint.own;
        let free = figures.available.saturating_sub(reserve);
        let runnable = free.saturating_add(footprint.scripts) / footprint.per_script();
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
            runnable: usize::try_from(runnable).unwrap_or(usize::MAX).max(1),
            is_short: figures.available < reserve,
            is_former: footprint.is_former,
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
/// Bytes that are assumed at least, whatever workers tell.
const LEAST_WORKER: u64 = 4 << 20;
/// Bytes that are assumed at least for a script alone.
const LEAST_SCRIPT: u64 = 1 << 20;
/// Bytes of memory that stay free at least. A sixteenth of all memory is usual.
const LEAST_RESERVE: u64 = 16 << 20;
/// Bytes of memory that stay free at most: on machines with more than 8 GiB this is less than a
/// sixteenth.
const MOST_RESERVE: u64 = 512 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn footprint(workers: &[(u64, u64)]) -> MemoryFootprint {
        busy_footprint(workers, 0)
    }

    fn busy_footprint(workers: &[(u64, u64)], busy: usize) -> MemoryFootprint {
        let mut footprint = MemoryFootprint::default();
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
    fn workers_that_are_too_many_leave_room_for_fewer_scripts() {
        let sum = |available, busy| {
            let footprint = busy_footprint(&[(20, 10); 6], busy);
            MemorySum::of(figures(256, available), footprint, 0, u64::MAX)
        };
        // The limit has just become smaller: six workers that sleep have 120, and 16 stay free.
        assert_eq!((sum(46, 0).room, sum(46, 0).runnable), (5, 3));
        assert_eq!((sum(26, 2).room, sum(26, 2).runnable), (5, 3), "two of them run");
        assert_eq!((sum(76, 0).room, sum(76, 0).runnable), (6, 6), "they are not too many");
        assert_eq!((sum(3, 0).room, sum(3, 0).runnable), (3, 1));
    }

    #[test]
    fn each_pool_gives_back_its_part_of_what_is_missing() {
        let large = [(20, 0); 8];
        let small = [(20, 0); 2];
        assert_eq!(room(256, 0, &large, 160), 7, "16 are missing, all of them here");
        assert_eq!(room(256, 0, &large, 200), 7);
        assert_eq!(room(256, 8, &large, 160), 7, "8 are missing");
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
        let tiny = MemoryFootprint {
            own: 1,
            resting: 1,
            ..MemoryFootprint::default()
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
    fn what_a_former_generation_has_measured_counts_until_a_script_has_ended() {
        let mut footprint = MemoryFootprint::default();
        assert_eq!(footprint.measured(7), None);
        let former = MeasuredMemory {
            resting: 20 * MIB,
            script: 10 * MIB,
            settings: 7,
        };
        footprint.recall(former);
        let sum = |footprint| MemorySum::of(figures(256, 200), footprint, 0, u64::MAX);
        assert_eq!((sum(footprint).per_worker, sum(footprint).is_former), (30 * MIB, true));
        (0..1000).for_each(|_| footprint.note(std::iter::once((None, 0)), 1));
        assert_eq!(footprint.measured(7), Some(former), "no script has ended");
        footprint.note(std::iter::once((Some(2 * MIB), 0)), 0);
        assert_eq!((sum(footprint).per_worker, sum(footprint).is_former), (12 * MIB, true));
        footprint.note(std::iter::once((Some(2 * MIB), MIB)), 0);
        assert!(sum(footprint).per_worker < 12 * MIB && !sum(footprint).is_former);
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
    fn memory_that_ran_out_was_too_little_for_each_script_that_ran() {
        let sum = MemorySum {
            per_worker: 10 * MIB,
            room: 4,
            ..MemorySum::default()
        };
        assert_eq!([2, 1, 0].map(|running| sum.need_of(running) / MIB), [25, 50, 50]);
    }

    #[test]
    fn scripts_that_do_not_end_are_thought_to_wait() {
        let mut footprint = MemoryFootprint::default();
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
