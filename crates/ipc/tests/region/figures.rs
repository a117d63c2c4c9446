//! Figures that workers publish about themselves and their requests.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use howdah_ipc::figures::{CacheNumber, RequestFigures, UNKNOWN, WorkerFigures};
use howdah_ipc::front::{FrontRegion, Slot};
use howdah_ipc::request::RequestEncoder;
use howdah_ipc::response::HeadKind;
use howdah_ipc::worker::Worker;
use howdah_sys::usage::{self, Machine};

use crate::support::{attach_again, give_back, small_geometry};
use crate::{SMALL, lone_worker, submit};

/// Hands a request of these texts over.
fn submit_texts(front: &FrontRegion, uri: &[u8]) -> Slot {
    let slot = front.checkout().expect("a free slot");
    let mut encoder = RequestEncoder::default();
    let texts = [Some(&b"PUT"[..]), Some(b"/srv/a.php"), Some(uri)];
    let [method, script, uri] = texts;
    encoder.begin(0, [method, script, uri, None, None, None, None, None, None]);
    front.submit(&slot, 0, encoder.finish_inline(b"abcd"), None).unwrap();
    slot
}

fn nanoseconds(begin: Instant) -> u64 {
    u64::try_from(begin.elapsed().as_nanos()).unwrap()
}

/// A request that waits for 2 ms, uses a processor for 3 ms, and says that it had 5 MiB of memory.
/// Returns what the front sees while it runs and when it is over. `begin` was before it came.
fn run_one(
    front: &FrontRegion,
    worker: &mut Worker,
    slot: &Slot,
    begin: Instant,
) -> (WorkerFigures, RequestFigures) {
    std::thread::sleep(Duration::from_millis(2));
    let mut job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
    assert_eq!(front.figures(slot), None, "it runs");
    let (spins, spent) = (Instant::now(), usage::processor_time());
    while usage::processor_time() - spent < 3_000_000 {
        std::hint::spin_loop();
    }
    let took = nanoseconds(spins);
    let (waited, runs) = front.times(slot);
    assert!(waited >= 2_000_000 && runs >= took, "{waited} {runs} {took}");
    assert!(waited + runs <= nanoseconds(begin), "{waited} {runs}");
    let figures = front.worker_figures().remove(0);
    job.writer.note_peak(5 << 20);
    drop(job);
    assert!(front.figures(slot).is_some_and(|figures| figures.took >= took));
    (figures, front.figures(slot).expect("it is done"))
}

#[test]
fn a_worker_s_figures_are_those_of_its_requests() {
    let (front, _attach, mut worker) = lone_worker(small_geometry(1, 1));
    assert!(!front.has_worked(0));
    assert_eq!(front.worker_figures(), [WorkerFigures::default()]);
    assert_eq!((front.checkouts(), front.memory_of(0)), (0, (None, 0)));
    front.meter_processor(true);
    let begin = Instant::now();
    let slot = submit_texts(&front, b"/a?b");
    let (running, done) = run_one(&front, &mut worker, &slot, begin);
    let elapsed = nanoseconds(begin);

    let request = running.request.expect("it is known");
    assert_eq!((&request.method[..], &request.uri[..]), (&b"PUT"[..], &b"/a?b"[..]));
    assert_eq!((&request.script[..], request.content_length), (&b"/srv/a.php"[..], 4));
    assert!(running.is_running && (1..=elapsed).contains(&running.took), "{}", running.took);
    assert_eq!((running.requests, running.last_processor), (0, None));

    assert!(done.waited >= 2_000_000 && done.took > 0, "{done:?}");
    assert!(done.waited + done.took <= elapsed, "{done:?} {elapsed}");
    assert_eq!(done.peak, Some(5 << 20));
    let processor = done.processor.expect("it was measured");
    let most = elapsed / 1000 * (Machine::present().processors + 1);
    assert!((3000..=most).contains(&processor), "{processor} of {most}");

    assert!(front.has_worked(0));
    worker.publish_requests(7);
    let after = front.worker_figures().remove(0);
    assert!(!after.is_running);
    assert_eq!(after.request.map(|request| request.uri), Some(b"/a?b".to_vec()));
    assert_eq!((after.requests, front.requests_served(0)), (7, 7));
    assert_eq!((after.last_peak, after.last_processor), (5 << 20, Some(processor)));
    // A slot has room for the time of four seconds.
    let is_long = after.took >= u32::MAX.into() && done.took >= after.took;
    assert!(after.took == done.took || is_long, "{} {done:?}", after.took);
    assert!(after.processor >= 3_000_000 && after.processor == front.processor_of(0));
    // Memory is measured in the next pause.
    assert_eq!((after.proportional, front.memory_of(0)), (None, (None, 5 << 20)));

    give_back(&front, slot);
    let slot = submit(&front, SMALL);
    assert_eq!(front.checkouts(), 2);
    let after = front.worker_figures().remove(0);
    assert_eq!(after.request, None, "its slot has another request");
    front.meter_processor(false);
    drop(worker.next(&AtomicBool::new(false)).unwrap());
    let figures = front.figures(&slot).expect("it is done");
    assert_eq!((figures.processor, figures.peak), (None, None));
    assert_eq!(front.worker_figures()[0].last_processor, None);
    give_back(&front, slot);
}

#[test]
fn the_next_worker_in_a_place_begins_without_figures() {
    let (front, attach, mut worker) = lone_worker(small_geometry(2, 1));
    let zygote = attach_again(&attach);
    assert_eq!((worker.index(), zygote.has_worked(0)), (0, false));
    assert_eq!(attach_again(&attach).worker(1).unwrap().index(), 1);
    let slot = submit(&front, SMALL);
    drop(worker.next(&AtomicBool::new(false)).unwrap());
    worker.publish_requests(3);
    assert_eq!((zygote.has_worked(0), zygote.has_worked(1)), (true, false));
    zygote.prepare(0);
    assert_eq!((zygote.has_worked(0), front.has_worked(0)), (false, false));
    assert_eq!((front.requests_served(0), front.processor_of(0)), (0, 0));
    assert_eq!(front.memory_of(0).0, None);
    assert_eq!(front.worker_figures()[0].request, None);
    give_back(&front, slot);
}

#[test]
fn one_request_measures_the_caches_and_the_front_sees_the_numbers() {
    let (front, _attach, mut worker) = lone_worker(small_geometry(1, 1));
    assert_eq!(front.cache_numbers(), [UNKNOWN; CacheNumber::COUNT]);
    let mut numbers = [0; CacheNumber::COUNT];
    for (number, value) in (0..).zip(&mut numbers) {
        *value = number * 10;
    }
    numbers[3] = UNKNOWN;
    for (asks, former) in [(true, [UNKNOWN; CacheNumber::COUNT]), (false, numbers)] {
        let slot = submit(&front, SMALL);
        let mut job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
        assert_eq!(job.asks_caches, asks);
        assert_eq!(job.writer.note_caches(&numbers), former);
        assert_eq!(front.cache_numbers(), numbers);
        drop(job);
        give_back(&front, slot);
    }
}

#[test]
fn an_interim_head_is_told_at_once_and_a_final_one_with_its_content() {
    let (front, _attach, mut worker) = lone_worker(small_geometry(1, 1));
    for (kind, is_told) in [(HeadKind::Interim, true), (HeadKind::Final, false)] {
        let slot = submit(&front, SMALL);
        let mut job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
        job.writer.send_head(kind, 103, b"", std::iter::empty()).unwrap();
        let mut told = false;
        front.drain(0, |_| told = true);
        assert_eq!(told, is_told, "{kind:?}");
        drop(job);
        front.drain(0, |_| {});
        give_back(&front, slot);
    }
}
