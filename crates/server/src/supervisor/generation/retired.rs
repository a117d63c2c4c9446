//! The end of generations that another one has replaced.
//!
//! A site's owner may change the link to his release as often as he likes. A generation that such a
//! change retires has requests of all sites, which must not be cut off for it. It has no time
//! limit. The next operator's change gives it one. Meanwhile a site can cause [`MOST_RETIRED`] of
//! them.

use std::time::{Duration, Instant};

use super::super::Supervisor;
use super::super::change::ChangeCause;
use super::super::front_protocol::ToFront;
use super::{Generation, GenerationPhase};

/// The generations with PHP that one site's changes of a link may have retired and that still have
/// requests. Further changes wait.
pub(in crate::supervisor) const MOST_RETIRED: usize = 3;
/// The same with those that have only tunnels left, and no PHP.
const MOST_WITH_TUNNELS: usize = 8;

/// The time that a generation has for its requests.
#[derive(Debug, Clone, Copy)]
pub(in crate::supervisor) enum DrainTime {
    /// `drain_timeout`, or this time where the generation's configuration is unknown.
    Configured(Duration),
    /// Any time.
    Unlimited,
}

impl Supervisor {
    /// Lets the other generations that serve finish their requests. `sites` are those whose changes
    /// of a link have caused that. Returns the numbers of the generations.
    pub(in crate::supervisor) fn drain_others(
        &mut self,
        generation: u64,
        cause: ChangeCause,
        sites: &[String],
    ) -> Vec<u64> {
        let limited = DrainTime::Configured(self.usual_drain());
        let time = match cause.is_operators() {
            true => limited,
            false => DrainTime::Unlimited,
        };
        let mut drained = Vec::new();
        for former in self.generations.iter_mut().filter(|one| one.number != generation) {
            if former.phase == GenerationPhase::Serving {
                former.drain(true, time);
                former.retired_by = sites.to_vec();
                drained.push(former.number);
            } else if cause.is_operators() {
                former.limit_drain(limited);
            }
        }
        drained
    }

    /// Returns whether further changes of a site's link have to wait: generations that former ones
    /// have retired still have requests.
    pub(in crate::supervisor) fn has_retired_enough(&self, site: &str) -> bool {
        let is_by_it = |one: &&Generation| one.retired_by.iter().any(|name| name == site);
        let retired = || self.generations.iter().filter(is_by_it);
        let with_php = retired().filter(|one| one.pools.iter().any(|pool| pool.zygote.is_some()));
        with_php.count() >= MOST_RETIRED || retired().count() >= MOST_WITH_TUNNELS
    }
}

impl Generation {
    /// Gives a generation that drains without a time limit this one.
    pub(in crate::supervisor) fn limit_drain(&mut self, time: DrainTime) {
        if self.phase == (GenerationPhase::Draining { until: None }) {
            self.phase = GenerationPhase::Draining { until: self.drain_until(time) };
            self.keep_tunnels(false);
        }
    }

    /// The end of a drain that begins now. `None`: the drain has no end.
    pub(super) fn drain_until(&self, time: DrainTime) -> Option<Instant> {
        let DrainTime::Configured(fallback) = time else {
            return None;
        };
        let timeout = self.config.as_ref().map_or(fallback, |config| config.limits.drain_timeout);
        Some(Instant::now() + timeout)
    }

    /// Tells the front whether tunnels may outlive `drain_timeout`.
    pub(super) fn keep_tunnels(&self, keep: bool) {
        // The front of another program would not understand it, and has a time limit anyway.
        if let Some(front) = self.front.as_ref().filter(|front| front.heart.is_some()) {
            // After a failure the tunnels end early.
            let _ = front.tell(&ToFront::KeepTunnels(keep), &[]);
        }
    }

    /// Describes for `howdah status` why a generation that drains does so; nothing where an
    /// operator knows.
    pub(in crate::supervisor) fn describe_retirement(&self) -> String {
        match self.retired_by.as_slice() {
            [] => String::new(),
            sites => format!(" after a new release of {}", sites.join(", ")),
        }
    }
}
