//! Slots that the zygote cleans, and memory that goes back to the kernel.

use std::sync::atomic::AtomicBool;

use howdah_ipc::Geometry;

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
