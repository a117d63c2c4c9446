//! A worker's end of its pool's region, and the zygote's, from which it comes.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use howdah_sys::eventfd::EventFd;
use howdah_sys::futex;
use howdah_sys::seqpacket::SeqPacket;

use crate::control::Attach;
use crate::layout::{Geometry, Phase, State};
use crate::region::Region;
use crate::request::Request;
use crate::response::{HeadEncoder, Kind};
use crate::sync::{Ordering, fence};

/// After this many bytes without a word to the front it is told, so that it sends while the script goes on.
const NEWS_BYTES: u64 = 64 * 1024;
/// A worker that waits for room looks up this often, in case a wake-up was lost to a hostile neighbour.
const ROOM_CHECK: Duration = Duration::from_secs(1);

/// The region as the zygote attached it. Each worker, once forked, makes its [`Worker`] of it.
#[derive(Debug)]
pub struct Attachment {
    region: Region,
    bells: Vec<EventFd>,
    hand_over: Vec<SeqPacket>,
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
        let Attach {
            geometry,
            descriptors,
        } = attach;
        let mut descriptors = descriptors.into_iter();
        let region = Region::map(descriptors.next().ok_or_else(wrong)?, geometry)?;
        let bells: Vec<_> = descriptors
            .by_ref()
            .take(geometry.threads)
            .map(EventFd::from)
            .collect();
        let hand_over: Vec<_> = descriptors.map(SeqPacket::from).collect();
        if bells.len() != geometry.threads || hand_over.len() != geometry.slots {
            return Err(wrong());
        }
        Ok(Attachment {
            region,
            bells,
            hand_over,
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

    /// In the zygote, after a worker's death and before its successor: nobody must wake the dead one.
    pub fn bury(&self, worker: usize) {
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
}

impl Worker {
    /// Which worker of its pool this is.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Requests served so far, for the front to show.
    pub fn publish_requests(&self, served: u64) {
        self.shared
            .region
            .worker(self.index)
            .requests
            .store(served, Ordering::Relaxed);
    }

    /// Waits for a request and takes it. `None` once `stop` is set (by a signal handler; then [`Attachment::nudge`]).
    pub fn next(&mut self, stop: &AtomicBool) -> io::Result<Option<Job<'_>>> {
        loop {
            if stop.load(Ordering::Acquire) {
                return Ok(None);
            }
            match self.shared.region.queue().pop() {
                Some(entry) => {
                    if let Some((slot, state)) = self.take(entry) {
                        return Ok(Some(self.begin(slot, state)));
                    }
                }
                None => self.sleep(stop)?,
            }
        }
    }

    /// Claims the slot that a queue entry names; `None` if the entry is stale.
    fn take(&self, entry: u32) -> Option<(usize, State)> {
        let slot = (entry & 0xFFFF) as usize;
        if slot >= self.shared.geometry().slots {
            return None;
        }
        let word = self.shared.region.slot(slot).state;
        let queued = State::unpack(word.load(Ordering::Acquire))?;
        if queued.phase != Phase::Queued || queued.generation & 0xFFFF != entry >> 16 {
            return None;
        }
        let taken = State {
            worker: self.index as u16,
            phase: Phase::Taken,
            ..queued
        };
        let swapped = word.compare_exchange(queued.pack(), taken.pack(), Ordering::AcqRel, Ordering::Acquire);
        swapped.is_ok().then_some((slot, taken))
    }

    fn begin(&mut self, slot: usize, state: State) -> Job<'_> {
        let region = &self.shared.region;
        let mut start = [0; 4];
        region.read_request(slot, &mut start);
        let length = Request::announced_length(start).min(region.geometry().request_bytes);
        self.request.resize(length, 0);
        region.read_request(slot, &mut self.request);
        let thread = region.slot(slot).thread.load(Ordering::Relaxed) as usize % region.geometry().threads;
        let Worker {
            shared,
            request,
            head,
            ..
        } = self;
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
                finished: false,
            },
        }
    }

    fn sleep(&self, stop: &AtomicBool) -> io::Result<()> {
        let idle = self.shared.region.idle();
        let wake = self.shared.region.worker(self.index).wake;
        idle.announce(self.index);
        if !self.shared.region.queue().is_empty() && idle.withdraw(self.index) {
            return Ok(());
        }
        while wake.load(Ordering::Acquire) == 0 && !stop.load(Ordering::Acquire) {
            futex::wait(wake, 0, None)?;
        }
        idle.withdraw(self.index);
        wake.store(0, Ordering::Release);
        Ok(())
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
    finished: bool,
}

impl Line<'_> {
    /// The file that holds the request's body, when the request says so.
    pub fn take_body(&mut self) -> io::Result<OwnedFd> {
        let missing = || {
            io::Error::new(
                io::ErrorKind::NotFound,
                "the file with the request's body did not come",
            )
        };
        loop {
            let mut tag = [0; 4];
            let mut received = self.shared.hand_over[self.slot].receive(&mut tag)?;
            if received.length == 0 {
                return Err(missing());
            }
            // What belongs to an earlier use of the slot was left by a worker that died before it took it.
            if received.length == 4 && u32::from_ne_bytes(tag) == self.state.generation {
                return received.descriptors.pop().ok_or_else(missing);
            }
        }
    }

    /// Sends a head. `Err(None)`: it is too long, and nothing was sent. `Err(Some(Gone))`: nobody listens.
    pub fn send_head<'f>(
        &mut self,
        kind: Kind,
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
        if kind == Kind::Interim && sent.is_ok() {
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
                self.consumed = line
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
        self.shared
            .region
            .slot(self.slot)
            .ended
            .store(1, Ordering::Release);
        self.tell();
    }

    /// Whether the client is gone.
    pub fn is_aborted(&self) -> bool {
        self.shared.region.slot(self.slot).aborted.load(Ordering::Acquire) != 0
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
        let line = self.shared.region.slot(self.slot);
        line.starved.store(1, Ordering::Release);
        self.tell();
        fence(Ordering::SeqCst);
        if line.consumed.load(Ordering::Acquire) == self.consumed && !self.is_aborted() {
            // Any way of coming back is a reason to look again.
            let _ = futex::wait(line.starved, 1, Some(ROOM_CHECK));
        }
        line.starved.store(0, Ordering::Release);
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        self.finished = true;
        let done = State {
            phase: Phase::Done,
            ..self.state
        };
        self.shared
            .region
            .slot(self.slot)
            .state
            .store(done.pack(), Ordering::Release);
        self.tell();
    }
}
