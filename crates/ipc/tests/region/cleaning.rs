//! Slots: those that are free, those that wait, those that the zygote cleans.

use std::sync::atomic::AtomicBool;

use howdah_ipc::Geometry;
use howdah_ipc::control::SlotCleaning;
use howdah_ipc::front::{FrontRegion, SubmitError};
use howdah_ipc::worker::Worker;

use crate::support::{attach_again, give_back, small_geometry};
use crate::{SMALL, clean, lone_worker, memory_file, submit};

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

/// Makes requests at once, one for each of `sizes`, whose scripts write that number of bytes.
fn use_slots(front: &FrontRegion, worker: &mut Worker, sizes: &[usize]) {
    let slots: Vec<_> = sizes.iter().map(|_| submit(front, SMALL)).collect();
    for bytes in sizes {
        let mut job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
        job.writer.write(&vec![7; *bytes]).unwrap();
    }
    for mut slot in slots {
        front.slot_status(&mut slot).unwrap();
        give_back(front, slot);
    }
}

/// Takes all free slots at once, and gives them back. Returns how many there were.
fn free_slots(front: &FrontRegion) -> usize {
    assert!(front.has_free_slots());
    let slots: Vec<_> = std::iter::from_fn(|| front.checkout()).collect();
    assert!(!front.has_free_slots());
    let count = slots.len();
    slots.into_iter().for_each(|slot| give_back(front, slot));
    count
}

#[test]
fn half_of_the_free_slots_stay_usable_while_others_are_cleaned() {
    let (front, attach, mut worker) = lone_worker(Geometry::for_pool(1, 1));
    let zygote = attach_again(&attach);
    assert_eq!(free_slots(&front), 8);
    use_slots(&front, &mut worker, &[100_000; 8]);
    assert!(front.trim().is_empty(), "just used");
    let first = front.trim();
    assert_eq!((first.len(), free_slots(&front)), (4, 4));
    // The four that are left were used again by this test: two looks more.
    assert!(front.trim().is_empty());
    first.into_iter().for_each(|cleaning| clean(&front, &zygote, cleaning));
    let second = front.trim();
    assert_eq!(second.len(), 4, "one that was cleaned is not cleaned again");
    second.into_iter().for_each(|cleaning| clean(&front, &zygote, cleaning));
    assert_eq!(free_slots(&front), 8);
    for _ in 0..3 {
        assert!(front.trim().is_empty(), "all are clean");
    }
}

#[test]
fn what_most_responses_need_stays_in_memory() {
    let (front, _attach, mut worker) = lone_worker(Geometry::for_pool(1, 1));
    use_slots(&front, &mut worker, &[64 * 1024, 64 * 1024 + 1, 10]);
    assert!(front.trim().is_empty(), "just used");
    let cleanings = front.trim();
    assert_eq!(cleanings.len(), 1, "{cleanings:?}");
    assert_eq!(cleanings[0].kept, 64 * 1024);
}

#[test]
fn a_zygote_cleans_although_the_front_is_gone() {
    let (front, attach, _worker) = lone_worker(small_geometry(1, 1));
    let zygote = attach_again(&attach);
    drop(front);
    zygote.clean(SlotCleaning { slot: 0, kept: 0 }).unwrap();
    assert!(zygote.clean(SlotCleaning { slot: 2, kept: 0 }).is_err(), "there is no such slot");
}

#[test]
fn the_queue_tells_how_many_requests_wait_and_that_one_was_taken() {
    let (front, _attach, mut worker) = lone_worker(small_geometry(2, 1));
    let (none, before) = front.queued();
    assert_eq!(none, 0);
    let slots = [submit(&front, SMALL), submit(&front, SMALL), submit(&front, SMALL)];
    assert_eq!(front.queued(), (3, before));
    drop(worker.next(&AtomicBool::new(false)).unwrap());
    assert_eq!(front.queued(), (2, before + 1));
    assert!(
        slots[1..]
            .iter()
            .all(|slot| front.is_queued(slot.index()) && front.cancel(slot))
    );
    slots.into_iter().for_each(|slot| give_back(&front, slot));
}

#[test]
fn a_request_may_be_as_long_as_its_area_and_no_longer() {
    let (front, _attach, _worker) = lone_worker(small_geometry(1, 1));
    let most = front.geometry().request_bytes;
    let slot = front.checkout().unwrap();
    let refused = front.enqueue(&slot, 0, &vec![1; most + 1], None);
    assert!(matches!(refused, Err(SubmitError::TooLarge)), "{refused:?}");
    assert_eq!(front.queued().0, 0);
    front.enqueue(&slot, 0, &vec![1; most], None).unwrap();
    assert!(front.cancel(&slot));
    give_back(&front, slot);
}
