//! A zygote whose messages and workers the tests play.

mod growth;
mod messages;
mod queue;
mod staff;

use std::os::fd::AsFd;
use std::thread::JoinHandle;

use howdah_ipc::control::AttachMessage;
use howdah_ipc::worker::Attachment;
use howdah_sys::seqpacket::SeqPacket;

use super::*;
use crate::lanes::QueuePlace;
use crate::memory::MemoryFigures;

const PLACES: usize = 4;
const MIB: u64 = 1 << 20;

/// A front's zygote, and the other end of its socket.
struct Played {
    zygote: Arc<Zygote>,
    memory: Arc<MemoryWatch>,
    end: SeqPacket,
    attach: AttachMessage,
}

fn played(scaling: Scaling, lanes: &[LaneLimits]) -> Played {
    let memory = Arc::<MemoryWatch>::default();
    let (front, end) = SeqPacket::pair().unwrap();
    let limits = PoolLimits {
        workers: PLACES,
        scaling,
        queue: 100,
        queue_timeout: Duration::from_secs(600),
        request_timeout: Duration::from_secs(600),
        request_terminate_timeout: Duration::from_secs(600),
        slow_after: None,
        meters_processor: false,
    };
    let (front, _) = FrontSocket::of(front);
    let zygote = Zygote::attach(front, (&limits, lanes), 1, memory.clone()).unwrap();
    let (mut room, mut descriptors) = (vec![0; 65536], Vec::new());
    let attach = loop {
        let received = end.receive(&mut room).unwrap();
        descriptors.extend(received.descriptors);
        if let Ok(ToZygote::Attach { geometry, total }) = ToZygote::decode(&room[..received.length])
            && descriptors.len() as u64 == total
        {
            break AttachMessage { geometry, descriptors };
        }
    };
    Played { zygote, memory, end, attach }
}

const ON_DEMAND: Scaling = Scaling::OnDemand { idle_timeout: Duration::from_secs(10) };

fn lane(name: &str, workers: usize) -> LaneLimits {
    LaneLimits {
        name: name.to_owned(),
        workers,
        queue: 100,
        queue_timeout: Duration::from_secs(600),
        weight: 1,
    }
}

fn dynamic(most_spare: usize, idle_timeout: Option<Duration>) -> Scaling {
    Scaling::Dynamic {
        start: 3,
        least_spare: 1,
        most_spare,
        idle_timeout,
    }
}

fn auto(start: usize) -> Scaling {
    Scaling::Auto {
        start,
        idle_timeout: Duration::from_secs(1000),
        memory_share: 100,
        memory: None,
    }
}

/// A worker that sleeps until the test is over.
struct Sleeper {
    attachment: Attachment,
    index: usize,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.attachment.wake(self.index);
        self.thread.take().into_iter().for_each(|thread| thread.join().unwrap());
    }
}

impl Played {
    /// The workers that the zygote was told to keep last.
    fn told(&self) -> Option<Vec<usize>> {
        let (mut room, mut told) = (vec![0; 65536], None);
        while let Ok(received) = self.end.receive_now(&mut room) {
            if let Ok(ToZygote::Keep(workers)) = ToZygote::decode(&room[..received.length]) {
                told = Some((0..PLACES).filter(|worker| workers.has(*worker)).collect());
            }
        }
        told
    }

    /// The other messages that the zygote has got: workers that it should signal, slots that it
    /// should clean, and the word to end.
    fn orders(&self) -> (Vec<u64>, Vec<u64>, usize) {
        let (mut room, mut killed, mut cleaned, mut ends) = (vec![0; 65536], vec![], vec![], 0);
        while let Ok(received) = self.end.receive_now(&mut room) {
            match ToZygote::decode(&room[..received.length]).unwrap() {
                ToZygote::Kill { pid, .. } => killed.push(pid),
                ToZygote::Clean(cleaning) => cleaned.push(cleaning.slot),
                ToZygote::Stop => ends += 1,
                _ => {}
            }
        }
        (killed, cleaned, ends)
    }

    fn start(&self, workers: std::ops::Range<usize>) {
        for worker in workers {
            let message = FromZygote::Started {
                worker: worker as u64,
                pid: 100 + worker as u64,
            };
            assert_eq!(self.zygote.hear(Some(message)), Some(ZygoteEvent::Started));
        }
    }

    fn attachment(&self) -> Attachment {
        let all = self.attach.descriptors.iter();
        Attachment::new(AttachMessage {
            geometry: self.attach.geometry,
            descriptors: all.map(|fd| fd.as_fd().try_clone_to_owned().unwrap()).collect(),
        })
        .unwrap()
    }

    /// Starts workers that sleep.
    fn sleepers(&self, workers: std::ops::Range<usize>) -> Vec<Sleeper> {
        let sleepers = workers.clone().map(|index| {
            let stop = Arc::new(AtomicBool::new(false));
            let (stopped, mut worker) = (stop.clone(), self.attachment().worker(index).unwrap());
            let thread =
                std::thread::spawn(move || while worker.next(&stopped).unwrap().is_some() {});
            Sleeper {
                attachment: self.attachment(),
                index,
                stop,
                thread: Some(thread),
            }
        });
        let sleepers = sleepers.collect();
        let until = Instant::now() + Duration::from_secs(240);
        while !workers.clone().all(|worker| self.zygote.front.is_idle(worker)) {
            assert!(Instant::now() < until, "the workers do not sleep");
            std::thread::sleep(Duration::from_millis(1));
        }
        self.start(workers);
        sleepers
    }

    /// Queues requests, without waking a worker.
    fn queue(&self, count: usize) -> Vec<Lease> {
        let lease = |_| {
            let lease = self.zygote.try_lease(0).unwrap();
            self.zygote.front.enqueue(lease.slot_ref(), 0, b"a request", None).unwrap();
            lease
        };
        (0..count).map(lease).collect()
    }

    fn publish(&self, available: u64) {
        // 64 MiB of it stay free. A worker that has told nothing counts 64 MiB.
        self.memory.publish(MemoryFigures { limit: 1024 * MIB, available });
    }
}

#[test]
fn requests_whose_worker_died_need_another() {
    for count in [2, 0] {
        let played = played(ON_DEMAND, &[]);
        let zygote = &played.zygote;
        zygote.unstick(1);
        let requests = played.queue(count.max(1));
        zygote.rescale(None);
        assert_eq!((zygote.wanted(), zygote.lacking.load(Ordering::Relaxed)), (count.max(1), 0));
        played.start(0..1);
        if count == 0 {
            // A worker has taken the entry, and the client is gone.
            assert!(zygote.front.cancel(requests[0].slot_ref()));
            let mut worker = played.attachment().worker(0).unwrap();
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let taking = scope.spawn(|| worker.next(&stop).map(|job| job.is_some()));
                while zygote.front.queued().0 > 0 {
                    std::thread::yield_now();
                }
                stop.store(true, Ordering::Release);
                played.attachment().wake(0);
                assert!(!taking.join().unwrap().unwrap());
            });
        }
        let died = FromZygote::Died {
            worker: 0,
            pid: 100,
            status: 9,
            processor: 0,
        };
        let event = ZygoteEvent::Died {
            pid: 100,
            status: 9,
            is_out_of_memory: false,
            processor: Duration::ZERO,
            is_dismissed: false,
        };
        assert_eq!(zygote.hear(Some(died)), Some(event));
        let noted = zygote.lacking.load(Ordering::Relaxed);
        assert!(noted >= count && (noted == 0) == (count == 0), "{noted} of {count}");
        assert_eq!((zygote.living(), zygote.pid(0)), (0, 0));
        drop(requests);
    }
}

#[test]
fn the_death_of_a_worker_that_was_told_to_end_is_none_of_a_wanted_one() {
    let played = played(dynamic(1, None), &[]);
    let _sleepers = played.sleepers(0..3);
    played.zygote.rescale(Some(Instant::now()));
    let died = |worker| FromZygote::Died {
        worker,
        pid: 100 + worker,
        status: 0,
        processor: 0,
    };
    for (worker, is_dismissed) in [(2, true), (1, false)] {
        let event = played.zygote.hear(Some(died(worker)));
        assert_eq!(
            event,
            Some(ZygoteEvent::Died {
                pid: 100 + worker,
                status: 0,
                is_out_of_memory: false,
                processor: Duration::ZERO,
                is_dismissed
            })
        );
    }
}

#[test]
fn workers_have_time_to_start_before_they_are_thought_to_be_stopped() {
    let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
    for (lives, seconds, has_settled) in
        [(true, 6, true), (true, 0, false), (false, 6, false), (false, 21, true)]
    {
        let mut played = played(Scaling::Static, &[]);
        Arc::get_mut(&mut played.zygote).unwrap().attached = ago(60);
        played.start(0..usize::from(lives));
        assert!(!played.zygote.has_settled());
        played.zygote.state().staffed = ago(seconds);
        assert_eq!(played.zygote.has_settled(), has_settled, "{lives} {seconds}");
        let slot = played.zygote.front.checkout().unwrap();
        while played.zygote.front.checkout().is_some() {}
        // Another request has a slot, or there is one.
        played.zygote.out.store(1, Ordering::SeqCst);
        played.zygote.give_up_without_slots();
        played.zygote.out.store(0, Ordering::SeqCst);
        let cleaning = played.zygote.front.release(slot);
        assert!(cleaning.is_none());
        played.zygote.give_up_without_slots();
        assert!(!played.zygote.is_dead());
        assert!(played.zygote.front.checkout().is_some());
        played.zygote.give_up_without_slots();
        assert_eq!(played.zygote.is_dead(), has_settled, "{lives} {seconds}");
        if has_settled {
            assert_eq!(played.zygote.reason(), CLEANS_NOTHING);
        }
    }
}

#[test]
fn a_zygote_that_was_replaced_is_told_from_one_that_was_given_up() {
    let played = played(Scaling::Static, &[]);
    assert!(!played.zygote.is_replaced() && !played.zygote.is_dead());
    played.zygote.replace();
    assert!(played.zygote.is_replaced() && played.zygote.is_dead());
    let other = self::played(Scaling::Static, &[]);
    other.zygote.condemn();
    assert!(!other.zygote.is_replaced());
    assert_eq!(other.zygote.reason(), NONSENSE);
}

#[test]
fn the_processor_time_of_workers_that_died_is_counted_once_and_within_what_can_be_true() {
    let played = played(Scaling::Static, &[]);
    let begin = Instant::now();
    played.start(0..2);
    std::thread::sleep(Duration::from_millis(3));
    let died = |worker, pid, processor| FromZygote::Died { worker, pid, status: 0, processor };
    played.zygote.hear(Some(died(0, 7, 2_000_000)));
    assert_eq!(played.zygote.take_processor(), 0, "another process than that of the place");
    played.zygote.hear(Some(died(0, 100, 2_000_000)));
    assert_eq!(played.zygote.take_processor(), 2_000_000);
    assert_eq!(played.zygote.take_processor(), 0);
    played.zygote.hear(Some(died(1, 101, u64::MAX)));
    let most = u64::try_from(begin.elapsed().as_nanos()).unwrap();
    let processors = howdah_sys::usage::Machine::present().processors;
    let counted = played.zygote.take_processor();
    assert!((1..=most * processors).contains(&counted), "{counted}");
    assert_eq!(played.zygote.worker_figures().len(), PLACES);
}

#[test]
fn a_request_does_not_pass_those_that_wait_for_a_slot() {
    for lanes in [vec![], vec![lane("all", 2), lane("own", 2)]] {
        let played = played(Scaling::Static, &lanes);
        let zygote = &played.zygote;
        assert_eq!((zygote.running(), zygote.is_unused()), (0, true));
        zygote.waiting.store(1, Ordering::SeqCst);
        assert!(!zygote.is_unused(), "a request waits");
        zygote.waiting.store(0, Ordering::SeqCst);
        played.start(0..PLACES);
        let lease = zygote.try_lease(0).expect("a slot is free");
        assert_eq!((zygote.running(), zygote.waiting(), zygote.is_unused()), (1, 0, false));
        zygote.waiting.store(1, Ordering::SeqCst);
        assert!(zygote.try_lease(0).is_none(), "another waits");
        zygote.waiting.store(0, Ordering::SeqCst);
        let second = zygote.try_lease(0);
        let third = zygote.try_lease(0);
        // A lane has two workers at most.
        assert_eq!((second.is_some(), third.is_some()), (true, lanes.is_empty()));
        assert_eq!(zygote.lane_figures().len(), lanes.len());
        if !lanes.is_empty() {
            let waits = zygote.join_queue(QueuePlace::default()).unwrap();
            assert_eq!((zygote.running(), zygote.waiting()), (2, 1));
            drop(waits);
        }
        drop((lease, second, third));
        assert!(zygote.is_unused());
        assert_eq!(zygote.most_running(), if lanes.is_empty() { 3 } else { 2 });
    }
}

#[test]
fn a_zygote_that_is_given_up_has_its_workers_killed() {
    let played = played(Scaling::Static, &[]);
    played.start(1..3);
    played.orders();
    played.zygote.condemn();
    played.zygote.condemn();
    assert_eq!(played.orders().0, [101, 102]);
}

#[test]
fn a_zygote_is_told_to_end_once() {
    let played = played(Scaling::Static, &[]);
    assert!(!played.zygote.has_php());
    let ready = FromZygote::Ready {
        php_version: String::new(),
        opcache: String::new(),
        settings: 0,
        warmup: None,
    };
    played.zygote.hear(Some(ready));
    assert!(played.zygote.has_php());
    played.orders();
    for ends in [1, 0] {
        played.zygote.stop();
        assert_eq!(played.orders(), (vec![], vec![], ends));
    }
}

#[test]
fn memory_of_large_responses_is_given_back() {
    let played = played(Scaling::Static, &[]);
    let zygote = &played.zygote;
    let mut lease = played.queue(1).remove(0);
    let mut worker = played.attachment().worker(0).unwrap();
    let stop = AtomicBool::new(false);
    worker.next(&stop).unwrap().unwrap().writer.write(&[7; 100_000]).unwrap();
    zygote.front.slot_status(lease.slot()).unwrap();
    zygote.front.consume(lease.slot(), 100_000);
    let slot = lease.index() as u64;
    drop(lease);
    played.orders();
    zygote.trim();
    assert!(played.orders().1.is_empty(), "it was just used");
    zygote.trim();
    assert_eq!(played.orders().1, [slot]);
    // A zygote that is gone cleans nothing; the slot can be used without it.
    assert!(zygote.front.cleaned(slot as usize));
}

#[test]
fn requests_of_a_pool_with_lanes_wait_in_their_lanes() {
    let played = played(Scaling::Static, &[lane("all", 9), lane("own", 9)]);
    let zygote = &played.zygote;
    played.start(0..PLACES);
    let mut leases = Vec::new();
    // A lane of its own leaves a worker to others. One request waits for the next worker.
    for (lane, most) in [(1, 3), (0, 2)] {
        let before = leases.len();
        leases.extend(std::iter::from_fn(|| zygote.try_lease(lane)));
        assert_eq!(leases.len() - before, most, "lane {lane}");
    }
}

#[test]
fn a_lane_s_queue_is_bounded_although_workers_are_free() {
    let played = played(Scaling::Static, &[lane("all", 1), lane("own", 1)]);
    let zygote = &played.zygote;
    played.start(0..PLACES);
    let _lease = zygote.try_lease(0).unwrap();
    let waits =
        (0..100).map(|client| zygote.join_queue(QueuePlace { client, ..QueuePlace::default() }));
    let waits: Vec<_> = waits.collect();
    assert!(waits.iter().all(Result::is_ok));
    let further = zygote.join_queue(QueuePlace { client: 7, ..QueuePlace::default() });
    assert!(further.is_err(), "its client has a place");
    assert_eq!(zygote.waiting(), 100);
}

#[test]
fn only_a_pool_with_places_for_more_workers_may_grow() {
    let start = |start| Scaling::Dynamic {
        start,
        least_spare: 0,
        most_spare: PLACES,
        idle_timeout: None,
    };
    for (scaling, may_grow) in
        [(Scaling::Static, false), (start(PLACES - 1), true), (start(PLACES), false)]
    {
        let played = played(scaling, &[]);
        assert_eq!(played.zygote.may_grow.load(Ordering::Relaxed), may_grow, "{scaling:?}");
    }
}

#[test]
fn requests_whose_scripts_have_ended_are_counted() {
    let played = played(Scaling::Static, &[]);
    for count in 0..3 {
        assert_eq!(played.zygote.answered(), count);
        played.zygote.count_answer();
    }
}
