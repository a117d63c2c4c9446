//! The figures that workers publish: for display, and for the number of the pool's own workers.

use howdah_sys::usage::{self, Machine};

use super::{FrontRegion, Slot};
use crate::figures::{
    CacheNumber, CacheNumbers, RequestFigures, RequestSummary, SUMMARY_BYTES, UNKNOWN,
    WorkerFigures,
};
use crate::layout::{SlotPhase, SlotState};
use crate::sync::Ordering;

/// The unit of memory in the region's words.
const KIB: u64 = 1024;

impl FrontRegion {
    /// Tells workers whether to measure the processor time of each request.
    pub fn meter_processor(&self, is_wanted: bool) {
        self.region.metering().store(is_wanted.into(), Ordering::Relaxed);
    }

    /// Returns the figures of the request; `None` until its script has ended.
    pub fn figures(&self, slot: &Slot) -> Option<RequestFigures> {
        self.is_done(slot)
            .then(|| self.request_figures(slot.index(), slot.queued.get()))
    }

    /// Returns how long the request has waited for a worker, and has run since, in nanoseconds. For
    /// a request that a worker has begun.
    pub fn times(&self, slot: &Slot) -> (u64, u64) {
        let queued = slot.queued.get();
        let now = usage::monotonic().max(queued);
        let began = self.region.slot(slot.index()).began.load(Ordering::Relaxed);
        let began = began.clamp(queued, now);
        (began - queued, now - began)
    }

    /// Returns the use of PHP's caches, as a worker has published it.
    pub fn cache_numbers(&self) -> CacheNumbers {
        let (_, words) = self.region.caches();
        let mut numbers = [UNKNOWN; CacheNumber::COUNT];
        for (number, word) in numbers.iter_mut().zip(words) {
            // A hostile pool may publish any number.
            *number = word.load(Ordering::Relaxed).cast_signed().wrapping_sub(1).max(UNKNOWN);
        }
        numbers
    }

    /// Number of workers that say they sleep. For display only.
    pub fn idle_workers(&self) -> usize {
        self.region.idle().count()
    }

    /// Returns whether a worker says that it sleeps.
    pub fn is_idle(&self, worker: usize) -> bool {
        self.region.idle().has(worker)
    }

    /// Returns whether a worker says that it has taken a request.
    pub fn has_worked(&self, worker: usize) -> bool {
        self.region.worker(worker).last_slot.load(Ordering::Relaxed) > 0
    }

    /// Number of times that slots were checked out; after very many of them it begins at 0 again.
    pub fn checkouts(&self) -> u64 {
        self.state().slots.iter().map(|entry| u64::from(entry.generation)).sum()
    }

    /// Number of requests that a worker says it has served.
    pub fn requests_served(&self, worker: usize) -> u64 {
        self.region.worker(worker).requests.load(Ordering::Relaxed)
    }

    /// Nanoseconds that a worker says it was on a processor.
    pub fn processor_of(&self, worker: usize) -> u64 {
        self.region.worker(worker).processor.load(Ordering::Relaxed)
    }

    /// Bytes that a worker says it uses between requests, `None` before the first figure; and bytes
    /// that PHP had at most for its last script.
    pub fn memory_of(&self, worker: usize) -> (Option<u64>, u64) {
        let words = self.region.worker(worker);
        let kib = |word: &crate::sync::AtomicU32| u64::from(word.load(Ordering::Relaxed));
        let proportional = Some(memory(kib(words.proportional))).filter(|bytes| *bytes > 0);
        (proportional, memory(kib(words.last_peak)))
    }

    /// Returns the figures of each worker.
    pub fn worker_figures(&self) -> Vec<WorkerFigures> {
        let now = usage::monotonic();
        let mut all: Vec<_> =
            (0..self.geometry().workers).map(|worker| self.figures_of(worker)).collect();
        for slot in self.submitted() {
            let state = self.region.slot(slot).state.load();
            if let Some(SlotState { phase: SlotPhase::Taken, worker, .. }) = state
                && let Some(figures) = all.get_mut(usize::from(worker))
            {
                let began = self.region.slot(slot).began.load(Ordering::Relaxed);
                figures.is_running = true;
                figures.took = now.saturating_sub(began);
                figures.request = Some(self.summary(slot));
            }
        }
        all
    }

    /// Returns the figures of a request whose slot is Done. Every number is at most the time since
    /// `queued`, which the caller remembers.
    fn request_figures(&self, slot: usize, queued: u64) -> RequestFigures {
        let words = self.region.slot(slot);
        let now = usage::monotonic().max(queued);
        let began = words.began.load(Ordering::Relaxed).clamp(queued, now);
        let took = match words.took.load(Ordering::Relaxed) {
            u32::MAX => now - began,
            took => u64::from(took).min(now - began),
        };
        let most_processor = ((now - queued) / 1000).saturating_mul(Machine::present().processors);
        RequestFigures {
            waited: began - queued,
            took,
            peak: known(words.peak.load(Ordering::Relaxed)).map(memory),
            processor: known(words.processor.load(Ordering::Relaxed))
                .map(|processor| processor.min(most_processor)),
        }
    }

    /// The figures of a worker, without the request that it runs.
    fn figures_of(&self, worker: usize) -> WorkerFigures {
        let words = self.region.worker(worker);
        let size = |word: &crate::sync::AtomicU32| match word.load(Ordering::Relaxed) {
            0 => None,
            kib => Some(memory(kib.into())),
        };
        WorkerFigures {
            requests: words.requests.load(Ordering::Relaxed),
            processor: words.processor.load(Ordering::Relaxed),
            proportional: size(words.proportional),
            resident: size(words.resident),
            is_running: false,
            request: self.last_request(worker),
            took: words.last_took.load(Ordering::Relaxed),
            last_peak: memory(words.last_peak.load(Ordering::Relaxed).into()),
            last_processor: match words.last_processor.load(Ordering::Relaxed) {
                0 => None,
                microseconds => Some(microseconds - 1),
            },
        }
    }

    /// The last request of a worker, if its slot was not used again.
    fn last_request(&self, worker: usize) -> Option<RequestSummary> {
        let words = self.region.worker(worker);
        let slot = words.last_slot.load(Ordering::Relaxed).checked_sub(1)? as usize;
        if slot >= self.geometry().slots {
            return None;
        }
        let taken = SlotState::unpack(words.last.load(Ordering::Relaxed))?;
        let is_same = || {
            let state = self.region.slot(slot).state.load();
            state.is_some_and(|state| state.generation == taken.generation)
        };
        let summary = is_same().then(|| self.summary(slot))?;
        is_same().then_some(summary)
    }

    fn summary(&self, slot: usize) -> RequestSummary {
        let mut start = vec![0; SUMMARY_BYTES.min(self.geometry().request_bytes)];
        self.region.read_request(slot, &mut start);
        RequestSummary::decode(&start)
    }

    /// The slots that were handed over and not given back.
    fn submitted(&self) -> Vec<usize> {
        let state = self.state();
        let submitted = state.slots.iter().enumerate().filter(|(_, entry)| entry.submitted);
        submitted.map(|(slot, _)| slot).collect()
    }
}

/// Bytes that a worker says are in use, in KiB: at most as many as the machine has.
fn memory(kib: u64) -> u64 {
    kib.saturating_mul(KIB).min(Machine::present().memory)
}

/// A number that the worker knows.
fn known(number: u32) -> Option<u64> {
    (number != u32::MAX).then(|| number.into())
}

#[cfg(all(test, not(miri)))] // Miri has no memory files.
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::layout::Geometry;

    #[test]
    fn a_worker_that_tells_any_number_is_believed_what_can_be_true() {
        let begin = Instant::now();
        let (front, _attach) = FrontRegion::create(Geometry::for_pool(1, 1)).unwrap();
        let slot = front.checkout().unwrap();
        front.submit(&slot, 0, b"a request", None).unwrap();
        let words = front.region.slot(slot.index());
        words.state.finish(words.state.take(0, 0).unwrap());
        for (began, took) in [(0, u32::MAX), (0, u32::MAX - 1), (u64::MAX, 1000)] {
            words.began.store(began, Ordering::Relaxed);
            words.took.store(took, Ordering::Relaxed);
            words.processor.store(u32::MAX - 1, Ordering::Relaxed);
            words.peak.store(u32::MAX - 1, Ordering::Relaxed);
            let figures = front.figures(&slot).expect("it is done");
            let elapsed = u64::try_from(begin.elapsed().as_nanos()).unwrap();
            assert!(figures.waited + figures.took <= elapsed, "{figures:?} {elapsed}");
            let machine = Machine::present();
            let most = elapsed / 1000 * machine.processors;
            assert!(figures.processor.is_some_and(|processor| processor <= most), "{figures:?}");
            assert!(figures.peak <= Some(machine.memory), "{figures:?}");
        }
        words.processor.store(u32::MAX, Ordering::Relaxed);
        words.peak.store(u32::MAX, Ordering::Relaxed);
        let figures = front.figures(&slot).expect("it is done");
        assert_eq!((figures.processor, figures.peak), (None, None));
        let _ = front.release(slot);
    }

    #[test]
    fn a_request_whose_time_does_not_fit_has_run_until_now() {
        let (front, _attach) = FrontRegion::create(Geometry::for_pool(1, 1)).unwrap();
        let slot = front.checkout().unwrap();
        let (second, now) = (1_000_000_000, usage::monotonic());
        slot.waits_since(now - 10 * second);
        front.submit(&slot, 0, b"a request", None).unwrap();
        let words = front.region.slot(slot.index());
        words.began.store(now - 9 * second, Ordering::Relaxed);
        words.state.finish(words.state.take(0, 0).unwrap());
        for (took, expected) in [(u32::MAX, 9 * second), (u32::MAX - 1, u64::from(u32::MAX) - 1)] {
            words.took.store(took, Ordering::Relaxed);
            let figures = front.figures(&slot).expect("it is done");
            assert_eq!(figures.waited, second);
            let most = if took == u32::MAX { u64::MAX } else { expected };
            assert!((expected..=most).contains(&figures.took), "{figures:?}");
        }
        let _ = front.release(slot);
    }

    #[test]
    fn a_worker_runs_only_what_was_handed_over_and_whose_slot_is_there() {
        let (front, _attach) = FrontRegion::create(Geometry::for_pool(1, 1)).unwrap();
        let slot = front.checkout().unwrap();
        front.submit(&slot, 0, b"a request", None).unwrap();
        let state = front.region.slot(slot.index()).state;
        let good = state.take(0, 0).unwrap();
        assert!(front.worker_figures()[0].is_running && front.is_any_taken());
        // A word of another use of the slot.
        let other = SlotState { generation: good.generation + 1, ..good };
        for phase in [SlotPhase::Taken, SlotPhase::Done] {
            state.finish(good);
            state.0.store(SlotState { phase, ..other }.pack(), Ordering::Relaxed);
            assert!(!front.is_any_taken() && front.figures(&slot).is_none(), "{phase:?}");
        }
        state.0.store(good.pack(), Ordering::Relaxed);
        assert_eq!(front.worker_died(0).unwrap(), [slot.index()]);
        let _ = front.release(slot);
        assert!(!front.worker_figures()[0].is_running, "the slot was given back");
        let words = front.region.worker(0);
        for last in [front.geometry().slots as u32 + 1, u32::MAX] {
            words.last_slot.store(last, Ordering::Relaxed);
            assert_eq!(front.worker_figures()[0].request, None, "there is no such slot");
        }
    }
}
