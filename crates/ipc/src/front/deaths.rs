//! What the front does when a worker is dead.

use super::{Front, Ledger};
use crate::Corrupt;
use crate::layout::{self, LIVES, Phase, State};

impl Front {
    /// The zygote said that a worker is dead. Enters requests anew that no worker has begun, since
    /// the dead one may have taken one of them from the queue, or slept through a wake-up meant for
    /// it. Answers with the slots that died with it.
    ///
    /// Must be called once for each death, in order: the zygote may have put a successor in the
    /// dead one's place long ago, and what that one runs is told apart by the number of deaths
    /// before it.
    pub fn worker_died(&self, worker: usize) -> Result<Vec<usize>, Corrupt> {
        let mut lost = Vec::new();
        let mut untold = Vec::new();
        let mut queued = 0;
        let mut ledger = self.ledger();
        let Ledger { producer, lives, slots, .. } = &mut *ledger;
        let known = lives.get_mut(worker);
        let life = known.ok_or(Corrupt("a worker died that does not exist"))?;
        let dead = std::mem::replace(life, (*life + 1) % LIVES);
        for (index, entry) in slots.iter_mut().enumerate().filter(|(_, entry)| entry.submitted) {
            let state = self.region.slot(index).state.load();
            match state.filter(|state| state.generation == entry.generation) {
                Some(State { phase: Phase::Queued, .. }) => {
                    producer.enter(&self.region.queue(), index)?;
                    queued += 1;
                }
                Some(State {
                    phase: Phase::Taken, worker: by, life, ..
                }) if usize::from(by) == worker
                    && !layout::is_later_life(life, dead)
                    && !entry.lost =>
                {
                    entry.lost = true;
                    lost.push(index);
                }
                // It may have died between the last word of its response and the mark; a mark too
                // many does no harm.
                Some(State { phase: Phase::Done, .. }) => untold.push((index, entry.thread)),
                _ => {}
            }
        }
        drop(ledger);
        for _ in 0..queued {
            self.wake_worker();
        }
        for (slot, thread) in untold {
            self.region.doorbell(thread).mark(slot);
        }
        // It may have died after it took `sleeping` from a thread and before it rang; then nobody
        // else would ever ring.
        (0..self.geometry().threads).for_each(|thread| self.ring(thread));
        Ok(lost)
    }
}
