//! The idle set: which workers sleep, so that a request wakes one of them.

use crate::queue::Queue;
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// One bit per worker that sleeps or is about to sleep.
///
/// The lowest bit is woken first. With little load the same few workers do all the work with warm
/// caches, and the workers with the highest indices stay idle and can be ended.
#[derive(Debug, Clone, Copy)]
pub struct IdleSet<'r>(pub &'r [AtomicU64]);

impl IdleSet<'_> {
    /// Announces that the worker is about to sleep. The worker must check the queue once more
    /// afterwards.
    pub fn announce(&self, worker: usize) {
        self.0[worker / 64].fetch_or(1 << (worker % 64), Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// Withdraws the announcement. Returns `false` if the worker was claimed in the meantime, and a
    /// wake-up follows.
    pub fn withdraw(&self, worker: usize) -> bool {
        let bit = 1 << (worker % 64);
        self.0[worker / 64].fetch_and(!bit, Ordering::AcqRel) & bit != 0
    }

    /// Puts the worker to sleep until `wake` is set, `queue` is not empty, or `stop` returns true.
    ///
    /// `wait` must sleep only while the word it is given is 0. It may return too early.
    ///
    /// # Errors
    /// The error of `wait`.
    pub fn sleep<E>(
        &self,
        worker: usize,
        wake: &AtomicU32,
        queue: &Queue<'_>,
        stop: impl Fn() -> bool,
        wait: impl FnMut(&AtomicU32) -> Result<(), E>,
    ) -> Result<(), E> {
        self.announce(worker);
        if !queue.is_empty() && self.withdraw(worker) {
            return Ok(());
        }
        self.doze(worker, wake, stop, wait)
    }

    /// Sleeps as [`IdleSet::sleep`] does, for a surplus worker, also if the queue is not empty.
    /// `still` is called again after the announcement: if several workers find out at the same time
    /// that they are surplus, not more of them sleep than should.
    ///
    /// # Errors
    /// The error of `wait`.
    pub fn sleep_surplus<E>(
        &self,
        worker: usize,
        wake: &AtomicU32,
        still: impl Fn() -> bool,
        stop: impl Fn() -> bool,
        wait: impl FnMut(&AtomicU32) -> Result<(), E>,
    ) -> Result<(), E> {
        self.announce(worker);
        if !still() && self.withdraw(worker) {
            return Ok(());
        }
        self.doze(worker, wake, stop, wait)
    }

    fn doze<E>(
        &self,
        worker: usize,
        wake: &AtomicU32,
        stop: impl Fn() -> bool,
        mut wait: impl FnMut(&AtomicU32) -> Result<(), E>,
    ) -> Result<(), E> {
        while wake.load(Ordering::Acquire) == 0 && !stop() {
            wait(wake)?;
        }
        self.withdraw(worker);
        // A wake-up after this line wakes the worker once too often. A wake-up before it was for
        // the work that the worker looks for next.
        wake.store(0, Ordering::Release);
        Ok(())
    }

    /// Returns whether the worker sleeps or is about to sleep.
    pub fn has(&self, worker: usize) -> bool {
        let word = self.0.get(worker / 64).map_or(0, |word| word.load(Ordering::Acquire));
        word & 1 << (worker % 64) != 0
    }

    /// Number of workers that sleep or are about to sleep.
    pub fn count(&self) -> usize {
        self.0
            .iter()
            .map(|word| word.load(Ordering::Acquire).count_ones() as usize)
            .sum()
    }

    /// Claims a sleeping worker below `workers`. The caller must wake it. Call this function after
    /// the work was published. `None` if none of them sleeps.
    pub fn claim(&self, workers: usize) -> Option<usize> {
        fence(Ordering::SeqCst);
        for (position, word) in self.0.iter().enumerate() {
            // Each word is read once: a hostile worker that sets bits again and again must not keep
            // the loop running. A worker that announces itself after this read sees the work that
            // was published before it.
            let mut bits = word.load(Ordering::Acquire);
            while bits != 0 {
                let bit = bits & bits.wrapping_neg();
                bits &= !bit;
                let worker = position * 64 + bit.trailing_zeros() as usize;
                // A bit beyond the pool's workers belongs to no worker.
                if word.fetch_and(!bit, Ordering::AcqRel) & bit != 0 && worker < workers {
                    return Some(worker);
                }
            }
        }
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::queue::Producer;

    #[test]
    fn the_lowest_idle_worker_is_claimed() {
        let words = [AtomicU64::new(0), AtomicU64::new(0)];
        let idle = IdleSet(&words);
        idle.announce(70);
        idle.announce(3);
        assert_eq!(idle.claim(80), Some(3));
        assert!(!idle.withdraw(3));
        assert_eq!(idle.claim(80), Some(70));
        assert_eq!(idle.claim(80), None);
    }

    #[test]
    fn a_worker_that_withdraws_leaves_the_others_idle() {
        let words = [AtomicU64::new(0), AtomicU64::new(0)];
        let idle = IdleSet(&words);
        [3, 5, 69, 70].into_iter().for_each(|worker| idle.announce(worker));
        assert!(idle.withdraw(5) && idle.withdraw(69));
        assert!(!idle.withdraw(5) && !idle.withdraw(4));
        let sleeping: Vec<usize> = (0..200).filter(|worker| idle.has(*worker)).collect();
        assert_eq!((sleeping, idle.count()), (vec![3, 70], 2));
    }

    /// The times that a worker waits until it is woken the second time, with an entry in the queue
    /// or without.
    fn waits(
        has_entry: bool,
        sleep: impl Fn(&IdleSet<'_>, &AtomicU32, &Queue<'_>, &Wait<'_>),
    ) -> u32 {
        let (head, tail) = (AtomicU32::new(0), AtomicU32::new(0));
        let entries = [const { AtomicU32::new(0) }; 2];
        let queue = Queue {
            head: &head,
            tail: &tail,
            entries: &entries,
        };
        if has_entry {
            Producer::new(2).enter(&queue, 1).expect("the queue is empty");
        }
        let (words, wake, waited) = ([AtomicU64::new(0)], AtomicU32::new(0), Cell::new(0));
        let idle = IdleSet(&words);
        sleep(&idle, &wake, &queue, &|wake| {
            assert!(idle.has(9), "it is announced while it waits");
            waited.set(waited.get() + 1);
            wake.store(u32::from(waited.get() == 2), Ordering::Relaxed);
            Ok(())
        });
        assert!(!idle.has(9), "it is awake");
        assert_eq!(wake.load(Ordering::Relaxed), 0, "the wake-up was taken");
        waited.get()
    }

    type Wait<'w> = dyn Fn(&AtomicU32) -> Result<(), ()> + 'w;

    #[test]
    fn a_worker_sleeps_until_it_is_woken_unless_a_request_waits() {
        for (has_entry, stops, expected) in
            [(false, false, 2), (false, true, 0), (true, false, 0), (true, true, 0)]
        {
            let waited = waits(has_entry, |idle, wake, queue, wait| {
                idle.sleep(9, wake, queue, || stops, wait).unwrap();
            });
            assert_eq!(waited, expected, "entry {has_entry}, stops {stops}");
        }
    }

    #[test]
    fn a_surplus_worker_sleeps_although_a_request_waits() {
        for (still, stops, expected) in [(true, false, 2), (true, true, 0), (false, false, 0)] {
            let waited = waits(true, |idle, wake, _, wait| {
                idle.sleep_surplus(9, wake, || still, || stops, wait).unwrap();
            });
            assert_eq!(waited, expected, "still {still}, stops {stops}");
        }
    }

    #[test]
    fn a_worker_that_cannot_sleep_is_told() {
        let (words, wake) = ([AtomicU64::new(0)], AtomicU32::new(0));
        let slept = IdleSet(&words).sleep_surplus(0, &wake, || true, || false, |_| Err(7));
        assert_eq!(slept, Err(7));
    }

    #[test]
    fn an_idle_bit_beyond_the_workers_wakes_nobody() {
        let words = [AtomicU64::new(u64::MAX)];
        let idle = IdleSet(&words);
        assert_eq!(
            (0..5).map(|_| idle.claim(2)).collect::<Vec<_>>(),
            [Some(0), Some(1), None, None, None]
        );
    }
}
