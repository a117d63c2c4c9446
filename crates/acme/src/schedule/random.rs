//! Random numbers of the schedule, which its seed decides.

use std::time::Duration;

/// A generator of pseudo-random numbers (SplitMix64), for spreading load only.
#[derive(Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is at least 1.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound.max(1)
    }

    pub(super) fn up_to(&mut self, most: Duration) -> Duration {
        let most = u64::try_from(most.as_millis()).unwrap_or(u64::MAX - 1);
        Duration::from_millis(self.below(most + 1))
    }

    /// A time between `delay` and a fifth more.
    pub(super) fn about(&mut self, delay: Duration) -> Duration {
        delay + self.up_to(delay / 5)
    }
}
