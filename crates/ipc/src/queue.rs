//! The request queue, the idle set and the front's doorbells: how work finds a worker, and its
//! answer the way back.
//!
//! The queue is a bounded ring with one producer (the front's threads take turns behind a lock of
//! the front's own) and many consumers. A consumer claims an entry with a single compare-and-swap
//! on `head`, so one that dies before it has claimed nothing, and one that dies after has left no
//! half-finished state behind that others would wait for.
//!
//! An entry is the index of a slot and says: look there. What is to be done there, the slot's state
//! word says alone. So the entry of a request that was cancelled stays in the queue and serves the
//! slot's next request; no slot is in the queue twice, and the queue never overflows.

use crate::Corrupt;
use crate::sync::{AtomicU32, AtomicU64, Ordering, clear, fence};

/// The queue's words. Both counters only grow, wrapping at 2³².
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
    /// Takes the oldest entry. What the producer did to the slot before it found this entry still
    /// waiting is visible to the caller.
    pub fn pop(&self) -> Option<u32> {
        let mask = self.entries.len() as u32 - 1;
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            if head == self.tail.load(Ordering::Acquire) {
                return None;
            }
            // Read before the claim: the producer may overwrite this entry only after `head` has
            // moved past it, and then the claim below fails.
            let entry = self.entries[(head & mask) as usize].load(Ordering::Relaxed);
            let next = head.wrapping_add(1);
            match self.head.compare_exchange_weak(head, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    // The other half of the fence in `Producer::enter`.
                    fence(Ordering::SeqCst);
                    return Some(entry);
                }
                Err(moved) => head = moved,
            }
        }
    }

    /// Whether there was nothing to take just now.
    pub fn is_empty(&self) -> bool {
        self.head.load(Ordering::Acquire) == self.tail.load(Ordering::Acquire)
    }
}

/// What the producer knows by itself: of the queue it reads nothing but `head`, and that with
/// suspicion.
#[derive(Debug)]
pub struct Producer {
    /// How many entries were put in. Its low half is the queue's `tail`.
    tail: u64,
    /// How many entries were taken when it last looked.
    taken: u64,
    /// By slot: `tail` after its last entry was put in; 0 for none.
    entered: Vec<u64>,
}

impl Producer {
    /// The producer of an empty queue that has room for an entry of each slot.
    pub fn new(slots: usize) -> Producer {
        Producer {
            tail: 0,
            taken: 0,
            entered: vec![0; slots],
        }
    }

    /// Sees to it that a consumer will look at `slot`, whose state was stored before: puts an entry
    /// in, unless the one of a former use of the slot still waits there.
    pub fn enter(&mut self, queue: &Queue<'_>, slot: usize) -> Result<(), Corrupt> {
        if self.waits(queue, slot)? {
            // A consumer may take that entry just now. Either it has not and will see the slot's
            // new state, or we see that it has.
            fence(Ordering::SeqCst);
            if self.waits(queue, slot)? {
                return Ok(());
            }
        }
        let room = queue.entries.len() as u32;
        if self.waiting(queue)? >= u64::from(room) {
            return Err(Corrupt("the queue is full although no slot is in it twice"));
        }
        let position = self.tail as u32 & (room - 1);
        queue.entries[position as usize].store(slot as u32, Ordering::Relaxed);
        self.tail += 1;
        self.entered[slot] = self.tail;
        queue.tail.store(self.tail as u32, Ordering::Release);
        Ok(())
    }

    /// Whether the last entry of `slot` has not been taken yet.
    fn waits(&mut self, queue: &Queue<'_>, slot: usize) -> Result<bool, Corrupt> {
        let waiting = self.waiting(queue)?;
        Ok(self.tail - self.entered[slot] < waiting)
    }

    /// How many entries have not been taken yet.
    fn waiting(&mut self, queue: &Queue<'_>) -> Result<u64, Corrupt> {
        let head = queue.head.load(Ordering::Acquire);
        let waiting = (self.tail as u32).wrapping_sub(head).into();
        // A head that went back would have us believe that entries still wait which were taken long
        // ago.
        if waiting > self.tail - self.taken {
            return Err(Corrupt(
                "the head of the queue is not where it was, nor between there and the tail",
            ));
        }
        self.taken = self.tail - waiting;
        Ok(waiting)
    }
}

/// One bit per worker that sleeps, or is about to.
///
/// The lowest bit is woken first: the same few workers do the work while there is little of it,
/// with warm caches, and the highest ones stay idle and can be given up.
#[derive(Debug, Clone, Copy)]
pub struct IdleSet<'r>(pub &'r [AtomicU64]);

impl IdleSet<'_> {
    /// The worker says that it is going to sleep. It must look at the queue once more after this.
    pub fn announce(&self, worker: usize) {
        self.0[worker / 64].fetch_or(1 << (worker % 64), Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// The worker takes its word back. `false`: it was claimed meanwhile, and a wake-up is on its
    /// way.
    pub fn withdraw(&self, worker: usize) -> bool {
        let bit = 1 << (worker % 64);
        self.0[worker / 64].fetch_and(!bit, Ordering::AcqRel) & bit != 0
    }

    /// The worker sleeps until it is woken through `wake`, `queue` has something to take, or `stop`
    /// says so.
    ///
    /// `wait` must sleep only while the word it is given is 0; it may come back too early.
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

    /// As [`IdleSet::sleep`], for a worker that is one too many, whatever is in the queue. `still`
    /// is asked again once it has announced itself, so that of several that find out at once not
    /// more go than should.
    pub fn rest<E>(
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
        // A wake-up that comes after this wakes us once too often; one before it was for what we
        // look for next.
        wake.store(0, Ordering::Release);
        Ok(())
    }

    /// Number of workers that sleep, or are about to.
    pub fn count(&self) -> usize {
        self.0
            .iter()
            .map(|word| word.load(Ordering::Acquire).count_ones() as usize)
            .sum()
    }

    /// Claims a sleeping worker below `workers`; the caller must wake it. Call it after the work
    /// was published.
    pub fn claim(&self, workers: usize) -> Option<usize> {
        fence(Ordering::SeqCst);
        for (position, word) in self.0.iter().enumerate() {
            // One look per word: a hostile worker that sets bits again and again must not keep us
            // here. Who announces itself after this look sees the work that was published before
            // it.
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
        self.sleeping.load(Ordering::Relaxed) == 1 && clear(self.sleeping)
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
        let mut producer = Producer::new(5);
        for slot in 0..4 {
            assert_eq!(producer.enter(&queue, slot), Ok(()));
        }
        assert!(producer.enter(&queue, 4).is_err());
        assert_eq!(queue.pop(), Some(0));
        assert_eq!(producer.enter(&queue, 4), Ok(()));
        assert_eq!((0..4).map(|_| queue.pop().unwrap()).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(queue.pop(), None);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_slot_that_waits_already_is_not_entered_again() {
        let (head, tail, entries) = (AtomicU32::new(0), AtomicU32::new(0), words::<2>());
        let queue = Queue {
            head: &head,
            tail: &tail,
            entries: &entries,
        };
        let mut producer = Producer::new(2);
        for _ in 0..10 {
            assert_eq!(producer.enter(&queue, 1), Ok(()));
            assert_eq!(producer.enter(&queue, 0), Ok(()));
        }
        assert_eq!((queue.pop(), queue.pop(), queue.pop()), (Some(1), Some(0), None));
        assert_eq!(producer.enter(&queue, 0), Ok(()));
        assert_eq!(queue.pop(), Some(0));
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
        let mut producer = Producer {
            tail: start.into(),
            taken: start.into(),
            entered: vec![0; 2],
        };
        for slot in [0, 1, 1, 0, 1, 0, 0, 1] {
            assert_eq!(producer.enter(&queue, slot), Ok(()));
            assert_eq!(producer.enter(&queue, slot), Ok(()));
            assert_eq!(queue.pop(), Some(slot as u32));
            assert_eq!(queue.pop(), None);
        }
    }

    #[test]
    fn a_nonsense_head_is_told() {
        let (head, tail, entries) = (AtomicU32::new(0), AtomicU32::new(0), words::<4>());
        let queue = Queue {
            head: &head,
            tail: &tail,
            entries: &entries,
        };
        let mut producer = Producer::new(4);
        for slot in 0..3 {
            producer.enter(&queue, slot).unwrap();
            queue.pop();
        }
        for nonsense in [0, 1, 4, 77, u32::MAX] {
            head.store(nonsense, Ordering::Relaxed);
            assert!(producer.enter(&queue, 1).is_err(), "{nonsense}");
        }
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
}
