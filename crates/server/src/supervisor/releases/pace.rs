//! How often a site may have a new release.

use std::time::{Duration, Instant};

/// Releases of a site that only have [`LEAST_PAUSE`] between them: a deployment, and its
/// corrections.
const AT_ONCE: u32 = 3;
/// The pause between these releases.
const LEAST_PAUSE: Duration = Duration::from_secs(5);
/// The pause after these. It doubles with each further release: a site's owner may change the link
/// as often as he likes, and a new generation is work for all sites.
const FIRST_PAUSE: Duration = Duration::from_secs(60);
/// The pause stops growing here.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// The time without a release after which the next ones count from the beginning. Longer than
/// every pause: a release that has waited does not begin anew.
const QUIET: Duration = Duration::from_secs(900);

/// The releases that a site has had.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReleasePace {
    last: Option<Instant>,
    /// The releases that have followed each other in less than [`QUIET`].
    count: u32,
}

impl ReleasePace {
    /// The time from which on another release may be served; `None` for any.
    pub(super) fn due(&self) -> Option<Instant> {
        let doublings = self.count.saturating_sub(AT_ONCE).min(8);
        let pause = match self.count < AT_ONCE {
            true => LEAST_PAUSE,
            false => (FIRST_PAUSE * (1 << doublings)).min(LONGEST_PAUSE),
        };
        self.last.map(|last| last + pause)
    }

    /// Notes a release at `now`.
    pub(super) fn note(&mut self, now: Instant) {
        if self.last.is_none_or(|last| now >= last + QUIET) {
            self.count = 0;
        }
        self.count += 1;
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds of an hour at which releases are served if the link is changed in this interval.
    fn served(pace: &mut ReleasePace, begin: Instant, interval: f64) -> Vec<u64> {
        let mut served = Vec::new();
        let mut passed = Duration::ZERO;
        while passed < Duration::from_secs(3600) {
            let now = begin + passed;
            if pace.due().is_none_or(|due| now >= due) {
                pace.note(now);
                served.push(passed.as_secs());
            }
            passed += Duration::from_secs_f64(interval);
        }
        served
    }

    #[test]
    fn releases_that_follow_each_other_wait_longer_and_longer() {
        let begin = Instant::now();
        let mut pace = ReleasePace::default();
        let first = served(&mut pace, begin, 1.0);
        assert_eq!(first[..8], [0, 5, 10, 70, 190, 430, 730, 1030]);
        // After a quiet time a deployment and its correction are served at once again.
        let late = begin + Duration::from_secs(3600) + QUIET;
        assert_eq!(served(&mut pace, late, 1.0)[..3], [0, 5, 10]);
    }

    #[test]
    fn no_interval_gets_around_the_pauses() {
        for interval in [1.0, 5.0, 10.5, 21.0, 61.0, 121.0, 299.0] {
            let count = served(&mut ReleasePace::default(), Instant::now(), interval).len();
            assert!(count <= 18, "{interval}: {count} generations in an hour");
        }
    }
}
