//! The number of workers, one step at a time.

use super::*;

#[test]
fn a_worker_has_started_when_it_sleeps_or_has_a_request() {
    let played = played(ON_DEMAND, &[]);
    let zygote = &played.zygote;
    let mut requests = played.queue(1);
    zygote.wake_worker();
    zygote.rescale(None);
    played.start(0..1);
    let mut worker = played.attachment().worker(0).unwrap();
    let stop = AtomicBool::new(false);
    let job = worker.next(&stop).unwrap().unwrap();
    requests.extend(played.queue(1));
    zygote.lack_workers(1);
    zygote.rescale(None);
    assert_eq!(zygote.wanted(), 2, "the first has a request");
    drop(job);

    let played = self::played(ON_DEMAND, &[]);
    let first = played.queue(1);
    played.zygote.wake_worker();
    played.zygote.rescale(None);
    let _sleepers = played.sleepers(0..1);
    drop(first);
    let _further = played.queue(2);
    played.zygote.lack_workers(2);
    played.zygote.rescale(None);
    assert_eq!(played.zygote.wanted(), 2, "the first sleeps, and takes one of them");
}

#[test]
fn a_zygote_that_did_not_read_is_told_again() {
    let played = played(ON_DEMAND, &[]);
    played.told();
    let _request = played.queue(1);
    // Until its socket is full.
    (0..10_000).for_each(|_| played.zygote.kill(0, 1, KILL_SIGNAL));
    played.zygote.wake_worker();
    played.zygote.rescale(None);
    assert_eq!((played.zygote.wanted(), played.told()), (1, None));
    played.zygote.rescale(None);
    assert_eq!(played.told(), Some(vec![0]));
    played.zygote.rescale(None);
    assert_eq!(played.told(), None);
}

#[test]
fn what_scripts_needed_is_measured_at_the_regular_look() {
    let played = played(auto(1), &[]);
    let zygote = &played.zygote;
    played.start(0..1);
    played.publish(1000 * MIB);
    let _request = played.queue(1);
    let mut worker = played.attachment().worker(0).unwrap();
    let mut job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
    job.writer.note_peak(100 * MIB);
    drop(job);
    let per_worker = |now| {
        zygote.rescale(now);
        zygote.memory_sum().map(|sum| sum.per_worker / MIB)
    };
    assert_eq!(per_worker(None), Some(64), "nothing is known");
    assert_eq!(per_worker(Some(Instant::now())), Some(100 + 16));
    assert!(zygote.patience() >= Duration::from_millis(1));
}

#[test]
fn workers_that_ran_out_of_memory_count_for_more() {
    let played = played(auto(2), &[]);
    let zygote = &played.zygote;
    played.start(0..2);
    zygote.note_out_of_memory();
    assert_eq!(zygote.memory_sum(), None, "nothing is known of the memory");
    played.publish((64 + 4 * 64) * MIB);
    zygote.rescale(Some(Instant::now()));
    zygote.note_out_of_memory();
    // There was room for four workers of 64 MiB, and two were too many.
    let sum = zygote.memory_sum().unwrap();
    assert_eq!(sum.per_worker / MIB, 4 * 64 / 2 / 4 * 5 + 16);
}

#[test]
fn a_surplus_counts_from_when_it_began() {
    let played = played(auto(3), &[]);
    let _sleepers = played.sleepers(0..3);
    let zygote = &played.zygote;
    let look = |room: u64| {
        played.publish((64 + room * 64) * MIB);
        zygote.rescale(Some(Instant::now()));
        zygote.wanted()
    };
    (0..9).for_each(|_| assert_eq!(look(9), 3));
    played
        .memory
        .publish_smaller(MemoryFigures { limit: 1024 * MIB, available: 1000 * MIB });
    assert_eq!(look(9), 3, "there is room still");
    (0..4).for_each(|_| assert_eq!(look(2), 3));
    assert_eq!(look(9), 3);
    (0..4).for_each(|_| assert_eq!(look(2), 3));
    assert_eq!(look(2), 2);
}

#[test]
fn workers_that_are_busy_stay_until_memory_is_short() {
    let played = played(auto(3), &[]);
    played.start(0..3);
    for _ in 0..9 {
        played.publish((64 + 2 * 64) * MIB);
        played.zygote.rescale(Some(Instant::now()));
        assert_eq!(played.zygote.wanted(), 3);
    }
}

#[test]
fn lanes_say_how_many_workers_run_whatever_the_processors() {
    let scaling = Scaling::Dynamic {
        start: 1,
        least_spare: 0,
        most_spare: PLACES,
        idle_timeout: None,
    };
    let played = played(scaling, &[lane("all", 9), lane("own", 9)]);
    let zygote = &played.zygote;
    played.start(0..1);
    // Short scripts need half as many workers as there are processors.
    zygote.note_service(1000, None);
    zygote
        .front
        .set_present(std::thread::available_parallelism().map_or(1, usize::from));
    let _requests = played.queue(2);
    zygote.lack_workers(2);
    zygote.rescale(None);
    assert_eq!(zygote.wanted(), 2, "one that starts, and another");
    assert!(!zygote.holds_back());
}
