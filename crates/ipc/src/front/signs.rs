//! The signs that a script is not stuck.

use std::time::{Duration, Instant};

use howdah_sys::usage;

use crate::front::FrontRegion;
use crate::sync::Ordering;
use crate::time_grant::TimeGrant;

/// The signs of life of a running request. Nothing is checked: a hostile worker may store any
/// value, therefore the caller limits what a sign can win.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SignsOfLife {
    /// Bytes of output modulo 2^32, counted from the start of the response.
    pub printed: u32,
    /// Number of further signs modulo 2^32: flushes, and output that nobody gets.
    pub shown: u32,
    /// The time limit that the script has set last.
    pub grant: TimeGrant,
}

impl FrontRegion {
    /// Reads the signs of life of the request in the slot at this index.
    pub fn signs_of_life(&self, slot: usize) -> SignsOfLife {
        let words = self.region.slot(slot);
        SignsOfLife {
            printed: words.printed.load(Ordering::Relaxed),
            shown: words.shown.load(Ordering::Relaxed),
            grant: TimeGrant::unpack(words.grant.load(Ordering::Relaxed)),
        }
    }

    /// Returns the time at which the worker says that it began the request in the slot at this
    /// index. It is not in the future. A worker that has just taken the request may not have said
    /// it yet: then the time is that of the slot's former request.
    pub fn began(&self, slot: usize) -> Instant {
        let began = self.region.slot(slot).began.load(Ordering::Relaxed);
        let ran = Duration::from_nanos(usage::monotonic().saturating_sub(began));
        // Read after the other clock, so that the time is never too early.
        let now = Instant::now();
        now.checked_sub(ran).unwrap_or(now)
    }
}
