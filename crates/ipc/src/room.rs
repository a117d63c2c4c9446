//! Room in a response ring: how a worker waits for it, and how the front gives it.

use crate::sync::{AtomicU32, AtomicU64, Ordering, clear, fence};

/// The words of a slot that say how much the front has taken, and whether anybody waits for more.
#[derive(Debug, Clone, Copy)]
pub struct Room<'r> {
    /// Bytes given back so far, counted from the start of the response. Written by the front.
    pub consumed: &'r AtomicU64,
    /// 1 while the worker waits for room, or is about to: the futex it sleeps on. Either side
    /// clears it.
    pub starved: &'r AtomicU32,
    /// 1 once nobody wants the rest. Written by the front.
    pub aborted: &'r AtomicU32,
}

impl Room<'_> {
    /// Front, while the slot is free.
    pub fn reset(&self) {
        self.consumed.store(0, Ordering::Relaxed);
        self.starved.store(0, Ordering::Relaxed);
        self.aborted.store(0, Ordering::Relaxed);
    }

    /// Worker: waits until more than `seen` bytes are consumed, or nobody wants the rest, or
    /// `sleep` has enough of it.
    ///
    /// `tell` must bring the front to look at the ring. `sleep` must sleep only while the word it
    /// is given is 1.
    pub fn wait(&self, seen: u64, tell: impl FnOnce(), sleep: impl FnOnce(&AtomicU32)) {
        self.starved.store(1, Ordering::Release);
        tell();
        fence(Ordering::SeqCst);
        if self.consumed.load(Ordering::Acquire) == seen && !self.is_aborted() {
            sleep(self.starved);
        }
        self.starved.store(0, Ordering::Release);
    }

    /// Worker: whether nobody wants the rest.
    pub fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Acquire) != 0
    }

    /// Front: says how much it has consumed. `true`: the worker waits for that, and the caller must
    /// wake it; not asked for if `worth_waking` is false, and then the worker sleeps on until it
    /// is.
    #[must_use = "a worker that waits must be woken"]
    pub fn give_back(&self, consumed: u64, worth_waking: bool) -> bool {
        self.consumed.store(consumed, Ordering::Release);
        fence(Ordering::SeqCst);
        worth_waking && self.starved.load(Ordering::Relaxed) == 1 && clear(self.starved)
    }

    /// Front: nobody wants the rest. The caller must wake whoever sleeps on `starved`.
    pub fn abort(&self) {
        self.aborted.store(1, Ordering::Release);
        // A worker that sets `starved` after we cleared it looks at `aborted` after that, and must
        // see it.
        fence(Ordering::SeqCst);
        self.starved.store(0, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_who_waits_is_woken() {
        let (consumed, starved, aborted) =
            (AtomicU64::new(0), AtomicU32::new(0), AtomicU32::new(0));
        let room = Room {
            consumed: &consumed,
            starved: &starved,
            aborted: &aborted,
        };
        assert!(!room.give_back(1, true));
        let mut slept = false;
        room.wait(0, || {}, |_| slept = true);
        assert!(!slept, "there was room");
        let woken = |worth_waking| {
            let mut woken = false;
            room.wait(1, || {}, |_| woken = room.give_back(1, worth_waking));
            woken
        };
        assert!(woken(true));
        assert!(!woken(false));
        room.abort();
        room.wait(1, || {}, |_| slept = true);
        assert!(!slept, "nobody wants more");
    }
}
