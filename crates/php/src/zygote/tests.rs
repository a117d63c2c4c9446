//! A zygote whose messages and workers the tests play.

use std::os::fd::AsFd;
use std::thread::JoinHandle;

use howdah_ipc::control::Attach;
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
    attach: Attach,
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
    let (front, _) = ControlSocket::of(front);
    let zygote = Zygote::attach(front, (&limits, lanes), 1, memory.clone()).unwrap();
    let (mut room, mut descriptors) = (vec![0; 65536], Vec::new());
    let attach = loop {
        let received = end.receive(&mut room).unwrap();
        descriptors.extend(received.descriptors);
        if let Ok(ToZygote::Attach { geometry, total }) = ToZygote::decode(&room[..received.length])
            && descriptors.len() as u64 == total
        {
            break Attach { geometry, descriptors };
        }
    };
    Played { zygote, memory, end, attach }
}

const ON_DEMAND: Scaling = Scaling::OnDemand { idle_timeout: Duration::from_secs(10) };

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
        Attachment::new(Attach {
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
        // 64 MiB of it stay free. A worker that has told nothing counts 32 MiB.
        self.memory.publish(MemoryFigures { limit: 1024 * MIB, available });
    }
}

#[test]
fn workers_are_started_for_requests_that_found_none_asleep() {
    let played = played(ON_DEMAND, &[]);
    let zygote = &played.zygote;
    assert_eq!(played.told(), Some(vec![]));
    zygote.rescale(None);
    assert_eq!((zygote.wanted(), played.told()), (0, None));
    let mut requests = played.queue(1);
    zygote.wake_worker();
    assert_eq!(zygote.lacking.load(Ordering::Relaxed), 1);
    zygote.rescale(None);
    assert_eq!((zygote.wanted(), played.told()), (1, Some(vec![0])));
    played.start(0..1);
    assert_eq!((zygote.living(), zygote.pid(0), zygote.pid(1)), (1, 100, 0));
    // Two more, which nothing was noted for: only the regular look counts them.
    requests.extend(played.queue(2));
    zygote.rescale(None);
    assert_eq!((zygote.wanted(), played.told()), (1, None));
    zygote.rescale(Some(Instant::now()));
    assert_eq!((zygote.wanted(), played.told()), (3, Some(vec![0, 1, 2])));
    zygote.lack_workers(10);
    requests.extend(played.queue(3));
    zygote.rescale(None);
    assert_eq!((zygote.wanted(), played.told()), (4, Some(vec![0, 1, 2, 3])));
    zygote.lack_workers(1);
    assert_eq!(zygote.lacking.load(Ordering::Relaxed), 0, "there is no place for more");
    drop(requests);
}

#[test]
fn a_request_wakes_a_worker_that_sleeps_and_no_other_is_started() {
    let played = played(ON_DEMAND, &[]);
    let _requests = played.queue(1);
    played.zygote.wake_worker();
    played.zygote.rescale(None);
    let _sleepers = played.sleepers(0..1);
    played.zygote.wake_worker();
    assert_eq!(played.zygote.lacking.load(Ordering::Relaxed), 0);
}

#[test]
fn as_many_workers_as_the_processors_can_use_are_enough_unless_they_are_stuck() {
    let played = played(
        Scaling::Dynamic {
            start: 1,
            least_spare: 0,
            most_spare: PLACES,
            idle_timeout: None,
        },
        &[],
    );
    let zygote = &played.zygote;
    played.start(0..1);
    assert!(!zygote.holds_back());
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    // Short scripts need half as many workers as there are processors.
    zygote.note_service(1000, None);
    assert_eq!(zygote.holds_back(), processors <= 2);
    let limit = processors.div_ceil(2);
    // More of them live than the pool has places, as far as the front knows.
    zygote.front.set_present(limit);
    assert!(zygote.holds_back());
    let requests = played.queue(2);
    zygote.rescale(Some(Instant::now()));
    assert_eq!(zygote.wanted(), 1, "they are left to those that are awake");
    zygote.lack_workers(2);
    zygote.rescale(None);
    assert_eq!(zygote.wanted(), 1);
    zygote.unstick(2);
    zygote.rescale(None);
    assert_eq!(zygote.wanted(), 2, "one that starts, and another");
    assert!(zygote.awake.is_short());
    zygote.note_long();
    assert!(!zygote.awake.is_short());
    drop(requests);
}

#[test]
fn workers_that_have_slept_for_long_end_unless_they_are_spare() {
    let time = Duration::from_secs(50);
    for (idle_timeout, left) in [(None, 3), (Some(time), 1)] {
        let played = played(dynamic(PLACES, idle_timeout), &[]);
        let _sleepers = played.sleepers(0..3);
        let zygote = &played.zygote;
        let now = Instant::now();
        zygote.rescale(Some(now));
        zygote.rescale(Some(now + time - Duration::from_millis(1)));
        assert_eq!(zygote.wanted(), 3, "{idle_timeout:?}");
        assert_eq!(played.told(), Some(vec![0, 1, 2]), "{idle_timeout:?}");
        zygote.rescale(Some(now + time));
        assert_eq!(zygote.wanted(), left, "{idle_timeout:?}");
        let is_idle = [0, 1, 2].map(|worker| zygote.front.is_idle(worker));
        match idle_timeout {
            None => assert_eq!((played.told(), is_idle), (None, [true; 3])),
            Some(_) => {
                assert_eq!((played.told(), is_idle), (Some(vec![0]), [true, false, false]));
                assert_eq!(zygote.front.present(), 1);
            }
        }
        zygote.rescale(Some(now + 3 * time));
        assert_eq!(zygote.wanted(), left, "{idle_timeout:?}: one is always spare");
    }
}

#[test]
fn of_more_spare_workers_than_may_be_one_ends_at_a_time() {
    let played = played(dynamic(1, None), &[]);
    let _sleepers = played.sleepers(0..3);
    for left in [2, 1, 1] {
        played.zygote.rescale(Some(Instant::now()));
        assert_eq!(played.zygote.wanted(), left);
    }
}

#[test]
fn workers_that_the_memory_has_no_room_for_end_one_at_a_time_when_it_lasts() {
    let played = played(auto(PLACES), &[]);
    let _sleepers = played.sleepers(0..PLACES);
    let zygote = &played.zygote;
    played.publish((64 + 2 * 32) * MIB);
    let look = || {
        zygote.rescale(Some(Instant::now()));
        zygote.wanted()
    };
    for _ in 0..PATIENCE {
        assert_eq!(look(), 4);
    }
    assert_eq!([look(), look(), look()], [3, 2, 2]);
    assert_eq!(zygote.memory_sum().map(|sum| (sum.room, sum.is_short)), Some((2, false)));
}

const PATIENCE: u32 = 4;

#[test]
fn where_memory_is_short_workers_end_at_once_the_busy_ones_after_their_request() {
    for sleeping in [0, 1, PLACES] {
        let played = played(auto(PLACES), &[]);
        let _sleepers = played.sleepers(0..sleeping);
        played.start(sleeping..PLACES);
        played.told();
        played.publish(63 * MIB);
        played.zygote.rescale(Some(Instant::now()));
        let kept = played.told().map(|workers| workers.len());
        assert_eq!((played.zygote.wanted(), kept), (1, Some(1)), "{sleeping}");
        played.zygote.rescale(Some(Instant::now()));
        assert_eq!(played.zygote.wanted(), 1, "one stays");
    }
}

#[test]
fn no_more_workers_are_started_than_there_is_memory_for() {
    let played = played(auto(1), &[]);
    let zygote = &played.zygote;
    played.start(0..1);
    played.publish((64 + 3 * 32) * MIB);
    let requests = played.queue(PLACES);
    zygote.lack_workers(PLACES);
    zygote.rescale(None);
    assert_eq!(zygote.wanted(), 3, "of four places");
    zygote.lack_workers(1);
    assert_eq!(zygote.lacking.load(Ordering::Relaxed), 0, "there is no room for more");
    // What those that start may need is set aside until the next figures.
    played.publish((64 + 4 * 32) * MIB);
    let sum = {
        zygote.rescale(None);
        zygote.memory_sum().expect("the pool depends on it")
    };
    assert_eq!(played.memory.affordable(&sum), 4);
    zygote.lack_workers(1);
    zygote.rescale(None);
    assert_eq!(zygote.wanted(), 4);
    assert_eq!(played.memory.affordable(&sum), 3);
    drop(requests);
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
        let event = ZygoteEvent::Died { pid: 100, status: 9, is_dismissed: false };
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
        while let Some(slot) = played.zygote.front.checkout() {
            std::mem::forget(slot);
        }
        // Another request has a slot, or there is one.
        played.zygote.out.store(1, Ordering::SeqCst);
        played.zygote.give_up_without_slots();
        played.zygote.out.store(0, Ordering::SeqCst);
        let cleaning = played.zygote.front.release(slot);
        assert!(cleaning.is_none());
        played.zygote.give_up_without_slots();
        assert!(!played.zygote.is_dead());
        std::mem::forget(played.zygote.front.checkout().unwrap());
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
    let lane = |name: &str| LaneLimits {
        name: name.to_owned(),
        workers: 2,
        queue: 1,
        queue_timeout: Duration::from_secs(600),
        weight: 1,
    };
    for lanes in [vec![], vec![lane("all"), lane("own")]] {
        let played = played(Scaling::Static, &lanes);
        let zygote = &played.zygote;
        assert_eq!((zygote.running(), zygote.is_unused()), (0, true));
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
    }
}
