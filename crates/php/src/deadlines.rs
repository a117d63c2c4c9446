//! When a request must have been begun, and when its script must have ended.

use std::time::{Duration, Instant};

use howdah_ipc::front::SignsOfLife;

use crate::pool::PoolLimits;

/// The deadlines of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadlines {
    /// The time by which a worker must have begun the request.
    begun_by: Instant,
    /// The time by which the script must have ended or given another sign of life.
    alive_by: Instant,
    /// The time by which the script must have ended.
    done_by: Instant,
    /// The last time at which the request was seen waiting; `None` once it is known when the script
    /// began.
    waited_until: Option<Instant>,
    /// The signs of life that `alive_by` counts in.
    signs: SignsOfLife,
}

/// The deadline that a request has missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissedDeadline {
    /// No deadline was missed, but the scripts before the request take long: it is to wait in turn
    /// with those of other clients.
    Recalled,
    /// No worker began it.
    Waiting,
    /// Its script gave no sign of life for too long.
    Silent,
    /// Its script runs for too long.
    Running,
    /// All requests are to end, because the front does.
    CutOff,
}

impl Deadlines {
    /// The deadlines of a request that was queued at `now`, and must be begun at `begun_by`.
    pub(crate) fn new(begun_by: Instant, now: Instant, limits: &PoolLimits) -> Deadlines {
        Deadlines {
            begun_by,
            alive_by: now + limits.request_timeout,
            done_by: now + limits.request_terminate_timeout,
            waited_until: Some(now),
            signs: SignsOfLife::default(),
        }
    }

    /// Notes that the request still waits for a worker: the script's time has not begun. Returns
    /// whether the request has waited for too long. `None` if it has not.
    pub(crate) fn postpone(&mut self, now: Instant) -> Option<MissedDeadline> {
        self.waited_until = Some(now);
        (self.begun_by <= now).then_some(MissedDeadline::Waiting)
    }

    /// Lets the script's time begin at `began`, as its worker says. A time before the request was
    /// last seen waiting is not the script's: its time then begins now.
    pub(crate) fn begin(&mut self, began: impl FnOnce() -> Instant, limits: &PoolLimits) {
        let Some(waited_until) = self.waited_until.take() else {
            return;
        };
        let began = Some(began()).filter(|began| *began >= waited_until);
        let began = began.unwrap_or_else(Instant::now);
        self.alive_by = began + limits.request_timeout;
        self.done_by = began + limits.request_terminate_timeout;
    }

    /// Counts the signs of life that the script has given until `now`. Returns the deadline that
    /// the script has missed. `None` if the script is in time.
    ///
    /// New output, each other sign, and each limit that the script sets with `set_time_limit()`, is
    /// worth `request_timeout`. Such a limit is worth itself if it is longer, and no limit is worth
    /// everything up to `request_terminate_timeout`, which nothing exceeds.
    pub(crate) fn count(
        &mut self,
        signs: SignsOfLife,
        now: Instant,
        limits: &PoolLimits,
    ) -> Option<MissedDeadline> {
        let next = now + limits.request_timeout;
        if signs.grant != self.signs.grant {
            self.alive_by = match signs.grant.limit() {
                Some(limit) => now.checked_add(limit).map_or(self.done_by, |by| by.max(next)),
                None => self.done_by,
            };
        } else if (signs.printed, signs.shown) != (self.signs.printed, self.signs.shown) {
            self.alive_by = self.alive_by.max(next);
        }
        self.signs = signs;
        if self.done_by <= now {
            Some(MissedDeadline::Running)
        } else {
            (self.alive_by <= now).then_some(MissedDeadline::Silent)
        }
    }

    /// Makes up for a pause in which this thread did not run: what came meanwhile was not seen. The
    /// last deadline stays.
    pub(crate) fn forgive(&mut self, pause: Duration) {
        self.begun_by += pause;
        self.alive_by += pause;
    }

    /// Lets the script miss its deadline at `now`.
    pub(crate) fn expire(&mut self, now: Instant) {
        self.waited_until = None;
        self.done_by = now;
    }
}

#[cfg(test)]
mod tests {
    use howdah_ipc::time_grant::TimeGrant;

    use super::*;

    const LIMITS: PoolLimits = PoolLimits {
        workers: 1,
        queue: 1,
        queue_timeout: Duration::from_secs(15),
        request_timeout: Duration::from_secs(60),
        request_terminate_timeout: Duration::from_secs(3600),
        slow_after: None,
        meters_processor: false,
        scaling: crate::Scaling::Static,
    };

    /// An action of a script at a second, or the answer of the deadlines then.
    #[derive(Debug, Clone, Copy)]
    enum Event {
        Prints,
        Flushes,
        SetsLimit(i64),
        Is(Option<MissedDeadline>),
    }
    use Event::{Flushes, Is, Prints, SetsLimit};

    fn play(events: &[(u64, Event)]) {
        let began = Instant::now();
        let mut deadlines = Deadlines::new(began + LIMITS.queue_timeout, began, &LIMITS);
        let mut signs = SignsOfLife::default();
        for (second, event) in events {
            let now = began + Duration::from_secs(*second);
            match event {
                Prints => signs.printed += 1,
                Flushes => signs.shown += 1,
                SetsLimit(seconds) => signs.grant = signs.grant.followed_by(*seconds),
                Is(_) => {}
            }
            let missed = deadlines.count(signs, now, &LIMITS);
            if let Is(expected) = event {
                assert_eq!(missed, *expected, "second {second} of {events:?}");
            }
        }
    }

    #[test]
    fn a_silent_script_has_the_request_timeout() {
        play(&[(59, Is(None)), (60, Is(Some(MissedDeadline::Silent)))]);
        for sign in [Prints, Flushes] {
            play(&[(50, sign), (109, Is(None)), (110, Is(Some(MissedDeadline::Silent)))]);
        }
    }

    #[test]
    fn a_limit_that_the_script_sets_counts_from_then() {
        play(&[(30, SetsLimit(600)), (629, Is(None)), (630, Is(Some(MissedDeadline::Silent)))]);
        play(&[(30, SetsLimit(1)), (89, Is(None)), (90, Is(Some(MissedDeadline::Silent)))]);
        // The later limit replaces the earlier one, output does not shorten it.
        play(&[(0, SetsLimit(600)), (10, SetsLimit(1)), (70, Is(Some(MissedDeadline::Silent)))]);
        play(&[(0, SetsLimit(600)), (10, Prints), (599, Is(None))]);
    }

    #[test]
    fn a_pause_of_the_thread_is_no_silence_of_the_script() {
        let began = Instant::now();
        let after = |seconds| began + Duration::from_secs(seconds);
        let pause = Duration::from_secs(70);
        let mut deadlines = Deadlines::new(after(15), began, &LIMITS);
        deadlines.forgive(pause);
        assert_eq!(deadlines.postpone(after(84)), None);
        assert_eq!(deadlines.postpone(after(85)), Some(MissedDeadline::Waiting));
        let mut deadlines = Deadlines::new(after(15), began, &LIMITS);
        let count = |deadlines: &mut Deadlines, now| {
            deadlines.count(SignsOfLife::default(), after(now), &LIMITS)
        };
        deadlines.forgive(pause);
        assert_eq!(count(&mut deadlines, 129), None);
        assert_eq!(count(&mut deadlines, 130), Some(MissedDeadline::Silent));
        deadlines.forgive(Duration::from_secs(3600));
        assert_eq!(count(&mut deadlines, 3599), None);
        assert_eq!(
            count(&mut deadlines, 3600),
            Some(MissedDeadline::Running),
            "the last one stays"
        );
    }

    #[test]
    fn the_scripts_time_begins_when_its_worker_does() {
        let queued = Instant::now();
        let after = |milliseconds| queued + Duration::from_millis(milliseconds);
        // The request is seen waiting after half a second, and running after a whole one.
        for (began, counts_from) in [(700, 700), (500, 500)] {
            let mut deadlines = Deadlines::new(after(15_000), queued, &LIMITS);
            assert_eq!(deadlines.postpone(after(500)), None);
            deadlines.begin(|| after(began), &LIMITS);
            deadlines.begin(|| after(999), &LIMITS);
            let count = |deadlines: &mut Deadlines, now: u64| {
                deadlines.count(SignsOfLife::default(), after(counts_from + now), &LIMITS)
            };
            assert_eq!(count(&mut deadlines, 59_999), None, "{began}");
            assert_eq!(count(&mut deadlines, 60_000), Some(MissedDeadline::Silent), "{began}");
        }
        // The time of the slot's former request.
        let mut deadlines = Deadlines::new(after(15_000), queued, &LIMITS);
        assert_eq!(deadlines.postpone(after(500)), None);
        deadlines.begin(|| after(499), &LIMITS);
        assert_eq!(deadlines.count(SignsOfLife::default(), after(59_999), &LIMITS), None);
        assert_eq!(deadlines.postpone(after(15_000)), Some(MissedDeadline::Waiting));
    }

    #[test]
    fn nothing_exceeds_the_last_deadline() {
        for seconds in [0, -1, 1_000_000, i64::MAX] {
            play(&[
                (0, SetsLimit(seconds)),
                (3599, Is(None)),
                (3600, Is(Some(MissedDeadline::Running))),
            ]);
        }
        play(&[(3599, SetsLimit(0)), (3600, Is(Some(MissedDeadline::Running)))]);
        play(&[(3599, Prints), (3600, Is(Some(MissedDeadline::Running)))]);
        let began = Instant::now();
        let mut deadlines = Deadlines::new(began + LIMITS.queue_timeout, began, &LIMITS);
        for word in [u64::MAX, 1 << 63, u64::from(u32::MAX)] {
            let signs = SignsOfLife {
                printed: u32::MAX,
                shown: u32::MAX,
                grant: TimeGrant::unpack(word),
            };
            assert_eq!(deadlines.count(signs, began, &LIMITS), None);
        }
        let end = began + LIMITS.request_terminate_timeout;
        assert_eq!(
            deadlines.count(SignsOfLife::default(), end, &LIMITS),
            Some(MissedDeadline::Running)
        );
    }
}
