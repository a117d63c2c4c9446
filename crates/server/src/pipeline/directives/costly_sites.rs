//! The sites whose directives were costly a moment ago. They are evaluated outside the event loop
//! for a while.

use std::cell::RefCell;
use std::time::{Duration, Instant};

/// The time after which an evaluation has kept the event loop for too long.
const LONG: Duration = Duration::from_millis(1);
/// The time for which a site counts as costly at first. Each time that it turns out to be so again,
/// the time doubles, up to [`LONGEST`].
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(64);

/// The cost of the sites' directives as one event loop has met it, by the number of the site.
#[derive(Debug, Default)]
pub(crate) struct CostlySites(RefCell<Vec<Option<Mark>>>);

#[derive(Clone, Copy, Debug)]
struct Mark {
    until: Instant,
    time: Duration,
}

impl CostlySites {
    /// Whether the site's directives are evaluated outside the event loop.
    #[inline]
    pub(crate) fn contains(&self, site: usize, now: Instant) -> bool {
        let marks = self.0.borrow();
        marks.get(site).copied().flatten().is_some_and(|mark| now < mark.until)
    }

    /// Notes how long an evaluation of the site's directives has taken.
    pub(crate) fn note_time(&self, site: usize, began: Instant, now: Instant) {
        if now.saturating_duration_since(began) >= LONG {
            self.note(site, now);
        }
    }

    /// Notes that the site's directives are costly.
    pub(crate) fn note(&self, site: usize, now: Instant) {
        let mut marks = self.0.borrow_mut();
        if marks.len() <= site {
            marks.resize(site + 1, None);
        }
        let again = marks[site].filter(|mark| now < mark.until + 2 * mark.time);
        let time = again.map_or(SHORTEST, |mark| (2 * mark.time).min(LONGEST));
        marks[site] = Some(Mark { until: now + time, time });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_given_another_chance_less_and_less_often() {
        let sites = CostlySites::default();
        let mut now = Instant::now();
        assert!(!sites.contains(3, now));
        sites.note_time(3, now, now + LONG / 2);
        assert!(!sites.contains(3, now));
        let mut expected = SHORTEST;
        for _ in 0..10 {
            sites.note_time(3, now, now + LONG);
            now += LONG;
            assert!(sites.contains(3, now + expected - LONG));
            assert!(!sites.contains(3, now + expected) && !sites.contains(2, now));
            now += expected;
            expected = (2 * expected).min(LONGEST);
        }
        now += 3 * LONGEST;
        sites.note(3, now);
        assert!(!sites.contains(3, now + SHORTEST), "that was long ago");
    }
}
