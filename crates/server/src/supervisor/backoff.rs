//! The delay before a process that keeps dying is started again.

use std::time::Duration;

/// A process that lived this long did not die because of its start.
const HEALTHY: Duration = Duration::from_secs(10);
/// Each such time of a process's life makes up for one death before it. To start a process takes a
/// small part of that time, therefore clients need not wait for a process that is killed again and
/// again at such intervals.
const FORGIVEN: Duration = Duration::from_secs(2);
/// A process that lived this long has served. Its clients wait for the next one.
const SERVED: Duration = Duration::from_secs(1);
/// Deaths in quick succession that cost no time: a single process may be killed by anybody.
const FREE: u32 = 3;
/// The first delay. It doubles with each further death in quick succession.
const FIRST: Duration = Duration::from_millis(250);
/// The delay stops growing here.
const LONGEST: Duration = Duration::from_secs(30);
/// The longest delay after a process that has served.
const LONGEST_AFTER_SERVICE: Duration = Duration::from_secs(1);

/// Counts deaths in quick succession.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Backoff {
    deaths: u32,
}

impl Backoff {
    /// Returns whether a process that lived for `lived` has served.
    pub(super) fn has_served(lived: Duration) -> bool {
        lived >= SERVED
    }

    /// Returns the delay before the next start, after one that failed.
    pub(super) fn after_failure(&mut self) -> Duration {
        self.after_death(Duration::ZERO).max(FIRST)
    }

    /// Returns the delay before the next start, after a process that lived for `lived` has died.
    /// The delay is zero after the first deaths.
    pub(super) fn after_death(&mut self, lived: Duration) -> Duration {
        let made_up = lived.as_secs() / FORGIVEN.as_secs();
        self.deaths = match lived >= HEALTHY {
            true => 0,
            false => self.deaths.saturating_sub(u32::try_from(made_up).unwrap_or(u32::MAX)),
        };
        self.deaths = self.deaths.saturating_add(1);
        let longest = match Backoff::has_served(lived) {
            true => LONGEST_AFTER_SERVICE,
            false => LONGEST,
        };
        match self.deaths.checked_sub(FREE + 1) {
            None => Duration::ZERO,
            Some(exponent) => FIRST.saturating_mul(1 << exponent.min(16)).min(longest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits_after(backoff: &mut Backoff, lived: Duration, deaths: usize) -> Vec<u128> {
        (0..deaths).map(|_| backoff.after_death(lived).as_millis()).collect()
    }

    #[test]
    fn waits_longer_each_time_until_it_stays_alive() {
        let mut backoff = Backoff::default();
        let at_once = Duration::from_millis(1);
        let waits = waits_after(&mut backoff, at_once, 12);
        assert_eq!(waits, [0, 0, 0, 250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
        assert_eq!(waits_after(&mut backoff, HEALTHY, 1), [0]);
        assert_eq!(waits_after(&mut backoff, at_once, 3), [0, 0, 250]);
    }

    #[test]
    fn the_clients_of_a_process_that_has_served_wait_a_second_at_most() {
        let waits = waits_after(&mut Backoff::default(), SERVED, 8);
        assert_eq!(waits, [0, 0, 0, 250, 500, 1000, 1000, 1000]);
    }

    #[test]
    fn nobody_waits_for_the_next_process_if_each_one_has_served_for_a_while() {
        let mut backoff = Backoff::default();
        assert_eq!(waits_after(&mut backoff, FORGIVEN, 30), [0; 30]);
        // A process that dies at its start does not profit from the lives before.
        assert_eq!(waits_after(&mut backoff, Duration::ZERO, 4), [0, 0, 250, 500]);
        assert_eq!(waits_after(&mut backoff, 2 * FORGIVEN, 3), [250, 0, 0]);
    }

    #[test]
    fn a_start_that_failed_is_never_repeated_at_once() {
        assert_eq!(Backoff::default().after_failure(), FIRST);
    }
}
