//! Both ends of the protocol over real shared memory: in threads, and in processes that are killed.
#![allow(unsafe_code)] // Forks workers and kills them.
#![allow(clippy::unwrap_used)] // A test's helpers fail the test.

#[path = "../support/mod.rs"]
mod support;

mod awake;
mod bodies;
mod cleaning;
mod deaths;
mod figures;
mod responses;

use std::fs::File;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use howdah_ipc::control::{AttachMessage, MOST_BYTES, SlotCleaning, ToZygote};
use howdah_ipc::front::{FrontRegion, Slot};
use howdah_ipc::request::{DecodedRequest, RequestEncoder};
use howdah_ipc::worker::{Attachment, Worker};
use howdah_ipc::{Geometry, SlotPhase};
use howdah_sys::seqpacket::SeqPacket;
use support::driver::{Outcome, run};
use support::process::{Children, wait_until};
use support::{Extra, Order, Raised, Random, attach_again, give_back, serve, small_geometry};

/// An order that is answered at once.
const SMALL: Order = Order {
    seed: 1,
    size: 13,
    chunk: 13,
    extra: Extra::None,
};

/// Runs `test` while workers in threads serve the pool.
fn with_worker_threads(attach: &AttachMessage, test: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for index in 0..attach.geometry.workers {
            let worker = attach_again(attach).worker(index).unwrap();
            scope.spawn(|| serve(worker, &stop));
        }
        // Also when the test panics, or the scope would wait for good.
        let _end = Raised { flags: &[&stop], workers: Some(attach) };
        test();
    });
}

/// A pool with one worker, which the test plays itself.
fn lone_worker(geometry: Geometry) -> (FrontRegion, AttachMessage, Worker) {
    let (front, attach) = FrontRegion::create(geometry).unwrap();
    let worker = attach_again(&attach).worker(0).unwrap();
    (front, attach, worker)
}

fn submit(front: &FrontRegion, order: Order) -> Slot {
    let slot = front.checkout().expect("a free slot");
    let mut encoder = RequestEncoder::default();
    front.submit(&slot, 0, order.encode(&mut encoder, false), None).unwrap();
    slot
}

fn two_threads_drive(
    front: &FrontRegion,
    orders: &[Order],
    lost: &Mutex<Vec<usize>>,
) -> [Outcome; 2] {
    let (first, second) = orders.split_at(orders.len() / 2);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| run(front, 1, second, 5, lost));
        [run(front, 0, first, 5, lost), other.join().unwrap()]
    })
}

/// Cleans as the zygote and then the front do.
fn clean(front: &FrontRegion, zygote: &Attachment, cleaning: SlotCleaning) {
    zygote.clean(cleaning).unwrap();
    assert!(front.cleaned(cleaning.slot as usize));
    assert!(!front.cleaned(cleaning.slot as usize), "it is cleaned once");
}

/// The region's memory, as a file.
fn memory_file(attach: &AttachMessage) -> File {
    File::from(attach.descriptors[0].try_clone().unwrap())
}

#[test]
fn a_region_with_more_descriptors_than_a_packet_takes_arrives_whole() {
    let (front, attach) = FrontRegion::create(small_geometry(150, 2)).unwrap();
    let (ours, theirs) = SeqPacket::pair().unwrap();
    attach.send(&ours).unwrap();
    drop(ours);
    let mut arrived = AttachMessage {
        geometry: attach.geometry,
        descriptors: Vec::new(),
    };
    loop {
        let mut packet = [0; MOST_BYTES];
        let received = theirs.receive_now(&mut packet).unwrap();
        if received.length == 0 {
            break;
        }
        let ToZygote::Attach { geometry, total } =
            ToZygote::decode(&packet[..received.length]).unwrap()
        else {
            panic!("another message");
        };
        assert_eq!((geometry, total), (attach.geometry, attach.descriptors.len() as u64));
        arrived.descriptors.extend(received.descriptors);
    }
    let mut worker = Attachment::new(arrived).unwrap().worker(149).unwrap();
    let slot = submit(&front, SMALL);
    drop(worker.next(&AtomicBool::new(false)).unwrap());
    give_back(&front, slot);
}

#[test]
fn worker_threads_answer_byte_for_byte() {
    let (front, attach) = FrontRegion::create(small_geometry(3, 2)).unwrap();
    with_worker_threads(&attach, || {
        let orders = Random(1).orders(1_000);
        let outcomes = two_threads_drive(&front, &orders, &Mutex::default());
        assert!(outcomes.iter().all(|outcome| outcome.answered == 500));
        assert!((0..3).map(|worker| front.requests_served(worker)).sum::<u64>() <= 1_000);
    });
}

#[test]
fn worker_processes_answer_byte_for_byte() {
    let (front, attach) = FrontRegion::create(Geometry::for_pool(3, 2)).unwrap();
    let _children = Children::fork(attach);
    let orders = Random(2).orders(1_000);
    let outcomes = two_threads_drive(&front, &orders, &Mutex::default());
    assert!(outcomes.iter().all(|outcome| outcome.answered == 500));
}

#[test]
fn a_ring_smaller_than_a_chunk_wraps_at_every_offset() {
    let geometry = Geometry { ring_bytes: 4096, ..small_geometry(1, 1) };
    let (front, attach) = FrontRegion::create(geometry).unwrap();
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
    let (front, attach) = FrontRegion::create(small_geometry(2, 1)).unwrap();
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
