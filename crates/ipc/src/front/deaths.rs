//! The front's response to the death of a worker.

use super::{Front, FrontState};
use crate::Corrupt;
use crate::layout::{self, INCARNATIONS, SlotPhase, SlotState};

impl Front {
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
