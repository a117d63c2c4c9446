//! A worker's side of its pool's region, and the zygote's attachment to it.

mod caches;
mod meter;
mod questions;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU16};
use std::time::Duration;

use howdah_sys::eventfd::EventFd;
use howdah_sys::futex;
use howdah_sys::schedule::CpuTimes;
use howdah_sys::seqpacket::SeqPacket;
use howdah_sys::usage;

use self::meter::{CpuMeter, UsageMeter};
use crate::control::{Attach, Cleaning};
use crate::layout::{Geometry, INCARNATIONS, SlotState};
use crate::region::Region;
use crate::request::DecodedRequest;
use crate::response::{HeadEncoder, HeadKind};
use crate::sync::Ordering;
use crate::time_grant::TimeGrant;

/// Bytes after which the front is notified of new output, to let the front send while the script
/// runs.
const NEWS_BYTES: u64 = 256 * 1024;
/// Interval at which a worker that waits for space checks again. A hostile process of the pool may
/// have removed its wake-up.
const SPACE_CHECK: Duration = Duration::from_secs(1);

/// The region as the zygote attached it. Each worker creates its [`Worker`] from it after the fork.
#[derive(Debug)]
pub struct Attachment {
    region: Region,
    bells: Vec<EventFd>,
    body_sockets: Vec<SeqPacket>,
    /// By worker: number of deaths at this index, modulo [`INCARNATIONS`]. Each fork copies these
    /// counts of the zygote.
    incarnations: Vec<AtomicU16>,
}

impl Attachment {
    /// Maps the region that the front sent.
    ///
    /// # Errors
    /// The descriptors are not those of a region of this geometry, or mapping failed.
    pub fn new(attach: Attach) -> io::Result<Attachment> {
        let wrong = || {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "the front sent the wrong number of descriptors",
            )
        };
        let Attach { geometry, descriptors } = attach;
        let mut descriptors = descriptors.into_iter();
        // The memory file is closed here: scripts do not find it among the descriptors.
        let region = Region::map(descriptors.next().ok_or_else(wrong)?, geometry)?;
        let bells: Vec<_> =
            descriptors.by_ref().take(geometry.threads).map(EventFd::from).collect();
        let body_sockets: Vec<_> = descriptors.map(SeqPacket::from).collect();
        if bells.len() != geometry.threads || body_sockets.len() != geometry.slots {
            return Err(wrong());
        }
        Ok(Attachment {
            region,
            bells,
            body_sockets,
            incarnations: (0..geometry.workers).map(|_| AtomicU16::new(0)).collect(),
        })
    }

    /// The sizes of the region.
    pub fn geometry(&self) -> &Geometry {
        self.region.geometry()
    }

    /// Zygote: forgets what the former worker in this place has published. Call it before the next
    /// worker is forked.
    pub fn prepare(&self, worker: usize) {
        let words = self.region.worker(worker);
        words.requests.store(0, Ordering::Relaxed);
        words.processor.store(0, Ordering::Relaxed);
        words.proportional.store(0, Ordering::Relaxed);
        words.resident.store(0, Ordering::Relaxed);
        words.last_slot.store(0, Ordering::Relaxed);
    }

    /// Zygote: whether the worker, or the last one in this place, has taken a request.
    pub fn has_worked(&self, worker: usize) -> bool {
        self.region.worker(worker).last_slot.load(Ordering::Relaxed) > 0
    }

    /// Zygote: wakes a sleeping worker to make it check its stop flag.
    pub fn wake(&self, worker: usize) {
        let wake = self.region.worker(worker).wake;
        wake.store(1, Ordering::Release);
        futex::wake(wake);
    }

    /// Zygote: records the death of a worker. Call it once per death, before the front is told and
    /// before the successor is forked. Afterwards no process wakes the dead worker, and the front
    /// can tell the successor's slots from those of the dead worker.
    pub fn record_death(&self, worker: usize) {
        let incarnation = self.incarnations[worker].load(Ordering::Relaxed);
        self.incarnations[worker].store((incarnation + 1) % INCARNATIONS, Ordering::Relaxed);
        self.region.idle().withdraw(worker);
        self.region.worker(worker).wake.store(0, Ordering::Release);
    }

    /// Zygote: cleans a slot that no worker uses.
    ///
    /// # Errors
    /// There is no such slot, or the memory was not released. The slot can still be used.
    pub fn clean(&self, cleaning: Cleaning) -> io::Result<()> {
        let slot = usize::try_from(cleaning.slot).unwrap_or(usize::MAX);
        let socket = self.body_sockets.get(slot).ok_or(io::ErrorKind::InvalidInput)?;
        while socket.receive_now(&mut [0; 4]).is_ok_and(|message| message.length > 0) {}
        self.region
            .release_ring(slot, usize::try_from(cleaning.kept).unwrap_or(usize::MAX))
    }

    /// Worker: its side of the region. Called once after the fork. Child processes of the worker
    /// do not have the region.
    ///
    /// # Errors
    /// The kernel cannot keep the region from child processes.
    pub fn worker(self, index: usize) -> io::Result<Worker> {
        assert!(index < self.region.geometry().workers);
        self.region.keep_from_children()?;
        Ok(Worker {
            shared: self,
            index,
            request: Vec::new(),
            head: HeadEncoder::default(),
            meter: CpuMeter::default(),
            usage: UsageMeter::default(),
        })
    }

    /// The descriptors that lead to the front. A child process of a worker closes them.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let bells = self.bells.iter().map(AsFd::as_fd);
        bells.chain(self.body_sockets.iter().map(AsFd::as_fd))
    }
}

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
}

impl Worker {
    /// Index of this worker in its pool.
    pub fn index(&self) -> usize {
        self.index
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
        if let Some(memory) = self.usage.memory(now) {
            let kib = |size| u32::try_from(size).unwrap_or(u32::MAX);
            words.proportional.store(kib(memory.proportional), Ordering::Relaxed);
            words.resident.store(kib(memory.resident), Ordering::Relaxed);
        }
    }

    /// Waits for a request and takes it. `None` once `stop` is set (by a signal handler, followed
    /// by [`Attachment::wake`]).
    ///
    /// # Errors
    /// Waiting on the futex failed.
    pub fn next(&mut self, stop: &AtomicBool) -> io::Result<Option<Job<'_>>> {
        if self.is_surplus(1) {
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

    fn begin(&mut self, slot: usize, state: SlotState) -> Job<'_> {
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
        Job {
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
                finished: false,
            },
        }
    }

    /// Returns whether more workers are awake than the front wants. `own` of them are not counted.
    fn is_surplus(&self, own: usize) -> bool {
        let region = &self.shared.region;
        let limit = region.awake_limit().load(Ordering::Relaxed) as usize;
        let present = region.present().load(Ordering::Relaxed) as usize;
        limit > 0 && present.saturating_sub(region.idle().count()) >= limit + own
    }

    /// Sleeps until the front wakes this worker, and leaves queued requests to the other workers.
    fn sleep_surplus(&self, stop: &AtomicBool) -> io::Result<()> {
        let region = &self.shared.region;
        let stop = || stop.load(Ordering::Acquire);
        let wait = |word: &_| futex::wait(word, 0, None).map(drop);
        let still = || self.is_surplus(0);
        region
            .idle()
            .sleep_surplus(self.index, region.worker(self.index).wake, still, stop, wait)
    }

    fn sleep(&self, stop: &AtomicBool) -> io::Result<()> {
        let region = &self.shared.region;
        let stop = || stop.load(Ordering::Acquire);
        let wait = |word: &_| futex::wait(word, 0, None).map(drop);
        region
            .idle()
            .sleep(self.index, region.worker(self.index).wake, &region.queue(), stop, wait)
    }
}

/// A request that this worker has taken, and the writer of its response.
#[derive(Debug)]
pub struct Job<'w> {
    /// The encoded request, in the worker's own memory; see [`DecodedRequest::decode`].
    pub request: &'w [u8],
    /// This request is to measure the use of PHP's caches.
    pub asks_caches: bool,
    /// Writer of the response.
    pub writer: ResponseWriter<'w>,
}

/// The rest of the response is not wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseAborted;

/// Writes a response to the front. Dropping the writer finishes the response, whatever its state
/// is.
#[derive(Debug)]
pub struct ResponseWriter<'w> {
    shared: &'w Attachment,
    head: &'w mut HeadEncoder,
    slot: usize,
    state: SlotState,
    thread: usize,
    written: u64,
    /// The last value read. The front may have consumed more.
    consumed: u64,
    /// Bytes of `written` that the front was notified of.
    told: u64,
    meter: &'w mut CpuMeter,
    spent: Option<CpuTimes>,
    /// Index of the worker.
    index: usize,
    /// Time at which the request began, in nanoseconds.
    began: u64,
    /// The worker's processor time at the beginning, if the front wants to know that of the
    /// request.
    processor: Option<u64>,
    /// Bytes of memory that the script had at most.
    peak: Option<u64>,
    finished: bool,
}

impl ResponseWriter<'_> {
    /// Receives the file that holds the request's body. Call it if the request says that there is
    /// one.
    ///
    /// # Errors
    /// The slot's socket contains no descriptor for this request.
    pub fn take_body(&mut self) -> io::Result<OwnedFd> {
        let missing = || {
            io::Error::new(io::ErrorKind::NotFound, "the file with the request's body did not come")
        };
        loop {
            let mut tag = [0; 4];
            let mut received = self.shared.body_sockets[self.slot].receive_now(&mut tag)?;
            if received.length == 0 {
                return Err(missing());
            }
            // A descriptor of an earlier use of the slot: its worker died before it took the
            // descriptor.
            if received.length == 4 && u32::from_ne_bytes(tag) == self.state.generation {
                return received.descriptors.pop().ok_or_else(missing);
            }
        }
    }

    /// Sends a head.
    ///
    /// # Errors
    /// `None`: the head is too long, and nothing was sent. `Some`: the response is aborted.
    pub fn send_head<'f>(
        &mut self,
        kind: HeadKind,
        status: u16,
        reason: &[u8],
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) -> Result<(), Option<ResponseAborted>> {
        let mut head = std::mem::take(self.head);
        head.begin(kind, status, reason);
        for (name, value) in fields {
            head.field(name, value);
        }
        let sent = match head.finish() {
            Some(bytes) => self.write(bytes).map_err(Some),
            None => Err(None),
        };
        *self.head = head;
        if kind == HeadKind::Interim && sent.is_ok() {
            self.flush();
        }
        sent
    }

    /// Writes bytes of the body. Waits for space as long as the front consumes bytes.
    ///
    /// # Errors
    /// The response is aborted.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), ResponseAborted> {
        let ring = self.shared.geometry().ring_bytes as u64;
        let words = self.shared.region.slot(self.slot);
        while !bytes.is_empty() {
            if self.is_aborted() {
                return Err(ResponseAborted);
            }
            if self.written - self.consumed >= ring {
                self.consumed = words
                    .flow_control
                    .consumed
                    .load(Ordering::Acquire)
                    .clamp(self.consumed, self.written);
                if self.written - self.consumed >= ring {
                    self.wait_for_room();
                    continue;
                }
            }
            let room = (ring - (self.written - self.consumed)) as usize;
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.shared.region.write_ring(self.slot, self.written, now);
            self.written += now.len() as u64;
            words.written.store(self.written, Ordering::Release);
            if self.written - self.told >= NEWS_BYTES {
                self.flush();
            }
            bytes = later;
        }
        Ok(())
    }

    /// Notifies the front of everything written until now.
    pub fn flush(&mut self) {
        if self.told < self.written {
            self.tell();
        }
    }

    /// Marks the response as complete although the script continues (`fastcgi_finish_request`).
    pub fn end(&mut self) {
        self.shared.region.slot(self.slot).ended.store(1, Ordering::Release);
        self.tell();
    }

    /// Tells the front the time limit that the script has set; 0 and less is no limit.
    pub fn grant(&mut self, seconds: i64) {
        let word = self.shared.region.slot(self.slot).grant;
        let former = TimeGrant::unpack(word.load(Ordering::Relaxed));
        word.store(former.followed_by(seconds).pack(), Ordering::Relaxed);
    }

    /// Returns whether the response is aborted.
    pub fn is_aborted(&self) -> bool {
        self.shared.region.slot(self.slot).flow_control.is_aborted()
    }

    /// Notes how many bytes of memory the script had at most.
    pub fn note_peak(&mut self, bytes: u64) {
        self.peak = Some(bytes);
    }

    /// Publishes what the request has used.
    fn publish_figures(&self, took: u64) {
        let microseconds = |before| usage::processor_time().saturating_sub(before) / 1000;
        let processor = self.processor.map(microseconds);
        let narrow = |number: Option<u64>| {
            number.and_then(|number| u32::try_from(number).ok()).unwrap_or(u32::MAX)
        };
        let words = self.shared.region.slot(self.slot);
        words.peak.store(narrow(self.peak.map(|peak| peak / 1024)), Ordering::Relaxed);
        words.processor.store(narrow(processor), Ordering::Relaxed);
        let words = self.shared.region.worker(self.index);
        let peak = narrow(Some(self.peak.unwrap_or(0) / 1024));
        words.last_peak.store(peak, Ordering::Relaxed);
        words
            .last_processor
            .store(processor.map_or(0, |spent| spent + 1), Ordering::Relaxed);
        words.last_took.store(took, Ordering::Relaxed);
    }

    /// The time at which the request began, and how long it had waited for that, in nanoseconds.
    pub fn times(&self) -> (u64, u64) {
        let queued = self.shared.region.slot(self.slot).queued.load(Ordering::Relaxed);
        (self.began, self.began.saturating_sub(queued))
    }

    /// Bytes written until now, heads included.
    pub fn written(&self) -> u64 {
        self.written
    }

    fn tell(&mut self) {
        self.told = self.written;
        if self.shared.region.doorbell(self.thread).mark(self.slot) {
            // Ringing fails only if the front is dead. The zygote ends this process then.
            let _ = self.shared.bells[self.thread].ring();
        }
    }

    fn wait_for_room(&mut self) {
        let room = self.shared.region.slot(self.slot).flow_control;
        let seen = self.consumed;
        // Every reason to return is a reason to check again.
        let sleep = |word: &_| drop(futex::wait(word, 1, Some(SPACE_CHECK)));
        room.wait(seen, || self.tell(), sleep);
    }
}

impl Drop for ResponseWriter<'_> {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        self.finished = true;
        let words = self.shared.region.slot(self.slot);
        self.meter.ended = usage::monotonic();
        let took = self.meter.ended.saturating_sub(self.began);
        let share = self.meter.end(took, self.spent);
        self.publish_figures(took);
        words.took.store(u32::try_from(took).unwrap_or(u32::MAX), Ordering::Relaxed);
        words.share.store(share.unwrap_or(u32::MAX), Ordering::Relaxed);
        words.state.finish(self.state);
        self.tell();
    }
}
