//! A worker's end of its pool's region, and the zygote's, from which it comes.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU16};
use std::time::{Duration, Instant};

use howdah_sys::eventfd::EventFd;
use howdah_sys::futex;
use howdah_sys::schedule::{Schedule, Spent};
use howdah_sys::seqpacket::SeqPacket;

use crate::control::Attach;
use crate::layout::{Geometry, LIVES, State};
use crate::region::Region;
use crate::request::Request;
use crate::response::{HeadEncoder, HeadKind};
use crate::sync::Ordering;

/// After this many bytes without a word to the front it is told, so that it sends while the script
/// goes on.
const NEWS_BYTES: u64 = 256 * 1024;
/// Nanoseconds that scripts must take on average before their share of processor time is looked up,
/// which costs two microseconds.
const METERED: u64 = 200_000;
/// A worker that waits for room looks up this often, in case a wake-up was lost to a hostile
/// neighbour.
const ROOM_CHECK: Duration = Duration::from_secs(1);

/// The region as the zygote attached it. Each worker, once forked, makes its [`Worker`] of it.
#[derive(Debug)]
pub struct Attachment {
    region: Region,
    bells: Vec<EventFd>,
    hand_over: Vec<SeqPacket>,
    /// By worker: how many in its place were buried, modulo [`LIVES`]. The zygote's own memory,
    /// copied by each fork.
    lives: Vec<AtomicU16>,
}

impl Attachment {
    /// Maps what the front sent.
    pub fn new(attach: Attach) -> io::Result<Attachment> {
        let wrong = || {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "the front sent the wrong number of descriptors",
            )
        };
        let Attach { geometry, descriptors } = attach;
        let mut descriptors = descriptors.into_iter();
        let region = Region::map(descriptors.next().ok_or_else(wrong)?, geometry)?;
        let bells: Vec<_> =
            descriptors.by_ref().take(geometry.threads).map(EventFd::from).collect();
        let hand_over: Vec<_> = descriptors.map(SeqPacket::from).collect();
        if bells.len() != geometry.threads || hand_over.len() != geometry.slots {
            return Err(wrong());
        }
        Ok(Attachment {
            region,
            bells,
            hand_over,
            lives: (0..geometry.workers).map(|_| AtomicU16::new(0)).collect(),
        })
    }

    /// The sizes of the region.
    pub fn geometry(&self) -> &Geometry {
        self.region.geometry()
    }

    /// In the zygote: makes a sleeping worker look at its stop flag.
    pub fn nudge(&self, worker: usize) {
        let wake = self.region.worker(worker).wake;
        wake.store(1, Ordering::Release);
        futex::wake(wake);
    }

    /// In the zygote: once for each worker's death, before the front is told and before its
    /// successor is forked. Nobody must wake the dead one, nor take what the successor runs for
    /// what the dead one left.
    pub fn bury(&self, worker: usize) {
        let life = self.lives[worker].load(Ordering::Relaxed);
        self.lives[worker].store((life + 1) % LIVES, Ordering::Relaxed);
        self.region.idle().withdraw(worker);
        self.region.worker(worker).wake.store(0, Ordering::Release);
    }

    /// In a fresh worker: its end of the region.
    pub fn worker(self, index: usize) -> Worker {
        assert!(index < self.region.geometry().workers);
        Worker {
            shared: self,
            index,
            request: Vec::new(),
            head: HeadEncoder::default(),
            meter: Meter::default(),
        }
    }
}

/// A worker's end.
#[derive(Debug)]
pub struct Worker {
    shared: Attachment,
    index: usize,
    /// The request being run, copied out of the region.
    request: Vec<u8>,
    head: HeadEncoder,
    meter: Meter,
}

/// How long this worker's scripts take, and how much of that is work.
#[derive(Debug, Default)]
struct Meter {
    schedule: Option<Schedule>,
    /// Nanoseconds that scripts took lately, on average.
    average: u64,
}

impl Meter {
    /// The times before a script, if scripts here take long enough for a look to cost nothing.
    fn begin(&mut self) -> Option<Spent> {
        if self.average < METERED {
            return None;
        }
        if self.schedule.is_none() {
            self.schedule = Schedule::of_this_process().ok();
        }
        self.schedule.as_ref()?.spent().ok()
    }

    /// The share of a script's time, without that in which it had to wait for a processor, that it
    /// was on one: per mille.
    fn end(&mut self, took: u64, before: Option<Spent>) -> Option<u32> {
        self.average = self.average - self.average / 8 + took / 8;
        let (before, after) = (before?, self.schedule.as_ref()?.spent().ok()?);
        let running = after.running.saturating_sub(before.running);
        let delayed = after.delayed.saturating_sub(before.delayed);
        let own = took.saturating_sub(delayed).max(running).max(1);
        u32::try_from(running.saturating_mul(1000) / own).ok()
    }
}

impl Worker {
    /// Which worker of its pool this is.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Requests served so far, for the front to show.
    pub fn publish_requests(&self, served: u64) {
        self.shared.region.worker(self.index).requests.store(served, Ordering::Relaxed);
    }

    /// Waits for a request and takes it. `None` once `stop` is set (by a signal handler; then
    /// [`Attachment::nudge`]).
    pub fn next(&mut self, stop: &AtomicBool) -> io::Result<Option<Job<'_>>> {
        if self.is_surplus(1) {
            self.rest(stop)?;
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

    /// Takes the slot that a queue entry names; `None` if nothing waits there any more.
    fn take(&self, slot: usize) -> Option<(usize, State)> {
        if slot >= self.shared.geometry().slots {
            return None;
        }
        let life = self.shared.lives[self.index].load(Ordering::Relaxed);
        let state = self.shared.region.slot(slot).state;
        state.take(self.index as u16, life).map(|taken| (slot, taken))
    }

    fn begin(&mut self, slot: usize, state: State) -> Job<'_> {
        let region = &self.shared.region;
        let mut start = [0; 4];
        region.read_request(slot, &mut start);
        let length = Request::announced_length(start).min(region.geometry().request_bytes);
        self.request.resize(length, 0);
        region.read_request(slot, &mut self.request);
        let thread =
            region.slot(slot).thread.load(Ordering::Relaxed) as usize % region.geometry().threads;
        let Worker { shared, request, head, meter, .. } = self;
        let request = request.as_slice();
        Job {
            request,
            line: Line {
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
                began: Instant::now(),
                finished: false,
            },
        }
    }

    /// Whether more workers are awake than the front wants, `own` of them not counted.
    fn is_surplus(&self, own: usize) -> bool {
        let region = &self.shared.region;
        let limit = region.awake_limit().load(Ordering::Relaxed) as usize;
        limit > 0 && region.geometry().workers.saturating_sub(region.idle().count()) >= limit + own
    }

    /// Leaves the work to the others until the front wakes this worker.
    fn rest(&self, stop: &AtomicBool) -> io::Result<()> {
        let region = &self.shared.region;
        let stop = || stop.load(Ordering::Acquire);
        let wait = |word: &_| futex::wait(word, 0, None).map(drop);
        let still = || self.is_surplus(0);
        region
            .idle()
            .rest(self.index, region.worker(self.index).wake, still, stop, wait)
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

/// A request that this worker has taken: what was asked, and the line to answer on.
#[derive(Debug)]
pub struct Job<'w> {
    /// The encoded request, in the worker's own memory; see [`Request::decode`].
    pub request: &'w [u8],
    /// Where the answer goes.
    pub line: Line<'w>,
}

/// The client wants nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

/// The way of a response to the front. Dropping it finishes the response, whatever state it is in.
#[derive(Debug)]
pub struct Line<'w> {
    shared: &'w Attachment,
    head: &'w mut HeadEncoder,
    slot: usize,
    state: State,
    thread: usize,
    written: u64,
    /// As last seen; the front may have consumed more.
    consumed: u64,
    /// How much of `written` the front was told of.
    told: u64,
    meter: &'w mut Meter,
    spent: Option<Spent>,
    began: Instant,
    finished: bool,
}

impl Line<'_> {
    /// The file that holds the request's body, when the request says so.
    pub fn take_body(&mut self) -> io::Result<OwnedFd> {
        let missing = || {
            io::Error::new(io::ErrorKind::NotFound, "the file with the request's body did not come")
        };
        loop {
            let mut tag = [0; 4];
            let mut received = self.shared.hand_over[self.slot].receive(&mut tag)?;
            if received.length == 0 {
                return Err(missing());
            }
            // What belongs to an earlier use of the slot was left by a worker that died before it
            // took it.
            if received.length == 4 && u32::from_ne_bytes(tag) == self.state.generation {
                return received.descriptors.pop().ok_or_else(missing);
            }
        }
    }

    /// Sends a head. `Err(None)`: it is too long, and nothing was sent. `Err(Some(Gone))`: nobody
    /// listens.
    pub fn send_head<'f>(
        &mut self,
        kind: HeadKind,
        status: u16,
        reason: &[u8],
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) -> Result<(), Option<Gone>> {
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

    /// Sends bytes of the body, waiting for room as long as the front takes some.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), Gone> {
        let ring = self.shared.geometry().ring_bytes as u64;
        let line = self.shared.region.slot(self.slot);
        while !bytes.is_empty() {
            if self.is_aborted() {
                return Err(Gone);
            }
            if self.written - self.consumed >= ring {
                self.consumed =
                    line.room.consumed.load(Ordering::Acquire).clamp(self.consumed, self.written);
                if self.written - self.consumed >= ring {
                    self.wait_for_room();
                    continue;
                }
            }
            let room = (ring - (self.written - self.consumed)) as usize;
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.shared.region.write_ring(self.slot, self.written, now);
            self.written += now.len() as u64;
            line.written.store(self.written, Ordering::Release);
            if self.written - self.told >= NEWS_BYTES {
                self.flush();
            }
            bytes = later;
        }
        Ok(())
    }

    /// Tells the front of everything written so far.
    pub fn flush(&mut self) {
        if self.told < self.written {
            self.tell();
        }
    }

    /// The response is complete though the script goes on (`fastcgi_finish_request`).
    pub fn end(&mut self) {
        self.shared.region.slot(self.slot).ended.store(1, Ordering::Release);
        self.tell();
    }

    /// Whether the client is gone.
    pub fn is_aborted(&self) -> bool {
        self.shared.region.slot(self.slot).room.is_aborted()
    }

    /// Bytes written so far, heads included.
    pub fn written(&self) -> u64 {
        self.written
    }

    fn tell(&mut self) {
        self.told = self.written;
        if self.shared.region.doorbell(self.thread).mark(self.slot) {
            // A bell that cannot be rung is the front's death; then the zygote ends us.
            let _ = self.shared.bells[self.thread].ring();
        }
    }

    fn wait_for_room(&mut self) {
        let room = self.shared.region.slot(self.slot).room;
        let seen = self.consumed;
        // Any way of coming back is a reason to look again.
        let sleep = |word: &_| drop(futex::wait(word, 1, Some(ROOM_CHECK)));
        room.wait(seen, || self.tell(), sleep);
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        self.finished = true;
        let line = self.shared.region.slot(self.slot);
        let took = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let share = self.meter.end(took, self.spent);
        line.took.store(u32::try_from(took).unwrap_or(u32::MAX), Ordering::Relaxed);
        line.share.store(share.unwrap_or(u32::MAX), Ordering::Relaxed);
        line.state.finish(self.state);
        self.tell();
    }
}
