//! The shared-memory protocol under the loom model checker: every interleaving, and every value that the memory model
//! lets a load see, within a bound on preemptions.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p howdah-ipc --release --test loom --target-dir target/loom`
//!
//! Each test says what it guards: with that line taken out of the sources, the test fails. A lost wake-up shows as
//! loom's "deadlock", since the [`Futex`] here sleeps for good where the kernel's would.
#![cfg(loom)]
#![allow(clippy::unwrap_used)] // A test's helpers fail the test.

use std::convert::Infallible;

use howdah_ipc::layout::{Phase, State};
use howdah_ipc::queue::{Doorbell, IdleSet, Producer, Queue};
use howdah_ipc::room::Room;
use howdah_ipc::slot::StateWord;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

/// Explores `scenario` with at most `preemptions` involuntary switches per run.
fn model(preemptions: usize, scenario: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(scenario);
}

/// `futex(2)` on one word: compare and sleep are one step.
struct Futex {
    lock: Mutex<()>,
    sleepers: Condvar,
}

impl Futex {
    fn new() -> Futex {
        Futex {
            lock: Mutex::new(()),
            sleepers: Condvar::new(),
        }
    }

    fn wait(&self, word: &AtomicU32, expected: u32) {
        let guard = self.lock.lock().unwrap();
        if word.load(Ordering::Relaxed) == expected {
            drop(self.sleepers.wait(guard).unwrap());
        }
    }

    fn wake(&self) {
        drop(self.lock.lock().unwrap());
        self.sleepers.notify_one();
    }
}

/// `eventfd(2)`.
struct Bell {
    count: Mutex<u32>,
    listeners: Condvar,
}

impl Bell {
    fn new() -> Bell {
        Bell {
            count: Mutex::new(0),
            listeners: Condvar::new(),
        }
    }

    fn ring(&self) {
        *self.count.lock().unwrap() += 1;
        self.listeners.notify_one();
    }

    fn wait(&self) {
        let mut count = self.count.lock().unwrap();
        while *count == 0 {
            count = self.listeners.wait(count).unwrap();
        }
        *count = 0;
    }
}

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

    /// As `Front::submit`.
    fn submit(&self, producer: &mut Producer, slot: usize, generation: u32) {
        self.state(slot).submit(generation);
        producer.enter(&self.queue(), slot).unwrap();
        self.wake_worker();
    }

    /// As `Front::worker_died`, for its Queued slots.
    fn worker_died(&self, producer: &mut Producer) {
        for slot in 0..self.states.len() {
            if self.state(slot).look().unwrap().phase == Phase::Queued {
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

    /// As `Attachment::bury`.
    fn bury(&self, worker: usize) {
        self.idle().withdraw(worker);
        self.wake[worker].store(0, Ordering::Release);
    }

    fn sleep(&self, worker: usize, stop: impl Fn() -> bool) {
        let wait = |word: &_| {
            self.beds[worker].wait(word, 0);
            Ok::<_, Infallible>(())
        };
        let Ok(()) = self
            .idle()
            .sleep(worker, &self.wake[worker], &self.queue(), stop, wait);
    }

    /// One look at the queue.
    fn try_take(&self, worker: usize) -> Option<State> {
        let slot = self.queue().pop()?;
        self.state(slot as usize).take(worker as u16, 0)
    }

    /// As `Worker::next`: the slot taken.
    fn take(&self, worker: usize) -> u32 {
        loop {
            match self.queue().pop() {
                Some(slot) if self.state(slot as usize).take(worker as u16, 0).is_some() => return slot,
                Some(_) => {}
                None => self.sleep(worker, || false),
            }
        }
    }

    /// What is still to be had, after everybody else has ended.
    fn rest(&self) -> Vec<State> {
        let mut taken = Vec::new();
        while let Some(slot) = self.queue().pop() {
            taken.extend(self.state(slot as usize).take(1, 0));
        }
        taken
    }
}

/// Guards: the Release of `tail` and `head`'s Acquire (else an entry is read before it is there, or overwritten while it
/// is read), and the read of the entry before the claim.
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
            // A full queue is an error in a pool, where each slot has its entry; here there are more slots than entries.
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

/// Guards: `take` being one compare-and-swap, `Front::worker_died` entering anew what waits.
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

/// A worker stands between queue and slot while another one's death has its request entered anew.
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
        let taken = workers
            .into_iter()
            .filter_map(|worker| worker.join().unwrap())
            .count();
        assert_eq!(taken + pool.rest().len(), 1);
    });
}

/// Guards: both fences of the pair `Producer::enter` and `Queue::pop`, and the second look between them.
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
        let mut taken: Vec<State> = worker.join().unwrap().into_iter().collect();
        taken.extend(pool.rest());
        let generations: Vec<_> = taken.iter().map(|state| state.generation).collect();
        assert_eq!(generations, [1 + u32::from(cancelled)]);
    });
}

/// What the front wrote into the slot, the worker that takes it sees; what the worker wrote, the front sees with Done.
/// Guards: Release of `submit` and `finish`, Acquire of `look` and of either access in `take`.
#[test]
fn request_and_response_are_seen_whole() {
    model(3, || {
        let pool = Pool::new(1);
        let areas = Arc::new((UnsafeCell::new(()), UnsafeCell::new(())));
        let worker = {
            let (pool, areas) = (pool.clone(), areas.clone());
            thread::spawn(move || {
                // Straight to the slot, by an entry of an earlier use, so that the queue orders nothing.
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
        if pool.state(0).look().unwrap().phase == Phase::Done {
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
        pool.bury(0);
        pool.worker_died(&mut producer);
        assert_eq!(living.join().unwrap(), 0);
    });
}

/// The zygote nudges a worker to stop while the front hands it work: it stops, and what it leaves is entered for others.
/// Guards: no single line; that a nudge and a claim do not get into each other's way.
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
        pool.bury(0);
        pool.worker_died(&mut producer);
        assert_eq!(taken + pool.rest().len(), 1);
    });
}

/// Guards: the fences of `Doorbell::mark` and `try_sleep`, and the look at the marks between them; AcqRel of a mark.
#[test]
fn a_front_thread_that_falls_asleep_hears_of_every_slot() {
    model(4, || {
        let words = Arc::new((AtomicU32::new(0), [AtomicU64::new(0)], Bell::new()));
        let written = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let workers: Vec<_> = (0..2)
            .map(|slot| {
                let (words, written) = (words.clone(), written.clone());
                thread::spawn(move || {
                    written[slot].store(1, Ordering::Relaxed);
                    let bell = Doorbell {
                        sleeping: &words.0,
                        ready: &words.1,
                    };
                    if bell.mark(slot) {
                        words.2.ring();
                    }
                })
            })
            .collect();
        let bell = Doorbell {
            sleeping: &words.0,
            ready: &words.1,
        };
        let mut news = 0;
        loop {
            bell.drain(2, |slot| {
                assert_eq!(written[slot].load(Ordering::Relaxed), 1);
                news += 1;
            });
            if news == 2 {
                break;
            }
            if bell.try_sleep() {
                words.2.wait();
                bell.woke();
            }
        }
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

/// The words of a [`Room`], and the futex.
struct Ring {
    consumed: AtomicU64,
    starved: AtomicU32,
    aborted: AtomicU32,
    bed: Futex,
}

impl Ring {
    fn new() -> Arc<Ring> {
        Arc::new(Ring {
            consumed: AtomicU64::new(0),
            starved: AtomicU32::new(0),
            aborted: AtomicU32::new(0),
            bed: Futex::new(),
        })
    }

    fn room(&self) -> Room<'_> {
        Room {
            consumed: &self.consumed,
            starved: &self.starved,
            aborted: &self.aborted,
        }
    }

    /// As `Line::write` with a ring of one byte: waits until `wanted` bytes are consumed. `false`: nobody wants more.
    fn wait_for(&self, wanted: u64) -> bool {
        loop {
            if self.room().is_aborted() {
                return false;
            }
            let seen = self.consumed.load(Ordering::Acquire);
            if seen >= wanted {
                return true;
            }
            self.room().wait(seen, || {}, |word| self.bed.wait(word, 1));
        }
    }

    fn give_back(&self, consumed: u64, worth_waking: bool) {
        if self.room().give_back(consumed, worth_waking) {
            self.bed.wake();
        }
    }
}

/// Guards: the fences of `Room::wait` and `give_back`, and the look at `consumed` between them.
#[test]
fn a_worker_that_waits_for_room_is_woken_each_time() {
    model(4, || {
        let ring = Ring::new();
        let worker = {
            let ring = ring.clone();
            thread::spawn(move || ring.wait_for(1) && ring.wait_for(2))
        };
        ring.give_back(1, true);
        ring.give_back(2, true);
        assert!(worker.join().unwrap());
    });
}

/// Room that was not worth a wake-up is announced with the next that is.
/// Guards: `give_back` leaving `starved` alone when it wakes nobody.
#[test]
fn a_worker_sleeps_until_there_is_room_worth_waking_for() {
    model(4, || {
        let ring = Ring::new();
        let worker = {
            let ring = ring.clone();
            thread::spawn(move || ring.wait_for(1))
        };
        ring.give_back(1, false);
        ring.give_back(2, true);
        assert!(worker.join().unwrap());
    });
}

/// Guards: the fence of `Room::abort`, the look at `aborted` after the fence of `Room::wait`.
#[test]
fn a_worker_that_waits_for_room_hears_that_nobody_wants_more() {
    model(4, || {
        let ring = Ring::new();
        let worker = {
            let ring = ring.clone();
            thread::spawn(move || ring.wait_for(2))
        };
        ring.give_back(1, true);
        ring.room().abort();
        ring.bed.wake();
        assert!(!worker.join().unwrap());
    });
}

/// The model itself: without a fence between the two, each side of such a pair may miss the other. Should loom's notion
/// of fences change, the guards above would be worth nothing, and this would say so.
#[test]
fn fences_are_what_makes_each_side_see_the_other() {
    fn either_sees(fenced: bool) -> bool {
        let both_missed = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = both_missed.clone();
        model(4, move || {
            let words = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
            let other = {
                let words = words.clone();
                thread::spawn(move || {
                    words.0.store(1, Ordering::Release);
                    if fenced {
                        fence(Ordering::SeqCst);
                    }
                    words.1.load(Ordering::Acquire)
                })
            };
            words.1.store(1, Ordering::Release);
            if fenced {
                fence(Ordering::SeqCst);
            }
            let mine = words.0.load(Ordering::Acquire);
            if mine == 0 && other.join().unwrap() == 0 {
                seen.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        });
        !both_missed.load(std::sync::atomic::Ordering::Relaxed)
    }
    assert!(either_sees(true));
    assert!(!either_sees(false));
}
