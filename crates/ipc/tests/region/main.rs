//! Both ends of the protocol over real shared memory: in threads, and in processes that are killed.
#![allow(unsafe_code)] // Forks workers and kills them.
#![allow(clippy::unwrap_used)] // A test's helpers fail the test.

mod support;

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use howdah_ipc::control::{Attach, Cleaning};
use howdah_ipc::front::{Front, Slot};
use howdah_ipc::request::{DecodedRequest, RequestEncoder};
use howdah_ipc::worker::{Attachment, ResponseAborted, Worker};
use howdah_ipc::{Geometry, SlotPhase};
use support::driver::{Driver, Outcome, deadline, file_of, run};
use support::process::{Children, wait_until};
use support::{Extra, Order, Random, attach_again, give_back, ring, serve, small_geometry};

/// An order that is answered at once.
const SMALL: Order = Order {
    seed: 1,
    size: 13,
    chunk: 13,
    extra: Extra::None,
};

/// Runs `test` while workers in threads serve the pool.
fn with_worker_threads(attach: &Attach, test: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for index in 0..attach.geometry.workers {
            let worker = attach_again(attach).worker(index).unwrap();
            scope.spawn(|| serve(worker, &stop));
        }
        // Also when the test panics, or the scope would wait for good.
        let _stopper = Stopper { stop: &stop, attach };
        test();
    });
}

struct Stopper<'s> {
    stop: &'s AtomicBool,
    attach: &'s Attach,
}

impl Drop for Stopper<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let zygote = attach_again(self.attach);
        (0..self.attach.geometry.workers).for_each(|worker| zygote.wake(worker));
    }
}

/// A pool with one worker, which the test plays itself.
fn lone_worker(geometry: Geometry) -> (Front, Attach, Worker) {
    let (front, attach) = Front::create(geometry).unwrap();
    let worker = attach_again(&attach).worker(0).unwrap();
    (front, attach, worker)
}

fn submit(front: &Front, order: Order) -> Slot {
    let slot = front.checkout().expect("a free slot");
    let mut encoder = RequestEncoder::default();
    front.submit(&slot, 0, order.encode(&mut encoder, false), None).unwrap();
    slot
}

fn two_threads_drive(front: &Front, orders: &[Order], lost: &Mutex<Vec<usize>>) -> [Outcome; 2] {
    let (first, second) = orders.split_at(orders.len() / 2);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| run(front, 1, second, 5, lost));
        [run(front, 0, first, 5, lost), other.join().unwrap()]
    })
}

#[test]
fn worker_threads_answer_byte_for_byte() {
    let (front, attach) = Front::create(small_geometry(3, 2)).unwrap();
    with_worker_threads(&attach, || {
        let orders = Random(1).orders(1_000);
        let outcomes = two_threads_drive(&front, &orders, &Mutex::default());
        assert!(outcomes.iter().all(|outcome| outcome.answered == 500));
        assert!((0..3).map(|worker| front.requests_served(worker)).sum::<u64>() <= 1_000);
    });
}

#[test]
fn worker_processes_answer_byte_for_byte() {
    let (front, attach) = Front::create(Geometry::for_pool(3, 2)).unwrap();
    let _children = Children::fork(attach);
    let orders = Random(2).orders(1_000);
    let outcomes = two_threads_drive(&front, &orders, &Mutex::default());
    assert!(outcomes.iter().all(|outcome| outcome.answered == 500));
}

#[test]
fn a_ring_smaller_than_a_chunk_wraps_at_every_offset() {
    let geometry = Geometry { ring_bytes: 4096, ..small_geometry(1, 1) };
    let (front, attach) = Front::create(geometry).unwrap();
    with_worker_threads(&attach, || {
        let orders: Vec<Order> = (0..60)
            .map(|seed| Order {
                seed,
                size: 4_000 + seed * 97,
                chunk: 1 + seed * 211,
                extra: Extra::Flush,
            })
            .collect();
        assert_eq!(run(&front, 0, &orders, 1, &Mutex::default()).answered, 60);
    });
}

#[test]
fn a_worker_that_waits_for_room_is_freed_when_nobody_wants_the_rest() {
    // A worker looks by itself once a second. On a busy machine all may take as long by chance, but
    // not each time.
    let end = deadline();
    while freed_after() > Duration::from_millis(900) {
        assert!(Instant::now() < end, "only the regular check frees it");
    }
}

/// Returns how long a worker has waited for room until it is freed.
fn freed_after() -> Duration {
    let (front, _attach, mut worker) = lone_worker(small_geometry(1, 1));
    let mut slot = submit(&front, SMALL);
    let job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
    let mut writer = job.writer;
    let took = std::thread::scope(|scope| {
        let writing = scope.spawn(move || {
            let began = Instant::now();
            let result = writer.write(&vec![7; 200_000]);
            (result, began.elapsed())
        });
        wait_until("the ring is full", || {
            front.slot_status(&mut slot).unwrap();
            slot.written() == 64 * 1024
        });
        std::thread::sleep(Duration::from_millis(20));
        front.abort(&slot);
        let (result, took) = writing.join().unwrap();
        assert_eq!(result, Err(ResponseAborted));
        took
    });
    assert_eq!(front.slot_status(&mut slot).unwrap().phase, SlotPhase::Done);
    give_back(&front, slot);
    took
}

#[test]
fn a_response_may_be_complete_while_its_script_goes_on() {
    let (front, _attach, mut worker) = lone_worker(small_geometry(1, 1));
    let mut slot = submit(&front, SMALL);
    let mut job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
    job.writer.write(b"all").unwrap();
    job.writer.end();
    let look = front.slot_status(&mut slot).unwrap();
    assert_eq!((look.phase, look.ended, look.worker), (SlotPhase::Taken, true, Some(0)));
    assert_eq!(slot.written(), 3);
    assert!(!front.cancel(&slot));
    drop(job);
    assert_eq!(front.slot_status(&mut slot).unwrap().phase, SlotPhase::Done);
    give_back(&front, slot);
}

#[test]
fn a_slot_without_news_is_no_corrupt_slot() {
    let (front, _attach, mut worker) = lone_worker(small_geometry(1, 1));
    let mut slot = submit(&front, SMALL);
    // Nothing was written, twice.
    assert_eq!(front.slot_status(&mut slot).unwrap().phase, SlotPhase::Queued);
    assert_eq!(front.slot_status(&mut slot).unwrap().phase, SlotPhase::Queued);
    let mut job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
    job.writer.write(b"some").unwrap();
    for _ in 0..2 {
        assert_eq!(front.slot_status(&mut slot).unwrap().phase, SlotPhase::Taken);
        assert_eq!(slot.written(), 4);
    }
    drop(job);
    front.slot_status(&mut slot).unwrap();
    give_back(&front, slot);
}

#[test]
fn a_front_that_consumes_more_than_there_is_consumes_what_there_is() {
    let (front, _attach, mut worker) = lone_worker(small_geometry(1, 1));
    let mut slot = submit(&front, SMALL);
    let mut job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
    job.writer.write(b"abc").unwrap();
    front.slot_status(&mut slot).unwrap();
    front.consume(&mut slot, u64::MAX);
    assert_eq!(slot.consumed(), 3);
    drop(job);
    give_back(&front, slot);
}

#[test]
fn requests_that_are_cancelled_leave_room_for_others() {
    let (front, _attach, mut worker) = lone_worker(small_geometry(1, 1));
    for _ in 0..1_000 {
        let first = submit(&front, SMALL);
        let second = submit(&front, SMALL);
        assert!(front.cancel(&first) && front.cancel(&second));
        give_back(&front, first);
        give_back(&front, second);
    }
    let slot = submit(&front, SMALL);
    let job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
    assert_eq!(DecodedRequest::decode(job.request).unwrap().inline_body(), SMALL.to_bytes());
    drop(job);
    give_back(&front, slot);
}

#[test]
fn a_cancelled_request_is_never_begun_and_one_that_is_begun_never_cancelled() {
    let (front, attach) = Front::create(small_geometry(2, 1)).unwrap();
    let mut random = Random(3);
    with_worker_threads(&attach, || {
        let (mut cancelled, mut answered) = (0, 0);
        for seed in 0..3_000 {
            let mut slot = submit(&front, Order { seed, ..SMALL });
            for _ in 0..random.below(400) {
                std::hint::spin_loop();
            }
            if front.cancel(&slot) {
                assert_eq!(slot.written(), 0);
                cancelled += 1;
            } else {
                wait_until("it is done", || {
                    front.slot_status(&mut slot).unwrap().phase == SlotPhase::Done
                });
                answered += 1;
            }
            give_back(&front, slot);
        }
        assert_eq!(cancelled + answered, 3_000);
    });
}

#[test]
fn a_body_by_file_reaches_the_request_it_belongs_to() {
    let (front, attach, mut worker) = lone_worker(small_geometry(1, 1));
    let zygote = attach_again(&attach);
    let mut encoder = RequestEncoder::default();
    let order = |seed| Order { seed, ..SMALL };
    // More often than the socket has room for messages.
    for seed in 0..400 {
        let slot = front.checkout().unwrap();
        let file = file_of(order(seed));
        front
            .submit(&slot, 0, order(seed).encode(&mut encoder, true), Some(file.as_fd()))
            .unwrap();
        assert!(front.cancel(&slot));
        clean(&front, &zygote, front.release(slot).unwrap());
    }
    let slot = front.checkout().unwrap();
    let file = file_of(order(1_000));
    let encoded = order(1_000).encode(&mut encoder, true);
    front.submit(&slot, 0, encoded, Some(file.as_fd())).unwrap();
    let mut job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
    let mut bytes = [0; Order::LENGTH];
    File::from(job.writer.take_body().unwrap()).read_exact(&mut bytes).unwrap();
    assert_eq!(Order::from_bytes(&bytes).seed, 1_000);
    drop(job);
    give_back(&front, slot);
}

/// A worker sees only the body of the very request it runs, even if an earlier one's still lies in
/// the socket.
#[test]
fn a_body_of_an_earlier_request_is_passed_over() {
    let geometry = small_geometry(1, 1);
    let (front, _attach, mut worker) = lone_worker(geometry);
    let slot = front.checkout().unwrap();
    let mut encoder = RequestEncoder::default();
    let file = file_of(SMALL);
    front
        .submit(&slot, 0, SMALL.encode(&mut encoder, true), Some(file.as_fd()))
        .unwrap();
    drop(worker.next(&AtomicBool::new(false)).unwrap().unwrap());
    // The worker did not take it.
    give_back(&front, slot);
    let slot = front.checkout().unwrap();
    front.submit(&slot, 0, SMALL.encode(&mut encoder, true), None).unwrap();
    let mut job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
    assert_eq!(job.writer.take_body().unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(job);
    give_back(&front, slot);
}

#[test]
fn a_body_that_no_worker_took_is_closed_by_the_zygote() {
    let (front, attach, mut worker) = lone_worker(small_geometry(1, 1));
    let zygote = attach_again(&attach);
    let mut encoder = RequestEncoder::default();
    for cancelled in [true, false] {
        let (reader, writer) = pipe();
        let slot = front.checkout().unwrap();
        let encoded = SMALL.encode(&mut encoder, true);
        front.submit(&slot, 0, encoded, Some(writer.as_fd())).unwrap();
        drop(writer);
        let mut reader = File::from(reader);
        let still_open = reader.read(&mut [0]);
        assert_eq!(still_open.unwrap_err().kind(), ErrorKind::WouldBlock);
        if cancelled {
            assert!(front.cancel(&slot));
        } else {
            // The worker dies before it takes its body.
            std::mem::forget(worker.next(&AtomicBool::new(false)).unwrap());
            assert_eq!(front.worker_died(0).unwrap(), [slot.index()]);
        }
        let cleaning = front.release(slot).unwrap();
        for other in std::iter::from_fn(|| front.checkout()).collect::<Vec<_>>() {
            assert_ne!(other.index() as u64, cleaning.slot, "the slot is used while it is cleaned");
            give_back(&front, other);
        }
        clean(&front, &zygote, cleaning);
        assert_eq!(reader.read(&mut [0]).unwrap(), 0, "somebody holds it open");
    }
}

/// Cleans as the zygote and then the front do.
fn clean(front: &Front, zygote: &Attachment, cleaning: Cleaning) {
    zygote.clean(cleaning).unwrap();
    assert!(front.cleaned(cleaning.slot as usize));
    assert!(!front.cleaned(cleaning.slot as usize), "it is cleaned once");
}

#[test]
fn nobody_but_the_zygote_names_slots_that_are_cleaned() {
    let (front, _attach, _worker) = lone_worker(small_geometry(1, 1));
    for slot in [0, 1, 2, 77, usize::MAX] {
        assert!(!front.cleaned(slot));
    }
    let slots: Vec<_> = std::iter::from_fn(|| front.checkout()).collect();
    assert_eq!(slots.len(), 2, "no slot is there twice");
}

#[test]
fn large_responses_give_their_memory_back() {
    let (front, attach, mut worker) = lone_worker(Geometry::for_pool(1, 1));
    let mut slot = submit(&front, SMALL);
    let mut job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
    job.writer.write(&vec![7; 800_000]).unwrap();
    drop(job);
    front.slot_status(&mut slot).unwrap();
    give_back(&front, slot);
    let blocks =
        || std::os::unix::fs::MetadataExt::blocks(&memory_file(&attach).metadata().unwrap()) * 512;
    let zygote = attach_again(&attach);
    assert!(front.trim().is_empty(), "just used, it stays");
    assert!(blocks() > 800_000, "{}", blocks());
    for cleaning in front.trim() {
        clean(&front, &zygote, cleaning);
    }
    assert!(blocks() < 200_000, "not used since, it goes: {}", blocks());
    // And can be used again.
    let mut slot = submit(&front, SMALL);
    let mut job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
    job.writer.write(&vec![8; 800_000]).unwrap();
    drop(job);
    front.slot_status(&mut slot).unwrap();
    let mut bytes = vec![0; 800_000];
    assert_eq!(front.copy(&slot, 0, &mut bytes), 800_000);
    assert!(bytes.iter().all(|byte| *byte == 8));
    give_back(&front, slot);
}

/// The region's memory, as a file.
fn memory_file(attach: &Attach) -> File {
    File::from(attach.descriptors[0].try_clone().unwrap())
}

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
fn a_response_that_becomes_shorter_is_corrupt() {
    let (front, attach, mut worker) = lone_worker(small_geometry(1, 1));
    let mut slot = submit(&front, SMALL);
    let mut job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
    job.writer.write(&[1; 3333]).unwrap();
    front.slot_status(&mut slot).unwrap();
    assert_eq!(slot.written(), 3333);
    // The only such word of the region is the one that counts the bytes written.
    let memory = memory_file(&attach);
    let mut words = vec![0; 64 * 1024];
    memory.read_exact_at(&mut words, 0).unwrap();
    let places: Vec<usize> = (0..words.len())
        .step_by(8)
        .filter(|at| words[*at..*at + 8] == 3333_u64.to_ne_bytes())
        .collect();
    let [place] = places[..] else {
        panic!("{places:?}");
    };
    for (written, is_good) in [(3333_u64, true), (3332, false), (0, false)] {
        memory.write_all_at(&written.to_ne_bytes(), place as u64).unwrap();
        assert_eq!(front.slot_status(&mut slot).is_ok(), is_good, "{written}");
        assert_eq!(slot.written(), 3333);
    }
    memory.write_all_at(&3333_u64.to_ne_bytes(), place as u64).unwrap();
    drop(job);
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
    let (front, attach) = Front::create(small_geometry(1, 1)).unwrap();
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
    let (front, attach) = Front::create(small_geometry(3, 2)).unwrap();
    let mut children = Children::fork(attach);
    let lost = Mutex::new(Vec::new());
    let over = AtomicBool::new(false);
    let killed = AtomicUsize::new(0);
    let mut answered = 0;
    std::thread::scope(|scope| {
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

/// A pipe whose reading end does not block.
fn pipe() -> (OwnedFd, OwnedFd) {
    let mut ends = [-1; 2];
    // SAFETY: room for two descriptors.
    let made = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) };
    assert_eq!(made, 0);
    // SAFETY: both are fresh and ours.
    unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) }
}

#[test]
fn a_worker_tells_the_time_limits_that_its_script_sets() {
    let (front, _attach, mut worker) = lone_worker(small_geometry(1, 1));
    for _ in 0..2 {
        let slot = submit(&front, SMALL);
        let limit = || {
            let grant = front.signs_of_life(slot.index()).grant;
            (grant.count, grant.limit())
        };
        assert_eq!(limit(), (0, None), "nothing is left of the last request");
        let mut job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
        job.writer.grant(30);
        assert_eq!(limit(), (1, Some(Duration::from_secs(30))));
        job.writer.grant(0);
        assert_eq!(limit(), (2, None));
        drop(job);
        let _ = front.release(slot);
    }
}

#[test]
fn a_worker_asks_while_its_request_runs() {
    let (front, _attach, mut worker) = lone_worker(small_geometry(1, 1));
    let mut slot = submit(&front, SMALL);
    let stop = AtomicBool::new(false);
    assert_eq!(front.question(&mut slot), None);
    std::thread::scope(|scope| {
        let asker = scope.spawn(|| {
            let mut job = worker.next(&stop).unwrap().unwrap();
            let answers = [&b"one"[..], b"two"].map(|question| job.writer.ask(question));
            let too_long = vec![b'x'; small_geometry(1, 1).request_bytes];
            (answers, job.writer.ask(&too_long), job.writer.ask(b"last"))
        });
        let mut asked = Vec::new();
        for answer in [&b"1"[..], b""] {
            let mut question = None;
            wait_until("the worker asks", || {
                question = front.question(&mut slot);
                question.is_some()
            });
            let question = question.unwrap();
            assert_eq!(front.question(&mut slot), None, "it is asked once");
            asked.push(question.text);
            front.answer(&slot, question.number, answer);
        }
        front.abort(&slot);
        let (answers, too_long, last) = asker.join().unwrap();
        assert_eq!(asked, [b"one".to_vec(), b"two".to_vec()]);
        assert_eq!(answers, [Some(b"1".to_vec()), Some(Vec::new())]);
        assert_eq!((too_long, last), (None, None), "nobody waits for the response");
    });
}
