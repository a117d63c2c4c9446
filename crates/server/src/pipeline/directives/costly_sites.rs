//! The sites whose directives were costly a moment ago. They are evaluated outside the event loop
//! for a while.

use std::cell::RefCell;
use std::time::{Duration, Instant};

/// The time after which an evaluation has kept the event loop for too long.
const LONG: Duration = Duration::from_millis(1);
/// The time for which a site counts as costly at first. Each time that it turns out to be so again,
/// the time doubles, up to [`LONGEST`].
const SHORTEST: Duration = Duration::from_secs(1);
/// The time stops growing here.
const LONGEST: Duration = Duration::from_secs(64);

/// The milliseconds of long evaluations, less one for each short one, after which a site counts as
/// costly. The kernel may take the processor from a thread in the midst of any evaluation, so a
/// single long one tells little.
const SUSPICIOUS: u32 = 16;
/// The most milliseconds that one evaluation counts for. A longer one counts as these.
const MOST_AT_ONCE: u32 = 8;

/// The cost of the sites' directives as one event loop has met it, by the number of the site.
#[derive(Debug, Default)]
pub(crate) struct CostlySites(RefCell<Vec<Cost>>);

/// The cost of one site's directives.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    /// Milliseconds of long evaluations, less the number of short ones.
    suspicion: u32,
    mark: Option<Mark>,
}

/// The time for which a site counts as costly.
#[derive(Clone, Copy, Debug)]
struct Mark {
    until: Instant,
    time: Duration,
}

impl CostlySites {
    /// Returns whether the site's directives are evaluated outside the event loop.
    #[inline]
    pub(crate) fn contains(&self, site: usize, now: Instant) -> bool {
        let costs = self.0.borrow();
        costs.get(site).and_then(|cost| cost.mark).is_some_and(|mark| now < mark.until)
    }

    /// Notes how long an evaluation of the site's directives has taken.
    pub(crate) fn note_time(&self, site: usize, began: Instant, now: Instant) {
        let time = now.saturating_duration_since(began);
        let is_suspicious = self.change(site, |cost| {
            cost.suspicion = match time < LONG {
                true => cost.suspicion.saturating_sub(1),
                false => cost.suspicion + time.as_millis().min(MOST_AT_ONCE.into()) as u32,
            };
            cost.suspicion >= SUSPICIOUS
        });
        if is_suspicious {
            self.note(site, now);
        }
    }

    /// Notes that the site's directives are costly.
    pub(crate) fn note(&self, site: usize, now: Instant) {
        self.change(site, |cost| {
            let again = cost.mark.filter(|mark| now < mark.until + 2 * mark.time);
            let time = again.map_or(SHORTEST, |mark| (2 * mark.time).min(LONGEST));
            *cost = Cost {
                suspicion: 0,
                mark: Some(Mark { until: now + time, time }),
            };
        });
    }

    fn change<T>(&self, site: usize, change: impl FnOnce(&mut Cost) -> T) -> T {
        let mut costs = self.0.borrow_mut();
        if costs.len() <= site {
            costs.resize(site + 1, Cost::default());
        }
        change(&mut costs[site])
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
            sites.note(3, now + LONG);
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

    #[test]
    fn now_and_then_a_long_evaluation_makes_no_site_costly() {
        let (sites, now) = (CostlySites::default(), Instant::now());
        let note = |time: Duration| sites.note_time(3, now, now + time);
        for _ in 0..100 {
            note(1000 * LONG);
            (0..MOST_AT_ONCE).for_each(|_| note(LONG / 2));
            assert!(!sites.contains(3, now));
        }
        note(1000 * LONG);
        assert!(!sites.contains(3, now));
        note(1000 * LONG);
        assert!(sites.contains(3, now), "two in a row");
    }

    #[test]
    fn many_evaluations_that_are_a_little_long_make_a_site_costly() {
        let (sites, now) = (CostlySites::default(), Instant::now());
        for round in 0..SUSPICIOUS {
            assert!(!sites.contains(3, now), "{round}");
            sites.note_time(3, now, now + LONG);
        }
        assert!(sites.contains(3, now));
    }
}
