//! The request queue and the idle set: how work finds a worker.
//!
//! The queue is a bounded ring with one producer (the front's threads take turns behind a lock of the front's own) and
//! many consumers. A consumer claims an entry with a single compare-and-swap on `head`, so one that dies before it has
//! claimed nothing, and one that dies after has left no half-finished state behind that others would wait for.

use crate::Corrupt;
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// The queue's words. All counters only grow, wrapping at 2³².
#[derive(Debug, Clone, Copy)]
pub struct Queue<'r> {
    /// How many entries were taken. Written by consumers.
    pub head: &'r AtomicU32,
    /// How many entries were put in. Written by the producer.
    pub tail: &'r AtomicU32,
    /// A power of two of entries.
    pub entries: &'r [AtomicU32],
}

impl Queue<'_> {
    /// Puts `entry` in. `tail` is the producer's own count, never read back from shared memory.
    ///
    /// `Ok(false)` says that the queue is full.
    pub fn push(&self, tail: &mut u32, entry: u32) -> Result<bool, Corrupt> {
        let used = tail.wrapping_sub(self.head.load(Ordering::Acquire));
        let room = self.entries.len() as u32;
        if used > room {
            return Err(Corrupt("the head of the queue is not behind its tail"));
        }
        if used == room {
            return Ok(false);
        }
        self.entries[(*tail & (room - 1)) as usize].store(entry, Ordering::Relaxed);
        *tail = tail.wrapping_add(1);
        self.tail.store(*tail, Ordering::Release);
        Ok(true)
    }

    /// Takes the oldest entry.
    pub fn pop(&self) -> Option<u32> {
        let mask = self.entries.len() as u32 - 1;
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            if head == self.tail.load(Ordering::Acquire) {
                return None;
            }
            // Read before the claim: the producer may overwrite this entry only after `head` has moved past it, and then
            // the claim below fails.
            let entry = self.entries[(head & mask) as usize].load(Ordering::Relaxed);
            let next = head.wrapping_add(1);
            match self
                .head
                .compare_exchange_weak(head, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Some(entry),
                Err(moved) => head = moved,
            }
        }
    }

    /// Whether `entry` still waits in the queue, as far as can be told while others take from it.
    pub fn holds(&self, tail: u32, entry: u32) -> bool {
        let room = self.entries.len() as u32;
        let waiting = tail.wrapping_sub(self.head.load(Ordering::Acquire)).min(room);
        (1..=waiting).any(|back| {
            let position = tail.wrapping_sub(back) & (room - 1);
            self.entries[position as usize].load(Ordering::Relaxed) == entry
        })
    }

    /// Whether there was nothing to take just now.
    pub fn is_empty(&self) -> bool {
        self.head.load(Ordering::Acquire) == self.tail.load(Ordering::Acquire)
    }
}

/// One bit per worker that sleeps, or is about to.
///
/// The lowest bit is woken first: the same few workers do the work while there is little of it, with warm caches, and
/// the highest ones stay idle and can be given up.
#[derive(Debug, Clone, Copy)]
pub struct IdleSet<'r>(pub &'r [AtomicU64]);

impl IdleSet<'_> {
    /// The worker says that it is going to sleep. It must look at the queue once more after this.
    pub fn announce(&self, worker: usize) {
        self.0[worker / 64].fetch_or(1 << (worker % 64), Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// The worker takes its word back. `false`: it was claimed meanwhile, and a wake-up is on its way.
    pub fn withdraw(&self, worker: usize) -> bool {
        let bit = 1 << (worker % 64);
        self.0[worker / 64].fetch_and(!bit, Ordering::AcqRel) & bit != 0
    }

    /// Claims a sleeping worker below `workers`; the caller must wake it. Call it after the work was published.
    pub fn claim(&self, workers: usize) -> Option<usize> {
        fence(Ordering::SeqCst);
        for (position, word) in self.0.iter().enumerate() {
            // One look per word: a hostile worker that sets bits again and again must not keep us here. Who announces
            // itself after this look sees the work that was published before it.
            let mut bits = word.load(Ordering::Acquire);
            while bits != 0 {
                let bit = bits & bits.wrapping_neg();
                bits &= !bit;
                let worker = position * 64 + bit.trailing_zeros() as usize;
                // A bit beyond the pool's workers is nobody to wake.
                if word.fetch_and(!bit, Ordering::AcqRel) & bit != 0 && worker < workers {
                    return Some(worker);
                }
            }
        }
        None
    }
}

/// A front thread's bell: which slots have news, and whether the thread must be woken to see them.
#[derive(Debug, Clone, Copy)]
pub struct Doorbell<'r> {
    /// 1 while the thread sleeps, or is about to.
    pub sleeping: &'r AtomicU32,
    /// One bit per slot.
    pub ready: &'r [AtomicU64],
}

impl Doorbell<'_> {
    /// The worker marks `slot`. `true`: the thread sleeps, and the caller, alone, must wake it.
    pub fn mark(&self, slot: usize) -> bool {
        self.ready[slot / 64].fetch_or(1 << (slot % 64), Ordering::AcqRel);
        fence(Ordering::SeqCst);
        self.sleeping.load(Ordering::Relaxed) == 1 && self.sleeping.swap(0, Ordering::AcqRel) == 1
    }

    /// The thread is about to sleep. `false`: there is news, do not sleep.
    pub fn try_sleep(&self) -> bool {
        self.sleeping.store(1, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.ready.iter().all(|word| word.load(Ordering::Acquire) == 0) {
            return true;
        }
        self.sleeping.store(0, Ordering::Release);
        false
    }

    /// The thread is awake.
    pub fn woke(&self) {
        self.sleeping.store(0, Ordering::Release);
    }

    /// Takes the marks, calling `each` for every marked slot below `slots`.
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

    fn words<const N: usize>() -> [AtomicU32; N] {
        [const { AtomicU32::new(0) }; N]
    }

    #[test]
    fn first_in_first_out_and_bounded() {
        let (head, tail, entries) = (AtomicU32::new(0), AtomicU32::new(0), words::<4>());
        let queue = Queue {
            head: &head,
            tail: &tail,
            entries: &entries,
        };
        let mut count = 0;
        for entry in 10..14 {
            assert_eq!(queue.push(&mut count, entry), Ok(true));
        }
        assert_eq!(queue.push(&mut count, 14), Ok(false));
        assert_eq!(queue.pop(), Some(10));
        assert_eq!(queue.push(&mut count, 14), Ok(true));
        assert_eq!(
            (11..15).map(|_| queue.pop().unwrap()).collect::<Vec<_>>(),
            [11, 12, 13, 14]
        );
        assert_eq!(queue.pop(), None);
        assert!(queue.is_empty());
    }

    #[test]
    fn an_entry_is_held_until_it_is_taken() {
        let (head, tail, entries) = (AtomicU32::new(0), AtomicU32::new(0), words::<4>());
        let queue = Queue {
            head: &head,
            tail: &tail,
            entries: &entries,
        };
        let mut count = 0;
        queue.push(&mut count, 5).unwrap();
        queue.push(&mut count, 6).unwrap();
        assert!(queue.holds(count, 5) && queue.holds(count, 6) && !queue.holds(count, 7));
        queue.pop();
        assert!(!queue.holds(count, 5) && queue.holds(count, 6));
    }

    #[test]
    fn counters_wrap() {
        let start = u32::MAX - 1;
        let (head, tail, entries) = (AtomicU32::new(start), AtomicU32::new(start), words::<2>());
        let queue = Queue {
            head: &head,
            tail: &tail,
            entries: &entries,
        };
        let mut count = start;
        for entry in 0..8 {
            assert_eq!(queue.push(&mut count, entry), Ok(true));
            assert_eq!(queue.pop(), Some(entry));
        }
    }

    #[test]
    fn a_nonsense_head_is_told() {
        let (head, tail, entries) = (AtomicU32::new(77), AtomicU32::new(0), words::<4>());
        let queue = Queue {
            head: &head,
            tail: &tail,
            entries: &entries,
        };
        assert!(queue.push(&mut 0, 1).is_err());
    }

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
    fn an_idle_bit_beyond_the_workers_wakes_nobody() {
        let words = [AtomicU64::new(u64::MAX)];
        let idle = IdleSet(&words);
        assert_eq!(
            (0..5).map(|_| idle.claim(2)).collect::<Vec<_>>(),
            [Some(0), Some(1), None, None, None]
        );
    }

    #[test]
    fn a_mark_wakes_a_sleeper_once() {
        let (sleeping, ready) = (AtomicU32::new(0), [AtomicU64::new(0)]);
        let bell = Doorbell {
            sleeping: &sleeping,
            ready: &ready,
        };
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
}
