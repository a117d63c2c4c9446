//! Connections to upstreams that wait for their next request, and upstreams that are left alone for
//! a while. Each thread has its own.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connection::{UpstreamConnection, UpstreamPlace};
use crate::budget::{Budget, BudgetUsedUp};
use crate::front::FrontThread;

/// The place of an upstream: the number of its site, and its number in the site's `upstreams`.
pub(crate) type UpstreamKey = (usize, usize);

/// A thread's knowledge of upstreams.
#[derive(Debug, Default)]
pub(crate) struct KeptConnections {
    upstreams: RefCell<BTreeMap<UpstreamKey, UpstreamState>>,
}

#[derive(Debug, Default)]
struct UpstreamState {
    /// The one that has waited for longest is the first.
    waiting: Vec<WaitingConnection>,
    /// The upstream could not be reached. Until then it is not tried again.
    rests_until: Option<Instant>,
}

/// A connection without a request.
#[derive(Debug)]
struct WaitingConnection {
    connection: UpstreamConnection,
    until: Instant,
}

impl KeptConnections {
    /// Takes a connection that the upstream has not closed.
    pub(super) fn take(&self, key: UpstreamKey) -> Option<UpstreamConnection> {
        let mut upstreams = self.upstreams.borrow_mut();
        let waiting = &mut upstreams.get_mut(&key)?.waiting;
        while let Some(mut last) = waiting.pop() {
            if last.until > Instant::now() && last.connection.stream.is_silent() {
                return Some(last.connection);
            }
        }
        None
    }

    /// Takes a place for one more connection of the site. Where there is none, connections of the
    /// site that wait for a request are closed until there is one.
    ///
    /// # Errors
    /// There is none, and no connection waits.
    pub(super) fn place(
        &self,
        places: &Arc<Budget>,
        site: usize,
    ) -> Result<UpstreamPlace, BudgetUsedUp> {
        loop {
            match UpstreamPlace::take(places, site) {
                Err(_) if self.close_longest_waiting(site) => {}
                taken => return taken,
            }
        }
    }

    /// Closes the connection of the site that has waited for longest. Returns whether there was
    /// one.
    fn close_longest_waiting(&self, site: usize) -> bool {
        let mut upstreams = self.upstreams.borrow_mut();
        let of_site = upstreams.range_mut((site, 0)..=(site, usize::MAX));
        let waiting = of_site.map(|(_, upstream)| &mut upstream.waiting);
        let longest = waiting.filter(|waiting| !waiting.is_empty());
        match longest.min_by_key(|waiting| waiting[0].until) {
            Some(waiting) => {
                waiting.remove(0);
                true
            }
            None => false,
        }
    }

    /// Keeps a connection for `timeout`, if the upstream has fewer than `most`.
    fn keep(
        &self,
        key: UpstreamKey,
        connection: UpstreamConnection,
        most: usize,
        timeout: Duration,
    ) {
        let mut upstreams = self.upstreams.borrow_mut();
        let waiting = &mut upstreams.entry(key).or_default().waiting;
        if waiting.len() < most {
            let until = Instant::now() + timeout;
            waiting.push(WaitingConnection { connection, until });
        }
    }

    /// Leaves an upstream that could not be reached alone for `pause`.
    pub(super) fn rest(&self, key: UpstreamKey, pause: Duration) {
        let mut upstreams = self.upstreams.borrow_mut();
        upstreams.entry(key).or_default().rests_until = Some(Instant::now() + pause);
    }

    /// Returns whether an upstream is left alone.
    pub(super) fn rests(&self, key: UpstreamKey) -> bool {
        let upstreams = self.upstreams.borrow();
        let until = upstreams.get(&key).and_then(|upstream| upstream.rests_until);
        until.is_some_and(|until| until > Instant::now())
    }

    /// Closes the connections whose time is over, or that their upstreams have closed, and those of
    /// sites that have no place left; all of them if the front drains.
    pub(crate) fn sweep(&self, now: Instant, is_draining: bool, places: &Budget) {
        let mut upstreams = self.upstreams.borrow_mut();
        if upstreams.is_empty() {
            return;
        }
        upstreams.retain(|(site, _), upstream| {
            upstream.waiting.retain_mut(|waiting| {
                !is_draining
                    && waiting.until > now
                    && places.has_room(*site)
                    && waiting.connection.stream.is_silent()
            });
            !upstream.waiting.is_empty() || upstream.rests_until.is_some_and(|until| until > now)
        });
    }
}

/// The destination of a connection when its response was read.
#[derive(Debug)]
pub(super) struct ConnectionHome {
    pub(super) thread: Rc<FrontThread>,
    pub(super) key: UpstreamKey,
    pub(super) most: usize,
    pub(super) timeout: Duration,
}

impl ConnectionHome {
    /// Keeps the connection for the next request, unless the front drains.
    pub(super) fn take_back(self, connection: UpstreamConnection) {
        if !self.thread.is_draining() {
            self.thread.kept().keep(self.key, connection, self.most, self.timeout);
        }
    }
}
