//! The time for which a client may let a response wait.

use std::rc::Rc;
use std::task::Context;
use std::time::{Duration, Instant};

use crate::front::FrontThread;
use crate::net::{DeadlineWatch, PaceLimit};

/// The pace at which a client takes a response, and the time limit of the present wait.
pub(crate) struct Pace<'s> {
    thread: &'s FrontThread,
    /// The slowest pace at which the client may take the response.
    patience: PaceLimit,
    /// Bytes handed over.
    taken: u64,
    /// The time that the response has waited for the client.
    waited: Duration,
    /// The begin of the present wait for the client.
    since: Option<Instant>,
    watch: Option<Rc<DeadlineWatch>>,
}

impl<'s> Pace<'s> {
    /// The pace of a response of which no content was sent.
    pub(crate) fn new(thread: &'s FrontThread) -> Pace<'s> {
        let limits = &thread.config().limits;
        Pace {
            thread,
            patience: PaceLimit {
                silence: limits.send_timeout,
                rate: limits.send_rate,
            },
            taken: 0,
            waited: Duration::ZERO,
            since: None,
            watch: None,
        }
    }

    /// Counts bytes that were handed over.
    pub(crate) fn take(&mut self, count: usize) {
        self.taken += count as u64;
    }

    /// Begins or continues to wait for the client. `send_timeout` runs, and less time for a client
    /// that takes less than `send_rate`.
    pub(crate) fn wait(&mut self, context: &mut Context<'_>) {
        if self.since.is_none() {
            let left = self.patience.left(self.patience.silence, self.taken, self.waited);
            self.arm(left, context);
            self.since = Some(Instant::now());
        }
    }

    /// Notes that the client takes content again.
    pub(crate) fn go_on(&mut self) {
        if let Some(since) = self.since.take() {
            self.waited += since.elapsed();
        }
    }

    /// Begins to wait for other responses, for `send_timeout`. This wait is not the client's.
    pub(crate) fn wait_for_others(&mut self, context: &mut Context<'_>) {
        self.since = None;
        self.arm(self.patience.silence, context);
    }

    /// Returns whether the time of the present wait is over; `None` before the first.
    pub(crate) fn is_expired(&self) -> Option<bool> {
        self.watch.as_ref().map(|watch| watch.is_expired())
    }

    /// Counts a response of a protocol that is given up, because its client takes too little.
    pub(crate) fn count_end(&self, protocol: &str) {
        self.thread.counters().count_limit(protocol, "send_timeout");
    }

    fn arm(&mut self, after: Duration, context: &mut Context<'_>) {
        let watches = self.thread.watches();
        let watch = self.watch.get_or_insert_with(|| watches.add(context.waker().clone()));
        watch.arm(after);
    }
}
