//! The slots of a zygote that requests have, and the requests that wait for one.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use howdah_ipc::Geometry;
use howdah_ipc::figures::RequestFigures;
use howdah_ipc::front::Slot;
use tokio::sync::oneshot;

use super::{Zygote, ZygoteState};
use crate::awake::ScriptLength;
use crate::lanes::{LaneFull, QueuePlace};
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

    /// Returns the zygote and its slot.
    pub(crate) fn parts(&mut self) -> (&Arc<Zygote>, &mut Slot) {
        let slot = self.slot.as_mut().expect("a lease holds its slot until it is dropped");
        (&self.zygote, slot)
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
    /// requests wait for a worker as may. The request then joins the queue.
    pub(crate) fn try_lease(self: &Arc<Self>, lane: usize) -> Option<Lease> {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            return None;
        }
        if !self.has_lanes {
            let lease = self.checkout(lane)?;
            // Once more, now that the slot is counted: a request that joined the queue meanwhile
            // was either judged with this slot, or is seen here. The slot is then that request's.
            return (self.waiting.load(Ordering::SeqCst) == 0).then_some(lease);
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

    /// Joins the queue for a slot. The receiver fails when the zygote dies, or all requests are to
    /// end.
    ///
    /// # Errors
    /// The queue is full.
    pub(crate) fn join_queue(
        self: &Arc<Self>,
        place: QueuePlace,
    ) -> Result<oneshot::Receiver<Result<Lease, DispatchError>>, DispatchError> {
        let mut state = self.state();
        state.lanes.retain(|waiting| !waiting.is_closed());
        let (sender, receiver) = oneshot::channel();
        if !self.is_dead() && !self.cuts_off_waiting() {
            // Counted before the leased slots are: a thread that leases one at this moment, or
            // brings one back, either is seen here or sees this request.
            self.waiting.store(state.lanes.waiting() + 1, Ordering::SeqCst);
            // A request that had a slot was accepted already.
            let is_full = place.since.is_none() && self.is_full(&state);
            let joined = state.lanes.push(place, sender, is_full);
            // Also for a request that is refused: it may have kept a slot from others until now.
            self.serve(&mut state);
            let refused = match is_full {
                true => DispatchError::QueueFull,
                false => DispatchError::LaneFull,
            };
            if let Some(displaced) = joined.map_err(|LaneFull| refused)? {
                // One that is gone need not know.
                let _ = displaced.send(Err(refused));
            }
        }
        Ok(receiver)
    }

    /// Forgets the requests that nobody waits for any more: their clients are gone, or they have
    /// waited for too long.
    pub(crate) fn forget_abandoned(self: &Arc<Self>) {
        let mut state = self.state();
        state.lanes.retain(|waiting| !waiting.is_closed());
        self.serve(&mut state);
    }

    /// Whether as many requests have a worker or wait for one as may. Workers that the pool may
    /// still start count as if they were there.
    fn is_full(&self, state: &ZygoteState) -> bool {
        let workers = match self.may_grow.load(Ordering::Relaxed) {
            true => self.front.geometry().workers,
            false => state.roster.count().max(1),
        };
        let accepted = self.out.load(Ordering::SeqCst) + state.lanes.waiting();
        accepted >= workers.saturating_add(self.most_waiting)
    }

    /// Whether a request may be handed over. Those of a pool with lanes of its own wait in their
    /// lanes rather than behind each other for a worker.
    fn has_room(&self, state: &ZygoteState) -> bool {
        let out = self.out.load(Ordering::SeqCst);
        match self.has_lanes {
            // One that waits for the next worker, or for one that starts.
            true => out <= state.roster.count(),
            false => out < self.most_out(self.awake.script_length()),
        }
    }

    /// The number of requests that may have a slot. Those that wait for a worker there are begun in
    /// the order in which they came, so there are more of them only where scripts are short.
    fn most_out(&self, scripts: ScriptLength) -> usize {
        let Geometry { slots, workers: most, .. } = *self.front.geometry();
        let (workers, scripts) = match self.has_lanes {
            // The lanes hold requests back, whatever the scripts.
            true => (most, ScriptLength::Long),
            false => (self.wanted.load(Ordering::Relaxed).max(1), scripts),
        };
        let behind = match scripts {
            ScriptLength::Short => slots.saturating_sub(workers),
            ScriptLength::Middle => workers.max(FEW_SLOTS.saturating_sub(workers)),
            ScriptLength::Long => workers,
        };
        // A request that finds no worker has another one started.
        let least = usize::from(self.may_grow.load(Ordering::Relaxed));
        workers + behind.min(self.most_behind).max(least)
    }

    /// Whether more requests have slots than may where scripts are long.
    pub(crate) fn is_deep(&self) -> bool {
        !self.has_lanes && self.out.load(Ordering::SeqCst) > self.most_out(ScriptLength::Long)
    }

    /// Requests that a lane may have running: one of the workers that there is memory for stays for
    /// others.
    fn most_of_lane(&self, state: &ZygoteState) -> usize {
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
    pub(super) fn serve(self: &Arc<Self>, state: &mut ZygoteState) {
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

    /// Takes a free slot, if fewer than may be out are.
    fn checkout(self: &Arc<Self>, lane: usize) -> Option<Lease> {
        let most = self.most_out(self.awake.script_length());
        let one_more = |out| (out < most).then_some(out + 1);
        self.out.fetch_update(Ordering::SeqCst, Ordering::Relaxed, one_more).ok()?;
        let Some(slot) = self.front.checkout() else {
            self.out.fetch_sub(1, Ordering::SeqCst);
            return None;
        };
        self.lost[slot.index()].store(0, Ordering::Relaxed);
        self.note_running();
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

/// Slots that a pool with few workers uses where scripts are neither short nor long: a worker finds
/// its next request while the front is busy.
const FEW_SLOTS: usize = 8;

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::AtomicU32;
    use std::time::Duration;

    use howdah_sys::seqpacket::SeqPacket;

    use super::*;
    use crate::control::FrontSocket;
    use crate::memory::MemoryWatch;
    use crate::pool::PoolLimits;
    use crate::scaling::Scaling;

    const WORKERS: usize = 2;
    const THREADS: usize = 8;

    fn zygote(queue: usize) -> (Arc<Zygote>, SeqPacket) {
        let (front, end) = SeqPacket::pair().unwrap();
        let limits = PoolLimits {
            workers: WORKERS,
            scaling: Scaling::Static,
            queue,
            queue_timeout: Duration::from_secs(600),
            request_timeout: Duration::from_secs(600),
            request_terminate_timeout: Duration::from_secs(600),
            slow_after: None,
            meters_processor: false,
        };
        let memory = Arc::new(MemoryWatch::default());
        let (front, _) = FrontSocket::of(front);
        (Zygote::attach(front, (&limits, &[]), THREADS, memory).unwrap(), end)
    }

    /// Lets threads ask for slots at once, until each is refused. Some bring a slot back first and
    /// then ask for another. Returns how many have a slot or wait for one in the end.
    fn accepted(queue: usize) -> usize {
        let (zygote, _end) = zygote(queue);
        let (start, number) = (Barrier::new(THREADS), AtomicU32::new(0));
        let crowd = |bring_back: bool| {
            start.wait();
            let (mut leases, mut waiting) = (Vec::new(), Vec::new());
            loop {
                let client = number.fetch_add(1, Ordering::Relaxed).into();
                match zygote.try_lease(0) {
                    Some(lease) if bring_back && client % 2 == 0 => drop(lease),
                    Some(lease) => leases.push(lease),
                    None => match zygote.join_queue(QueuePlace { client, ..QueuePlace::default() })
                    {
                        Ok(receiver) => waiting.push(receiver),
                        Err(_) => return (leases, waiting),
                    },
                }
            }
        };
        let kept: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|number| {
                    scope.spawn({
                        let crowd = &crowd;
                        move || crowd(number % 2 == 0)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let zygote_says = zygote.out.load(Ordering::SeqCst) + zygote.state().lanes.waiting();
        let held: usize = kept.iter().map(|(leases, waiting)| leases.len() + waiting.len()).sum();
        assert_eq!(held, zygote_says);
        held
    }

    #[test]
    fn no_more_requests_wait_than_may_however_many_threads_ask_at_once() {
        for round in 0..30 {
            for queue in [0, 1, 2, 5, 9] {
                assert_eq!(accepted(queue), WORKERS + queue, "queue {queue}, round {round}");
            }
        }
    }
}
