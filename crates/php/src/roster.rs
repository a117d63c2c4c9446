//! The places of a pool's workers: which are wanted, and which processes have them.

use std::time::{Duration, Instant, SystemTime};

use howdah_ipc::figures::WorkerFigures;
use howdah_ipc::worker_set::WorkerSet;

/// The places of the workers of one zygote.
#[derive(Debug)]
pub(crate) struct WorkerRoster(Vec<WorkerPlace>);

#[derive(Debug, Clone)]
struct WorkerPlace {
    is_wanted: bool,
    /// Process id, 0 for none.
    pid: u64,
    started: SystemTime,
    /// The same time on the monotonic clock.
    since: Instant,
    /// The worker has slept or taken a request since its start.
    is_settled: bool,
    /// The worker ends after its present request.
    leaves_busy: bool,
    /// The time from which on the worker has slept, as far as it was looked at.
    asleep: Option<Instant>,
    /// Requests that the worker had served then.
    served: u64,
    /// Nanoseconds on a processor of the present worker that were counted.
    processor: u64,
    /// The highest figures of the present worker that were shown: requests, and nanoseconds on a
    /// processor.
    shown: (u64, u64),
}

/// The bounds of what a worker may say of itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FigureBounds {
    pub(crate) now: Instant,
    /// Processors of the machine.
    pub(crate) processors: u64,
    /// Requests that the workers of the zygote have got.
    pub(crate) requests: u64,
}

impl WorkerRoster {
    /// Places for `most` workers, of which the first `wanted` are wanted.
    pub(crate) fn new(most: usize, wanted: usize) -> WorkerRoster {
        let place = |index| WorkerPlace {
            is_wanted: index < wanted,
            pid: 0,
            started: SystemTime::UNIX_EPOCH,
            since: Instant::now(),
            is_settled: false,
            leaves_busy: false,
            asleep: None,
            served: 0,
            processor: 0,
            shown: (0, 0),
        };
        WorkerRoster((0..most).map(place).collect())
    }

    /// The workers that are wanted.
    pub(crate) fn wanted(&self) -> WorkerSet {
        let all = self.0.iter().enumerate();
        all.filter(|(_, place)| place.is_wanted).map(|(index, _)| index).collect()
    }

    /// Number of workers that are wanted.
    pub(crate) fn count(&self) -> usize {
        self.0.iter().filter(|place| place.is_wanted).count()
    }

    /// Number of workers that are wanted and live.
    pub(crate) fn present(&self) -> usize {
        self.0.iter().filter(|place| place.is_wanted && place.pid != 0).count()
    }

    /// Number of workers that are wanted and have not settled: they live for requests that wait
    /// already, or will sleep. `has_settled` is asked for those that live.
    pub(crate) fn starting(&mut self, has_settled: impl Fn(usize) -> bool) -> usize {
        let mut starting = 0;
        for (index, place) in self.0.iter_mut().enumerate().filter(|(_, place)| place.is_wanted) {
            if place.pid != 0 && !place.is_settled {
                place.is_settled = has_settled(index);
            }
            starting += usize::from(place.pid == 0 || !place.is_settled);
        }
        starting
    }

    /// Number of workers that are wanted and do not live yet.
    pub(crate) fn unborn(&self) -> usize {
        self.count() - self.present()
    }

    /// Wants this many workers more. Places whose former worker has ended are taken first, and of
    /// these the lowest: the lowest workers are woken first.
    pub(crate) fn want_more(&mut self, mut count: usize) {
        for takes_busy in [false, true] {
            for place in self.0.iter_mut().filter(|place| !place.is_wanted) {
                if count > 0 && (takes_busy || place.pid == 0) {
                    place.is_wanted = true;
                    count -= 1;
                }
            }
        }
    }

    /// Does not want a worker any more.
    pub(crate) fn dismiss(&mut self, worker: usize) {
        if let Some(place) = self.0.get_mut(worker) {
            place.is_wanted = false;
        }
    }

    /// Does not want this many workers any more, whatever they do, those with the highest places
    /// first. Returns their number.
    pub(crate) fn dismiss_highest(&mut self, count: usize) -> usize {
        let wanted = self.0.iter_mut().rev().filter(|place| place.is_wanted).take(count);
        wanted
            .map(|place| (place.is_wanted, place.leaves_busy) = (false, place.pid != 0))
            .count()
    }

    /// Number of workers that were told to end while they had a request, and have not ended.
    pub(crate) fn leaving_busy(&self) -> usize {
        self.0.iter().filter(|place| place.leaves_busy).count()
    }

    /// The workers that live.
    pub(crate) fn living(&self) -> impl Iterator<Item = usize> + '_ {
        let all = self.0.iter().enumerate();
        all.filter(|(_, place)| place.pid != 0).map(|(index, _)| index)
    }

    /// Records the start of a worker.
    pub(crate) fn started(&mut self, worker: usize, pid: u64) {
        if let Some(place) = self.0.get_mut(worker) {
            place.pid = pid;
            place.started = SystemTime::now();
            place.since = Instant::now();
            place.is_settled = false;
            (place.asleep, place.leaves_busy) = (None, false);
            (place.processor, place.shown) = (0, (0, 0));
        }
    }

    /// Notes that a worker was on a processor for `total` nanoseconds since its start. Returns the
    /// part of them that was not noted before. A pool may tell any number: no more counts than the
    /// processors have had time for since the worker's start.
    pub(crate) fn note_processor(
        &mut self,
        worker: usize,
        total: u64,
        bounds: FigureBounds,
    ) -> u64 {
        let Some(place) = self.0.get_mut(worker).filter(|place| place.pid != 0) else {
            return 0;
        };
        let total = total.min(bounds.processor_since(place.since));
        let news = total.saturating_sub(place.processor);
        place.processor = place.processor.max(total);
        news
    }

    /// Bounds what a worker says of itself. Its counters do not go down as long as it lives.
    pub(crate) fn check_figures(
        &mut self,
        worker: usize,
        figures: &mut WorkerFigures,
        bounds: FigureBounds,
    ) {
        let Some(place) = self.0.get_mut(worker).filter(|place| place.pid != 0) else {
            return;
        };
        let most = bounds.processor_since(place.since);
        let (requests, processor) = &mut place.shown;
        *requests = figures.requests.min(bounds.requests).max(*requests);
        *processor = figures.processor.min(most).max(*processor);
        (figures.requests, figures.processor) = place.shown;
        let lifetime = nanoseconds(bounds.now.saturating_duration_since(place.since));
        figures.took = figures.took.min(lifetime);
        figures.last_processor = figures.last_processor.map(|last| last.min(most / 1000));
    }

    /// Records the death of a worker. Returns whether the worker was wanted; `None` for a place
    /// that does not exist.
    pub(crate) fn died(&mut self, worker: usize, pid: u64) -> Option<bool> {
        let place = self.0.get_mut(worker)?;
        if place.pid == pid {
            (place.pid, place.leaves_busy) = (0, false);
        }
        Some(place.is_wanted)
    }

    /// The process of a worker, 0 if there is none.
    pub(crate) fn pid(&self, worker: usize) -> u64 {
        self.0.get(worker).map_or(0, |place| place.pid)
    }

    /// By worker: the process, 0 where there is none, and the time at which it started.
    pub(crate) fn processes(&self) -> Vec<(u64, SystemTime)> {
        self.0.iter().map(|place| (place.pid, place.started)).collect()
    }

    /// Notes which workers sleep. `look` returns whether a worker does, and the number of requests
    /// that it has served.
    pub(crate) fn note_sleep(&mut self, now: Instant, look: impl Fn(usize) -> (bool, u64)) {
        for (index, place) in self.0.iter_mut().enumerate().filter(|(_, place)| place.pid != 0) {
            let (is_asleep, served) = look(index);
            place.asleep = match place.asleep {
                _ if !is_asleep => None,
                Some(since) if served == place.served => Some(since),
                _ => Some(now),
            };
            place.served = served;
        }
    }

    /// The workers that are wanted and have slept for this long, the highest first.
    pub(crate) fn rested(&self, now: Instant, time: Duration) -> Vec<usize> {
        let has_rested = |place: &WorkerPlace| {
            let since = place.asleep.filter(|_| place.is_wanted && place.pid != 0);
            since.is_some_and(|since| now.saturating_duration_since(since) >= time)
        };
        let all = self.0.iter().enumerate().rev();
        all.filter(|(_, place)| has_rested(place)).map(|(index, _)| index).collect()
    }
}

impl FigureBounds {
    /// Nanoseconds that all processors have had together since that time.
    pub(crate) fn processor_since(&self, since: Instant) -> u64 {
        nanoseconds(self.now.saturating_duration_since(since)).saturating_mul(self.processors)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_place_is_taken_first() {
        let mut roster = WorkerRoster::new(4, 2);
        assert_eq!((roster.count(), roster.present()), (2, 0));
        assert_eq!(roster.starting(|_| true), 2);
        roster.started(0, 7);
        roster.started(1, 8);
        assert_eq!(roster.starting(|worker| worker == 0), 1);
        assert_eq!(roster.starting(|_| false), 1, "once is enough");
        roster.dismiss(0);
        assert_eq!((roster.count(), roster.present()), (1, 1));
        roster.want_more(1);
        assert_eq!(roster.wanted(), [1, 2].into_iter().collect(), "worker 0 has not ended");
        roster.want_more(9);
        assert_eq!(roster.wanted(), WorkerSet::first(4));
        assert_eq!((roster.dismiss_highest(3), roster.dismiss_highest(3)), (3, 1));
        assert_eq!(roster.living().collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn a_death_says_whether_the_worker_was_wanted() {
        let mut roster = WorkerRoster::new(2, 2);
        roster.started(0, 7);
        assert_eq!(roster.died(0, 6), Some(true), "an earlier process in this place");
        assert_eq!(roster.pid(0), 7);
        roster.dismiss(0);
        assert_eq!(roster.died(0, 7), Some(false));
        assert_eq!((roster.pid(0), roster.died(2, 7)), (0, None));
    }

    #[test]
    fn each_nanosecond_on_a_processor_is_counted_once() {
        let mut roster = WorkerRoster::new(1, 1);
        let later = bounds(Duration::from_secs(60));
        let note = |roster: &mut WorkerRoster, total| roster.note_processor(0, total, later);
        assert_eq!(note(&mut roster, 5), 0, "there is no worker");
        roster.started(0, 7);
        assert_eq!((note(&mut roster, 5), note(&mut roster, 8)), (5, 3));
        // The successor has published its own already.
        assert_eq!((note(&mut roster, 1), note(&mut roster, 9)), (0, 1));
        roster.died(0, 7);
        roster.started(0, 8);
        assert_eq!((note(&mut roster, 2), roster.note_processor(1, 9, later)), (2, 0));
    }

    /// Bounds after that time, on a machine with two processors, after ten requests.
    fn bounds(after: Duration) -> FigureBounds {
        FigureBounds {
            now: Instant::now() + after,
            processors: 2,
            requests: 10,
        }
    }

    #[test]
    fn false_figures_count_no_more_than_processors_have_had_time_for() {
        let mut roster = WorkerRoster::new(1, 1);
        roster.started(0, 7);
        let (early, late) = (bounds(Duration::from_secs(10)), bounds(Duration::from_secs(30)));
        let first = roster.note_processor(0, u64::MAX, early);
        assert!((20_000_000_000..=20_100_000_000).contains(&first), "{first}");
        assert_eq!(roster.note_processor(0, u64::MAX, early), 0);
        let second = roster.note_processor(0, u64::MAX, late);
        assert!((39_900_000_000..=40_100_000_000).contains(&second), "{second}");
        assert_eq!(roster.note_processor(0, 0, late), 0);

        let figures = |number| WorkerFigures {
            requests: number,
            processor: number,
            took: number,
            last_processor: Some(number),
            ..WorkerFigures::default()
        };
        let mut shown = figures(u64::MAX);
        roster.check_figures(0, &mut shown, early);
        assert_eq!(shown.requests, 10);
        assert!((20_000_000_000..=20_100_000_000).contains(&shown.processor), "{shown:?}");
        assert!((10_000_000_000..=10_100_000_000).contains(&shown.took), "{shown:?}");
        let last = shown.last_processor.unwrap();
        assert!((20_000_000..=20_100_000).contains(&last), "{shown:?}");
        let mut less = figures(3);
        roster.check_figures(0, &mut less, late);
        assert_eq!((less.requests, less.processor), (10, shown.processor), "they do not go down");
        roster.died(0, 7);
        roster.started(0, 8);
        let mut successor = figures(3);
        roster.check_figures(0, &mut successor, late);
        assert_eq!((successor.requests, successor.processor), (3, 3));
    }

    #[test]
    fn a_wanted_worker_starts_until_it_has_settled_and_again_after_its_death() {
        let mut roster = WorkerRoster::new(3, 2);
        let starting = |roster: &mut WorkerRoster, has_settled: bool| {
            roster.starting(|worker| {
                assert_eq!(worker, 0, "the only one that lives");
                has_settled
            })
        };
        assert_eq!((roster.unborn(), starting(&mut roster, true)), (2, 2));
        roster.started(0, 7);
        assert_eq!((roster.unborn(), starting(&mut roster, false)), (1, 2));
        assert_eq!(starting(&mut roster, true), 1);
        assert_eq!(starting(&mut roster, false), 1, "it stays settled");
        roster.died(0, 7);
        assert_eq!((roster.unborn(), starting(&mut roster, true)), (2, 2));
    }

    #[test]
    fn a_worker_that_died_in_its_sleep_has_not_rested() {
        let mut roster = WorkerRoster::new(1, 1);
        roster.started(0, 7);
        let now = Instant::now();
        roster.note_sleep(now, |_| (true, 0));
        assert_eq!(roster.rested(now, Duration::ZERO), [0]);
        roster.died(0, 7);
        assert_eq!(roster.rested(now, Duration::ZERO), [0; 0]);
    }

    #[test]
    fn a_worker_has_rested_if_it_served_nothing_meanwhile() {
        let mut roster = WorkerRoster::new(3, 3);
        (0..3).for_each(|worker| roster.started(worker, 7));
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        roster.note_sleep(start, |_| (true, 1));
        // The second has served a request, the third is awake.
        roster.note_sleep(after(5), |worker| (worker < 2, [1, 2, 1][worker]));
        roster.note_sleep(after(10), |worker| (true, [1, 2, 1][worker]));
        assert_eq!(roster.rested(after(10), Duration::from_secs(10)), [0]);
        assert_eq!(roster.rested(after(15), Duration::from_secs(10)), [1, 0]);
        roster.dismiss(1);
        assert_eq!(roster.rested(after(20), Duration::from_secs(10)), [2, 0]);
    }
}
