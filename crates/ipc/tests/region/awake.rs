//! The workers that are awake, and those that are told to sleep or to end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use howdah_ipc::control::AttachMessage;
use howdah_ipc::request::RequestEncoder;
use howdah_ipc::worker::Worker;

use crate::support::process::wait_until;
use crate::support::{Raised, give_back, small_geometry};
use crate::{SMALL, lone_worker, submit};

/// Runs `test` while the worker looks for a request, until it has taken one.
fn while_it_looks(attach: &AttachMessage, mut worker: Worker, test: impl FnOnce(&AtomicBool)) {
    let (stop, has_taken) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let taken = worker.next(&stop).unwrap().is_some();
            has_taken.store(taken, Ordering::Release);
        });
        // Also when the test panics, or the scope would wait for good.
        let _end = Raised { flags: &[&stop], workers: Some(attach) };
        test(&has_taken);
    });
}

#[test]
fn a_worker_sleeps_beside_a_request_where_more_are_awake_than_should_be() {
    for (present, limit, sleeps) in
        [(2, 1, true), (3, 2, true), (1, 1, false), (3, 3, false), (5, 0, false)]
    {
        let (front, attach, worker) = lone_worker(small_geometry(1, 1));
        front.set_present(present);
        front.limit_awake(limit);
        assert_eq!((front.present(), front.awake_workers()), (present, present));
        let slot = front.checkout().unwrap();
        let mut encoder = RequestEncoder::default();
        // Nobody is woken for it: one that sleeps does not take it.
        front.enqueue(&slot, 0, SMALL.encode(&mut encoder, false), None).unwrap();
        while_it_looks(&attach, worker, |has_taken| {
            if sleeps {
                wait_until("it sleeps", || front.is_idle(0));
                assert_eq!((front.idle_workers(), front.awake_workers()), (1, present - 1));
                assert!(!front.retire(0), "a request waits, so it is woken instead");
            }
            wait_until("it takes the request", || has_taken.load(Ordering::Acquire));
        });
        assert_eq!((front.idle_workers(), front.is_idle(0)), (0, false), "{present} {limit}");
        give_back(&front, slot);
    }
}

#[test]
fn a_worker_that_is_told_to_end_is_woken_for_no_request() {
    let (front, attach, worker) = lone_worker(small_geometry(1, 1));
    while_it_looks(&attach, worker, |has_taken| {
        assert!(!front.retire(1), "there is no such worker");
        wait_until("it sleeps", || front.is_idle(0));
        assert!(front.retire(0));
        assert!(!front.is_idle(0) && !front.retire(0), "it is told once");
        let slot = submit(&front, SMALL);
        assert!(!front.wake_worker(), "there is no other");
        assert!(front.is_queued(slot.index()) && !has_taken.load(Ordering::Acquire));
        front.wake_all();
        wait_until("it takes the request", || has_taken.load(Ordering::Acquire));
        give_back(&front, slot);
    });
}

#[test]
fn a_worker_measures_its_memory_in_a_pause_and_gives_spare_memory_back_after_a_second() {
    static GIVEN_BACK: AtomicBool = AtomicBool::new(false);
    for give_back_memory in [None, Some(|| GIVEN_BACK.store(true, Ordering::Release))] {
        let (front, attach, mut worker) = lone_worker(small_geometry(1, 1));
        let slot = submit(&front, SMALL);
        drop(worker.next(&AtomicBool::new(false)).unwrap());
        give_back(&front, slot);
        worker.offer_spare_memory(give_back_memory.map(|function| function as fn()));
        assert_eq!(front.memory_of(0).0, None);
        let began = Instant::now();
        while_it_looks(&attach, worker, |_| {
            wait_until("it is measured", || front.memory_of(0).0.is_some());
            if give_back_memory.is_some() {
                wait_until("it is given back", || GIVEN_BACK.load(Ordering::Acquire));
                assert!(began.elapsed() >= Duration::from_secs(1), "a request often comes soon");
            }
        });
        let figures = front.worker_figures().remove(0);
        assert!(figures.resident.is_some() && figures.resident >= figures.proportional);
    }
}
