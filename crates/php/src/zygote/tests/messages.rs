//! The messages of a zygote about its workers and slots.

use super::*;

/// A worker's use of a slot, larger than what the slot keeps.
fn write_much(played: &Played, lease: &mut Lease) {
    let mut worker = played.attachment().worker(0).unwrap();
    let stop = AtomicBool::new(false);
    worker.next(&stop).unwrap().unwrap().writer.write(&[7; 100_000]).unwrap();
    let front = &played.zygote.front;
    front.slot_status(lease.slot()).unwrap();
    front.consume(lease.slot(), 100_000);
}

#[test]
fn a_slot_that_was_cleaned_goes_to_a_request_that_waits() {
    let played = played(Scaling::Static, &[]);
    let zygote = &played.zygote;
    played.start(0..PLACES);
    let mut lease = played.queue(1).remove(0);
    write_much(&played, &mut lease);
    let slot = lease.index() as u64;
    drop(lease);
    (0..2).for_each(|_| zygote.trim());
    while zygote.front.checkout().is_some() {}
    let mut waits = zygote.join_queue(QueuePlace::default()).unwrap();
    assert!(waits.try_recv().is_err(), "the zygote has the last slot");
    assert_eq!(zygote.hear(Some(FromZygote::Cleaned { slot })), None);
    let lease = waits.try_recv().unwrap().unwrap();
    assert_eq!(lease.index() as u64, slot);
    assert_eq!((zygote.waiting(), zygote.is_unused()), (0, false));
    drop(waits);
}

#[test]
fn the_kernel_says_what_a_worker_with_a_request_has_used() {
    let played = played(Scaling::Static, &[]);
    let zygote = &played.zygote;
    let pid = std::process::id().into();
    assert_eq!(
        zygote.hear(Some(FromZygote::Started { worker: 0, pid })),
        Some(ZygoteEvent::Started)
    );
    let _request = played.queue(1);
    let mut worker = played.attachment().worker(0).unwrap();
    assert_eq!(zygote.worker_figures()[0].2.processor, 0, "the worker has told nothing");
    let stop = AtomicBool::new(false);
    let job = worker.next(&stop).unwrap().unwrap();
    let (told_pid, _, figures) = zygote.worker_figures().remove(0);
    assert_eq!(told_pid, pid);
    assert!(figures.is_running && figures.processor > 0, "{figures:?}");
    drop(job);
}
