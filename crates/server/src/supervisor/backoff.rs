//! The delay before a process that keeps dying is started again.

use std::time::Duration;

/// A process that lived this long did not die because of its start.
const HEALTHY: Duration = Duration::from_secs(10);
const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(30);

/// Counts deaths in quick succession.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Backoff {
    deaths: u32,
}

impl Backoff {
    /// Returns the delay before the next start, after one that failed.
    pub(super) fn after_failure(&mut self) -> Duration {
        self.after_death(Duration::ZERO).max(FIRST)
    }

    /// Returns the delay before the next start, after a process that lived for `lived` has died.
    /// The delay after the first death is zero.
    pub(super) fn after_death(&mut self, lived: Duration) -> Duration {
        if lived >= HEALTHY {
            self.deaths = 0;
        }
        let wait = match self.deaths {
            0 => Duration::ZERO,
            deaths => FIRST.saturating_mul(1 << (deaths - 1).min(16)).min(LONGEST),
        };
        self.deaths += 1;
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_longer_each_time_until_it_stays_alive() {
        let mut backoff = Backoff::default();
        let at_once = Duration::from_millis(1);
        let waits: Vec<u128> = (0..10).map(|_| backoff.after_death(at_once).as_millis()).collect();
        assert_eq!(waits, [0, 250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
        assert_eq!(backoff.after_death(HEALTHY), Duration::ZERO);
        assert_eq!(backoff.after_death(at_once), FIRST);
    }
}
