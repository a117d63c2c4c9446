//! The sites whose directives were costly a moment ago. They are evaluated outside the event loop
//! for a while.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use super::turn_work::TurnWork;

/// The time after which an evaluation has kept the event loop for too long. Shorter ones are not
/// counted: however many there are, they make up for no long one.
const LONG: Duration = Duration::from_millis(1);
/// The time for which a site counts as costly at first. Each time that it turns out to be so again,
/// the time doubles, up to [`LONGEST`].
const SHORTEST: Duration = Duration::from_secs(1);
/// The time stops growing here.
const LONGEST: Duration = Duration::from_secs(64);

/// The time of long evaluations after which a site counts as costly. The kernel may take the
/// processor from a thread in the midst of any evaluation, so a single long one tells nothing yet.
const SUSPICIOUS: Duration = Duration::from_millis(16);
/// The part of the clock that long evaluations may take: the time of them that is counted becomes
/// less by a twentieth of the time that passes.
const TOLERATED_PART: u32 = 20;

/// The cost of the sites' directives as one event loop has met it, by the number of the site.
#[derive(Debug, Default)]
pub(crate) struct CostlySites {
    costs: RefCell<Vec<Cost>>,
    turn: TurnWork,
}

/// The cost of one site's directives.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    /// The last long evaluation; `None` before the first one since the site was costly.
    suspicion: Option<Suspicion>,
    mark: Option<Mark>,
}

/// The suspicion that a site is costly, after long evaluations.
#[derive(Clone, Copy, Debug)]
struct Suspicion {
    /// The time of long evaluations that counts at `noted`.
    time: Duration,
    noted: Instant,
}

/// The time for which a site counts as costly.
#[derive(Clone, Copy, Debug)]
struct Mark {
    until: Instant,
    time: Duration,
}

impl Suspicion {
    /// Returns the time of long evaluations that counts at `now`.
    fn left(&self, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.noted);
        self.time.saturating_sub(passed / TOLERATED_PART)
    }
}

impl Mark {
    /// Returns whether the site was costly a moment before `now`, or is.
    fn is_recent(&self, now: Instant) -> bool {
        now < self.until + 2 * self.time
    }
}

impl CostlySites {
    /// Returns whether the site's directives are evaluated outside the event loop.
    #[inline]
    pub(crate) fn contains(&self, site: usize, now: Instant) -> bool {
        let costs = self.costs.borrow();
        costs.get(site).and_then(|cost| cost.mark).is_some_and(|mark| now < mark.until)
    }

    /// Returns whether the evaluations of the site's directives have taken as many steps in this
    /// turn of the event loop as they may.
    #[inline]
    pub(crate) fn is_turn_over(&self, site: usize) -> bool {
        self.turn.is_over(site)
    }

    /// Counts the steps of an evaluation on the event loop.
    pub(crate) fn note_steps(&self, site: usize, steps: u64) {
        self.turn.add(site, steps);
    }

    /// Notes how long an evaluation of the site's directives has taken.
    pub(crate) fn note_time(&self, site: usize, began: Instant, now: Instant) {
        let time = now.saturating_duration_since(began);
        if time >= LONG && self.change(site, |cost| cost.is_suspicious(time, now)) {
            self.note(site, now);
        }
    }

    /// Notes that the site's directives are costly.
    pub(crate) fn note(&self, site: usize, now: Instant) {
        self.change(site, |cost| {
            let again = cost.mark.filter(|mark| mark.is_recent(now));
            let time = again.map_or(SHORTEST, |mark| (2 * mark.time).min(LONGEST));
            *cost = Cost {
                suspicion: None,
                mark: Some(Mark { until: now + time, time }),
            };
        });
    }

    fn change<T>(&self, site: usize, change: impl FnOnce(&mut Cost) -> T) -> T {
        let mut costs = self.costs.borrow_mut();
        if costs.len() <= site {
            costs.resize(site + 1, Cost::default());
        }
        change(&mut costs[site])
    }
}

impl Cost {
    /// Counts a long evaluation that ends at `now`. Returns whether the site is costly: long
    /// evaluations take too much of the clock, and this is not the first one.
    fn is_suspicious(&mut self, time: Duration, now: Instant) -> bool {
        let before = self.suspicion.map_or(Duration::ZERO, |suspicion| suspicion.left(now));
        let sum = before.saturating_add(time);
        self.suspicion = Some(Suspicion { time: sum, noted: now });
        let is_first = before.is_zero() && !self.mark.is_some_and(|mark| mark.is_recent(now));
        sum >= SUSPICIOUS && !is_first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evaluations of site 3 on a clock of their own.
    struct Clock {
        sites: CostlySites,
        now: Instant,
    }

    impl Clock {
        fn new() -> Clock {
            Clock {
                sites: CostlySites::default(),
                now: Instant::now(),
            }
        }

        /// Lets an evaluation take `time`. Returns whether the site counts as costly.
        fn evaluate(&mut self, time: Duration) -> bool {
            let began = self.now;
            self.now += time;
            self.sites.note_time(3, began, self.now);
            self.sites.contains(3, self.now)
        }

        /// Returns whether `times` evaluations of `time` leave the site alone.
        fn tolerates(&mut self, times: u32, time: Duration) -> bool {
            (0..times).all(|_| !self.evaluate(time))
        }
    }

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
        let mut clock = Clock::new();
        for time in [20 * LONG, 2 * LONG, 40 * LONG, LONG] {
            for _ in 0..100 {
                assert!(!clock.evaluate(time), "{time:?}");
                assert!(clock.tolerates(10, LONG / 2));
                clock.now += TOLERATED_PART * time;
            }
        }
        assert!(!clock.evaluate(1000 * LONG), "the kernel had something else to do");
    }

    #[test]
    fn many_evaluations_that_are_a_little_long_make_a_site_costly() {
        let mut clock = Clock::new();
        assert!(clock.tolerates(15, LONG));
        assert!((0..3).any(|_| clock.evaluate(LONG)));
    }

    #[test]
    fn short_evaluations_make_up_for_no_long_one() {
        for (long, short, times) in [
            (9 * LONG, LONG / 100, 8),
            (200 * LONG, LONG / 20, 8),
            (200 * LONG, LONG / 20, 4000),
            (1000 * LONG, LONG / 2, 100),
            (30_000 * LONG, LONG / 2, 1000),
        ] {
            let mut clock = Clock::new();
            assert!(clock.tolerates(1, long) && clock.tolerates(times, short));
            assert!(clock.evaluate(long), "{long:?}, {times} times {short:?}");
        }
    }

    #[test]
    fn a_site_that_was_costly_a_moment_ago_is_known_by_one_long_evaluation() {
        let mut clock = Clock::new();
        assert!(!clock.evaluate(200 * LONG) && clock.evaluate(200 * LONG));
        clock.now += SHORTEST;
        assert!(clock.tolerates(1000, LONG / 2) && clock.evaluate(200 * LONG));
    }
}
