//! The request queue: how a request finds a worker.
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
use crate::sync::{AtomicU32, Ordering, fence};

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
}
