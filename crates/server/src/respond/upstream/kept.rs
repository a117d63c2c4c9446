//! Connections to upstreams that wait for their next request, and upstreams that are left alone for
//! a while. Each thread has its own.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::body::Duplex;
use crate::front::Thread;

/// The place of an upstream: the number of its site, and its number in the site's `upstreams`.
pub(crate) type UpstreamKey = (usize, usize);

/// A thread's knowledge of upstreams.
#[derive(Debug, Default)]
pub(crate) struct KeptConnections {
    upstreams: RefCell<HashMap<UpstreamKey, UpstreamState>>,
}

#[derive(Debug, Default)]
struct UpstreamState {
    /// The one that has waited for longest is the first.
    waiting: Vec<WaitingConnection>,
    /// The upstream could not be reached. Until then it is not tried again.
    rests_until: Option<Instant>,
}

/// A connection without a request.
struct WaitingConnection {
    stream: Box<dyn Duplex>,
    until: Instant,
}

impl KeptConnections {
    /// Takes a connection that the upstream has not closed.
    pub(super) fn take(&self, key: UpstreamKey) -> Option<Box<dyn Duplex>> {
        let mut upstreams = self.upstreams.borrow_mut();
        let waiting = &mut upstreams.get_mut(&key)?.waiting;
        while let Some(mut last) = waiting.pop() {
            if last.until > Instant::now() && last.stream.is_silent() {
                return Some(last.stream);
            }
        }
        None
    }

    /// Keeps a connection for `timeout`, if the upstream has fewer than `most`.
    fn keep(&self, key: UpstreamKey, stream: Box<dyn Duplex>, most: usize, timeout: Duration) {
        let mut upstreams = self.upstreams.borrow_mut();
        let waiting = &mut upstreams.entry(key).or_default().waiting;
        if waiting.len() < most {
            let until = Instant::now() + timeout;
            waiting.push(WaitingConnection { stream, until });
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

    /// Closes the connections whose time is over, or that their upstreams have closed; all of them
    /// if the front drains.
    pub(crate) fn sweep(&self, now: Instant, is_draining: bool) {
        let mut upstreams = self.upstreams.borrow_mut();
        if upstreams.is_empty() {
            return;
        }
        upstreams.retain(|_, upstream| {
            upstream.waiting.retain_mut(|waiting| {
                !is_draining && waiting.until > now && waiting.stream.is_silent()
            });
            !upstream.waiting.is_empty() || upstream.rests_until.is_some_and(|until| until > now)
        });
    }
}

impl fmt::Debug for WaitingConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitingConnection")
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}

/// The destination of a connection when its response was read.
#[derive(Debug)]
pub(super) struct ConnectionHome {
    pub(super) thread: Rc<Thread>,
    pub(super) key: UpstreamKey,
    pub(super) most: usize,
    pub(super) timeout: Duration,
}

impl ConnectionHome {
    /// Keeps the connection for the next request, unless the front drains.
    pub(super) fn take_back(self, stream: Box<dyn Duplex>) {
        if !self.thread.is_draining() {
            self.thread.kept().keep(self.key, stream, self.most, self.timeout);
        }
    }
}
