//! Flow control of a response ring: how a worker waits for space, and how the front gives space
//! back.

use crate::sync::{AtomicU32, AtomicU64, Ordering, clear, fence};

/// The words of a slot that say how much the front has consumed, and whether the worker waits.
#[derive(Debug, Clone, Copy)]
pub struct FlowControl<'r> {
    /// Bytes that the front has given back, counted from the start of the response. Written by the
    /// front.
    pub consumed: &'r AtomicU64,
    /// 1 while the worker waits for space or is about to: the futex that the worker sleeps on.
    /// Either side clears it.
    pub starved: &'r AtomicU32,
    /// An [`AbortReason`] once the rest of the response is not wanted, otherwise 0. Written by the
    /// front.
    pub aborted: &'r AtomicU32,
}

/// The reason why the rest of a response is not wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum AbortReason {
    /// No reader is left.
    Unread = 1,
    /// The script has missed its deadline.
    Late = 2,
}

impl FlowControl<'_> {
    /// Front: resets the words. The slot must be free.
    pub fn reset(&self) {
        self.consumed.store(0, Ordering::Relaxed);
        self.starved.store(0, Ordering::Relaxed);
        self.aborted.store(0, Ordering::Relaxed);
    }

    /// Worker: waits until more than `seen` bytes are consumed, the response is aborted, or `sleep`
    /// returns.
    ///
    /// `tell` must make the front look at the ring. `sleep` must sleep only while the word it is
    /// given is 1.
    pub fn wait(&self, seen: u64, tell: impl FnOnce(), sleep: impl FnOnce(&AtomicU32)) {
        self.starved.store(1, Ordering::Release);
        tell();
        fence(Ordering::SeqCst);
        if self.consumed.load(Ordering::Acquire) == seen && !self.is_aborted() {
            sleep(self.starved);
        }
        self.starved.store(0, Ordering::Release);
    }

    /// Worker: returns whether the rest of the response is not wanted.
    pub fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Acquire) != 0
    }

    /// Worker: returns whether the response was aborted because the script has missed its deadline.
    pub fn is_late(&self) -> bool {
        self.aborted.load(Ordering::Acquire) == AbortReason::Late as u32
    }

    /// Front: stores the number of consumed bytes. Returns `true` if the worker waits; the caller
    /// must wake it then. With `worth_waking` false, the worker is left asleep and the result is
    /// `false`.
    #[must_use = "a worker that waits must be woken"]
    pub fn give_back(&self, consumed: u64, worth_waking: bool) -> bool {
        self.consumed.store(consumed, Ordering::Release);
        fence(Ordering::SeqCst);
        worth_waking && self.starved.load(Ordering::Relaxed) == 1 && clear(self.starved)
    }

    /// Front: aborts the response. The caller must wake the worker that may sleep on `starved`.
    pub fn abort(&self, reason: AbortReason) {
        self.aborted.store(reason as u32, Ordering::Release);
        // A worker that sets `starved` after the front cleared it reads `aborted` afterwards, and
        // must see the new value.
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
        let room = FlowControl {
            consumed: &consumed,
            starved: &starved,
            aborted: &aborted,
        };
        assert!(!room.give_back(1, true));
        let mut slept = false;
        room.wait(0, || {}, |_| slept = true);
        assert!(!slept, "there was room");
        let woken = |worth_waking| {
            let mut woken = [false; 2];
            room.wait(1, || {}, |_| woken = [(); 2].map(|()| room.give_back(1, worth_waking)));
            woken
        };
        assert_eq!(woken(true), [true, false], "it is woken once");
        assert_eq!(woken(false), [false, false]);
        for reason in [AbortReason::Unread, AbortReason::Late] {
            room.reset();
            assert_eq!((room.is_aborted(), room.is_late()), (false, false));
            room.abort(reason);
            assert_eq!((room.is_aborted(), room.is_late()), (true, reason == AbortReason::Late));
            room.wait(0, || {}, |_| slept = true);
            assert!(!slept, "nobody wants more");
        }
    }
}
