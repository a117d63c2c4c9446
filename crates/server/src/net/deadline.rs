//! Time limits of connections. Each connection has one deadline; one sweep per thread checks all
//! deadlines twice a second.
//!
//! Arming a deadline is one store. A timer per connection would cost a lock and a heap operation
//! per request; half a second is exact enough for limits that are counted in seconds.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use howdah_sys::usage::coarse_milliseconds;

/// A connection that has waited for a request for less than this is not closed to make room: its
/// client is probably about to send one.
const FRESH: Duration = Duration::from_millis(100);
/// Milliseconds that the coarse clock may be behind: no deadline passes before its time.
const COARSE: u64 = 11;
/// The interval between two sweeps.
pub(crate) const SWEEP: Duration = Duration::from_millis(500);

/// Returns the waker of the task that calls this.
pub(crate) fn task_waker() -> impl Future<Output = Waker> {
    poll_fn(|context| Poll::Ready(context.waker().clone()))
}

/// All watches of a thread.
#[derive(Debug)]
pub(crate) struct DeadlineWatches {
    all: RefCell<Vec<Weak<DeadlineWatch>>>,
    /// A client without an idle connection, and the time of the look, in milliseconds of the coarse
    /// clock.
    busy_client: Cell<(Option<ClientTag>, u64)>,
    /// The same of connections over HTTP/2 and HTTP/3.
    busy_with_streams: Cell<(Option<ClientTag>, u64)>,
}

/// A number for a client's network. Two clients may have the same one.
pub(crate) type ClientTag = u32;

/// The time limit of one connection.
#[derive(Debug)]
pub(crate) struct DeadlineWatch {
    /// Milliseconds of the coarse clock; `u64::MAX` for none.
    deadline: Cell<u64>,
    expired: Cell<bool>,
    /// The time at which the deadline was set, in milliseconds of the coarse clock.
    armed: Cell<u64>,
    /// The connection waits for a request: it may be closed at any time without loss.
    idle: Cell<bool>,
    /// The connection is closed once it waits for a request, to make room.
    dismissed: Cell<bool>,
    /// The client of the connection; `None` for a proxy's.
    client: Cell<Option<ClientTag>>,
    /// The connection is one over HTTP/2 or HTTP/3.
    has_streams: Cell<bool>,
    /// The connection brings no request beside those that it has brought, once its thread drains.
    last: Cell<bool>,
    /// The next sweep wakes the connection, whatever its deadline.
    looks_again: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl DeadlineWatches {
    pub(crate) fn new() -> DeadlineWatches {
        DeadlineWatches {
            all: RefCell::new(Vec::new()),
            busy_client: Cell::new((None, 0)),
            busy_with_streams: Cell::new((None, 0)),
        }
    }

    /// A watch without a deadline, for the task that `waker` wakes.
    pub(crate) fn add(&self, waker: Waker) -> Rc<DeadlineWatch> {
        let watch = Rc::new(DeadlineWatch {
            deadline: Cell::new(u64::MAX),
            expired: Cell::new(false),
            armed: Cell::new(0),
            idle: Cell::new(false),
            dismissed: Cell::new(false),
            client: Cell::new(None),
            has_streams: Cell::new(false),
            last: Cell::new(false),
            looks_again: Cell::new(false),
            waker: RefCell::new(Some(waker)),
        });
        self.all.borrow_mut().push(Rc::downgrade(&watch));
        watch
    }

    /// Wakes all connections whose deadline has passed, and removes those that have ended.
    pub(crate) fn sweep(&self) {
        self.sweep_at(coarse_milliseconds());
    }

    fn sweep_at(&self, now: u64) {
        self.all.borrow_mut().retain(|watch| {
            let Some(watch) = watch.upgrade() else {
                return false;
            };
            let has_passed = watch.deadline.get() <= now && !watch.expired.replace(true);
            if watch.looks_again.take() || has_passed {
                watch.waker.borrow().iter().for_each(Waker::wake_by_ref);
            }
            true
        });
    }

    /// Wakes all idle connections as if their deadline had passed.
    pub(crate) fn expire_idle(&self) {
        for watch in self
            .all
            .borrow()
            .iter()
            .filter_map(Weak::upgrade)
            .filter(|watch| watch.idle.get())
        {
            watch.expire();
        }
    }

    /// Returns the number of connections that have brought their last request.
    pub(crate) fn at_last_request(&self) -> usize {
        let watches = self.all.borrow();
        watches
            .iter()
            .filter_map(Weak::upgrade)
            .filter(|watch| watch.last.get())
            .count()
    }

    /// Wakes up to `most` idle connections as if their deadline had passed, those first that have
    /// been idle for longest, none that has been so only for a moment. Returns their number.
    pub(crate) fn expire_longest_idle(&self, most: usize) -> usize {
        self.expire_longest_idle_at(|_| true, most, coarse_milliseconds())
    }

    /// Wakes the one of the client's connections that has been idle for longest, as if its deadline
    /// had passed. Returns whether there is one. Where there was none, this looks again only after
    /// a moment: a client that has all its connections busy cannot cause a search with each further
    /// one.
    pub(crate) fn expire_longest_idle_of(&self, client: ClientTag) -> bool {
        self.expire_longest_idle_of_at(client, coarse_milliseconds())
    }

    fn expire_longest_idle_of_at(&self, client: ClientTag, now: u64) -> bool {
        let is_of = |watch: &DeadlineWatch| watch.client.get() == Some(client);
        self.unless_busy(&self.busy_client, client, (is_of, 1), now) > 0
    }

    /// Does the same as [`expire_longest_idle_of`](DeadlineWatches::expire_longest_idle_of) to up
    /// to `most` of the client's connections over HTTP/2 and HTTP/3. Returns their number.
    pub(crate) fn expire_longest_idle_with_streams(&self, client: ClientTag, most: usize) -> usize {
        let is_of =
            |watch: &DeadlineWatch| watch.has_streams.get() && watch.client.get() == Some(client);
        self.unless_busy(&self.busy_with_streams, client, (is_of, most), coarse_milliseconds())
    }

    /// Wakes up to `most` of the client's idle connections that count, unless there were none a
    /// moment ago, which is `known`. Returns their number.
    fn unless_busy(
        &self,
        known: &Cell<(Option<ClientTag>, u64)>,
        client: ClientTag,
        (counts, most): (impl Fn(&DeadlineWatch) -> bool, usize),
        now: u64,
    ) -> usize {
        let (busy, since) = known.get();
        if busy == Some(client) && now.saturating_sub(since) < FRESH.as_millis() as u64 {
            return 0;
        }
        let found = self.expire_longest_idle_at(counts, most, now);
        if found == 0 {
            known.set((Some(client), now));
        }
        found
    }

    /// Wakes up to `most` of the idle connections that count. Returns their number.
    fn expire_longest_idle_at(
        &self,
        counts: impl Fn(&DeadlineWatch) -> bool,
        most: usize,
        now: u64,
    ) -> usize {
        let fresh = now.saturating_sub(FRESH.as_millis() as u64);
        let mut idle: Vec<(u64, Rc<DeadlineWatch>)> = Vec::new();
        for watch in self.all.borrow().iter().filter_map(Weak::upgrade) {
            let waits = watch.idle.get() && !watch.is_disarmed() && !watch.is_expired();
            if waits && counts(&watch) && watch.armed.get() <= fresh {
                idle.push((watch.armed.get(), watch));
            }
        }
        if idle.len() > most && most > 0 {
            idle.select_nth_unstable_by_key(most - 1, |(since, _)| *since);
            idle.truncate(most);
        }
        idle.iter().for_each(|(_, watch)| watch.expire());
        idle.len()
    }
}

impl DeadlineWatch {
    /// Sets the deadline `after` from now.
    pub(crate) fn arm(&self, after: Duration) {
        self.arm_at(coarse_milliseconds(), after);
    }

    fn arm_at(&self, now: u64, after: Duration) {
        let after = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        self.armed.set(now);
        self.deadline.set(now.saturating_add(after).saturating_add(COARSE));
        self.expired.set(false);
    }

    /// No deadline until the next [`DeadlineWatch::arm`].
    pub(crate) fn disarm(&self) {
        self.deadline.set(u64::MAX);
        self.expired.set(false);
    }

    /// Returns whether there is no deadline.
    pub(crate) fn is_disarmed(&self) -> bool {
        self.deadline.get() == u64::MAX
    }

    /// Sets whether the connection waits for a request.
    pub(crate) fn set_idle(&self, idle: bool) {
        self.idle.set(idle);
    }

    /// Tells whose connection it is.
    pub(crate) fn set_client(&self, client: Option<ClientTag>) {
        self.client.set(client);
    }

    /// Notes that the connection is one over HTTP/2 or HTTP/3.
    pub(crate) fn set_has_streams(&self) {
        self.has_streams.set(true);
    }

    /// Sets whether the connection has brought its last request, should its thread drain.
    pub(crate) fn set_at_last_request(&self, last: bool) {
        self.last.set(last);
    }

    /// Makes the next sweep wake the connection, for something that nothing else tells.
    pub(crate) fn look_again(&self) {
        self.looks_again.set(true);
    }

    fn expire(&self) {
        self.dismissed.set(true);
        self.expired.set(true);
        self.waker.borrow().iter().for_each(Waker::wake_by_ref);
    }

    /// Returns whether the connection is to be closed once it waits for a request, whichever of its
    /// time limits that wait would have.
    pub(crate) fn is_dismissed(&self) -> bool {
        self.dismissed.get()
    }

    /// Returns whether the deadline has passed.
    pub(crate) fn is_expired(&self) -> bool {
        self.expired.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expires_at_the_sweep_after_its_deadline() {
        let watches = DeadlineWatches::new();
        let watch = watches.add(Waker::noop().clone());
        watch.arm_at(7_000, Duration::from_secs(2));
        watches.sweep_at(8_000);
        assert!(!watch.is_expired());
        watches.sweep_at(9_000);
        assert!(!watch.is_expired(), "the clock was behind when the deadline was set");
        watches.sweep_at(10_000);
        assert!(watch.is_expired());
        watch.arm_at(10_000, Duration::from_secs(2));
        assert!(!watch.is_expired());
    }

    #[test]
    fn a_look_at_the_next_sweep_is_no_deadline() {
        struct Count(std::sync::atomic::AtomicUsize);
        impl std::task::Wake for Count {
            fn wake(self: std::sync::Arc<Self>) {
                self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
        let count = std::sync::Arc::new(Count(0.into()));
        let watches = DeadlineWatches::new();
        let watch = watches.add(Waker::from(count.clone()));
        watch.look_again();
        watches.sweep();
        watches.sweep();
        assert_eq!(count.0.load(std::sync::atomic::Ordering::Relaxed), 1);
        assert!(!watch.is_expired() && watch.is_disarmed());
    }

    #[test]
    fn a_client_loses_its_own_longest_idle_connection() {
        let watches = DeadlineWatches::new();
        let of = |client, since| {
            let watch = watches.add(Waker::noop().clone());
            watch.set_client(Some(client));
            watch.set_idle(true);
            watch.arm_at(since, Duration::from_secs(600));
            watch
        };
        let other = of(2, 1_000);
        let (newer, older) = (of(1, 3_000), of(1, 2_000));
        assert!(watches.expire_longest_idle_of_at(1, 9_000));
        assert!(older.is_expired() && !newer.is_expired() && !other.is_expired());
        newer.set_idle(false);
        assert!(!watches.expire_longest_idle_of_at(1, 9_000), "one is busy, the other has ended");
        newer.set_idle(true);
        assert!(!watches.expire_longest_idle_of_at(1, 9_050), "it was looked for a moment ago");
        assert!(watches.expire_longest_idle_of_at(1, 9_100) && newer.is_expired());
        assert!(watches.expire_longest_idle_of_at(2, 9_100) && other.is_expired());
        // A request came at that moment, and the connection goes on.
        newer.arm_at(9_200, Duration::from_secs(600));
        assert!(watches.expire_longest_idle_of_at(1, 9_900) && newer.is_expired());
    }

    #[test]
    fn only_connections_with_streams_end_for_others_with_streams() {
        let watches = DeadlineWatches::new();
        let all: Vec<Rc<DeadlineWatch>> = (0..6)
            .map(|number| {
                let watch = watches.add(Waker::noop().clone());
                watch.set_client(Some(number / 3));
                watch.set_idle(true);
                watch.arm_at(1, Duration::from_secs(600));
                watch
            })
            .collect();
        assert_eq!(watches.expire_longest_idle_with_streams(1, 10), 0);
        [0, 1, 4_usize].iter().for_each(|number| all[*number].set_has_streams());
        assert_eq!(watches.expire_longest_idle_with_streams(0, 10), 2);
        assert!(all[0].is_expired() && all[1].is_expired());
        assert!(all[2..].iter().all(|watch| !watch.is_expired()));
        assert_eq!(watches.expire_longest_idle_with_streams(1, 10), 0, "a moment ago none had any");
    }

    #[test]
    fn the_longest_idle_are_closed_first() {
        let watches = DeadlineWatches::new();
        let all: Vec<Rc<DeadlineWatch>> = (0..10)
            .map(|number| {
                let watch = watches.add(Waker::noop().clone());
                watch.set_idle(number % 2 == 0);
                // The last one has waited for longest.
                watch.arm_at(20_000 - 1_000 * number, Duration::from_secs(60));
                watch
            })
            .collect();
        let expired = || -> Vec<usize> { (0..10).filter(|at| all[*at].is_expired()).collect() };
        assert_eq!(watches.expire_longest_idle_at(|_| true, 1, 16_000), 1);
        assert_eq!(expired(), [8]);
        // The one that has waited for a second, and none of those that have only begun to wait.
        assert_eq!(watches.expire_longest_idle_at(|_| true, 100, 16_000), 1);
        assert_eq!(expired(), [6, 8]);
        assert_eq!(watches.expire_longest_idle_at(|_| true, 100, 70_000), 3);
        assert_eq!(expired(), [0, 2, 4, 6, 8]);
        assert_eq!(watches.expire_longest_idle_at(|_| true, 100, 70_000), 0);
    }

    #[test]
    fn a_dropped_watch_is_forgotten() {
        let watches = DeadlineWatches::new();
        drop(watches.add(Waker::noop().clone()));
        watches.sweep();
        assert!(watches.all.borrow().is_empty());
    }
}
