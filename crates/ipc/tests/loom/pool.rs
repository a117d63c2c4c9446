//! The way of a request to a worker: the queue, the slots' states, the workers that sleep, and
//! those that die.

use std::convert::Infallible;

use howdah_ipc::idle_set::IdleSet;
use howdah_ipc::layout::{SlotPhase, SlotState};
use howdah_ipc::queue::{Producer, Queue};
use howdah_ipc::slot::StateWord;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use loom::thread;

use crate::{Futex, model};

/// The words of a pool with two workers and as many slots as the queue has entries.
struct Pool {
    head: AtomicU32,
    tail: AtomicU32,
    entries: Vec<AtomicU32>,
    idle: Vec<AtomicU64>,
    wake: [AtomicU32; 2],
    beds: [Futex; 2],
    states: Vec<AtomicU64>,
}

impl Pool {
    fn new(slots: usize) -> Arc<Pool> {
        Arc::new(Pool {
            head: AtomicU32::new(0),
            tail: AtomicU32::new(0),
            entries: (0..slots).map(|_| AtomicU32::new(0)).collect(),
            idle: vec![AtomicU64::new(0)],
            wake: [AtomicU32::new(0), AtomicU32::new(0)],
            beds: [Futex::new(), Futex::new()],
            states: (0..slots).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    fn queue(&self) -> Queue<'_> {
        Queue {
            head: &self.head,
            tail: &self.tail,
            entries: &self.entries,
        }
    }

    fn idle(&self) -> IdleSet<'_> {
        IdleSet(&self.idle)
    }

    fn state(&self, slot: usize) -> StateWord<'_> {
        StateWord(&self.states[slot])
    }

    /// Queues a request like `FrontRegion::submit`.
    fn submit(&self, producer: &mut Producer, slot: usize, generation: u32) {
        self.state(slot).submit(generation);
        producer.enter(&self.queue(), slot).unwrap();
        self.wake_worker();
    }

    /// Queues the Queued slots again, like `FrontRegion::worker_died`.
    fn worker_died(&self, producer: &mut Producer) {
        for slot in 0..self.states.len() {
            if self.state(slot).load().unwrap().phase == SlotPhase::Queued {
                producer.enter(&self.queue(), slot).unwrap();
                self.wake_worker();
            }
        }
    }

    fn wake_worker(&self) {
        if let Some(worker) = self.idle().claim(2) {
            self.wake[worker].store(1, Ordering::Release);
            self.beds[worker].wake();
        }
    }

    /// Records a death like `Attachment::record_death`.
    fn record_death(&self, worker: usize) {
        self.idle().withdraw(worker);
        self.wake[worker].store(0, Ordering::Release);
    }

    fn sleep(&self, worker: usize, stop: impl Fn() -> bool) {
        let wait = |word: &_| {
            self.beds[worker].wait(word, 0);
            Ok::<_, Infallible>(())
        };
        let Ok(()) = self.idle().sleep(worker, &self.wake[worker], &self.queue(), stop, wait);
    }

    /// One look at the queue.
    fn try_take(&self, worker: usize) -> Option<SlotState> {
        let slot = self.queue().pop()?;
        self.state(slot as usize).take(worker as u16, 0)
    }

    /// Waits for a slot and takes it, like `Worker::next`.
    fn take(&self, worker: usize) -> u32 {
        loop {
            match self.queue().pop() {
                Some(slot) if self.state(slot as usize).take(worker as u16, 0).is_some() => {
                    return slot;
                }
                Some(_) => {}
                None => self.sleep(worker, || false),
            }
        }
    }

    /// Returns what is left after all others have ended.
    fn rest(&self) -> Vec<SlotState> {
        let mut taken = Vec::new();
        while let Some(slot) = self.queue().pop() {
            taken.extend(self.state(slot as usize).take(1, 0));
        }
        taken
    }
}

/// Guards: the Release of `tail` and `head`'s Acquire (else an entry is read before it is there, or
/// overwritten while it is read), and the read of the entry before the claim.
#[test]
fn two_consumers_share_what_one_producer_enters_around_the_ring() {
    model(3, || {
        let pool = Pool::new(2);
        let consumers: Vec<_> = (0..2)
            .map(|_| {
                let pool = pool.clone();
                thread::spawn(move || [pool.queue().pop(), pool.queue().pop()])
            })
            .collect();
        let mut producer = Producer::new(4);
        let mut refused = Vec::new();
        for slot in 0..4 {
            // A full queue is an error in a pool, where each slot has its entry; here there are
            // more slots than entries.
            if producer.enter(&pool.queue(), slot).is_err() {
                refused.push(slot as u32);
            }
        }
        let mut seen = refused;
        for consumer in consumers {
            seen.extend(consumer.join().unwrap().into_iter().flatten());
        }
        seen.extend(std::iter::from_fn(|| pool.queue().pop()));
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3]);
    });
}

/// Guards: `take` being one compare-and-swap, `FrontRegion::worker_died` entering anew what waits.
#[test]
fn a_request_whose_consumer_died_before_it_took_it_is_taken_once() {
    model(4, || {
        let pool = Pool::new(1);
        let mut producer = Producer::new(1);
        pool.submit(&mut producer, 0, 1);
        let dying = {
            let pool = pool.clone();
            thread::spawn(move || pool.queue().pop().is_some())
        };
        let living = {
            let pool = pool.clone();
            thread::spawn(move || [pool.try_take(1), pool.try_take(1)])
        };
        dying.join().unwrap();
        pool.worker_died(&mut producer);
        let taken = living.join().unwrap().into_iter().flatten().count();
        assert_eq!(taken + pool.rest().len(), 1);
    });
}

/// A worker is between queue and slot while another one's death has its request entered anew.
/// Guards: `take` being one compare-and-swap.
#[test]
fn a_request_entered_twice_is_taken_once() {
    model(4, || {
        let pool = Pool::new(1);
        let mut producer = Producer::new(1);
        pool.submit(&mut producer, 0, 1);
        let workers: Vec<_> = (0..2)
            .map(|worker| {
                let pool = pool.clone();
                thread::spawn(move || pool.try_take(worker))
            })
            .collect();
        pool.worker_died(&mut producer);
        let taken = workers.into_iter().filter_map(|worker| worker.join().unwrap()).count();
        assert_eq!(taken + pool.rest().len(), 1);
    });
}

/// Guards: both fences of the pair `Producer::enter` and `Queue::pop`, and the second look between
/// them.
#[test]
fn a_request_in_the_place_of_a_cancelled_one_is_not_forgotten() {
    model(4, || {
        let pool = Pool::new(1);
        let mut producer = Producer::new(1);
        pool.submit(&mut producer, 0, 1);
        let worker = {
            let pool = pool.clone();
            thread::spawn(move || pool.try_take(0))
        };
        let cancelled = pool.state(0).cancel(1);
        if cancelled {
            pool.submit(&mut producer, 0, 2);
        }
        let mut taken: Vec<SlotState> = worker.join().unwrap().into_iter().collect();
        taken.extend(pool.rest());
        let generations: Vec<_> = taken.iter().map(|state| state.generation).collect();
        assert_eq!(generations, [1 + u32::from(cancelled)]);
    });
}

/// The worker that takes a slot sees what the front wrote into it; what the worker wrote, the
/// front sees with Done. Guards: Release of `submit` and `finish`, Acquire of `look` and of either
/// access in `take`.
#[test]
fn request_and_response_are_seen_whole() {
    model(3, || {
        let pool = Pool::new(1);
        let areas = Arc::new((UnsafeCell::new(()), UnsafeCell::new(())));
        let worker = {
            let (pool, areas) = (pool.clone(), areas.clone());
            thread::spawn(move || {
                // Straight to the slot, by an entry of an earlier use, so that the queue orders
                // nothing.
                if let Some(taken) = pool.state(0).take(0, 0) {
                    areas.0.with(|_request| ());
                    areas.1.with_mut(|_response| ());
                    pool.state(0).finish(taken);
                }
            })
        };
        areas.0.with_mut(|_request| ());
        pool.state(0).submit(1);
        // Else loom does not see that the worker may be through by now.
        thread::yield_now();
        if pool.state(0).load().unwrap().phase == SlotPhase::Done {
            areas.1.with(|_response| ());
        }
        worker.join().unwrap();
    });
}

/// Guards: the fences of `IdleSet::announce` and `claim`, the second look at the queue in `sleep`.
#[test]
fn two_workers_that_fall_asleep_are_both_woken_for_two_requests() {
    model(3, || {
        let pool = Pool::new(2);
        let workers: Vec<_> = (0..2)
            .map(|worker| {
                let pool = pool.clone();
                thread::spawn(move || pool.take(worker))
            })
            .collect();
        let mut producer = Producer::new(2);
        pool.submit(&mut producer, 0, 1);
        pool.submit(&mut producer, 1, 1);
        let mut taken: Vec<_> = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
        taken.sort_unstable();
        assert_eq!(taken, [0, 1]);
    });
}

/// One worker after the other: it sleeps, works, and sleeps again, while wake-ups come late.
/// Guards: the same as above, and `wake` being cleared before the next look at the queue.
#[test]
fn a_worker_that_sleeps_twice_takes_both_requests() {
    model(4, || {
        let pool = Pool::new(2);
        let worker = {
            let pool = pool.clone();
            thread::spawn(move || [pool.take(0), pool.take(0)])
        };
        let mut producer = Producer::new(2);
        pool.submit(&mut producer, 0, 1);
        pool.submit(&mut producer, 1, 1);
        assert_eq!(worker.join().unwrap(), [0, 1]);
    });
}

/// A worker dies after it said that it sleeps; the only wake-up may have been meant for it.
/// Guards: `worker_died` waking another one.
#[test]
fn a_wake_up_that_a_dead_worker_slept_through_is_given_to_another() {
    model(4, || {
        let pool = Pool::new(1);
        let dying = {
            let pool = pool.clone();
            thread::spawn(move || pool.idle().announce(0))
        };
        let living = {
            let pool = pool.clone();
            thread::spawn(move || pool.take(1))
        };
        let mut producer = Producer::new(1);
        pool.submit(&mut producer, 0, 1);
        dying.join().unwrap();
        pool.record_death(0);
        pool.worker_died(&mut producer);
        assert_eq!(living.join().unwrap(), 0);
    });
}

/// The zygote nudges a worker to stop while the front hands it work: it stops, and what it leaves
/// is entered for others. Guards: no single line; that a wake and a claim do not get into each
/// other's way.
#[test]
fn a_worker_told_to_stop_stops_and_loses_nothing() {
    model(4, || {
        let pool = Pool::new(1);
        let stop = Arc::new(AtomicU32::new(0));
        let worker = {
            let (pool, stop) = (pool.clone(), stop.clone());
            thread::spawn(move || {
                let stopped = || stop.load(Ordering::Acquire) != 0;
                while !stopped() {
                    match pool.try_take(0) {
                        Some(_) => return 1,
                        None => pool.sleep(0, stopped),
                    }
                }
                0
            })
        };
        let zygote = {
            let pool = pool.clone();
            thread::spawn(move || {
                stop.store(1, Ordering::Release);
                pool.wake[0].store(1, Ordering::Release);
                pool.beds[0].wake();
            })
        };
        let mut producer = Producer::new(1);
        pool.submit(&mut producer, 0, 1);
        let taken = worker.join().unwrap();
        zygote.join().unwrap();
        pool.record_death(0);
        pool.worker_died(&mut producer);
        assert_eq!(taken + pool.rest().len(), 1);
    });
}

/// Two workers, of which one should be awake: `resting` of them find out at once that they are one
/// too many, the other sleeps as usual.
fn one_of_two_stays_awake(resting: usize) {
    let pool = Pool::new(1);
    let over = Arc::new(AtomicU32::new(0));
    let workers: Vec<_> = (0..2)
        .map(|worker| {
            let (pool, over) = (pool.clone(), over.clone());
            thread::spawn(move || {
                let stop = || over.load(Ordering::Acquire) != 0;
                if worker < resting {
                    let still = || 2 - pool.idle().count() >= 1;
                    let wait = |word: &_| {
                        pool.beds[worker].wait(word, 0);
                        Ok::<_, Infallible>(())
                    };
                    let Ok(()) =
                        pool.idle().sleep_surplus(worker, &pool.wake[worker], still, stop, wait);
                }
                while !stop() {
                    if pool.try_take(worker).is_some() {
                        over.store(1, Ordering::Release);
                        // The other one fences when it announces itself.
                        fence(Ordering::SeqCst);
                        pool.wake[1 - worker].store(1, Ordering::Release);
                        pool.beds[1 - worker].wake();
                        return 1;
                    }
                    pool.sleep(worker, stop);
                }
                0
            })
        })
        .collect();
    let mut producer = Producer::new(1);
    pool.submit(&mut producer, 0, 1);
    let taken: usize = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
    assert_eq!(taken, 1);
}

/// Guards: `rest` asking `still` again.
#[test]
fn of_two_workers_that_are_one_too_many_one_goes_on() {
    model(3, || one_of_two_stays_awake(2));
}

/// Guards: the same as for those who sleep.
#[test]
fn a_worker_that_rests_leaves_nothing_undone() {
    model(3, || one_of_two_stays_awake(1));
}
