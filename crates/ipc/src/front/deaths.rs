//! The front's response to the death of a worker.

use super::{FrontRegion, FrontState};
use crate::Corrupt;
use crate::layout::{self, INCARNATIONS, SlotPhase, SlotState};

impl FrontRegion {
    /// Handles the zygote's report that a worker is dead, and returns the slots that the worker had
    /// taken.
    ///
    /// Enters all Queued requests into the queue again: the dead worker may have removed the entry
    /// of one of them, or may have been woken for one of them.
    ///
    /// Afterwards the caller must wake every front thread: the worker may have died before it rang
    /// the doorbell that it alone had to ring.
    ///
    /// Must be called once for each death, in order. The zygote may already have started a
    /// successor at the same index. The number of earlier deaths tells the slots of the two apart.
    ///
    /// # Errors
    /// The region is corrupt, or the zygote named a worker that does not exist. A slot in use whose
    /// word is no state of this use is corrupt: its worker's death could not be told.
    pub fn worker_died(&self, worker: usize) -> Result<Vec<usize>, Corrupt> {
        let mut lost = Vec::new();
        let mut untold = Vec::new();
        let mut queued = 0;
        let mut state = self.state();
        let FrontState { producer, incarnations, slots, .. } = &mut *state;
        let known = incarnations.get_mut(worker);
        let incarnation = known
            .ok_or(Corrupt("the zygote reported the death of a worker that does not exist"))?;
        let dead = std::mem::replace(incarnation, (*incarnation + 1) % INCARNATIONS);
        for (index, entry) in slots.iter_mut().enumerate().filter(|(_, entry)| entry.submitted) {
            let state = self.region.slot(index).state.load();
            match state.filter(|state| state.generation == entry.generation) {
                None => return Err(Corrupt("the state of a slot in use was changed")),
                Some(SlotState { phase: SlotPhase::Queued, .. }) => {
                    producer.enter(&self.region.queue(), index)?;
                    queued += 1;
                }
                Some(SlotState {
                    phase: SlotPhase::Taken,
                    worker: by,
                    incarnation,
                    ..
                }) if usize::from(by) == worker
                    && !layout::is_later_incarnation(incarnation, dead)
                    && !entry.lost =>
                {
                    entry.lost = true;
                    lost.push(index);
                }
                // The worker may have died between the end of its response and the mark. A
                // superfluous mark does no harm.
                Some(SlotState { phase: SlotPhase::Done, .. }) => {
                    untold.push((index, entry.thread))
                }
                _ => {}
            }
        }
        drop(state);
        for _ in 0..queued {
            self.wake_worker();
        }
        for (slot, thread) in untold {
            self.region.doorbell(thread).mark(slot);
        }
        Ok(lost)
    }
}

#[cfg(all(test, not(miri)))] // Miri has no memory files.
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::layout::Geometry;
    use crate::sync::Ordering;
    use crate::worker::Attachment;

    #[test]
    fn a_request_whose_entry_went_with_a_worker_is_queued_again() {
        let (front, _attach) = FrontRegion::create(Geometry::for_pool(2, 1)).unwrap();
        let slot = front.checkout().unwrap();
        front.submit(&slot, 0, b"one", None).unwrap();
        let entry = front.region.queue().pop();
        assert_eq!((entry, front.region.queue().is_empty()), (Some(slot.index() as u32), true));
        front.region.idle().announce(1);
        assert!(front.worker_died(0).unwrap().is_empty());
        assert_eq!(front.region.queue().pop(), entry);
        let is_woken =
            !front.is_idle(1) && front.region.worker(1).wake.load(Ordering::Acquire) == 1;
        assert!(is_woken, "the other worker takes it");
        assert!(front.cancel(&slot));
        let _ = front.release(slot);
    }

    #[test]
    fn a_state_that_no_correct_worker_writes_is_noticed_when_one_dies() {
        let (front, _attach) = FrontRegion::create(Geometry::for_pool(1, 1)).unwrap();
        let slot = front.checkout().unwrap();
        front.submit(&slot, 0, b"one", None).unwrap();
        for word in [u64::MAX, 0] {
            front.region.slot(slot.index()).state.0.store(word, Ordering::Release);
            assert!(front.worker_died(0).is_err(), "{word:x}");
        }
    }

    #[test]
    fn deaths_are_counted_beyond_the_end_of_the_count() {
        let (front, attach) = FrontRegion::create(Geometry::for_pool(1, 1)).unwrap();
        let zygote = Attachment::new(attach).unwrap();
        for _ in 0..INCARNATIONS {
            zygote.record_death(0);
            front.worker_died(0).unwrap();
        }
        assert_eq!(zygote.incarnations[0].load(Ordering::Relaxed), 0);
        assert_eq!(front.state().incarnations[0], 0);
    }

    /// The entry of a cancelled request is still in the queue and serves the slot's next request:
    /// a worker takes that as soon as its state is stored, and dies. Another thread of the front
    /// has the lock at that moment.
    #[test]
    fn the_death_of_a_worker_that_takes_a_request_while_it_is_being_queued_is_told() {
        for attempt in 0..50 {
            let (front, _attach) = FrontRegion::create(Geometry::for_pool(1, 1)).unwrap();
            let front = Arc::new(front);
            let slot = front.checkout().unwrap();
            front.enqueue(&slot, 0, b"one", None).unwrap();
            assert!(front.cancel(&slot));
            let _ = front.release(slot);

            let slot = front.checkout().unwrap();
            let index = slot.index();
            let mut other_thread = Some(front.state());
            let thread = std::thread::spawn({
                let front = front.clone();
                move || {
                    front.enqueue(&slot, 0, b"two", None).unwrap();
                    slot
                }
            });
            // The worker: the entry of the cancelled request leads it to the new one.
            assert_eq!(front.region.queue().pop(), Some(index as u32));
            let mut looks = 0;
            while !front.is_queued(index) {
                looks += 1;
                if looks == 20 {
                    other_thread = None;
                }
                std::thread::sleep(Duration::from_micros(50));
            }
            front.region.slot(index).state.take(0, 0).unwrap();
            drop(other_thread);
            let lost = front.worker_died(0).unwrap();
            let mut slot = thread.join().unwrap();
            let status = front.slot_status(&mut slot).unwrap();
            assert_eq!(
                (lost, status.phase, front.is_any_taken()),
                (vec![index], SlotPhase::Taken, false),
                "attempt {attempt}: nobody will ever hear of this death"
            );
            let _ = front.release(slot);
        }
    }
}
