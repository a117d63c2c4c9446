//! The memory that all pools share, as it is at present.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use howdah_sys::usage;

use super::{MemoryFigures, MemorySum};

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
    kills: Mutex<MemoryKills>,
    /// Looks at the limits between two figures, and the time at which that began; unset where
    /// nothing can.
    probe: OnceLock<(Arc<dyn LimitProbe>, Instant)>,
    /// The time of the last such look, in nanoseconds since then.
    probed: AtomicU64,
    /// Number of times that a limit became smaller.
    cuts: AtomicU64,
}

/// A look at the limits of memory that takes microseconds and waits for nothing.
pub trait LimitProbe: Debug + Send + Sync {
    /// Returns the figures of a limit that is smaller than it was; `None` where none is.
    fn smaller(&self) -> Option<MemoryFigures>;
}

/// The number of processes that the kernel has ended because memory ran out, and the time at which
/// it grew.
#[derive(Debug, Default)]
struct MemoryKills {
    /// `None` while nothing is known.
    count: Option<u64>,
    grown: Option<Instant>,
}

impl MemoryKills {
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

    /// Publishes as [`MemoryWatch::publish`] does, where a limit has become smaller. Pools then end
    /// workers at once.
    pub fn publish_smaller(&self, figures: MemoryFigures) {
        self.publish(figures);
        self.cuts.fetch_add(1, Ordering::Release);
    }

    /// Lets `probe` look at the limits between two figures. The first one stays.
    pub fn probe_with(&self, probe: Arc<dyn LimitProbe>) {
        let _ = self.probe.set((probe, Instant::now()));
    }

    /// Returns how many times a limit has become smaller. Looks at the limits before, unless that
    /// was done a moment ago: requests that come after a rest must not find the room of before.
    #[inline]
    pub(crate) fn cuts(&self, now: Instant) -> u64 {
        if let Some((probe, began)) = self.probe.get() {
            let now = now.saturating_duration_since(*began).as_nanos() as u64;
            let last = self.probed.load(Ordering::Relaxed);
            if now >= last.saturating_add(PROBE) {
                self.look_at_limits(probe.as_ref(), (last, now));
            }
        }
        self.cuts.load(Ordering::Acquire)
    }

    /// Looks at the limits, unless another thread has begun to since `last`.
    fn look_at_limits(&self, probe: &dyn LimitProbe, (last, now): (u64, u64)) {
        let relaxed = Ordering::Relaxed;
        if self.probed.compare_exchange(last, now, relaxed, relaxed).is_ok()
            && let Some(figures) = probe.smaller()
            && figures.available < self.available.load(relaxed)
        {
            self.publish_smaller(figures);
        }
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

/// The time for which a process that was killed is taken for one that the kernel has ended.
const LATELY: Duration = Duration::from_secs(2);
/// Nanoseconds between two looks of a [`LimitProbe`].
const PROBE: u64 = 5_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(limit: u64, available: u64) -> MemoryFigures {
        MemoryFigures { limit, available }
    }

    #[test]
    fn kills_count_for_a_while_after_the_number_has_grown() {
        let start = Instant::now();
        let mut kills = MemoryKills::default();
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

    /// Says once that a limit is smaller.
    #[derive(Debug)]
    struct OneReading(Mutex<Option<MemoryFigures>>);

    impl LimitProbe for OneReading {
        fn smaller(&self) -> Option<MemoryFigures> {
            self.0.lock().unwrap().take()
        }
    }

    /// Counts its looks.
    #[derive(Debug, Default)]
    struct CountedLooks(AtomicU64);

    impl LimitProbe for CountedLooks {
        fn smaller(&self) -> Option<MemoryFigures> {
            self.0.fetch_add(1, Ordering::Relaxed);
            None
        }
    }

    #[test]
    fn the_limits_are_not_looked_at_all_the_time() {
        let (watch, probe) = (MemoryWatch::default(), Arc::new(CountedLooks::default()));
        watch.probe_with(probe.clone());
        let first = Instant::now() + Duration::from_secs(1);
        for (after, looks) in [(0, 1), (PROBE - 1, 1), (PROBE, 2)] {
            watch.cuts(first + Duration::from_nanos(after));
            assert_eq!(probe.0.load(Ordering::Relaxed), looks, "{after} ns");
        }
    }

    #[test]
    fn a_limit_that_became_smaller_is_seen_between_two_figures() {
        for (less, expected) in
            [(figures(50, 10), (1, 10)), (figures(90, 60), (0, 50)), (figures(90, 50), (0, 50))]
        {
            let watch = MemoryWatch::default();
            watch.publish(figures(100, 50));
            watch.probe_with(Arc::new(OneReading(Mutex::new(Some(less)))));
            let soon = Instant::now() + Duration::from_secs(1);
            assert_eq!([watch.cuts(soon), watch.cuts(soon)], [expected.0; 2]);
            assert_eq!(watch.figures().unwrap().available, expected.1);
            watch.publish_smaller(figures(40, 5));
            assert_eq!(watch.cuts(soon), expected.0 + 1);
        }
    }
}
