//! The front's doorbells: how a thread of the front learns that a slot needs it.

use crate::sync::{AtomicU32, AtomicU64, Ordering, clear, fence};

/// A front thread's doorbell: which slots are marked, and whether the thread must be woken to see
/// the marks.
#[derive(Debug, Clone, Copy)]
pub struct Doorbell<'r> {
    /// 1 while the thread sleeps or is about to sleep.
    pub sleeping: &'r AtomicU32,
    /// One bit per marked slot.
    pub ready: &'r [AtomicU64],
}

impl Doorbell<'_> {
    /// Worker: marks `slot`. Returns `true` if the thread sleeps; then the caller, and no other
    /// worker, must wake the thread.
    pub fn mark(&self, slot: usize) -> bool {
        self.ready[slot / 64].fetch_or(1 << (slot % 64), Ordering::AcqRel);
        fence(Ordering::SeqCst);
        self.sleeping.load(Ordering::Relaxed) == 1 && clear(self.sleeping)
    }

    /// Thread: announces that it is about to sleep. Returns `false` if a slot is marked; the thread
    /// must not sleep then.
    pub fn try_sleep(&self) -> bool {
        self.sleeping.store(1, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.ready.iter().all(|word| word.load(Ordering::Acquire) == 0) {
            return true;
        }
        self.sleeping.store(0, Ordering::Release);
        false
    }

    /// Thread: announces that it is awake.
    pub fn woke(&self) {
        self.sleeping.store(0, Ordering::Release);
    }

    /// Takes the marks, and calls `each` for every marked slot below `slots`.
    pub fn drain(&self, slots: usize, mut each: impl FnMut(usize)) {
        for (position, word) in self.ready.iter().enumerate() {
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut bits = word.swap(0, Ordering::AcqRel);
            while bits != 0 {
                let slot = position * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if slot < slots {
                    each(slot);
                }
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_mark_wakes_a_sleeper_once() {
        let (sleeping, ready) = (AtomicU32::new(0), [AtomicU64::new(0)]);
        let bell = Doorbell { sleeping: &sleeping, ready: &ready };
        assert!(!bell.mark(1));
        assert!(!bell.try_sleep());
        let mut seen = Vec::new();
        bell.drain(64, |slot| seen.push(slot));
        assert_eq!(seen, [1]);
        assert!(bell.try_sleep());
        assert!(bell.mark(5));
        assert!(!bell.mark(6));
        bell.drain(6, |slot| seen.push(slot));
        assert_eq!(seen, [1, 5]);
    }

    #[test]
    fn a_thread_that_is_awake_needs_no_wake_up() {
        let (sleeping, ready) = (AtomicU32::new(0), [AtomicU64::new(0), AtomicU64::new(0)]);
        let bell = Doorbell { sleeping: &sleeping, ready: &ready };
        assert!(bell.try_sleep());
        bell.woke();
        [0, 64, 67, 127].into_iter().for_each(|slot| assert!(!bell.mark(slot)));
        assert!(!bell.try_sleep(), "slots are marked");
        assert!(!bell.mark(1), "it did not fall asleep");
        let mut seen = Vec::new();
        bell.drain(127, |slot| seen.push(slot));
        assert_eq!(seen, [0, 1, 64, 67]);
    }
}
