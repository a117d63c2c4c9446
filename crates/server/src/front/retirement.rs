//! The end of the pools of a front that drains: of each site's as soon as the site has no request.
//!
//! A script may run for an hour after a reload, and a tunnel be open for days. Their front stays,
//! the processes of PHP of other sites need not:
//!
//! ```text
//!   a thread still accepts, or a connection may bring a request ◀─┐
//!      │ all connections have brought their last requests         │ one brings another
//!      ▼                                                          │
//!   quiet for FAREWELL ──▶ requests are refused ──a further look──┴──▶ pools without requests end
//! ```
//! A connection of HTTP/1 has brought its last request when its response will end it. Those of
//! HTTP/2 and HTTP/3 have when their clients were told; a request that was on its way is refused
//! then. It has not begun: its client sends it again, to the present generation.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::FrontThread;

/// The time that clients have for requests that are on their way.
const FAREWELL: Duration = Duration::from_secs(1);

/// The threads' account of what a draining front still needs its pools for.
#[derive(Debug)]
pub(crate) struct PoolRetirement {
    /// By thread: it accepts no more connections.
    closed: Vec<AtomicBool>,
    /// Requests of connections that have brought their last ones are refused.
    refuses: AtomicBool,
    progress: Mutex<RetirementProgress>,
}

/// The state of the retirement, as the first thread has seen it and brought it about.
#[derive(Debug)]
struct RetirementProgress {
    /// By thread, its last look; `None` once the thread has ended.
    looks: Vec<Option<RequestLook>>,
    /// Since when no request is expected.
    quiet_since: Option<Instant>,
    /// Pools were told to end.
    has_begun: bool,
}

/// The state of a thread's connections and requests when it looked at them.
#[derive(Debug, Clone, Default)]
struct RequestLook {
    /// No connection brings another request, and none has brought one since the look before.
    is_quiet: bool,
    /// Further requests were refused already.
    refused: bool,
    /// By site, whether it has a request that may still need its pool.
    needed: Vec<bool>,
}

/// The requests of a thread that have no response yet, and may need a pool for it. Afterwards the
/// pool knows those that it works for.
#[derive(Debug)]
pub(super) struct ThreadRequests {
    /// Requests whose heads are not read: their sites are unknown.
    arriving: Cell<usize>,
    /// One has arrived since the last look.
    has_arrived: Cell<bool>,
    by_site: Box<[Cell<usize>]>,
}

/// A request in the count of those that arrive, until it is dropped.
#[derive(Debug)]
pub(crate) struct ArrivingRequest(Rc<FrontThread>);

/// A request in the count of its site, until it is dropped.
#[derive(Debug)]
pub(crate) struct SiteRequest<'t>(&'t Cell<usize>);

impl PoolRetirement {
    /// The account of a front of `threads` threads.
    pub(super) fn new(threads: usize) -> PoolRetirement {
        PoolRetirement {
            closed: (0..threads).map(|_| AtomicBool::new(false)).collect(),
            refuses: AtomicBool::new(false),
            progress: Mutex::new(RetirementProgress {
                looks: vec![Some(RequestLook::default()); threads],
                quiet_since: None,
                has_begun: false,
            }),
        }
    }

    /// Returns whether no thread accepts connections any more.
    fn is_closed(&self) -> bool {
        self.closed.iter().all(|closed| closed.load(Ordering::SeqCst))
    }

    /// Notes what a thread has found.
    fn note(&self, thread: usize, is_quiet: bool, needed: Vec<bool>) {
        let mut progress = self.progress();
        if let Some(look) = progress.looks.get_mut(thread) {
            let refused = self.refuses.load(Ordering::SeqCst);
            *look = Some(RequestLook { is_quiet, refused, needed });
        }
    }

    /// Notes that a thread has ended, with its last connection and request.
    pub(super) fn note_end(&self, thread: usize) {
        self.progress().looks.get_mut(thread).into_iter().for_each(|look| *look = None);
    }

    /// Returns whether pools without a request may end now. Called by the first thread of a
    /// draining front, again and again.
    fn is_due(&self, now: Instant) -> bool {
        let mut progress = self.progress();
        if progress.has_begun {
            return true;
        }
        if !self.is_closed() || progress.looks.iter().flatten().any(|look| !look.is_quiet) {
            progress.quiet_since = None;
            progress.looks.iter_mut().flatten().for_each(|look| look.refused = false);
            self.refuses.store(false, Ordering::SeqCst);
            return false;
        }
        let since = *progress.quiet_since.get_or_insert(now);
        if now.saturating_duration_since(since) < FAREWELL {
            return false;
        }
        // Another thread may have begun a request before it could see that requests are refused.
        // Its next look shows it.
        self.refuses.store(true, Ordering::SeqCst);
        progress.has_begun = progress.looks.iter().flatten().all(|look| look.refused);
        progress.has_begun
    }

    /// Returns whether a request may still need the pool of a site.
    fn is_needed(&self, site: usize) -> bool {
        let progress = self.progress();
        progress.looks.iter().flatten().any(|look| look.needed.get(site) == Some(&true))
    }

    fn progress(&self) -> MutexGuard<'_, RetirementProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ThreadRequests {
    /// No requests, of that many sites.
    pub(super) fn new(sites: usize) -> ThreadRequests {
        ThreadRequests {
            arriving: Cell::new(0),
            has_arrived: Cell::new(false),
            by_site: (0..sites).map(|_| Cell::new(0)).collect(),
        }
    }
}

impl FrontThread {
    /// Counts a request whose head is not read yet, until the guard is dropped.
    pub(crate) fn arriving(self: &Rc<Self>) -> ArrivingRequest {
        let requests = &self.requests;
        requests.arriving.set(requests.arriving.get() + 1);
        requests.has_arrived.set(true);
        ArrivingRequest(Rc::clone(self))
    }

    /// Counts a request of a site that may need its pool, until the guard is dropped. `None`: there
    /// is no site with this number.
    pub(crate) fn count_request(&self, site: usize) -> Option<SiteRequest<'_>> {
        let count = self.requests.by_site.get(site)?;
        count.set(count.get() + 1);
        Some(SiteRequest(count))
    }

    /// Returns whether connections that were told to end bring no more requests, because the pools
    /// end.
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

    /// Tells the first thread which pools this thread's requests may need, while the front drains.
    pub(super) fn look_at_requests(&self) {
        if !self.is_draining() {
            return;
        }
        let requests = &self.requests;
        let is_quiet = self.load().load(Ordering::SeqCst) == self.watches().at_last_request()
            && !requests.has_arrived.take()
            && requests.arriving.get() == 0;
        let needed = requests.by_site.iter().map(|count| count.get() > 0).collect();
        self.shared.retirement.note(self.number, is_quiet, needed);
    }

    /// Ends the pools that no connection can bring a request for any more.
    pub(super) fn end_unused_pools(&self, now: Instant) {
        let retirement = &self.shared.retirement;
        if self.is_draining() && retirement.is_due(now) {
            let pools = self.shared.pools.iter().enumerate();
            let unneeded = pools.filter(|(site, _)| !retirement.is_needed(*site));
            unneeded
                .filter_map(|(_, pool)| pool.as_ref())
                .for_each(|pool| pool.stop_if_unused());
        }
    }
}

impl Drop for ArrivingRequest {
    fn drop(&mut self) {
        let arriving = &self.0.requests.arriving;
        arriving.set(arriving.get() - 1);
    }
}

impl Drop for SiteRequest<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Returns the time that requests and tunnels get when the front drains: `drain_timeout` without a
/// reserve for ending them in order, before the supervisor ends the front.
pub(crate) fn time_before_end(drain_timeout: Duration) -> Duration {
    drain_timeout - (drain_timeout / 4).min(MOST_RESERVE)
}

/// The most of `drain_timeout` that is kept as a reserve. A longer `drain_timeout` has the same
/// reserve.
const MOST_RESERVE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_end_when_no_request_has_been_expected_for_a_while() {
        let retirement = PoolRetirement::new(2);
        let began = Instant::now();
        let look = |quiet: [bool; 2], seconds| {
            for (thread, is_quiet) in quiet.into_iter().enumerate() {
                retirement.note(thread, is_quiet, vec![false, thread == 1]);
            }
            let due = retirement.is_due(began + Duration::from_secs(seconds));
            (due, retirement.refuses.load(Ordering::SeqCst))
        };
        let quiet = [true, true];
        retirement.closed[0].store(true, Ordering::SeqCst);
        let before = [look(quiet, 0), look(quiet, 2)];
        assert_eq!(before, [(false, false); 2], "a thread accepts");
        retirement.closed[1].store(true, Ordering::SeqCst);
        let before = [look([true, false], 3), look([true, false], 4)];
        assert_eq!(before, [(false, false); 2], "a connection may bring a request");
        assert_eq!([look(quiet, 5), look(quiet, 6)], [(false, false), (false, true)]);
        assert_eq!(look([false, true], 7), (false, false), "one had come");
        assert_eq!([look(quiet, 8), look(quiet, 9)], [(false, false), (false, true)]);
        assert_eq!(look(quiet, 10), (true, true), "requests were refused before the look");
        assert_eq!(look([false, true], 11), (true, true), "a connection has ended meanwhile");
        assert_eq!((retirement.is_needed(0), retirement.is_needed(1)), (false, true));
    }

    #[test]
    fn a_thread_that_has_not_looked_again_is_waited_for() {
        let retirement = PoolRetirement::new(2);
        retirement.closed.iter().for_each(|closed| closed.store(true, Ordering::SeqCst));
        let began = Instant::now();
        (0..2).for_each(|thread| retirement.note(thread, true, Vec::new()));
        for seconds in 0..4 {
            assert!(!retirement.is_due(began + Duration::from_secs(seconds)));
            retirement.note(0, true, Vec::new());
        }
        retirement.note_end(1);
        assert!(retirement.is_due(began + Duration::from_secs(4)));
    }
}
