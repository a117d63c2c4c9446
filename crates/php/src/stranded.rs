//! The requests of a pool that has no zygote: PHP does not start, or is being restarted.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::lanes::{LaneFull, LaneLimits, PoolLanes, QueuePlace};

/// The requests that wait for a zygote. Their number is bounded as that of the requests that wait
/// for a worker.
#[derive(Debug)]
pub(crate) struct StrandedRequests {
    most: usize,
    lanes: Mutex<PoolLanes<oneshot::Sender<()>>>,
}

impl StrandedRequests {
    /// Returns an empty queue for `most` requests, and in each lane for as many as may wait there.
    pub(crate) fn new(most: usize, lanes: &[LaneLimits]) -> StrandedRequests {
        let lanes = Mutex::new(PoolLanes::new(lanes));
        StrandedRequests { most, lanes }
    }

    /// Lets a request wait until the receiver is dropped. The receiver is told if the request loses
    /// its place to that of another client.
    ///
    /// # Errors
    /// The lane of the request is full.
    pub(crate) fn join(&self, place: QueuePlace) -> Result<oneshot::Receiver<()>, LaneFull> {
        let mut lanes = self.lanes();
        lanes.retain(|waiting| !waiting.is_closed());
        let (sender, receiver) = oneshot::channel();
        // A request that has waited before was accepted already.
        let is_full = place.since.is_none() && lanes.waiting() >= self.most;
        if let Some(displaced) = lanes.push(place, sender, is_full)? {
            // One that is gone need not know.
            let _ = displaced.send(());
        }
        Ok(receiver)
    }

    /// Number of requests that wait.
    pub(crate) fn count(&self) -> usize {
        let mut lanes = self.lanes();
        lanes.retain(|waiting| !waiting.is_closed());
        lanes.waiting()
    }

    fn lanes(&self) -> MutexGuard<'_, PoolLanes<oneshot::Sender<()>>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_request_that_was_accepted_before_keeps_its_place() {
        let stranded = StrandedRequests::new(1, &[]);
        let new = QueuePlace::default();
        let again = QueuePlace { since: Some(Instant::now()), ..new };
        let first = stranded.join(new).unwrap();
        assert_eq!(stranded.join(new).err(), Some(LaneFull));
        let second = stranded.join(again).unwrap();
        assert_eq!(stranded.count(), 2);
        drop((first, second));
        assert_eq!(stranded.count(), 0);
        assert!(stranded.join(new).is_ok());
    }
}
