//! The slots of a zygote that requests have, and the requests that wait for one.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use howdah_ipc::figures::RequestFigures;
use howdah_ipc::front::Slot;
use tokio::sync::oneshot;

use super::{State, Zygote};
use crate::lanes::{Full, QueuePlace};
use crate::pool::DispatchError;

/// A slot of a zygote. On drop it goes to the request that has waited the longest.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) zygote: Arc<Zygote>,
    slot: Option<Slot>,
    /// The lane of the request.
    pub(crate) lane: usize,
    /// The figures of the request, once its script has ended and it was counted.
    pub(crate) figures: Option<RequestFigures>,
    /// A value that the slot's worker uses; dropped with the lease.
    kept: Option<Box<dyn Any + Send>>,
}

impl Lease {
    pub(crate) fn slot(&mut self) -> &mut Slot {
        self.slot.as_mut().expect("a lease holds its slot until it is dropped")
    }

    pub(crate) fn slot_ref(&self) -> &Slot {
        self.slot.as_ref().expect("a lease holds its slot until it is dropped")
    }

    pub(crate) fn index(&self) -> usize {
        self.slot_ref().index()
    }

    pub(crate) fn keep(&mut self, kept: Box<dyn Any + Send>) {
        self.kept = Some(kept);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.zygote.hand_back(slot, self.lane);
        }
    }
}

impl Zygote {
    /// Leases a free slot. `None` if there is none, if others wait for one already, or if as many
    /// requests wait for a worker as may.
    pub(crate) fn try_lease(self: &Arc<Self>, lane: usize) -> Option<Lease> {
        if self.waiting.load(Ordering::Relaxed) > 0 || self.behind() >= Some(self.most_behind) {
            return None;
        }
        if !self.has_lanes {
            return self.checkout(lane);
        }
        let mut state = self.state();
        let most = self.most_of_lane(&state);
        if !self.has_room(&state) || !state.lanes.begin(lane, most) {
            return None;
        }
        let lease = self.checkout(lane);
        if lease.is_none() {
            state.lanes.end(lane);
        }
        lease
    }

    /// Joins the queue for a slot. The receiver fails when the zygote dies.
    ///
    /// # Errors
    /// As many wait already as may.
    pub(crate) fn join_queue(
        self: &Arc<Self>,
        place: QueuePlace,
    ) -> Result<oneshot::Receiver<Result<Lease, DispatchError>>, Full> {
        let mut state = self.state();
        state.lanes.retain(|waiting| !waiting.is_closed());
        let (sender, receiver) = oneshot::channel();
        if !self.is_dead() {
            let is_full = self.is_full(state.lanes.waiting());
            let joined = state.lanes.push(place, sender, is_full);
            // Counted before the search for a free slot: either the search finds a slot that comes
            // back at this moment, or the thread that brings it back finds this request.
            self.waiting.store(state.lanes.waiting(), Ordering::SeqCst);
            if let Some(displaced) = joined? {
                // One that is gone need not know.
                let _ = displaced.send(Err(DispatchError::QueueFull));
            }
            self.serve(&mut state);
        }
        Ok(receiver)
    }

    /// Whether as many wait for a worker as may: `waiting` for a slot, and those whose slots are
    /// more than there are workers.
    fn is_full(&self, waiting: usize) -> bool {
        match self.behind() {
            Some(behind) => behind + waiting >= self.most_waiting,
            None => waiting > 0 && waiting >= self.most_waiting,
        }
    }

    /// Slots that are out beyond the number of workers; `None` where a worker may be free.
    fn behind(&self) -> Option<usize> {
        let out = self.out.load(Ordering::SeqCst);
        out.checked_sub(self.front.geometry().workers)
    }

    /// Whether a request may be handed over. Those of a pool with lanes of its own wait in their
    /// lanes rather than behind each other for a worker.
    fn has_room(&self, state: &State) -> bool {
        match self.has_lanes {
            // One that waits for the next worker, or for one that starts.
            true => self.out.load(Ordering::Relaxed) <= state.roster.count(),
            false => self.behind() < Some(self.most_behind),
        }
    }

    /// Requests that a lane may have running: one of the workers that there is memory for stays for
    /// others.
    fn most_of_lane(&self, state: &State) -> usize {
        let most = self.front.geometry().workers;
        let room = state.memory.map_or(most, |sum| sum.room.min(most));
        room.saturating_sub(1).max(1)
    }

    fn hand_back(self: &Arc<Self>, slot: Slot, lane: usize) {
        self.take_back(slot);
        if self.has_lanes {
            let mut state = self.state();
            state.lanes.end(lane);
            self.serve(&mut state);
        } else {
            self.serve_waiting();
        }
    }

    /// Hands slots to requests that wait, if a worker has started, or more are wanted.
    pub(crate) fn serve_waiting(self: &Arc<Self>) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.serve(&mut self.state());
        }
    }

    /// Gives free slots to the requests that wait, in turn.
    pub(super) fn serve(self: &Arc<Self>, state: &mut State) {
        loop {
            let most = match self.has_lanes {
                true => self.most_of_lane(state),
                false => usize::MAX,
            };
            if !self.has_room(state) || !state.lanes.has_next(most) {
                break;
            }
            let Some(mut lease) = self.checkout(0) else {
                break;
            };
            let (lane, first) = state.lanes.next(most).expect("there is one, and the lock is held");
            lease.lane = lane;
            if let Err(Ok(mut unwanted)) = first.send(Ok(lease)) {
                // Not by dropping it: that would come back here while we hold the lock.
                unwanted.slot.take().into_iter().for_each(|slot| self.take_back(slot));
                state.lanes.end(lane);
            }
        }
        self.waiting.store(state.lanes.waiting(), Ordering::Relaxed);
    }

    fn checkout(self: &Arc<Self>, lane: usize) -> Option<Lease> {
        let slot = self.front.checkout()?;
        self.out.fetch_add(1, Ordering::Relaxed);
        self.lost[slot.index()].store(0, Ordering::Relaxed);
        Some(Lease {
            zygote: self.clone(),
            slot: Some(slot),
            lane,
            figures: None,
            kept: None,
        })
    }

    fn take_back(&self, slot: Slot) {
        let cleaning = self.front.release(slot);
        self.out.fetch_sub(1, Ordering::SeqCst);
        cleaning.into_iter().for_each(|cleaning| self.clean(cleaning));
    }
}
