//! The word in which a worker tells the front the time limit that its script has set.

use std::time::Duration;

/// The time limit that a script has set for itself, as with PHP's `set_time_limit()`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimeGrant {
    /// The number of times that the script has set a limit; 0 for never. The count wraps.
    pub count: u32,
    /// The last limit in seconds; 0 for no limit.
    seconds: u32,
}

impl TimeGrant {
    /// Decodes a word. Every word is valid.
    pub fn unpack(word: u64) -> TimeGrant {
        TimeGrant {
            count: (word >> 32) as u32,
            seconds: word as u32,
        }
    }

    /// Encodes the grant as one word.
    pub fn pack(self) -> u64 {
        u64::from(self.count) << 32 | u64::from(self.seconds)
    }

    /// Returns the grant that follows this one. `seconds` as for `set_time_limit()`: 0 and less is
    /// no limit. More seconds than fit are as many as fit.
    #[must_use]
    pub fn followed_by(self, seconds: i64) -> TimeGrant {
        TimeGrant {
            count: self.count.wrapping_add(1),
            seconds: u32::try_from(seconds.max(0)).unwrap_or(u32::MAX),
        }
    }

    /// The last limit. `None` for no limit.
    pub fn limit(self) -> Option<Duration> {
        (self.seconds > 0).then(|| Duration::from_secs(self.seconds.into()))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_grant_survives_the_trip() {
        let mut grant = TimeGrant::default();
        let cases = [(30, Some(30)), (0, None), (-1, None), (i64::MAX, Some(u64::from(u32::MAX)))];
        for (count, (seconds, limit)) in (1..).zip(cases) {
            grant = TimeGrant::unpack(grant.followed_by(seconds).pack());
            assert_eq!((grant.count, grant.limit()), (count, limit.map(Duration::from_secs)));
        }
    }
}
