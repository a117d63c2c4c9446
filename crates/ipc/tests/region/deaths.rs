//! Workers that die.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use howdah_ipc::SlotPhase;
use howdah_ipc::front::{FrontRegion, Slot};

use crate::support::driver::Driver;
use crate::support::process::{Children, wait_until};
use crate::support::{Extra, Order, Raised, Random, give_back, ring, small_geometry};
use crate::{SMALL, lone_worker, submit};

#[test]
fn a_slot_is_lost_once_however_often_its_workers_place_dies() {
    let (front, _attach, mut worker) = lone_worker(small_geometry(1, 1));
    let mut slot = submit(&front, SMALL);
    let job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
    std::mem::forget(job);
    assert_eq!(front.slot_status(&mut slot).unwrap().phase, SlotPhase::Taken);
    assert_eq!(front.worker_died(0).unwrap(), [slot.index()]);
    // The test has taken the slot back and may use it again at any time.
    assert!(front.worker_died(0).unwrap().is_empty());
    give_back(&front, slot);
}

#[test]
fn a_request_is_lost_with_its_own_worker_only() {
    let (front, _attach, mut worker) = lone_worker(small_geometry(2, 1));
    let slot = submit(&front, SMALL);
    std::mem::forget(worker.next(&AtomicBool::new(false)).unwrap());
    assert!(front.worker_died(1).unwrap().is_empty() && front.is_any_taken());
    assert_eq!(front.worker_died(0).unwrap(), [slot.index()]);
    give_back(&front, slot);
}

#[test]
fn a_request_of_a_dead_worker_does_not_run() {
    let (front, _attach, mut worker) = lone_worker(small_geometry(1, 2));
    assert!(!front.is_any_taken());
    let slot = submit(&front, SMALL);
    assert!(!front.is_any_taken(), "no worker has taken it");
    std::mem::forget(worker.next(&AtomicBool::new(false)).unwrap().unwrap());
    assert!(front.is_any_taken());
    front.worker_died(0).unwrap();
    assert!(!front.is_any_taken());
    // The slot is free from now on, and the last writer of its state word was the dead worker.
    give_back(&front, slot);
    assert!(!front.is_any_taken());
}

#[test]
fn a_response_that_ended_without_a_bell_is_told_by_the_workers_death() {
    let (front, _attach, mut worker) = lone_worker(small_geometry(1, 1));
    let slot = submit(&front, SMALL);
    drop(worker.next(&AtomicBool::new(false)).unwrap());
    // The bell that the worker rang is thrown away: as if it had died before.
    front.drain(0, |_| {});
    front.worker_died(0).unwrap();
    let mut marked = Vec::new();
    front.drain(0, |slot| marked.push(slot));
    assert_eq!(marked, [slot.index()]);
    give_back(&front, slot);
}

#[test]
fn what_a_successor_runs_is_not_taken_for_what_the_dead_one_left() {
    let (front, attach) = FrontRegion::create(small_geometry(1, 1)).unwrap();
    let mut children = Children::fork(attach);
    let large = Order { size: 1 << 20, ..SMALL };
    let mut left = submit(&front, large);
    wait_until("the worker has begun", || {
        front.slot_status(&mut left).unwrap().phase == SlotPhase::Taken
    });
    children.kill(0);
    children.replace(0);
    let mut begun = submit(&front, large);
    wait_until("its successor has begun the next", || {
        front.slot_status(&mut begun).unwrap().phase == SlotPhase::Taken
    });
    assert_eq!(front.worker_died(0).unwrap(), [left.index()]);
    give_back(&front, left);
    children.kill(0);
    children.replace(0);
    assert_eq!(front.worker_died(0).unwrap(), [begun.index()]);
    give_back(&front, begun);
    assert!(front.worker_died(1).is_err(), "there is no such worker");
}

/// Workers are killed at any point of their loop, sometimes replaced long before the front hears of
/// it. Each order is answered once and in full; only those whose own worker died over them are
/// given again.
#[test]
fn killing_workers_at_random_loses_no_request() {
    const KILLS: usize = 600;
    let (front, attach) = FrontRegion::create(small_geometry(3, 2)).unwrap();
    let mut children = Children::fork(attach);
    let lost = Mutex::new(Vec::new());
    let over = AtomicBool::new(false);
    let killed = AtomicUsize::new(0);
    let mut answered = 0;
    std::thread::scope(|scope| {
        let _end = Raised { flags: &[&over], workers: None };
        let (front, lost, over, killed) = (&front, &lost, &over, &killed);
        let drivers: Vec<_> = (0..2)
            .map(|thread| {
                scope.spawn(move || {
                    let mut driver = Driver::new(front, thread, lost);
                    driver.files = 5;
                    let mut random = Random(thread as u64);
                    let mut answered = 0;
                    while !over.load(Ordering::Acquire) {
                        // Mostly tiny, so that the moments between queue, slot and sleep come
                        // often.
                        let orders: Vec<Order> = (0..50)
                            .map(|seed| Order {
                                seed,
                                size: if random.below(10) == 0 { 150_000 } else { 20 },
                                chunk: 1 + random.below(20_000) as u32,
                                extra: [Extra::None, Extra::Flush, Extra::EndEarly]
                                    [random.below(3)],
                            })
                            .collect();
                        let outcome = driver.run(&orders, 1 + random.below(4)).unwrap();
                        assert_eq!(outcome.answered, orders.len());
                        answered += outcome.answered;
                    }
                    answered
                })
            })
            .collect();
        let mut random = Random(99);
        while killed.load(Ordering::Relaxed) < KILLS
            && !drivers.iter().any(|driver| driver.is_finished())
        {
            std::thread::sleep(Duration::from_micros(random.below(1_500) as u64));
            let worker = random.below(3);
            children.kill(worker);
            killed.fetch_add(1, Ordering::Relaxed);
            children.replace(worker);
            if random.below(2) == 0 {
                std::thread::sleep(Duration::from_micros(random.below(3_000) as u64));
            }
            let dead = front.worker_died(worker).unwrap();
            if !dead.is_empty() {
                lost.lock().unwrap().extend(dead);
                (0..2).for_each(|thread| ring(front, thread));
            }
        }
        over.store(true, Ordering::Release);
        for driver in drivers {
            answered += driver.join().unwrap();
        }
    });
    assert_eq!(killed.into_inner(), KILLS);
    assert!(answered > KILLS, "{answered} answers: the workers hardly lived");
    assert!(lost.into_inner().unwrap().is_empty());
    let free: Vec<Slot> = std::iter::from_fn(|| front.checkout()).collect();
    assert_eq!(free.len(), front.geometry().slots, "slots leaked");
    free.into_iter().for_each(|slot| give_back(&front, slot));
}
