//! The workers that live, and those of them that are awake.

use crate::front::FrontRegion;
use crate::sync::{Ordering, fence};

impl FrontRegion {
    /// Wakes a sleeping worker if there is one and the queue may hold a request for it. Returns
    /// whether there was one.
    pub fn wake_worker(&self) -> bool {
        let claimed = self.region.idle().claim(self.geometry().workers);
        claimed.into_iter().for_each(|worker| self.wake(worker));
        claimed.is_some()
    }

    /// Takes a sleeping worker out of the set of those that are woken for requests; the zygote then
    /// tells the worker to end. Returns `false` if the worker is awake, or was woken because
    /// requests wait.
    pub fn retire(&self, worker: usize) -> bool {
        if worker >= self.geometry().workers || !self.region.idle().withdraw(worker) {
            return false;
        }
        // Either a request that is queued now is seen here, or its thread does not find this
        // worker asleep.
        fence(Ordering::SeqCst);
        let is_spare = self.region.queue().is_empty();
        if !is_spare {
            self.wake(worker);
        }
        is_spare
    }

    /// Sets how many workers live and are not told to end.
    pub fn set_present(&self, workers: usize) {
        self.present.store(workers, Ordering::Relaxed);
        let word = u32::try_from(workers).unwrap_or(u32::MAX);
        self.region.present().store(word, Ordering::Relaxed);
    }

    /// Number of workers that live and are not told to end.
    pub fn present(&self) -> usize {
        self.present.load(Ordering::Relaxed)
    }

    /// Wakes all workers, whether or not their idle bits are set. For a request that has waited too
    /// long: the worker that was woken for it may be stopped, or a hostile script may have cleared
    /// the idle bits.
    pub fn wake_all(&self) {
        for worker in 0..self.geometry().workers {
            self.wake(worker);
        }
    }

    /// Sets how many workers should be awake at most; 0 for all. The other workers sleep after
    /// their present request even if the queue is not empty.
    pub fn limit_awake(&self, limit: usize) {
        let word = self.region.awake_limit();
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        if word.load(Ordering::Relaxed) != limit {
            word.store(limit, Ordering::Relaxed);
        }
    }

    /// Number of workers that do not announce that they sleep. A worker that falls asleep during
    /// this call sees every request that was enqueued before the call.
    pub fn awake_workers(&self) -> usize {
        fence(Ordering::SeqCst);
        self.present().saturating_sub(self.idle_workers())
    }

    pub(super) fn wake(&self, worker: usize) {
        let wake = self.region.worker(worker).wake;
        wake.store(1, Ordering::Release);
        howdah_sys::futex::wake(wake);
    }
}

#[cfg(all(test, not(miri)))] // Miri has no memory files.
mod tests {
    use super::*;
    use crate::layout::Geometry;

    #[test]
    fn a_worker_of_the_pool_is_retired_and_stays_asleep() {
        let (front, _attach) = FrontRegion::create(Geometry::for_pool(64, 1)).unwrap();
        front.region.idle().announce(63);
        assert!(front.retire(63));
        assert_eq!(front.region.worker(63).wake.load(Ordering::Relaxed), 0);
        assert!(!front.retire(64) && !front.retire(usize::MAX), "there is no such worker");
    }

    #[test]
    fn a_thread_that_sleeps_is_told_once() {
        let (front, _attach) = FrontRegion::create(Geometry::for_pool(1, 1)).unwrap();
        let worker = front.region.doorbell(0);
        assert!(front.try_sleep(0));
        assert!(worker.mark(3) && !worker.mark(4), "it is woken by the first");
        assert!(!front.try_sleep(0), "there is news");
        front.drain(0, |_| {});
        assert!(front.try_sleep(0));
        front.woke(0);
        assert!(!worker.mark(3), "it is awake");
    }
}
