//! The request queue, the idle set and the front's doorbells: how a request finds a worker, and how
//! the front learns of the response.
//!
//! The queue is a bounded ring with one producer and many consumers. The front's threads produce
//! under a lock of the front. A consumer claims an entry with a single compare-and-swap on `head`.
//! A consumer that dies before the claim has changed nothing, and one that dies after it leaves no
//! half-finished state for others to wait for.
//!
//! An entry is the index of a slot and means that a worker should look at the slot. Only the slot's
//! state word says whether there is a request. The entry of a cancelled request stays in the queue
//! and serves the slot's next request. Therefore no slot is in the queue twice, and the queue never
//! overflows.

use crate::Corrupt;
use crate::sync::{AtomicU32, AtomicU64, Ordering, clear, fence};

/// The queue's words. Both counters only grow, and wrap at 2³².
#[derive(Debug, Clone, Copy)]
pub struct Queue<'r> {
    /// Number of entries taken. Written by consumers.
    pub head: &'r AtomicU32,
    /// Number of entries put in. Written by the producer.
    pub tail: &'r AtomicU32,
    /// The entries; their number is a power of two.
    pub entries: &'r [AtomicU32],
}

impl Queue<'_> {
    /// Takes the oldest entry. The caller sees everything that the producer wrote to the slot
    /// before the producer found this entry still waiting. `None` if the queue is empty.
    pub fn pop(&self) -> Option<u32> {
        let mask = self.entries.len() as u32 - 1;
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            if head == self.tail.load(Ordering::Acquire) {
                return None;
            }
            // Read before the claim. The producer may overwrite this entry only after `head` has
            // moved past it, and the claim below fails then.
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

    /// Returns whether the queue was empty at the time of the call.
    pub fn is_empty(&self) -> bool {
        self.head.load(Ordering::Acquire) == self.tail.load(Ordering::Acquire)
    }
}

/// The producer's own state. The only word of the queue that the producer reads is `head`, which it
/// checks.
#[derive(Debug)]
pub struct Producer {
    /// Number of entries put in. The low half is the queue's `tail`.
    tail: u64,
    /// Number of entries taken when the producer last read `head`.
    taken: u64,
    /// By slot: `tail` after the slot's last entry was put in; 0 for none.
    entered: Vec<u64>,
}

impl Producer {
    /// The producer of an empty queue that has space for an entry of each slot.
    pub fn new(slots: usize) -> Producer {
        Producer {
            tail: 0,
            taken: 0,
            entered: vec![0; slots],
        }
    }

    /// Makes sure that a consumer will look at `slot`, whose state was stored before. Puts an entry
    /// in, unless the entry of an earlier use of the slot still waits.
    ///
    /// # Errors
    /// The queue's `head` has an impossible value.
    pub fn enter(&mut self, queue: &Queue<'_>, slot: usize) -> Result<(), Corrupt> {
        if self.waits(queue, slot)? {
            // A consumer may take that entry at the same moment. Either the consumer sees the
            // slot's new state, or the producer sees that the entry was taken.
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

    /// Returns whether the last entry of `slot` has not been taken yet.
    fn waits(&mut self, queue: &Queue<'_>, slot: usize) -> Result<bool, Corrupt> {
        let waiting = self.waiting(queue)?;
        Ok(self.tail - self.entered[slot] < waiting)
    }

    /// Number of entries that have not been taken yet.
    fn waiting(&mut self, queue: &Queue<'_>) -> Result<u64, Corrupt> {
        let head = queue.head.load(Ordering::Acquire);
        let waiting = (self.tail as u32).wrapping_sub(head).into();
        // A head that went back would make entries that were taken long ago look as if they still
        // wait.
        if waiting > self.tail - self.taken {
            return Err(Corrupt(
                "the queue's head is not between its last known value and the tail",
            ));
        }
        self.taken = self.tail - waiting;
        Ok(waiting)
    }
}

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

    /// As [`IdleSet::sleep`], for a surplus worker, which sleeps even if the queue is not empty.
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

    /// Whether the worker sleeps or is about to sleep.
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
    use std::cell::Cell;

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
        let (head, tail, entries) = (AtomicU32::new(0), AtomicU32::new(0), words::<2>());
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
