//! The front's side of a pool's region.

mod awake;
mod deaths;
mod figures;
mod questions;
mod response;
mod signs;

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use howdah_sys::eventfd::EventFd;
use howdah_sys::seqpacket::SeqPacket;
use howdah_sys::usage;

use crate::Corrupt;
use crate::control::{AttachMessage, SlotCleaning};
use crate::layout::{Geometry, SlotPhase};
use crate::queue::Producer;
use crate::region::Region;
use crate::sync::Ordering;

pub use questions::WorkerQuestion;
pub use signs::SignsOfLife;

/// The front's side of a region, shared by all of its threads.
#[derive(Debug)]
pub struct FrontRegion {
    region: Region,
    /// One doorbell per front thread. The event loop watches it. The front never reads or writes
    /// it, because the pool has the same open file.
    bells: Vec<OwnedFd>,
    /// The front's end of each slot's socket, through which descriptors of request bodies are
    /// passed. The front only sends.
    body_sockets: Vec<SeqPacket>,
    /// Number of workers that live and are not told to end.
    present: AtomicUsize,
    state: Mutex<FrontState>,
}

/// State that the front keeps in its own memory and never reads back from the region.
#[derive(Debug)]
struct FrontState {
    producer: Producer,
    /// By worker: number of processes at this index that have died, modulo
    /// [`INCARNATIONS`](crate::layout::INCARNATIONS). It identifies the process that runs now.
    incarnations: Vec<u16>,
    /// Unused slots. The slot that was released last is used first, because its pages are in the
    /// cache.
    free: Vec<u16>,
    slots: Vec<SlotEntry>,
}

#[derive(Debug, Clone, Copy, Default)]
struct SlotEntry {
    generation: u32,
    /// The front thread that waits for the slot.
    thread: usize,
    submitted: bool,
    /// The death of the slot's worker was reported. It is reported once, because the slot may be in
    /// use again afterwards.
    lost: bool,
    /// A descriptor was sent to the slot's socket.
    body: bool,
    /// The zygote cleans the slot.
    cleaning: bool,
    /// Bytes of the ring that were written to since the ring was last trimmed.
    touched: u64,
    /// The slot was used since the last call of [`FrontRegion::trim`].
    used: bool,
}

/// A slot that is checked out: the right to use it. Only [`FrontRegion::release`] gives the slot
/// back.
#[derive(Debug)]
#[must_use = "a slot that is dropped is lost to its pool"]
pub struct Slot {
    index: u16,
    generation: u32,
    /// Bytes of the ring that were given back to the worker.
    consumed: u64,
    /// Bytes that the worker had written into the ring at the last [`FrontRegion::slot_status`].
    written: u64,
    /// Time at which the request was queued, in nanoseconds; before that, the time from which on it
    /// has waited for the slot, or 0.
    queued: Cell<u64>,
    /// Number of the question that the worker has asked last.
    asked: u32,
    /// Output counts as written from its print on, and not only when the worker tells.
    shows: bool,
}

impl Slot {
    /// Index of the slot, less than the geometry's number of slots.
    pub fn index(&self) -> usize {
        self.index.into()
    }

    /// Number of this use of the slot. The next request in it has another one.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Notes that the request has waited for the slot since `time`, in nanoseconds of
    /// [`usage::monotonic`]. Call it before the request is queued.
    pub fn waits_since(&self, time: u64) {
        self.queued.set(time);
    }

    /// Counts output as written as soon as it is printed, for a worker that has more to tell and
    /// does not tell it.
    pub fn show(&mut self) {
        self.shows = true;
    }

    /// Bytes consumed until now, counted from the start of the response.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Bytes that the worker had written at the last [`FrontRegion::slot_status`], counted from the
    /// start of the response.
    pub fn written(&self) -> u64 {
        self.written
    }
}

/// The state of a slot that is checked out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotStatus {
    /// The phase of the slot: whether a worker has taken or finished the request.
    pub phase: SlotPhase,
    /// The worker that runs or ran the request. `None` unless the phase is Taken or Done.
    pub worker: Option<usize>,
    /// The response is complete. The script may still run.
    pub ended: bool,
    /// Nanoseconds between taking and finishing, once the slot is Done; `u32::MAX` for more than
    /// four seconds.
    pub took: Option<u32>,
    /// Per mille of that time during which the script was on a processor. Time spent waiting for a
    /// processor is not counted. `None` if the worker has not measured it.
    pub share: Option<u32>,
}

/// The reason why a request could not be submitted.
#[derive(Debug)]
pub enum SubmitError {
    /// The request does not fit into a request area.
    TooLarge,
    /// The region is corrupt. The pool must be replaced.
    Corrupt(Corrupt),
    /// The descriptor of the request body could not be sent to the slot's socket.
    Io(io::Error),
}

impl FrontRegion {
    /// Creates the region of a new pool, and the message that lets its zygote attach to the region.
    ///
    /// # Errors
    /// The memory file, a doorbell or a socket could not be created.
    pub fn create(geometry: Geometry) -> io::Result<(FrontRegion, AttachMessage)> {
        let (region, file) = Region::create(geometry)?;
        let mut descriptors = vec![file];
        let mut bells = Vec::with_capacity(geometry.threads);
        for _ in 0..geometry.threads {
            let bell = EventFd::new()?;
            bells.push(bell.as_fd().try_clone_to_owned()?);
            descriptors.push(bell.into());
        }
        let mut body_sockets = Vec::with_capacity(geometry.slots);
        for _ in 0..geometry.slots {
            let (ours, theirs) = SeqPacket::pair()?;
            ours.refuse_messages()?;
            descriptors.push(theirs.into());
            body_sockets.push(ours);
        }
        let state = Mutex::new(FrontState {
            producer: Producer::new(geometry.slots),
            incarnations: vec![0; geometry.workers],
            free: (0..geometry.slots as u16).rev().collect(),
            slots: vec![SlotEntry::default(); geometry.slots],
        });
        let front = FrontRegion {
            region,
            bells,
            body_sockets,
            present: AtomicUsize::new(0),
            state,
        };
        Ok((front, AttachMessage { geometry, descriptors }))
    }

    /// The sizes of this region.
    pub fn geometry(&self) -> &Geometry {
        self.region.geometry()
    }

    /// The doorbell descriptor of a front thread, for its event loop. The edge is the signal, not
    /// the count. Nothing in the front reads or writes it: the pool can change the flags of the
    /// open file, and can fill the counter.
    pub fn bell(&self, thread: usize) -> BorrowedFd<'_> {
        self.bells[thread].as_fd()
    }

    /// Takes a free slot. `None` if every slot is in use.
    pub fn checkout(&self) -> Option<Slot> {
        let mut state = self.state();
        let index = state.free.pop()?;
        let entry = &mut state.slots[usize::from(index)];
        entry.generation = entry.generation.wrapping_add(1);
        Some(Slot {
            index,
            generation: entry.generation,
            consumed: 0,
            written: 0,
            queued: Cell::new(0),
            asked: 0,
            shows: false,
        })
    }

    /// Returns whether [`FrontRegion::checkout`] has a slot.
    pub fn has_free_slots(&self) -> bool {
        !self.state().free.is_empty()
    }

    /// Gives a slot back. The caller guarantees that no worker can access the slot any more: the
    /// slot was never submitted, was cancelled, is Done, or its worker is dead.
    ///
    /// `Some` if no worker may have taken the request's body: the zygote must clean the slot, and
    /// [`FrontRegion::cleaned`] must be called afterwards. `None` if the slot can be used again at
    /// once.
    #[must_use = "the slot stays unusable until the zygote has cleaned it"]
    pub fn release(&self, slot: Slot) -> Option<SlotCleaning> {
        let mut state = self.state();
        let touched = slot.written.min(self.geometry().ring_bytes as u64);
        let entry = &mut state.slots[slot.index()];
        entry.submitted = false;
        entry.touched = entry.touched.max(touched);
        entry.used = true;
        // A worker takes the body before it runs the script.
        if std::mem::take(&mut entry.body) && !self.is_done(&slot) {
            entry.cleaning = true;
            let kept = self.geometry().ring_bytes as u64;
            return Some(SlotCleaning { slot: slot.index.into(), kept });
        }
        state.free.push(slot.index);
        None
    }

    /// Returns whether a worker has finished the request.
    fn is_done(&self, slot: &Slot) -> bool {
        let state = self.region.slot(slot.index()).state.load();
        state.is_some_and(|state| {
            state.phase == SlotPhase::Done && state.generation == slot.generation
        })
    }

    /// Makes a slot usable again that the zygote has cleaned. Returns `false` if the slot was not
    /// to be cleaned.
    pub fn cleaned(&self, slot: usize) -> bool {
        let mut state = self.state();
        let entry = state.slots.get_mut(slot);
        let was_cleaned = entry.is_some_and(|entry| std::mem::take(&mut entry.cleaning));
        if was_cleaned {
            state.free.push(slot as u16);
        }
        was_cleaned
    }

    /// Calls [`FrontRegion::enqueue`] and wakes a worker if one sleeps.
    ///
    /// # Errors
    /// The errors of [`FrontRegion::enqueue`].
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

    /// Selects free slots whose memory large responses have used, and that were not used since the
    /// last call. The zygote must clean them, and [`FrontRegion::cleaned`] must be called for each.
    /// Half of the free slots stay usable meanwhile. Call this function every few seconds.
    pub fn trim(&self) -> Vec<SlotCleaning> {
        let mut state = self.state();
        let FrontState { free, slots, .. } = &mut *state;
        let mut most = free.len().div_ceil(2);
        let mut cleanings = Vec::new();
        free.retain(|index| {
            let entry = &mut slots[usize::from(*index)];
            let is_trimmed = !std::mem::take(&mut entry.used) && entry.touched > KEPT && most > 0;
            if is_trimmed {
                most -= 1;
                entry.touched = 0;
                entry.cleaning = true;
                cleanings.push(SlotCleaning { slot: (*index).into(), kept: KEPT });
            }
            !is_trimmed
        });
        cleanings
    }

    /// Writes an encoded request into the slot and puts the slot into the queue. Workers that are
    /// awake find the slot there. `thread` is notified of everything that happens to the slot.
    /// `body` is the descriptor of the request body if the request says that its body is a file.
    /// The worker gets the same open file: it should be open for reading only, and the front must
    /// neither read from it nor depend on its flags or offset any more.
    ///
    /// # Errors
    /// The request is too large for a request area, the body's descriptor could not be sent, or the
    /// region is corrupt.
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
            self.body_sockets[slot.index()]
                .send_now(&tag, &[body])
                .map_err(SubmitError::Io)?;
        }
        self.region.write_request(slot.index(), encoded);
        let words = self.region.slot(slot.index());
        words.reset(thread);
        if slot.queued.get() == 0 {
            slot.queued.set(usage::monotonic());
        }
        words.queued.store(slot.queued.get(), Ordering::Relaxed);
        // Before the state: the queue may still hold the slot for a request that was cancelled, and
        // lead a worker here at once. Its death must find the request.
        let mut state = self.state();
        words.state.submit(slot.generation);
        let entry = &mut state.slots[slot.index()];
        entry.thread = thread;
        entry.submitted = true;
        entry.lost = false;
        entry.body = body.is_some();
        state
            .producer
            .enter(&self.region.queue(), slot.index())
            .map_err(SubmitError::Corrupt)?;
        Ok(())
    }

    /// Number of requests that no worker has taken yet, and a count that grows with each request
    /// taken.
    pub fn queued(&self) -> (usize, u32) {
        let head = self.region.queue().head.load(Ordering::Acquire);
        let tail = self.region.queue().tail.load(Ordering::Acquire);
        ((tail.wrapping_sub(head) as usize).min(self.geometry().slots), head)
    }

    /// Returns whether the slot at this index is Queued according to its state word.
    pub fn is_queued(&self, slot: usize) -> bool {
        let state = self.region.slot(slot).state.load();
        state.is_some_and(|state| state.phase == SlotPhase::Queued)
    }

    /// Returns whether a living worker runs a request, according to the state words of the slots
    /// that are in use. The word of a slot that was released after its worker's death still says
    /// Taken.
    pub fn is_any_taken(&self) -> bool {
        let state = self.state();
        let used = state.slots.iter().enumerate().filter(|(_, entry)| entry.submitted);
        used.filter(|(_, entry)| !entry.lost).any(|(index, entry)| {
            let word = self.region.slot(index).state.load();
            word.is_some_and(|word| {
                word.phase == SlotPhase::Taken && word.generation == entry.generation
            })
        })
    }

    /// Takes a request back that no worker has taken. Returns `false` if a worker has taken it.
    pub fn cancel(&self, slot: &Slot) -> bool {
        self.region.slot(slot.index()).state.cancel(slot.generation)
    }

    /// Announces that a front thread is about to sleep. Returns `false` if slots are marked; the
    /// thread must not sleep then.
    pub fn try_sleep(&self, thread: usize) -> bool {
        self.region.doorbell(thread).try_sleep()
    }

    /// Announces that a front thread is awake.
    pub fn woke(&self, thread: usize) {
        self.region.doorbell(thread).woke();
    }

    /// Calls `each` with the index of every slot that is marked for this thread. A mark may be a
    /// false alarm.
    pub fn drain(&self, thread: usize, each: impl FnMut(usize)) {
        self.region.doorbell(thread).drain(self.geometry().slots, each);
    }

    fn state(&self) -> MutexGuard<'_, FrontState> {
        // No code that holds the lock panics halfway, therefore a poisoned lock still guards a
        // consistent state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes at the start of each ring that [`FrontRegion::trim`] keeps in memory: enough for most
/// responses.
const KEPT: u64 = 64 * 1024;
