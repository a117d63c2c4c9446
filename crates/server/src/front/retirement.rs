//! The end of the pools of a front that drains and has nothing left but tunnels.
//!
//! A tunnel may be open for hours after a reload, and needs no PHP. Its front stays, the processes
//! of PHP need not:
//!
//! ```text
//!   a thread still accepts, or a connection may bring a request ◀─┐
//!      │ only tunnels are left                                    │ one does
//!      ▼                                                          │
//!   quiet for FAREWELL ──▶ requests are refused ──a further look──┴──▶ pools without requests end
//! ```
//! A refused request has not begun: its client sends it again, to the present generation.

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Thread;

/// The time that clients have for requests that are on their way when only tunnels are left.
const FAREWELL: Duration = Duration::from_secs(1);

/// The threads' account of what a draining front still needs its pools for.
#[derive(Debug)]
pub(crate) struct PoolRetirement {
    /// By thread: it accepts no more connections.
    closed: Vec<AtomicBool>,
    /// Connections that carry tunnels and nothing else.
    tunnelling: AtomicUsize,
    /// Connections with tunnels bring no more requests.
    refuses: AtomicBool,
    progress: Mutex<RetirementProgress>,
}

/// The state of the retirement, as the first thread has seen it and brought it about.
#[derive(Debug, Default)]
struct RetirementProgress {
    /// Since when only tunnels are left.
    quiet_since: Option<Instant>,
    /// Pools were told to end.
    has_begun: bool,
}

/// Counts a connection as one that carries tunnels and nothing else, until the guard is dropped.
#[derive(Debug)]
pub(crate) struct OnlyTunnels(Rc<Thread>);

impl PoolRetirement {
    /// The account of a front of `threads` threads.
    pub(super) fn new(threads: usize) -> PoolRetirement {
        PoolRetirement {
            closed: (0..threads).map(|_| AtomicBool::new(false)).collect(),
            tunnelling: AtomicUsize::new(0),
            refuses: AtomicBool::new(false),
            progress: Mutex::default(),
        }
    }

    /// Returns whether no thread accepts connections any more.
    fn is_closed(&self) -> bool {
        self.closed.iter().all(|closed| closed.load(Ordering::SeqCst))
    }

    /// Returns whether pools without a request may end now. `connections` are those of all threads.
    /// Called by the first thread of a draining front, again and again.
    fn is_due(&self, connections: usize, now: Instant) -> bool {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if progress.has_begun {
            return true;
        }
        if !self.is_closed() || connections != self.tunnelling.load(Ordering::SeqCst) {
            progress.quiet_since = None;
            self.refuses.store(false, Ordering::SeqCst);
            return false;
        }
        let since = *progress.quiet_since.get_or_insert(now);
        if now.saturating_duration_since(since) < FAREWELL {
            return false;
        }
        // Another thread may have begun a request before it could see that requests are refused.
        // The next look shows it.
        progress.has_begun = self.refuses.swap(true, Ordering::SeqCst);
        progress.has_begun
    }
}

impl Thread {
    /// Counts a connection as one that carries tunnels and nothing else. It may bring a request
    /// only as long as [`Thread::refuses_requests`] is false, and after the guard was dropped.
    pub(crate) fn only_tunnels(self: &Rc<Self>) -> OnlyTunnels {
        self.shared.retirement.tunnelling.fetch_add(1, Ordering::SeqCst);
        OnlyTunnels(Rc::clone(self))
    }

    /// Returns whether connections with tunnels bring no more requests, because the pools end.
    pub(crate) fn refuses_requests(&self) -> bool {
        self.shared.retirement.refuses.load(Ordering::SeqCst)
    }

    /// Returns whether tunnels end within `drain_timeout`, because the front does.
    pub(crate) fn ends_tunnels(&self) -> bool {
        self.is_draining() && !self.shared.keeps_tunnels.load(Ordering::Relaxed)
    }

    /// Notes that this thread accepts no more connections. The supervisor is told of the last one.
    pub(crate) fn note_closed(&self) {
        let retirement = &self.shared.retirement;
        if let Some(closed) = retirement.closed.get(self.number) {
            closed.store(true, Ordering::SeqCst);
        }
        if retirement.is_closed() {
            self.shared.closed.notify_one();
        }
    }

    /// Ends the workers that have no request, when this front accepts no more connections.
    pub(super) fn drain_pools(&self) {
        if self.is_draining() && self.number == 0 {
            self.shared.pools.iter().flatten().for_each(|pool| pool.drain());
        }
    }

    /// Ends the pools that no connection can bring a request for any more.
    pub(super) fn end_unused_pools(&self, now: Instant) {
        if self.is_draining() && self.shared.retirement.is_due(self.connections(), now) {
            self.shared.pools.iter().flatten().for_each(|pool| pool.stop_if_unused());
        }
    }
}

impl Drop for OnlyTunnels {
    fn drop(&mut self) {
        self.0.shared.retirement.tunnelling.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_end_when_only_tunnels_have_been_left_for_a_while() {
        let retirement = PoolRetirement::new(2);
        let began = Instant::now();
        let look = |connections, seconds| {
            let due = retirement.is_due(connections, began + Duration::from_secs(seconds));
            (due, retirement.refuses.load(Ordering::SeqCst))
        };
        retirement.tunnelling.store(3, Ordering::SeqCst);
        retirement.closed[0].store(true, Ordering::SeqCst);
        assert_eq!((look(3, 0), look(3, 2)), ((false, false), (false, false)), "a thread accepts");
        retirement.closed[1].store(true, Ordering::SeqCst);
        assert_eq!((look(4, 3), look(3, 4)), ((false, false), (false, false)), "a request");
        assert_eq!(look(3, 5), (false, true), "requests are refused first");
        assert_eq!(look(4, 6), (false, false), "one had begun");
        assert_eq!((look(3, 7), look(3, 8)), ((false, false), (false, true)));
        assert_eq!(look(3, 9), (true, true));
        assert_eq!(look(4, 10), (true, true), "a tunnel has ended, its connection has not");
    }
}
