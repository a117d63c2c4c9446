//! The delay before further workers are forked, where workers die before their first request.

use std::time::{Duration, Instant};

/// A worker that died later did not die because of its start.
const EARLY: Duration = Duration::from_secs(5);
/// Such deaths in a row that cost no time: a single process may be killed by anybody.
const FREE: u32 = 3;
/// The first delay. It doubles with each further death in a row.
const FIRST: Duration = Duration::from_millis(250);
/// The delay stops growing here.
const LONGEST: Duration = Duration::from_secs(10);

/// Counts the deaths of workers that have taken no request.
#[derive(Debug, Default)]
pub struct StartBackoff {
    /// In a row.
    deaths: u32,
    until: Option<Instant>,
}

impl StartBackoff {
    /// Records that a worker died unexpectedly after `lived`. Returns the delay before the next
    /// fork, if there is one. `None` without a delay.
    pub fn died(&mut self, now: Instant, lived: Duration, has_worked: bool) -> Option<Duration> {
        if has_worked || lived >= EARLY {
            *self = StartBackoff::default();
            return None;
        }
        self.deaths += 1;
        let exponent = self.deaths.checked_sub(FREE + 1)?;
        let wait = FIRST.saturating_mul(1 << exponent.min(16)).min(LONGEST);
        self.until = Some(now + wait);
        Some(wait)
    }

    /// The time that no worker may be forked. `None` if one may be forked now.
    pub fn wait(&self, now: Instant) -> Option<Duration> {
        let wait = self.until?.checked_duration_since(now)?;
        (!wait.is_zero()).then_some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deaths_before_the_first_request_cost_more_and_more_time() {
        let now = Instant::now();
        let mut backoff = StartBackoff::default();
        let waits: Vec<u128> = (0..10)
            .map(|_| backoff.died(now, Duration::ZERO, false).map_or(0, |wait| wait.as_millis()))
            .collect();
        assert_eq!(waits, [0, 0, 0, 250, 500, 1000, 2000, 4000, 8000, 10_000]);
        assert_eq!(backoff.wait(now), Some(LONGEST));
        assert_eq!(backoff.wait(now + LONGEST), None);
    }

    #[test]
    fn a_worker_that_has_worked_or_lived_clears_the_account() {
        let now = Instant::now();
        for (lived, has_worked) in [(Duration::ZERO, true), (EARLY, false)] {
            let mut backoff = StartBackoff::default();
            for _ in 0..9 {
                backoff.died(now, Duration::ZERO, false);
            }
            assert_eq!(backoff.died(now, lived, has_worked), None);
            assert_eq!((backoff.wait(now), backoff.died(now, Duration::ZERO, false)), (None, None));
        }
    }
}
