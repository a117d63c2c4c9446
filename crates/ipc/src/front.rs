//! The front's end of a pool's region.

mod deaths;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use howdah_sys::eventfd::EventFd;
use howdah_sys::memory;
use howdah_sys::seqpacket::SeqPacket;

use crate::Corrupt;
use crate::control::Attach;
use crate::layout::{Geometry, Phase};
use crate::queue::Producer;
use crate::region::Region;
use crate::sync::{Ordering, fence};

/// The front's end: shared by all of its threads.
#[derive(Debug)]
pub struct Front {
    region: Region,
    bells: Vec<EventFd>,
    /// One per slot: descriptors of bodies go through it.
    hand_over: Vec<HandOver>,
    ledger: Mutex<Ledger>,
}

/// Both ends of a slot's socket: the front sends bodies into one, and takes what no worker took
/// back from the other.
#[derive(Debug)]
struct HandOver {
    ours: SeqPacket,
    theirs: SeqPacket,
}

/// What the front knows by itself and never reads back from the region.
#[derive(Debug)]
struct Ledger {
    producer: Producer,
    /// By worker: how many processes in its place have died, modulo [`LIVES`](crate::layout::LIVES):
    /// the number of the process that lives there now.
    lives: Vec<u16>,
    /// Slots nobody uses; the last one given back is the first one used again, its pages are warm.
    free: Vec<u16>,
    slots: Vec<Entry>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    generation: u32,
    /// The front thread that waits for it.
    thread: usize,
    submitted: bool,
    /// Its worker's death was told: once, since who was told may have begun to use it anew.
    lost: bool,
    body: bool,
    /// Bytes of the ring that were written to since it was last trimmed.
    touched: u64,
    /// It was used since the last look for something to trim.
    used: bool,
}

/// A slot that is checked out: the right to use it. It comes back only through [`Front::release`].
#[derive(Debug)]
#[must_use = "a slot that is dropped is lost to its pool"]
pub struct Slot {
    index: u16,
    generation: u32,
    /// Bytes of the ring that were given back.
    consumed: u64,
    /// Bytes of the ring that the worker had written at the last [`Front::slot_status`].
    written: u64,
}

impl Slot {
    /// Which slot it is, below the geometry's number of slots.
    pub fn index(&self) -> usize {
        self.index.into()
    }

    /// Bytes consumed so far, counted from the start of the response.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Bytes written by the worker at the last [`Front::slot_status`], counted likewise.
    pub fn written(&self) -> u64 {
        self.written
    }
}

/// The state of a slot that is checked out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotStatus {
    /// Whether a worker has taken or finished the request.
    pub phase: Phase,
    /// The worker that runs the request, or ran it, once the phase is Taken or Done.
    pub worker: Option<usize>,
    /// The response is complete, whether or not the script is.
    pub ended: bool,
    /// Nanoseconds from taking to finishing, once it is Done; `u32::MAX` for more than four
    /// seconds.
    pub took: Option<u32>,
    /// Per mille of that time, without waiting for a processor, that the script was on one; if the
    /// worker knows.
    pub share: Option<u32>,
}

/// Why a request could not be submitted.
#[derive(Debug)]
pub enum SubmitError {
    /// It does not fit into a request area.
    TooLarge,
    /// The pool must be replaced.
    Corrupt(Corrupt),
    /// Its body could not be handed over.
    Io(io::Error),
}

impl Front {
    /// Makes the region of a new pool, and what its zygote must be sent to attach to it.
    pub fn create(geometry: Geometry) -> io::Result<(Front, Attach)> {
        let region = Region::create(geometry)?;
        let bells =
            (0..geometry.threads).map(|_| EventFd::new()).collect::<io::Result<Vec<_>>>()?;
        let mut descriptors = vec![region.file().try_clone_to_owned()?];
        for bell in &bells {
            descriptors.push(bell.as_fd().try_clone_to_owned()?);
        }
        let mut hand_over = Vec::with_capacity(geometry.slots);
        for _ in 0..geometry.slots {
            let (ours, theirs) = SeqPacket::pair()?;
            ours.set_nonblocking(true)?;
            theirs.set_nonblocking(true)?;
            descriptors.push(theirs.as_fd().try_clone_to_owned()?);
            hand_over.push(HandOver { ours, theirs });
        }
        let ledger = Mutex::new(Ledger {
            producer: Producer::new(geometry.slots),
            lives: vec![0; geometry.workers],
            free: (0..geometry.slots as u16).rev().collect(),
            slots: vec![Entry::default(); geometry.slots],
        });
        Ok((Front { region, bells, hand_over, ledger }, Attach { geometry, descriptors }))
    }

    /// The sizes that this region was made with.
    pub fn geometry(&self) -> &Geometry {
        self.region.geometry()
    }

    /// The bell of a front thread. Its edge, not its count, is the signal: nobody needs to read it.
    pub fn bell(&self, thread: usize) -> BorrowedFd<'_> {
        self.bells[thread].as_fd()
    }

    /// Wakes a front thread as a worker would, but without a mark.
    pub fn ring(&self, thread: usize) {
        // Its counter is written by hostile workers as well; if it is full, the thread was woken
        // all the same.
        let _ = self.bells[thread].ring();
    }

    /// Takes a free slot, if there is one.
    pub fn checkout(&self) -> Option<Slot> {
        let mut ledger = self.ledger();
        let index = ledger.free.pop()?;
        let entry = &mut ledger.slots[usize::from(index)];
        entry.generation = entry.generation.wrapping_add(1);
        Some(Slot {
            index,
            generation: entry.generation,
            consumed: 0,
            written: 0,
        })
    }

    /// Gives a slot back. The caller knows that no worker can touch it any more: it was never
    /// submitted, or it was cancelled, or it is Done, or its worker is dead.
    pub fn release(&self, slot: Slot) {
        let mut ledger = self.ledger();
        let touched = slot.written.min(self.geometry().ring_bytes as u64);
        let entry = &mut ledger.slots[slot.index()];
        entry.submitted = false;
        entry.touched = entry.touched.max(touched);
        entry.used = true;
        if std::mem::take(&mut entry.body) {
            self.take_body_back(slot.index());
        }
        ledger.free.push(slot.index);
    }

    /// As [`Front::enqueue`], and wakes a worker if one sleeps.
    pub fn submit(
        &self,
        slot: &Slot,
        thread: usize,
        encoded: &[u8],
        body: Option<BorrowedFd<'_>>,
    ) -> Result<(), SubmitError> {
        self.enqueue(slot, thread, encoded, body)?;
        self.wake_worker();
        Ok(())
    }

    /// Gives the memory back that large responses took in slots that were not used since the last
    /// call. To be called every few seconds.
    pub fn trim(&self) -> io::Result<()> {
        let mut ledger = self.ledger();
        let Ledger { free, slots, .. } = &mut *ledger;
        for index in free.iter().copied().map(usize::from) {
            let entry = &mut slots[index];
            // Nobody can take the slot out meanwhile: that needs the ledger.
            if !std::mem::take(&mut entry.used) && entry.touched > KEPT {
                self.region.release_ring(index, KEPT as usize)?;
                entry.touched = 0;
            }
        }
        Ok(())
    }

    /// Puts an encoded request into the slot and the slot into the queue. Workers that are awake
    /// will find it there. `thread` will be told of all that happens to it. `body` goes along if
    /// the request says that its body is a file.
    pub fn enqueue(
        &self,
        slot: &Slot,
        thread: usize,
        encoded: &[u8],
        body: Option<BorrowedFd<'_>>,
    ) -> Result<(), SubmitError> {
        if encoded.len() > self.geometry().request_bytes {
            return Err(SubmitError::TooLarge);
        }
        if let Some(body) = body {
            let tag = slot.generation.to_ne_bytes();
            self.hand_over[slot.index()].ours.send(&tag, &[body]).map_err(SubmitError::Io)?;
        }
        self.region.write_request(slot.index(), encoded);
        let line = self.region.slot(slot.index());
        line.thread.store(thread as u32, Ordering::Relaxed);
        line.written.store(0, Ordering::Relaxed);
        line.ended.store(0, Ordering::Relaxed);
        line.room.reset();
        line.state.submit(slot.generation);
        let mut ledger = self.ledger();
        let entry = &mut ledger.slots[slot.index()];
        entry.thread = thread;
        entry.submitted = true;
        entry.lost = false;
        entry.body = body.is_some();
        ledger
            .producer
            .enter(&self.region.queue(), slot.index())
            .map_err(SubmitError::Corrupt)?;
        Ok(())
    }

    /// Wakes a sleeping worker, if there is one and there may be work for it.
    pub fn wake_worker(&self) {
        if let Some(worker) = self.region.idle().claim(self.geometry().workers) {
            self.wake(worker);
        }
    }

    /// Wakes all workers, whether or not they say that they sleep. For a request that has waited
    /// longer than it should: the one that was woken for it may be stopped, or a hostile script has
    /// wiped out that others sleep.
    pub fn wake_all(&self) {
        for worker in 0..self.geometry().workers {
            self.wake(worker);
        }
    }

    /// How many workers should be awake at most, 0 for all. Those beyond go to sleep after their
    /// present request, though there may be work: the others will do it.
    pub fn limit_awake(&self, limit: usize) {
        let word = self.region.awake_limit();
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        if word.load(Ordering::Relaxed) != limit {
            word.store(limit, Ordering::Relaxed);
        }
    }

    /// Workers that do not say they sleep. One that falls asleep just now sees what was enqueued
    /// before this call.
    pub fn awake_workers(&self) -> usize {
        fence(Ordering::SeqCst);
        self.geometry().workers.saturating_sub(self.idle_workers())
    }

    /// How many requests no worker has taken yet, and a count that grows with each one taken.
    pub fn queued(&self) -> (usize, u32) {
        let head = self.region.queue().head.load(Ordering::Acquire);
        let tail = self.region.queue().tail.load(Ordering::Acquire);
        ((tail.wrapping_sub(head) as usize).min(self.geometry().slots), head)
    }

    /// Whether no worker has begun what was put into the slot of that index, as far as its state
    /// says.
    pub fn is_queued(&self, slot: usize) -> bool {
        let state = self.region.slot(slot).state.load();
        state.is_some_and(|state| state.phase == Phase::Queued)
    }

    /// Takes a request back that no worker has begun. `false` if one has.
    pub fn cancel(&self, slot: &Slot) -> bool {
        self.region.slot(slot.index()).state.cancel(slot.generation)
    }

    /// Reads the state of a slot, and checks it.
    ///
    /// # Errors
    /// The worker wrote what no honest worker writes.
    pub fn slot_status(&self, slot: &mut Slot) -> Result<SlotStatus, Corrupt> {
        let line = self.region.slot(slot.index());
        // The state first: a reader that sees Done must see every byte written before it.
        let state = line.state.load().ok_or(Corrupt("a slot is in no known state"))?;
        let ended = line.ended.load(Ordering::Acquire) != 0;
        let written = line.written.load(Ordering::Acquire);
        if state.generation != slot.generation || state.phase == Phase::Free {
            return Err(Corrupt("a slot in use was given another generation"));
        }
        if state.phase == Phase::Queued && (state.worker, state.life) != (0, 0) {
            // It could be neither taken nor cancelled, ever.
            return Err(Corrupt("a slot that nobody took bears a worker's name"));
        }
        if written < slot.written || written - slot.consumed > self.geometry().ring_bytes as u64 {
            return Err(Corrupt("a response ring holds more than it can"));
        }
        let worker = usize::from(state.worker);
        if worker >= self.geometry().workers {
            return Err(Corrupt("a slot was taken by a worker that does not exist"));
        }
        slot.written = written;
        let taken = matches!(state.phase, Phase::Taken | Phase::Done);
        Ok(SlotStatus {
            phase: state.phase,
            worker: taken.then_some(worker),
            ended: ended || state.phase == Phase::Done,
            took: (state.phase == Phase::Done).then(|| line.took.load(Ordering::Relaxed)),
            share: Some(line.share.load(Ordering::Relaxed)).filter(|share| *share <= 1000),
        })
    }

    /// Copies written, not yet consumed bytes out, `offset` bytes after those consumed. Returns
    /// their number.
    pub fn copy(&self, slot: &Slot, offset: u64, into: &mut [u8]) -> usize {
        let from = slot.consumed + offset;
        let length = into.len().min(slot.written.saturating_sub(from) as usize);
        self.region.read_ring(slot.index(), from, &mut into[..length]);
        length
    }

    /// Sends `before`, then `length` unconsumed bytes of the ring, then `after`, with one
    /// `writev(2)`: the kernel copies them straight from the ring. Returns the bytes sent of all
    /// three together; consumes nothing.
    pub fn send(
        &self,
        slot: &Slot,
        length: usize,
        to: BorrowedFd<'_>,
        before: &[u8],
        after: &[u8],
    ) -> io::Result<usize> {
        let length = length.min((slot.written - slot.consumed) as usize);
        let [first, second] = self.region.ring_parts(slot.index(), slot.consumed, length);
        let part = |base: *const u8, length| libc::iovec {
            iov_base: base.cast_mut().cast(),
            iov_len: length,
        };
        let parts = [
            part(before.as_ptr(), before.len()),
            part(first.0, first.1),
            part(second.0, second.1),
            part(after.as_ptr(), after.len()),
        ];
        // SAFETY: the slices live, and the ring's parts lie inside the mapping, which lives as long
        // as `self`.
        unsafe { memory::write_parts(to, &parts) }
    }

    /// Gives `length` bytes of the ring back to the worker, and wakes it if it waits for room.
    pub fn consume(&self, slot: &mut Slot, length: u64) {
        slot.consumed = slot.written.min(slot.consumed.saturating_add(length));
        // Waking the worker for a few bytes of room would make both sides take turns at every page.
        let half_free = slot.written - slot.consumed <= self.geometry().ring_bytes as u64 / 2;
        let room = self.region.slot(slot.index()).room;
        if room.give_back(slot.consumed, half_free) {
            howdah_sys::futex::wake(room.starved);
        }
    }

    /// Tells the worker that nobody reads the rest of the response.
    pub fn abort(&self, slot: &Slot) {
        let room = self.region.slot(slot.index()).room;
        room.abort();
        howdah_sys::futex::wake(room.starved);
    }

    /// Before a front thread sleeps. `false`: there is news, so it must not.
    pub fn try_sleep(&self, thread: usize) -> bool {
        self.region.doorbell(thread).try_sleep()
    }

    /// After a front thread slept.
    pub fn woke(&self, thread: usize) {
        self.region.doorbell(thread).woke();
    }

    /// Calls `each` with the index of every slot that has news for this thread. Marks may be false
    /// alarms.
    pub fn drain(&self, thread: usize, each: impl FnMut(usize)) {
        self.region.doorbell(thread).drain(self.geometry().slots, each);
    }

    /// Requests that a worker says it has served. For display only.
    pub fn requests_served(&self, worker: usize) -> u64 {
        self.region.worker(worker).requests.load(Ordering::Relaxed)
    }

    /// Workers that say they sleep. For display only.
    pub fn idle_workers(&self) -> usize {
        self.region.idle().count()
    }

    fn wake(&self, worker: usize) {
        let wake = self.region.worker(worker).wake;
        wake.store(1, Ordering::Release);
        howdah_sys::futex::wake(wake);
    }

    /// Empties a slot's socket of descriptors that no worker took, which would keep their files on
    /// the disk. Only we send into it, so there is an end to it.
    fn take_body_back(&self, slot: usize) {
        while let Ok(message) = self.hand_over[slot].theirs.receive_now(&mut [0; 4]) {
            if message.length == 0 {
                break;
            }
        }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // Nothing in these sections panics halfway, so a poisoned ledger is still whole.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes at the start of each ring that stay in memory: what most responses need.
const KEPT: u64 = 64 * 1024;
