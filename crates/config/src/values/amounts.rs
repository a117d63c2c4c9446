//! Numbers: counts and rates.

/// A number of things, or as many as suit the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Chosen from the number of processors.
    Auto,
    /// Exactly this many; never zero.
    Exactly(usize),
}

impl Count {
    /// The number meant, where `automatic` is what suits this machine.
    pub fn resolve(self, automatic: usize) -> usize {
        match self {
            Count::Auto => automatic.max(1),
            Count::Exactly(number) => number,
        }
    }
}

/// A number of events in a time, or no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    count: u32,
    seconds: u64,
}

impl Rate {
    /// No limit.
    pub const OFF: Rate = Rate { count: 0, seconds: 0 };

    /// `count` events, at least 1, in that many seconds.
    pub(crate) fn new(count: u32, seconds: u64) -> Rate {
        Rate { count, seconds }
    }

    /// The number of events; 0 is no limit.
    pub fn count(self) -> u32 {
        self.count
    }

    /// The time in seconds; 0 where there is no limit.
    pub fn seconds(self) -> u64 {
        self.seconds
    }

    /// Nanoseconds between two events; 0 is no limit.
    pub fn interval(self) -> u64 {
        let time = self.seconds.saturating_mul(1_000_000_000);
        time.checked_div(u64::from(self.count)).unwrap_or(0)
    }
}
