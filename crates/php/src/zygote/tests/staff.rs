//! The number of workers.

use super::*;
use crate::awake::ScriptLength;

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
    // Another, which nothing was noted for: only the regular look counts it.
    requests.extend(played.queue(1));
    zygote.rescale(None);
    assert_eq!((zygote.wanted(), played.told()), (1, None));
    zygote.rescale(Some(Instant::now()));
    assert_eq!((zygote.wanted(), played.told()), (2, Some(vec![0, 1])));
    requests.extend(played.queue(1));
    zygote.lack_workers(1);
    zygote.rescale(None);
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
    assert_eq!(zygote.awake.script_length(), ScriptLength::Short);
    // One of the two does not live yet, and is for a request that waits.
    zygote.front.set_present(limit - 1);
    let further = played.queue(2);
    zygote.lack_workers(2);
    zygote.rescale(None);
    assert_eq!(zygote.wanted(), 2);
    zygote.note_long();
    assert_eq!(zygote.awake.script_length(), ScriptLength::Long);
    drop((requests, further));
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
    played.publish((64 + 2 * 64) * MIB);
    let look = || {
        zygote.rescale(Some(Instant::now()));
        zygote.wanted()
    };
    // Four looks more for a figure that may be a moment's.
    for _ in 0..4 {
        assert_eq!(look(), 4);
    }
    assert_eq!([look(), look(), look()], [3, 2, 2]);
    assert_eq!(zygote.memory_sum().map(|sum| (sum.room, sum.is_short)), Some((2, false)));
}

#[test]
fn the_next_request_after_a_limit_became_smaller_meets_a_pool_that_has_room_for_it() {
    let played = played(auto(PLACES), &[]);
    let _sleepers = played.sleepers(0..PLACES);
    let zygote = &played.zygote;
    played.publish((64 + PLACES as u64 * 64) * MIB);
    zygote.heed_limits(Instant::now());
    zygote.rescale(None);
    assert_eq!((zygote.wanted(), zygote.awake.memory_room(0)), (PLACES, PLACES));
    played.told();
    played.memory.publish_smaller(MemoryFigures {
        limit: 512 * MIB,
        available: (32 + 2 * 64) * MIB,
    });
    assert_eq!(zygote.awake.memory_room(0), PLACES, "nothing has looked yet");
    zygote.heed_limits(Instant::now());
    assert_eq!(played.told(), Some(vec![0, 1]), "all that sleep and are too many end at once");
    assert_eq!((zygote.wanted(), zygote.awake.memory_room(0)), (2, 2));
    zygote.heed_limits(Instant::now());
    assert_eq!(played.told(), None);
}

#[test]
fn scripts_of_workers_that_end_after_them_take_memory_until_then() {
    let played = played(auto(PLACES), &[]);
    played.start(0..PLACES);
    let zygote = &played.zygote;
    // Too little for any other one.
    played.publish(63 * MIB);
    zygote.rescale(Some(Instant::now()));
    played.publish((64 + 3 * 64) * MIB);
    zygote.rescale(None);
    assert_eq!(zygote.wanted(), 1);
    assert_eq!(zygote.awake.memory_room(0), 1, "three others run, and one always may");
    for (worker, room) in [(3, 1), (2, 2), (1, 3)] {
        let (pid, status, processor) = (100 + worker, 0, 0);
        zygote.hear(Some(FromZygote::Died { worker, pid, status, processor }));
        assert_eq!(zygote.awake.memory_room(0), room);
    }
}

#[test]
fn the_worker_that_is_kept_takes_requests_while_scripts_of_the_others_do_not_end() {
    let played = played(auto(PLACES), &[]);
    played.start(0..PLACES);
    let zygote = &played.zygote;
    for available in [63, 64 + 64] {
        played.publish(available * MIB);
        zygote.rescale(Some(Instant::now()));
        assert_eq!((zygote.wanted(), zygote.awake.memory_room(0)), (1, 1), "{available}");
    }
    let _sleeper = played.sleepers(0..1);
    assert_eq!(zygote.front.awake_workers(), 0, "the others are not counted");
    assert!(!zygote.holds_back());
}

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
    played.publish((64 + 3 * 64) * MIB);
    let mut requests = played.queue(2);
    zygote.lack_workers(2);
    zygote.rescale(None);
    requests.extend(played.queue(2));
    zygote.lack_workers(2);
    zygote.rescale(None);
    assert_eq!(zygote.wanted(), 3, "of four places");
    zygote.lack_workers(1);
    assert_eq!(zygote.lacking.load(Ordering::Relaxed), 0, "there is no room for more");
    // The memory that starting workers may need is set aside until the next figures.
    played.publish((64 + 4 * 64) * MIB);
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
fn one_worker_of_a_pool_that_follows_its_memory_stays() {
    let played = played(auto(3), &[]);
    let _sleepers = played.sleepers(0..3);
    let now = Instant::now();
    played.zygote.rescale(Some(now));
    played.zygote.rescale(Some(now + Duration::from_secs(1000)));
    assert_eq!(played.zygote.wanted(), 1);
    assert_eq!(auto(3).name(), "auto");
}

#[test]
fn requests_in_lanes_get_their_slots_when_more_workers_are_wanted() {
    let played = played(ON_DEMAND, &[lane("all", 9), lane("own", 9)]);
    let zygote = &played.zygote;
    let first = zygote.try_lease(0).expect("it waits for the first worker");
    assert!(zygote.try_lease(0).is_none());
    let mut waits = zygote.join_queue(QueuePlace::default()).unwrap();
    zygote.front.enqueue(first.slot_ref(), 0, b"a request", None).unwrap();
    zygote.wake_worker();
    zygote.rescale(None);
    assert_eq!(zygote.wanted(), 1);
    assert!(waits.try_recv().is_ok(), "it has a slot");
}
