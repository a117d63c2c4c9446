//! The time limits of a tunnel: no byte has moved for a while, or the front ends.

use std::rc::Rc;
use std::task::Context;
use std::time::{Duration, Instant};

use crate::front::{FrontThread, time_before_end};
use crate::net::DeadlineWatch;

/// The limit that has ended a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TunnelLimit {
    Idle,
    Draining,
}

/// The time limits of a tunnel.
pub(super) struct TimeLimits<'t> {
    thread: &'t FrontThread,
    idle_timeout: Duration,
    /// The time when the last byte moved.
    moved: Instant,
    /// The time when the tunnel ends because the front does; `None` while the front serves.
    end: Option<Instant>,
    /// The front has ended the tunnel.
    is_closed: bool,
    watch: Option<Rc<DeadlineWatch>>,
}

impl<'t> TimeLimits<'t> {
    pub(super) fn new(thread: &'t FrontThread, idle_timeout: Duration) -> TimeLimits<'t> {
        TimeLimits {
            thread,
            idle_timeout,
            moved: Instant::now(),
            end: None,
            is_closed: false,
            watch: None,
        }
    }

    /// Returns the limit that has been reached. `has_moved`: bytes have passed since the last call.
    /// `None`: no limit has been reached; the task is woken at the next one.
    pub(super) fn poll(
        &mut self,
        has_moved: bool,
        context: &mut Context<'_>,
    ) -> Option<TunnelLimit> {
        if self.thread.closes_idle() && !self.is_closed {
            return Some(TunnelLimit::Draining);
        }
        let watch = self
            .watch
            .get_or_insert_with(|| self.thread.watches().add(context.waker().clone()));
        if self.thread.ends_tunnels() && self.end.is_none() {
            let limit = self.thread.config().limits.drain_timeout;
            self.end = Some(Instant::now() + time_before_end(limit));
            watch.disarm();
        }
        if has_moved {
            self.moved = Instant::now();
        } else if !watch.is_disarmed() && !watch.is_expired() {
            return None;
        }
        let now = if has_moved { self.moved } else { Instant::now() };
        if self.end.is_some_and(|end| end <= now) {
            return Some(TunnelLimit::Draining);
        }
        let idle_end = self.moved + self.idle_timeout;
        if idle_end <= now {
            return Some(TunnelLimit::Idle);
        }
        if watch.is_disarmed() || watch.is_expired() {
            let end = self.end.map_or(idle_end, |end| end.min(idle_end));
            watch.arm(end - now);
        }
        None
    }

    /// Makes the tunnel look again at the next sweep.
    pub(super) fn look_again(&self) {
        self.watch.iter().for_each(|watch| watch.look_again());
    }

    /// Leaves the tunnel only [`LAST_WORDS`] from now on.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        self.end = Some(Instant::now() + LAST_WORDS);
        if let Some(watch) = &self.watch {
            watch.arm(LAST_WORDS);
        }
    }
}

/// The time that both sides have to take what was read, when the front ends.
const LAST_WORDS: Duration = Duration::from_secs(1);
