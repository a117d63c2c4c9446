//! Responses, and what a worker tells and asks while it writes one.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use howdah_ipc::flow_control::AbortReason;
use howdah_ipc::front::{FrontRegion, Slot};
use howdah_ipc::layout::SlotState;
use howdah_ipc::request::RequestEncoder;
use howdah_ipc::worker::{ResponseAborted, Worker};
use howdah_ipc::{Geometry, SlotPhase};
use howdah_sys::usage;

use crate::support::driver::deadline;
use crate::support::process::wait_until;
use crate::support::{give_back, small_geometry};
use crate::{SMALL, lone_worker, memory_file, submit};

#[test]
fn a_worker_that_waits_for_room_is_freed_when_nobody_wants_the_rest() {
    // A worker looks by itself once a second. On a busy machine all may take as long by chance, but
    // not each time.
    let end = deadline();
    while freed_after() > Duration::from_millis(900) {
        assert!(Instant::now() < end, "only the regular check frees it");
    }
}

/// Returns how long a worker has waited for room until it is freed.
fn freed_after() -> Duration {
    let (front, _attach, worker) = lone_worker(small_geometry(1, 1));
    let mut slot = submit(&front, SMALL);
    let (result, took) = writes_beyond_room(&front, &mut slot, worker, 200_000, |slot| {
        front.abort(slot, AbortReason::Unread)
    });
    assert_eq!(result, Err(ResponseAborted));
    assert_eq!(front.slot_status(&mut slot).unwrap().phase, SlotPhase::Done);
    give_back(&front, slot);
    took
}

/// Makes the worker write `bytes` bytes, more than the ring holds, and calls `free` when the ring
/// is full. Returns the result, and how long the worker took.
fn writes_beyond_room(
    front: &FrontRegion,
    slot: &mut Slot,
    mut worker: Worker,
    bytes: usize,
    free: impl FnOnce(&mut Slot),
) -> (Result<(), ResponseAborted>, Duration) {
    let job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
    let mut writer = job.writer;
    std::thread::scope(|scope| {
        let writing = scope.spawn(move || {
            let began = Instant::now();
            let result = writer.write(&vec![7; bytes]);
            (result, began.elapsed())
        });
        wait_until("the ring is full", || {
            front.slot_status(slot).unwrap();
            slot.written() == 64 * 1024
        });
        std::thread::sleep(Duration::from_millis(20));
        free(slot);
        writing.join().unwrap()
    })
}

#[test]
fn a_worker_that_waits_for_room_goes_on_when_half_the_ring_is_free() {
    // As above: the regular check comes a second after the worker began to wait.
    let end = deadline();
    while goes_on_after() > Duration::from_millis(900) {
        assert!(Instant::now() < end, "only the regular check frees it");
    }
}

/// Returns how long a worker takes that waits until the front has consumed half of its ring.
fn goes_on_after() -> Duration {
    let (front, _attach, worker) = lone_worker(small_geometry(1, 1));
    let mut slot = submit(&front, SMALL);
    let half = |slot: &mut Slot| front.consume(slot, 32 * 1024);
    let (result, took) = writes_beyond_room(&front, &mut slot, worker, 64 * 1024 + 100, half);
    result.unwrap();
    front.slot_status(&mut slot).unwrap();
    assert_eq!((slot.consumed(), slot.written()), (32 * 1024, 64 * 1024 + 100));
    give_back(&front, slot);
    took
}

#[test]
fn what_is_in_the_ring_goes_out_between_two_texts() {
    let (front, _attach, mut worker) = lone_worker(small_geometry(1, 1));
    let mut slot = submit(&front, SMALL);
    let mut job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
    // The next bytes continue at the start of the ring.
    job.writer.write(&vec![0; 65_000]).unwrap();
    job.writer.flush();
    front.slot_status(&mut slot).unwrap();
    front.consume(&mut slot, 65_000);
    let content: Vec<u8> = (0..2_000_u32).map(|number| number as u8).collect();
    job.writer.write(&content).unwrap();
    job.writer.flush();
    front.slot_status(&mut slot).unwrap();
    let (mut reader, writer) = std::io::pipe().unwrap();
    for length in [2_000, 1, 0, usize::MAX] {
        let sent = front.send(&slot, length, writer.as_fd(), b"before ", b" after").unwrap();
        let part = &content[..length.min(2_000)];
        let expected = [b"before ", part, b" after"].concat();
        assert_eq!(sent, expected.len());
        let mut received = vec![0; sent];
        reader.read_exact(&mut received).unwrap();
        assert!(received == expected, "{length}");
        assert_eq!(slot.consumed(), 65_000, "sending consumes nothing");
    }
    drop(job);
    give_back(&front, slot);
}

#[test]
fn a_response_may_be_complete_while_its_script_goes_on() {
    let (front, _attach, mut worker) = lone_worker(small_geometry(1, 1));
    let mut slot = submit(&front, SMALL);
    let mut job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
    job.writer.write(b"all").unwrap();
    job.writer.end();
    let look = front.slot_status(&mut slot).unwrap();
    assert_eq!((look.phase, look.ended, look.worker), (SlotPhase::Taken, true, Some(0)));
    assert_eq!(slot.written(), 3);
    assert!(!front.cancel(&slot));
    drop(job);
    assert_eq!(front.slot_status(&mut slot).unwrap().phase, SlotPhase::Done);
    give_back(&front, slot);
}

#[test]
fn the_beginning_of_a_response_is_seen_with_the_first_notice_and_is_a_sign_of_life_before() {
    let (front, _attach, mut worker) = lone_worker(small_geometry(1, 1));
    let mut slot = submit(&front, SMALL);
    let mut job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
    let silent = front.signs_of_life(slot.index());
    job.writer.write(b"begun").unwrap();
    assert_ne!(front.signs_of_life(slot.index()), silent);
    assert!(!front.slot_status(&mut slot).unwrap().ended);
    assert_eq!(slot.written(), 0);
    drop(job);
    assert!(front.slot_status(&mut slot).unwrap().ended);
    assert_eq!(slot.written(), 5);
    give_back(&front, slot);
    // After a flush each write is seen: the front sends while the script prints.
    let mut slot = submit(&front, SMALL);
    let mut job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
    job.writer.write(b"begun").unwrap();
    job.writer.flush();
    job.writer.write(b" and").unwrap();
    front.slot_status(&mut slot).unwrap();
    assert_eq!(slot.written(), 9);
    drop(job);
    front.slot_status(&mut slot).unwrap();
    give_back(&front, slot);
}

#[test]
fn a_slot_without_news_is_no_corrupt_slot() {
    let (front, _attach, mut worker) = lone_worker(small_geometry(1, 1));
    let mut slot = submit(&front, SMALL);
    // Nothing was written, twice.
    assert_eq!(front.slot_status(&mut slot).unwrap().phase, SlotPhase::Queued);
    assert_eq!(front.slot_status(&mut slot).unwrap().phase, SlotPhase::Queued);
    let mut job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
    job.writer.write(b"some").unwrap();
    job.writer.flush();
    for _ in 0..2 {
        assert_eq!(front.slot_status(&mut slot).unwrap().phase, SlotPhase::Taken);
        assert_eq!(slot.written(), 4);
    }
    drop(job);
    front.slot_status(&mut slot).unwrap();
    give_back(&front, slot);
}

#[test]
fn a_front_that_consumes_more_than_there_is_consumes_what_there_is() {
    let (front, _attach, mut worker) = lone_worker(small_geometry(1, 1));
    let mut slot = submit(&front, SMALL);
    let mut job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
    job.writer.write(b"abc").unwrap();
    job.writer.flush();
    front.slot_status(&mut slot).unwrap();
    front.consume(&mut slot, u64::MAX);
    assert_eq!(slot.consumed(), 3);
    drop(job);
    give_back(&front, slot);
}

#[test]
fn a_response_that_becomes_shorter_is_corrupt() {
    let (front, attach, mut worker) = lone_worker(small_geometry(1, 1));
    let mut slot = submit(&front, SMALL);
    let mut job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
    job.writer.write(&[1; 3333]).unwrap();
    job.writer.flush();
    front.slot_status(&mut slot).unwrap();
    assert_eq!(slot.written(), 3333);
    // The only such word of the region is the one that counts the bytes written.
    let memory = memory_file(&attach);
    let mut words = vec![0; 64 * 1024];
    memory.read_exact_at(&mut words, 0).unwrap();
    let places: Vec<usize> = (0..words.len())
        .step_by(8)
        .filter(|at| words[*at..*at + 8] == 3333_u64.to_ne_bytes())
        .collect();
    let [place] = places[..] else {
        panic!("{places:?}");
    };
    for (written, is_good) in [(3333_u64, true), (3332, false), (0, false)] {
        memory.write_all_at(&written.to_ne_bytes(), place as u64).unwrap();
        assert_eq!(front.slot_status(&mut slot).is_ok(), is_good, "{written}");
        assert_eq!(slot.written(), 3333);
    }
    memory.write_all_at(&3333_u64.to_ne_bytes(), place as u64).unwrap();
    drop(job);
    give_back(&front, slot);
}

#[test]
fn a_state_that_no_correct_worker_writes_is_corrupt() {
    let (front, attach, mut worker) = lone_worker(small_geometry(1, 1));
    let stop = AtomicBool::new(false);
    // From the second use on, a slot's generation is not 0.
    let mut first = submit(&front, SMALL);
    drop(worker.next(&stop).unwrap());
    front.slot_status(&mut first).unwrap();
    give_back(&front, first);
    let memory = memory_file(&attach);
    let words = || {
        let mut bytes = vec![0; 64 * 1024];
        memory.read_exact_at(&mut bytes, 0).unwrap();
        let words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
        words.map(SlotState::unpack).collect::<Vec<_>>()
    };
    let mut slot = submit(&front, SMALL);
    let queued = words();
    let job = worker.next(&stop).unwrap().unwrap();
    let taken = words();
    let states: Vec<(usize, SlotState)> = taken
        .iter()
        .enumerate()
        .filter_map(|(at, state)| Some((at, (*state)?, queued[at]?)))
        .filter(|(_, now, before)| {
            (before.phase, now.phase) == (SlotPhase::Queued, SlotPhase::Taken)
                && before.generation == slot.generation()
                && now.generation == slot.generation()
        })
        .map(|(at, now, _)| (at, now))
        .collect();
    let [(place, good)] = states[..] else {
        panic!("{states:?}");
    };
    let waiting = SlotState {
        phase: SlotPhase::Queued,
        worker: 0,
        incarnation: 0,
        ..good
    };
    let rows = [
        (good, true),
        (SlotState { generation: good.generation + 1, ..good }, false),
        (SlotState { generation: good.generation - 1, ..good }, false),
        (SlotState { phase: SlotPhase::Free, ..good }, false),
        (SlotState { worker: 1, ..good }, false),
        (waiting, true),
        (SlotState { worker: 1, ..waiting }, false),
        (SlotState { incarnation: 1, ..waiting }, false),
    ];
    for (state, is_good) in rows {
        memory.write_all_at(&state.pack().to_ne_bytes(), place as u64 * 8).unwrap();
        assert_eq!(front.slot_status(&mut slot).is_ok(), is_good, "{state:?}");
    }
    memory.write_all_at(&good.pack().to_ne_bytes(), place as u64 * 8).unwrap();
    drop(job);
    front.slot_status(&mut slot).unwrap();
    give_back(&front, slot);
}

#[test]
fn a_response_is_copied_from_any_place_and_its_time_is_told_at_its_end() {
    let (front, _attach, mut worker) = lone_worker(small_geometry(1, 1));
    let mut slot = submit(&front, SMALL);
    let mut job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
    job.writer.write(b"abcdefgh").unwrap();
    job.writer.flush();
    assert_eq!(front.slot_status(&mut slot).unwrap().took, None, "the script goes on");
    front.consume(&mut slot, 2);
    let copied = |offset, room| {
        let mut bytes = vec![0; room];
        let length = front.copy(&slot, offset, &mut bytes);
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    };
    let all = [copied(0, 3), copied(1, 3), copied(4, 9), copied(6, 9), copied(7, 9)];
    assert_eq!(all, ["cde", "def", "gh", "", ""]);
    std::thread::sleep(Duration::from_millis(2));
    drop(job);
    let look = front.slot_status(&mut slot).unwrap();
    assert!(look.took.is_some_and(|took| took > 1_000_000), "{look:?}");
    assert!(look.share.is_none_or(|share| share <= 1000), "{look:?}");
    give_back(&front, slot);
}

#[test]
fn a_worker_tells_the_time_limits_that_its_script_sets() {
    let (front, _attach, mut worker) = lone_worker(small_geometry(1, 1));
    for _ in 0..2 {
        let slot = submit(&front, SMALL);
        let limit = || {
            let grant = front.signs_of_life(slot.index()).grant;
            (grant.count, grant.limit())
        };
        assert_eq!(limit(), (0, None), "nothing is left of the last request");
        let mut job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
        job.writer.grant(30);
        assert_eq!(limit(), (1, Some(Duration::from_secs(30))));
        job.writer.grant(0);
        assert_eq!(limit(), (2, None));
        assert_eq!(front.signs_of_life(slot.index()).shown, 0);
        job.writer.show_life();
        assert_eq!(front.signs_of_life(slot.index()).shown, 1);
        drop(job);
        let _ = front.release(slot);
    }
}

#[test]
fn a_script_learns_why_its_response_is_not_wanted() {
    let (front, _attach, mut worker) = lone_worker(small_geometry(1, 1));
    for (reason, is_late) in [(AbortReason::Unread, false), (AbortReason::Late, true)] {
        let slot = submit(&front, SMALL);
        let job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
        assert!(!job.writer.is_aborted() && !job.writer.is_late());
        front.abort(&slot, reason);
        assert_eq!((job.writer.is_aborted(), job.writer.is_late()), (true, is_late));
        drop(job);
        give_back(&front, slot);
    }
}

#[test]
fn a_worker_asks_while_its_request_runs() {
    let (front, _attach, mut worker) = lone_worker(small_geometry(1, 1));
    let mut slot = submit(&front, SMALL);
    let stop = AtomicBool::new(false);
    assert_eq!(front.question(&mut slot), None);
    std::thread::scope(|scope| {
        let asker = scope.spawn(|| {
            let mut job = worker.next(&stop).unwrap().unwrap();
            let answers = [&b"one"[..], b"two"].map(|question| job.writer.ask(question));
            let too_long = vec![b'x'; small_geometry(1, 1).request_bytes];
            (answers, job.writer.ask(&too_long), job.writer.ask(b"last"))
        });
        let mut asked = Vec::new();
        for answer in [&b"1"[..], b""] {
            let mut question = None;
            wait_until("the worker asks", || front.asks(&slot));
            wait_until("the question is there", || {
                question = front.question(&mut slot);
                question.is_some()
            });
            let question = question.unwrap();
            assert!(!front.asks(&slot));
            assert_eq!(front.question(&mut slot), None, "it is asked once");
            asked.push(question.text);
            front.answer(&slot, question.number, answer);
        }
        front.abort(&slot, AbortReason::Unread);
        let (answers, too_long, last) = asker.join().unwrap();
        assert_eq!(asked, [b"one".to_vec(), b"two".to_vec()]);
        assert_eq!(answers, [Some(b"1".to_vec()), Some(Vec::new())]);
        assert_eq!((too_long, last), (None, None), "nobody waits for the response");
    });
}

#[test]
fn a_question_and_its_answer_may_fill_their_area() {
    let (front, _attach, mut worker) = lone_worker(small_geometry(1, 1));
    let mut slot = submit(&front, SMALL);
    let stop = AtomicBool::new(false);
    // Half of the area, without the length of the text.
    let most = small_geometry(1, 1).request_bytes / 2 - 4;
    std::thread::scope(|scope| {
        let asker = scope.spawn(|| {
            let mut job = worker.next(&stop).unwrap().unwrap();
            [most, most, most + 1].map(|length| job.writer.ask(&vec![b'q'; length]))
        });
        for length in [most, most + 1] {
            let mut question = None;
            wait_until("the worker asks", || {
                question = front.question(&mut slot);
                question.is_some()
            });
            let question = question.unwrap();
            assert_eq!(question.text.len(), most);
            front.answer(&slot, question.number, &vec![b'a'; length]);
        }
        let answers = asker.join().unwrap().map(|answer| answer.map(|answer| answer.len()));
        assert_eq!(answers, [Some(most), Some(0), None], "what does not fit is not sent");
    });
}

#[test]
fn the_front_is_told_of_new_output_only_and_of_much_output_at_once() {
    let (front, _attach, mut worker) = lone_worker(Geometry::for_pool(1, 1));
    let slot = submit(&front, SMALL);
    let mut job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
    let is_told = || {
        let mut told = false;
        front.drain(0, |_| told = true);
        told
    };
    job.writer.flush();
    assert!(!is_told(), "there is no output");
    job.writer.write(b"some").unwrap();
    assert!(!is_told());
    job.writer.flush();
    assert!(is_told());
    job.writer.flush();
    assert!(!is_told(), "it knows");
    job.writer.write(&vec![7; 256 * 1024 - 1]).unwrap();
    assert!(!is_told());
    job.writer.write(b"x").unwrap();
    assert!(is_told());
    drop(job);
    give_back(&front, slot);
}

#[test]
fn a_request_has_waited_since_it_came_and_not_since_it_got_a_slot() {
    let (front, _attach, mut worker) = lone_worker(small_geometry(1, 1));
    for since in [None, Some(1)] {
        let slot = front.checkout().unwrap();
        let queued = usage::monotonic();
        since.into_iter().for_each(|since| slot.waits_since(since));
        front
            .enqueue(&slot, 0, SMALL.encode(&mut RequestEncoder::default(), false), None)
            .unwrap();
        let job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
        let (began, waited) = job.writer.times();
        match since {
            None => assert!(began >= queued && waited <= began - queued, "{waited}"),
            Some(since) => assert_eq!(waited, began - since),
        }
        drop(job);
        give_back(&front, slot);
    }
}

#[test]
fn printed_output_is_seen_before_it_is_told_where_it_is_asked_for() {
    let (front, _attach, mut worker) = lone_worker(small_geometry(1, 1));
    let mut slot = submit(&front, SMALL);
    let mut job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
    job.writer.write(&[7; 100]).unwrap();
    front.slot_status(&mut slot).unwrap();
    assert_eq!(slot.written(), 0);
    slot.show();
    for written in [100, 100, 130] {
        job.writer.write(&vec![7; written - job.writer.written() as usize]).unwrap();
        front.slot_status(&mut slot).unwrap();
        assert_eq!(slot.written(), written as u64);
    }
    drop(job);
    give_back(&front, slot);
}
