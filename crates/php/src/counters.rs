//! The counters of a pool: plain numbers that one thread writes and any process may read.

use std::rc::Rc;
use std::sync::Arc;

use howdah_ipc::figures::RequestFigures;
use howdah_sys::memory::SharedNumbers;

/// Events that are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum PoolCounter {
    /// The pool took a request: it was handed over, or waited in vain.
    Requests = 0,
    /// A request was refused because too many were waiting, or because the pool does not start.
    QueueFull = 1,
    /// A request was refused because no worker began it in time.
    QueueTimeouts = 2,
    /// A script ran for longer than it may.
    Timeouts = 3,
    /// A request ended because its worker died.
    Lost = 4,
    /// A worker was started.
    Started = 5,
    /// A worker ended as it should, to be replaced.
    Recycled = 6,
    /// A worker ended with an error.
    Failed = 7,
    /// A zygote ended with all its workers.
    Zygotes = 8,
    /// A second in which every worker that there may be was busy and requests waited.
    Exhausted = 9,
    /// A worker ended because it was not needed.
    Dismissed = 10,
    /// A script ran for as long as `slow_after`.
    Slow = 11,
    /// The client of a request was gone before a worker began it.
    Abandoned = 12,
    /// The kernel ended a worker because memory ran out.
    OutOfMemory = 13,
}

/// Number of [`PoolCounter`] values.
const EVENTS: usize = 14;
/// Word of the deaths by signal 0; those by other signals follow.
const SIGNALS: usize = EVENTS;
/// Number of signals that are told apart. Others are counted as the last one.
pub const MOST_SIGNALS: usize = 65;
/// Word at which the histogram of waiting times begins.
const WAITED: usize = SIGNALS + MOST_SIGNALS;
/// Word at which the histogram of running times begins.
const TOOK: usize = WAITED + HISTOGRAM_WORDS;
/// Number of words that hold the counters of a pool.
pub const COUNTER_WORDS: usize = TOOK + HISTOGRAM_WORDS;

/// Number of words that hold the sums over a pool's workers, of those that have ended too.
pub const STAFF_WORDS: usize = 2;
/// Words of these: nanoseconds on a processor, and workers that ended with their zygote.
const PROCESSOR: usize = 0;
const ENDED_WITH_ZYGOTE: usize = 1;

/// Upper bounds of a histogram's buckets, in microseconds. A last bucket holds what is longer.
pub const BOUNDS: [u64; 17] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000, 60_000_000,
];
/// Number of words that hold a histogram: its buckets, and the sum in microseconds.
pub const HISTOGRAM_WORDS: usize = BOUNDS.len() + 2;

/// Numbers that one thread writes. They survive the process.
#[derive(Debug, Clone)]
pub struct Counters {
    numbers: Arc<SharedNumbers>,
    first: usize,
}

impl Counters {
    /// The numbers from `first` on. No other thread may write them.
    pub fn new(numbers: Arc<SharedNumbers>, first: usize) -> Counters {
        Counters { numbers, first }
    }

    /// Adds to a number. Without an atomic addition, because there is one writer.
    #[inline]
    pub fn add(&self, word: usize, count: u64) {
        let index = self.first + word;
        self.numbers.store(index, self.numbers.load(index).wrapping_add(count));
    }

    /// Adds to the histogram that begins at `word`.
    #[inline]
    pub fn observe(&self, word: usize, microseconds: u64) {
        let bucket = BOUNDS.partition_point(|bound| *bound < microseconds);
        self.add(word + bucket, 1);
        self.add(word + BOUNDS.len() + 1, microseconds);
    }

    /// Counts an event of a pool.
    #[inline]
    pub fn count(&self, event: PoolCounter) {
        self.add(event as usize, 1);
    }

    /// Counts the end of a worker, with its status of `wait(2)`.
    pub fn count_end(&self, status: u32) {
        match (status & 0x7F, status >> 8 & 0xFF) {
            (0, 0) => self.count(PoolCounter::Recycled),
            (0, _) => self.count(PoolCounter::Failed),
            (signal, _) => self.add(SIGNALS + (signal as usize).min(MOST_SIGNALS - 1), 1),
        }
    }

    /// Counts a request whose script has ended.
    pub fn count_figures(&self, figures: &RequestFigures) {
        self.observe(WAITED, figures.waited / 1000);
        self.observe(TOOK, figures.took / 1000);
    }
}

/// One thread's counters of a pool and of its lanes.
#[derive(Debug, Clone)]
pub struct PoolCounters {
    /// The counters of the whole pool.
    pub all: Counters,
    /// By lane; empty for a pool without lanes of its own.
    pub lanes: Rc<[Counters]>,
    /// The sums over the workers.
    pub staff: Counters,
}

impl PoolCounters {
    /// Adds nanoseconds that workers were on a processor.
    pub(crate) fn add_processor(&self, nanoseconds: u64) {
        if nanoseconds > 0 {
            self.staff.add(PROCESSOR, nanoseconds);
        }
    }

    /// Counts a zygote that has ended, with that number of workers.
    pub fn count_zygote(&self, workers: usize) {
        self.all.count(PoolCounter::Zygotes);
        self.staff.add(ENDED_WITH_ZYGOTE, workers as u64);
    }

    /// Counts an event, also for the lane that it belongs to.
    #[inline]
    pub(crate) fn count(&self, lane: usize, event: PoolCounter) {
        self.all.count(event);
        self.lanes.get(lane).into_iter().for_each(|lane| lane.count(event));
    }

    /// Counts a request whose script has ended, also for its lane.
    pub(crate) fn count_figures(&self, lane: usize, figures: &RequestFigures) {
        self.all.count_figures(figures);
        self.lanes.get(lane).into_iter().for_each(|lane| lane.count_figures(figures));
    }
}

/// The sums of a pool's counters.
#[derive(Debug, Clone, Copy)]
pub struct PoolTotals<'w> {
    words: &'w [u64],
    staff: &'w [u64],
}

impl<'w> PoolTotals<'w> {
    /// `words` are the pool's [`COUNTER_WORDS`], and `staff` its [`STAFF_WORDS`]. Absent ones are
    /// 0.
    pub fn new(words: &'w [u64], staff: &'w [u64]) -> PoolTotals<'w> {
        PoolTotals { words, staff }
    }

    /// Returns the nanoseconds that workers were on a processor, without the last second of those
    /// that live.
    pub fn processor(&self) -> u64 {
        self.staff.get(PROCESSOR).copied().unwrap_or(0)
    }

    /// Returns the number of workers that ended with their zygote, and in no other way.
    pub fn ended_with_zygotes(&self) -> u64 {
        self.staff.get(ENDED_WITH_ZYGOTE).copied().unwrap_or(0)
    }

    /// Returns the number of events.
    pub fn of(&self, event: PoolCounter) -> u64 {
        self.word(event as usize)
    }

    /// Returns the number of workers that each signal has ended, for the signals that have.
    pub fn deaths(&self) -> impl Iterator<Item = (usize, u64)> + use<'_, 'w> {
        let deaths = (0..MOST_SIGNALS).map(|signal| (signal, self.word(SIGNALS + signal)));
        deaths.filter(|(_, count)| *count > 0)
    }

    /// The words of the histogram of waiting times.
    pub fn waited(&self) -> &'w [u64] {
        self.words.get(WAITED..TOOK).unwrap_or_default()
    }

    /// The words of the histogram of running times.
    pub fn took(&self) -> &'w [u64] {
        self.words.get(TOOK..COUNTER_WORDS).unwrap_or_default()
    }

    fn word(&self, word: usize) -> u64 {
        self.words.get(word).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_is_found_again() {
        let numbers = Arc::new(SharedNumbers::new(7 + COUNTER_WORDS).unwrap());
        let counters = Counters::new(Arc::clone(&numbers), 7);
        counters.count(PoolCounter::Requests);
        counters.count(PoolCounter::Exhausted);
        counters.count_end(0);
        counters.count_end(0x100);
        counters.count_end(9);
        counters.count_end(0x8B); // SIGSEGV, with a core dump
        counters.count_end(0x7E); // No system has this signal.
        let figures = RequestFigures {
            waited: 100_000,
            took: 100_001_000,
            ..RequestFigures::default()
        };
        counters.count_figures(&figures);
        let words: Vec<u64> = (0..COUNTER_WORDS).map(|word| numbers.load(7 + word)).collect();
        let totals = PoolTotals::new(&words, &[]);
        assert_eq!((totals.of(PoolCounter::Requests), totals.of(PoolCounter::Exhausted)), (1, 1));
        assert_eq!((totals.of(PoolCounter::Recycled), totals.of(PoolCounter::Failed)), (1, 1));
        assert_eq!(totals.deaths().collect::<Vec<_>>(), [(9, 1), (11, 1), (64, 1)]);
        // 100 µs belongs to the bucket up to 100 µs, 100.001 ms to the one up to 250 ms.
        assert_eq!((totals.waited()[0], totals.took()[10]), (1, 1));
        assert_eq!(totals.took().last(), Some(&100_001));
        assert_eq!(words.iter().filter(|word| **word > 0).count(), 11);
    }

    #[test]
    fn what_ends_with_a_zygote_is_counted_for_the_workers() {
        let numbers = Arc::new(SharedNumbers::new(COUNTER_WORDS + STAFF_WORDS).unwrap());
        let counters = PoolCounters {
            all: Counters::new(Arc::clone(&numbers), 0),
            lanes: Rc::new([]),
            staff: Counters::new(Arc::clone(&numbers), COUNTER_WORDS),
        };
        counters.count_zygote(3);
        counters.count_zygote(0);
        counters.add_processor(5);
        let words: Vec<u64> =
            (0..COUNTER_WORDS + STAFF_WORDS).map(|word| numbers.load(word)).collect();
        let (words, staff) = words.split_at(COUNTER_WORDS);
        let totals = PoolTotals::new(words, staff);
        assert_eq!((totals.of(PoolCounter::Zygotes), totals.ended_with_zygotes()), (2, 3));
        assert_eq!(totals.processor(), 5);
    }
}
