//! A worker that writes what it likes into its pool's region.
//!
//! Whatever it writes, whenever: the front's calls do not panic (debug builds check arithmetic and
//! indices), do not read outside the region, do not run for long, and answer `Corrupt` or what is
//! within bounds. Another pool does not notice.
#![allow(unsafe_code)] // Writes to the region behind the front's back.
#![allow(clippy::unwrap_used)] // A test's helpers fail the test.

mod support;

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use howdah_ipc::control::AttachMessage;
use howdah_ipc::flow_control::AbortReason;
use howdah_ipc::front::{FrontRegion, Slot};
use howdah_ipc::request::RequestEncoder;
use howdah_ipc::response::{self, DecodedHead};
use howdah_ipc::worker::{Attachment, Worker, WorkerJob};
use howdah_ipc::{Corrupt, Geometry};
use howdah_sys::memory::Mapping;
use support::driver::{Driver, deadline, run};
use support::process::Children;
use support::{Extra, Order, Raised, Random, attach_again, give_back, ring, serve, small_geometry};

const ORDER: Order = Order {
    seed: 5,
    size: 300,
    chunk: 100,
    extra: Extra::None,
};

/// Two slots, so that the front has a second one to go on with.
const GEOMETRY: Geometry = Geometry {
    slots: 2,
    workers: 1,
    threads: 1,
    request_bytes: 4096,
    ring_bytes: 4096,
};

/// The region as a hostile worker sees it.
struct Hand {
    mapping: Mapping,
    /// Bytes before the request areas: all words of the protocol.
    words: usize,
}

impl Hand {
    fn new(attach: &AttachMessage) -> Hand {
        let geometry = attach.geometry;
        let mapping = Mapping::new(attach.descriptors[0].as_fd(), geometry.length()).unwrap();
        let areas = geometry.slots * (geometry.request_bytes + geometry.ring_bytes);
        let words = geometry.length() - areas;
        Hand { mapping, words }
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset < self.mapping.length());
        // SAFETY: inside the mapping and aligned; all processes access such words as atomics, or
        // copy them.
        unsafe { &*self.mapping.base().as_ptr().add(offset).cast() }
    }

    fn long(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset < self.mapping.length());
        // SAFETY: as above.
        unsafe { &*self.mapping.base().as_ptr().add(offset).cast() }
    }
}

/// A pool in one of the states that a slot goes through.
struct Scene {
    front: FrontRegion,
    hand: Hand,
    worker: Worker,
    slot: Option<Slot>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Free,
    Queued,
    Taken,
    HeadSent,
    PartlyConsumed,
    RingFull,
    Ended,
    Done,
}

const STAGES: [Stage; 8] = [
    Stage::Free,
    Stage::Queued,
    Stage::Taken,
    Stage::HeadSent,
    Stage::PartlyConsumed,
    Stage::RingFull,
    Stage::Ended,
    Stage::Done,
];

impl Scene {
    fn at(stage: Stage) -> Scene {
        let (front, attach) = FrontRegion::create(GEOMETRY).unwrap();
        let mut scene = Scene {
            front,
            hand: Hand::new(&attach),
            worker: Attachment::new(attach).unwrap().worker(0).unwrap(),
            slot: None,
        };
        let mut slot = scene.front.checkout().unwrap();
        if stage != Stage::Free {
            submit(&scene.front, &slot).unwrap();
        }
        if !matches!(stage, Stage::Free | Stage::Queued) {
            let WorkerJob { mut writer, .. } =
                scene.worker.next(&AtomicBool::new(false)).unwrap().unwrap();
            if stage != Stage::Taken {
                let fields = [(&b"Name"[..], &b"value"[..])];
                writer
                    .send_head(response::HeadKind::Final, 200, b"", fields.into_iter())
                    .unwrap();
                writer.write(&[1; 500]).unwrap();
                writer.flush();
            }
            match stage {
                Stage::RingFull => {
                    writer.write(&vec![2; 4096 - writer.written() as usize]).unwrap()
                }
                Stage::Ended => writer.end(),
                Stage::PartlyConsumed => {
                    scene.front.slot_status(&mut slot).unwrap();
                    scene.front.consume(&mut slot, 100);
                    writer.write(&[3; 3000]).unwrap();
                }
                _ => {}
            }
            if stage != Stage::Done {
                // The script goes on for good.
                std::mem::forget(writer);
            }
        }
        scene.slot = Some(slot);
        scene
    }

    /// Everything that a front does with a slot and a pool, each answer checked.
    fn exercise(mut self) -> Result<(), Corrupt> {
        let sink = File::options().write(true).open("/dev/null").unwrap();
        let front = &self.front;
        let slot = self.slot.as_mut().expect("checked out");
        for _ in 0..2 {
            front.drain(0, |slot| assert!(slot < GEOMETRY.slots));
            let look = front.slot_status(slot);
            if let Ok(look) = look {
                assert!(look.worker.is_none_or(|worker| worker < GEOMETRY.workers));
            }
            let available = slot.written().checked_sub(slot.consumed()).unwrap();
            assert!(available <= GEOMETRY.ring_bytes as u64);
            let mut bytes = vec![0; GEOMETRY.ring_bytes + 1];
            let copied = front.copy(slot, 0, &mut bytes);
            assert_eq!(copied as u64, available);
            assert_eq!(front.copy(slot, u64::from(u32::MAX), &mut bytes), 0);
            read_head(&bytes[..copied]);
            let sent = front.send(slot, usize::MAX, sink.as_fd(), b"<", b">").unwrap();
            assert_eq!(sent, copied + 2);
            front.consume(slot, available / 2);
            let _ = front.try_sleep(0);
            front.woke(0);
            ring(front, 0);
            assert!(front.idle_workers() <= 64);
            let _ = front.requests_served(0);
        }
        front.abort(slot, AbortReason::Unread);
        let dead = front.worker_died(0)?;
        assert!(dead.iter().all(|&slot| slot < GEOMETRY.slots));
        let cancelled = front.cancel(slot);
        let slot = self.slot.take().expect("checked out");
        let over = cancelled || !dead.is_empty();
        if over {
            give_back(front, slot);
        }
        // The pool goes on with its other slot.
        for _ in 0..3 {
            let other = front.checkout().expect("two slots");
            submit(front, &other)?;
            front.cancel(&other);
            give_back(front, other);
        }
        Ok(())
    }
}

fn submit(front: &FrontRegion, slot: &Slot) -> Result<(), Corrupt> {
    let mut encoder = RequestEncoder::default();
    match front.submit(slot, 0, ORDER.encode(&mut encoder, false), None) {
        Ok(()) => Ok(()),
        Err(howdah_ipc::front::SubmitError::Corrupt(corrupt)) => Err(corrupt),
        Err(error) => panic!("{error:?}"),
    }
}

/// Reads any bytes as a head, in the way of the front.
fn read_head(bytes: &[u8]) {
    let Some((prefix, rest)) = bytes.split_first_chunk() else {
        return;
    };
    if let Ok((_, length)) = response::decode_prefix(*prefix)
        && let Some(head) = rest.get(..length)
        && let Ok(head) = DecodedHead::decode(head)
    {
        assert!(head.fields().count() <= bytes.len());
    }
}

/// Values that break counters, indices, lengths and bit sets.
fn nasty() -> Vec<u64> {
    let mut values = vec![0, 1, 2, 3, 4, 5, 16, u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1];
    values.extend([0xFFFF, 0x1_0000, 0xFFFF_FFFF, 0x1_0000_0000, 0x8000_0000, 0x7FFF_FFFF]);
    values.extend([4095, 4096, 4097, 8192, 0x0000_0001_FFFF_0002, 0x0000_0001_0000_0002]);
    // The states of generation 1, by worker 0 in its first life.
    values.extend((0..5).map(|phase| 1 << 32 | phase));
    values
}

#[test]
fn any_word_may_hold_anything_at_any_stage() {
    let (mut refused, mut accepted) = (0, 0);
    for stage in STAGES {
        let words = Scene::at(stage).hand.words;
        for offset in (0..words).step_by(4) {
            let whole = offset.is_multiple_of(8);
            // The upper half of a long word was written along with it; alone, it is another short
            // word.
            let values = if whole {
                nasty()
            } else {
                vec![0, 1, 2, 1 << 31, u64::MAX]
            };
            for value in values {
                let scene = Scene::at(stage);
                if whole {
                    scene.hand.long(offset).store(value, Ordering::Relaxed);
                } else {
                    scene.hand.word(offset).store(value as u32, Ordering::Relaxed);
                }
                match scene.exercise() {
                    Ok(()) => accepted += 1,
                    Err(Corrupt(_)) => refused += 1,
                }
            }
        }
    }
    assert!(refused > 100 && accepted > 1000, "{refused} refused, {accepted} not");
}

#[test]
fn every_word_may_hold_anything_at_any_stage() {
    let mut random = Random(11);
    let nasty = nasty();
    for round in 0..1_000 {
        let scene = Scene::at(STAGES[round % STAGES.len()]);
        let hand = &scene.hand;
        for offset in (0..hand.mapping.length()).step_by(8) {
            let value = match random.below(4) {
                0 => nasty[random.below(nasty.len())],
                1 => random.next(),
                2 => random.next() >> random.below(64),
                _ => continue,
            };
            if offset < hand.words || random.below(8) == 0 {
                hand.long(offset).store(value, Ordering::Relaxed);
            }
        }
        let _ = scene.exercise();
    }
}

/// A pool that is sprayed with garbage while it works, and is replaced whenever the front finds it
/// corrupt, beside one that is left alone.
#[test]
fn garbage_during_traffic_stays_in_its_pool() {
    let (until, end) = (Instant::now() + Duration::from_secs(3), deadline());
    let (healthy, attach) = FrontRegion::create(small_geometry(2, 1)).unwrap();
    let (enough, over) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _end = Raised {
            flags: &[&enough, &over],
            workers: Some(&attach),
        };
        for index in 0..2 {
            let worker = attach_again(&attach).worker(index).unwrap();
            let over = &over;
            scope.spawn(move || serve(worker, over));
        }
        let unharmed = scope.spawn(|| {
            let mut answered = 0;
            while !enough.load(Ordering::Acquire) {
                let orders = Random(answered as u64).orders(50);
                answered += run(&healthy, 0, &orders, 3, &Mutex::default()).answered;
            }
            answered
        });
        let (mut seed, mut replaced) = (0, 0);
        while Instant::now() < until || replaced <= 3 {
            assert!(Instant::now() < end, "only {replaced} of {seed} pools were found corrupt");
            replaced += usize::from(spray_until_corrupt(seed));
            seed += 1;
        }
        enough.store(true, Ordering::Release);
        assert!(unharmed.join().unwrap() > 0);
        over.store(true, Ordering::Release);
        (0..2).for_each(|worker| attach_again(&attach).wake(worker));
    });
}

/// Returns whether the front found the pool corrupt within half a second.
fn spray_until_corrupt(seed: u64) -> bool {
    let (front, attach) = FrontRegion::create(small_geometry(2, 1)).unwrap();
    let hand = Hand::new(&attach);
    // In processes, since they may run into the garbage themselves, and never come out of it.
    let _children = Children::fork(attach);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = Raised { flags: &[&over], workers: None };
        scope.spawn(|| spray(&hand, seed, &over));
        let lost = Mutex::default();
        let soon = Instant::now() + Duration::from_millis(500);
        let mut driver = Driver::new(&front, 0, &lost);
        driver.give_up_at(soon);
        let mut corrupt = false;
        while Instant::now() < soon && !corrupt {
            corrupt =
                driver.run(&Random(seed).orders(20), 4).is_err() || front.worker_died(0).is_err();
        }
        over.store(true, Ordering::Release);
        corrupt
    })
}

/// Random values to random places, mostly to the words of the protocol.
fn spray(hand: &Hand, seed: u64, over: &AtomicBool) {
    let mut random = Random(seed);
    let nasty = nasty();
    while !over.load(Ordering::Acquire) {
        let end = if random.below(4) == 0 {
            hand.mapping.length()
        } else {
            hand.words
        };
        let value = match random.below(2) {
            0 => nasty[random.below(nasty.len())],
            _ => random.next() >> random.below(64),
        };
        hand.long(random.below(end / 8) * 8).store(value, Ordering::Relaxed);
        std::thread::sleep(Duration::from_micros(random.below(300) as u64));
    }
}
