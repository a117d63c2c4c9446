//! Bodies of requests that come as files.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::sync::atomic::AtomicBool;

use howdah_ipc::request::RequestEncoder;

use crate::support::driver::file_of;
use crate::support::{Order, attach_again, give_back, small_geometry};
use crate::{SMALL, clean, lone_worker};

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
    assert!(front.release(slot).is_none(), "its worker has the body: nothing is to be cleaned");
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
fn a_body_does_not_come_any_more_where_the_front_is_gone() {
    let (front, _attach, mut worker) = lone_worker(small_geometry(1, 1));
    let slot = front.checkout().unwrap();
    let mut encoder = RequestEncoder::default();
    front.submit(&slot, 0, SMALL.encode(&mut encoder, true), None).unwrap();
    let mut job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
    drop(front);
    assert_eq!(job.writer.take_body().unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn all_bodies_that_no_worker_took_are_closed_together() {
    let (front, attach, _worker) = lone_worker(small_geometry(1, 1));
    let mut readers = Vec::new();
    let mut last = None;
    for _ in 0..2 {
        let (reader, writer) = pipe();
        readers.push(File::from(reader));
        let slot = front.checkout().unwrap();
        let encoded = SMALL.encode(&mut RequestEncoder::default(), true).to_vec();
        front.submit(&slot, 0, &encoded, Some(writer.as_fd())).unwrap();
        assert!(front.cancel(&slot));
        let cleaning = front.release(slot).unwrap();
        // The zygote could not be told of the first.
        assert!(front.cleaned(cleaning.slot as usize));
        last = Some(cleaning);
    }
    attach_again(&attach).clean(last.unwrap()).unwrap();
    for mut reader in readers {
        assert_eq!(reader.read(&mut [0]).unwrap(), 0, "somebody holds it open");
    }
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

/// A pipe whose reading end does not block.
fn pipe() -> (OwnedFd, OwnedFd) {
    let mut ends = [-1; 2];
    // SAFETY: room for two descriptors.
    let made = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) };
    assert_eq!(made, 0);
    // SAFETY: both are fresh and ours.
    unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) }
}
