//! The response in a slot's ring.

use std::io;
use std::os::fd::BorrowedFd;

use howdah_sys::memory;

use super::{FrontRegion, Slot, SlotStatus};
use crate::Corrupt;
use crate::flow_control::AbortReason;
use crate::layout::SlotPhase;
use crate::sync::Ordering;

impl FrontRegion {
    /// Reads the state of a slot, and checks it.
    ///
    /// # Errors
    /// The worker wrote a value that no correct worker writes.
    pub fn slot_status(&self, slot: &mut Slot) -> Result<SlotStatus, Corrupt> {
        let words = self.region.slot(slot.index());
        // The state is read first: a reader that sees Done must see every byte written before.
        let state = words.state.load().ok_or(Corrupt("a slot is in no known state"))?;
        let ended = words.ended.load(Ordering::Acquire) != 0;
        let written = if slot.shows {
            let printed = words.printed.load(Ordering::Acquire);
            slot.written + u64::from(printed.wrapping_sub(slot.written as u32))
        } else {
            words.written.load(Ordering::Acquire)
        };
        if state.generation != slot.generation || state.phase == SlotPhase::Free {
            return Err(Corrupt("a worker changed the generation of a slot in use"));
        }
        if state.phase == SlotPhase::Queued && (state.worker, state.incarnation) != (0, 0) {
            // Such a slot could never be taken or cancelled.
            return Err(Corrupt("a slot that no worker took names a worker"));
        }
        if written < slot.written || written - slot.consumed > self.geometry().ring_bytes as u64 {
            return Err(Corrupt("a response ring claims to hold more than its size"));
        }
        let worker = usize::from(state.worker);
        if worker >= self.geometry().workers {
            return Err(Corrupt("a slot names a worker that does not exist"));
        }
        slot.written = written;
        let taken = matches!(state.phase, SlotPhase::Taken | SlotPhase::Done);
        Ok(SlotStatus {
            phase: state.phase,
            worker: taken.then_some(worker),
            ended: ended || state.phase == SlotPhase::Done,
            took: (state.phase == SlotPhase::Done).then(|| words.took.load(Ordering::Relaxed)),
            share: Some(words.share.load(Ordering::Relaxed)).filter(|share| *share <= 1000),
        })
    }

    /// Copies bytes that are written but not consumed, starting `offset` bytes after the consumed
    /// ones. Returns the number of bytes copied.
    pub fn copy(&self, slot: &Slot, offset: u64, into: &mut [u8]) -> usize {
        let from = slot.consumed + offset;
        let length = into.len().min(slot.written.saturating_sub(from) as usize);
        self.region.read_ring(slot.index(), from, &mut into[..length]);
        length
    }

    /// Sends `before`, then `length` unconsumed bytes of the ring, then `after`, with one
    /// `writev(2)`. The kernel copies the bytes straight from the ring. Returns the number of bytes
    /// sent, of all three together. Consumes nothing.
    ///
    /// # Errors
    /// The error of `writev(2)`.
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

    /// Gives `length` bytes of the ring back to the worker, and wakes the worker if it waits for
    /// space.
    pub fn consume(&self, slot: &mut Slot, length: u64) {
        slot.consumed = slot.written.min(slot.consumed.saturating_add(length));
        // Waking the worker for a few bytes would make the two processes alternate at every page.
        let half_free = slot.written - slot.consumed <= self.geometry().ring_bytes as u64 / 2;
        let room = self.region.slot(slot.index()).flow_control;
        if room.give_back(slot.consumed, half_free) {
            howdah_sys::futex::wake(room.starved);
        }
    }

    /// Tells the worker that the rest of the response is not wanted.
    pub fn abort(&self, slot: &Slot, reason: AbortReason) {
        let room = self.region.slot(slot.index()).flow_control;
        room.abort(reason);
        howdah_sys::futex::wake(room.starved);
    }
}

#[cfg(all(test, not(miri)))] // Miri has no memory files.
mod tests {
    use super::*;
    use crate::layout::Geometry;

    #[test]
    fn a_worker_is_woken_where_half_of_its_ring_is_free_and_for_no_few_bytes() {
        let (front, _attach) = FrontRegion::create(Geometry::for_pool(1, 1)).unwrap();
        let mut slot = front.checkout().unwrap();
        front.submit(&slot, 0, b"a request", None).unwrap();
        let words = front.region.slot(slot.index());
        let taken = words.state.take(0, 0).unwrap();
        let ring = front.geometry().ring_bytes as u64;
        words.written.store(ring, Ordering::Relaxed);
        front.slot_status(&mut slot).unwrap();
        words.flow_control.starved.store(1, Ordering::Relaxed);
        for (length, still_waits) in [(ring / 2 - 1, 1), (1, 0)] {
            front.consume(&mut slot, length);
            assert_eq!(words.flow_control.starved.load(Ordering::Relaxed), still_waits);
        }
        for (share, told) in [(1000, Some(1000)), (1001, None)] {
            words.share.store(share, Ordering::Relaxed);
            assert_eq!(front.slot_status(&mut slot).unwrap().share, told);
        }
        words.state.finish(taken);
        let _ = front.release(slot);
    }
}
