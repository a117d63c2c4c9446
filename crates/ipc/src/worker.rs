//! A worker's side of its pool's region, and the zygote's attachment to it.

mod attachment;
mod caches;
mod meter;
mod questions;
mod response_writer;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Duration;

use howdah_sys::futex::{self, Wake};
use howdah_sys::usage;

use self::meter::{CpuMeter, UsageMeter};
use crate::layout::SlotState;
use crate::region::{Region, WorkerWords};
use crate::request::DecodedRequest;
use crate::response::HeadEncoder;
use crate::sync::Ordering;

pub use self::attachment::Attachment;
pub use self::response_writer::{ResponseAborted, ResponseWriter};

/// A worker's side of the region.
#[derive(Debug)]
pub struct Worker {
    shared: Attachment,
    index: usize,
    /// The request that runs, copied out of the region.
    request: Vec<u8>,
    head: HeadEncoder,
    meter: CpuMeter,
    usage: UsageMeter,
    /// Gives memory back to the kernel that the process keeps for its next request; `None` while
    /// it keeps none.
    spare: Option<fn()>,
}

impl Worker {
    fn new(shared: Attachment, index: usize) -> Worker {
        Worker {
            shared,
            index,
            request: Vec::new(),
            head: HeadEncoder::default(),
            meter: CpuMeter::default(),
            usage: UsageMeter::default(),
            spare: None,
        }
    }

    /// Index of this worker in its pool.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Opens what the worker reads of `/proc`, which is otherwise opened when it is read first. For
    /// a worker that will not see `/proc` any more.
    pub fn open_meters(&mut self) {
        self.meter.open();
        self.usage.open();
    }

    /// Publishes the number of requests served and, from time to time, what the worker uses. Call
    /// it after each request.
    pub fn publish_requests(&mut self, served: u64) {
        let words = self.shared.region.worker(self.index);
        words.requests.store(served, Ordering::Relaxed);
        let now = self.meter.ended;
        if let Some(processor) = self.usage.processor(now) {
            words.processor.store(processor, Ordering::Relaxed);
        }
        if self.usage.is_memory_overdue(now) {
            publish_memory(&words, &mut self.usage, now);
        }
    }

    /// Calls `give_back` if no request comes for a second, and measures the memory after it. Call
    /// this after each request, with `None` where the process keeps no memory for its next one.
    pub fn offer_spare_memory(&mut self, give_back: Option<fn()>) {
        self.spare = give_back;
    }

    /// Waits for a request and takes it. `None` once `stop` is set (by a signal handler, followed
    /// by [`Attachment::wake`]).
    ///
    /// # Errors
    /// Waiting on the futex failed.
    pub fn next(&mut self, stop: &AtomicBool) -> io::Result<Option<WorkerJob<'_>>> {
        if is_surplus(&self.shared.region, 1) {
            self.sleep_surplus(stop)?;
        }
        loop {
            if stop.load(Ordering::Acquire) {
                return Ok(None);
            }
            match self.shared.region.queue().pop() {
                Some(entry) => {
                    if let Some((slot, state)) = self.take(entry as usize) {
                        return Ok(Some(self.begin(slot, state)));
                    }
                }
                None => self.sleep(stop)?,
            }
        }
    }

    /// Takes the slot that a queue entry names; `None` if the slot has no request any more.
    fn take(&self, slot: usize) -> Option<(usize, SlotState)> {
        if slot >= self.shared.geometry().slots {
            return None;
        }
        let incarnation = self.shared.incarnations[self.index].load(Ordering::Relaxed);
        let state = self.shared.region.slot(slot).state;
        state.take(self.index as u16, incarnation).map(|taken| (slot, taken))
    }

    fn begin(&mut self, slot: usize, state: SlotState) -> WorkerJob<'_> {
        let region = &self.shared.region;
        let mut start = [0; 4];
        region.read_request(slot, &mut start);
        let length = DecodedRequest::announced_length(start).min(region.geometry().request_bytes);
        self.request.resize(length, 0);
        region.read_request(slot, &mut self.request);
        let thread =
            region.slot(slot).thread.load(Ordering::Relaxed) as usize % region.geometry().threads;
        let Worker { shared, index, request, head, meter, .. } = self;
        let request = request.as_slice();
        let began = usage::monotonic();
        shared.region.slot(slot).began.store(began, Ordering::Relaxed);
        let words = shared.region.worker(*index);
        words.last.store(state.pack(), Ordering::Relaxed);
        words.last_slot.store(slot as u32 + 1, Ordering::Relaxed);
        let is_metered = shared.region.metering().load(Ordering::Relaxed) == 1;
        WorkerJob {
            request,
            asks_caches: caches::is_due(&shared.region, began),
            writer: ResponseWriter {
                shared,
                head,
                slot,
                state,
                thread,
                written: 0,
                consumed: 0,
                told: 0,
                spent: meter.begin(),
                meter,
                index: *index,
                began,
                processor: is_metered.then(usage::processor_time),
                peak: None,
            },
        }
    }

    /// Sleeps until the front wakes this worker, and leaves queued requests to the other workers.
    fn sleep_surplus(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let Worker { shared, index, meter, usage, spare, .. } = self;
        let (region, ended) = (&shared.region, meter.ended);
        let words = region.worker(*index);
        let stop = || stop.load(Ordering::Acquire);
        let still = || is_surplus(region, 0);
        let wait = |word: &_| wait(word, &words, usage, spare, ended);
        region.idle().sleep_surplus(*index, words.wake, still, stop, wait)
    }

    fn sleep(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let Worker { shared, index, meter, usage, spare, .. } = self;
        let (region, ended) = (&shared.region, meter.ended);
        let words = region.worker(*index);
        let stop = || stop.load(Ordering::Acquire);
        let wait = |word: &_| wait(word, &words, usage, spare, ended);
        region.idle().sleep(*index, words.wake, &region.queue(), stop, wait)
    }
}

/// Returns whether more workers are awake than the front wants. `own` of them are not counted.
fn is_surplus(region: &Region, own: usize) -> bool {
    let limit = region.awake_limit().load(Ordering::Relaxed) as usize;
    let present = region.present().load(Ordering::Relaxed) as usize;
    limit > 0 && present.saturating_sub(region.idle().count()) >= limit + own
}

/// Sleeps while `word` is 0. A worker whose memory has to be measured does so when no request has
/// come for a while: the next one often comes as soon as the last one was answered. Spare memory
/// goes back later, because the next request would have to ask for it again.
fn wait(
    word: &AtomicU32,
    words: &WorkerWords<'_>,
    usage: &mut UsageMeter,
    spare: &mut Option<fn()>,
    ended: u64,
) -> io::Result<()> {
    let is_due = usage.is_memory_due(ended);
    let pause = if is_due { Some(PAUSE) } else { spare.map(|_| REST) };
    if futex::wait(word, 0, pause)? == Wake::TimedOut {
        if !is_due && let Some(give_back) = spare.take() {
            give_back();
        }
        publish_memory(words, usage, ended);
    }
    Ok(())
}

fn publish_memory(words: &WorkerWords<'_>, usage: &mut UsageMeter, now: u64) {
    if let Some(memory) = usage.memory(now) {
        let kib = |size| u32::try_from(size).unwrap_or(u32::MAX);
        words.proportional.store(kib(memory.proportional), Ordering::Relaxed);
        words.resident.store(kib(memory.resident), Ordering::Relaxed);
    }
}

/// Time without a request after which a worker measures its memory.
const PAUSE: Duration = Duration::from_millis(10);

/// Time without a request after which a worker gives spare memory back.
const REST: Duration = Duration::from_secs(1);

/// A request that this worker has taken, and the writer of its response.
#[derive(Debug)]
pub struct WorkerJob<'w> {
    /// The encoded request, in the worker's own memory; see [`DecodedRequest::decode`].
    pub request: &'w [u8],
    /// This request is to measure the use of PHP's caches.
    pub asks_caches: bool,
    /// Writer of the response.
    pub writer: ResponseWriter<'w>,
}

#[cfg(all(test, not(miri)))] // Miri has no memory files.
mod tests {
    use howdah_sys::schedule::ScheduleMeter;

    use super::*;
    use crate::front::FrontRegion;
    use crate::layout::Geometry;
    use crate::request::RequestEncoder;

    fn pool() -> (FrontRegion, Worker) {
        let (front, attach) =
            FrontRegion::create(Geometry::for_pool(1, 1)).expect("memory for a region");
        let zygote = Attachment::new(attach).expect("the front's own descriptors");
        (front, zygote.worker(0).expect("a region that no child gets"))
    }

    #[test]
    fn a_worker_that_always_has_requests_measures_its_memory_after_a_second() {
        let (front, mut worker) = pool();
        let second = 1_000_000_000;
        for (ended, is_measured) in
            [(5 * second, false), (6 * second - 1, false), (6 * second, true)]
        {
            worker.meter.ended = ended;
            worker.publish_requests(1);
            assert_eq!(front.memory_of(0).0.is_some(), is_measured, "{ended}");
        }
    }

    #[test]
    fn a_worker_that_will_not_see_proc_opens_what_it_reads_there() {
        let (_front, mut worker) = pool();
        assert!(worker.meter.schedule.is_none() && worker.usage.file.is_none());
        worker.open_meters();
        // A kernel without scheduler statistics has none to open.
        let has_statistics = ScheduleMeter::of_this_process().is_ok();
        assert_eq!(worker.meter.schedule.is_some(), has_statistics);
        assert!(worker.usage.file.is_some());
    }

    #[test]
    fn a_question_that_was_given_up_is_followed_by_no_other() {
        let (front, mut worker) = pool();
        let mut slot = front.checkout().unwrap();
        let mut encoder = RequestEncoder::default();
        encoder.begin(0, [None; 9]);
        front.submit(&slot, 0, encoder.finish_inline(b""), None).unwrap();
        let mut job = worker.next(&AtomicBool::new(false)).unwrap().unwrap();
        for question in [b"one", b"two"] {
            assert_eq!(job.writer.ask_within(question, Duration::ZERO), None);
        }
        assert_eq!(front.question(&mut slot).map(|question| question.text), Some(b"one".to_vec()));
        drop(job);
        let _ = front.release(slot);
    }

    #[test]
    fn an_entry_that_names_no_slot_leads_to_no_request() {
        let (front, worker) = pool();
        for slot in [0, front.geometry().slots, usize::MAX] {
            assert!(worker.take(slot).is_none(), "{slot}");
        }
    }
}
