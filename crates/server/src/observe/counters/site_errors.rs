//! The responses of a site by which a probation judges its configuration.

use howdah_php::counters::PoolCounter;

use super::super::culprit::Excuse;
use super::super::histogram::Histogram;
use super::SiteTotals;

/// Responses that scripts have ended, or upstreams begun, from which on others that wait in vain
/// tell of too many requests alone.
const ENOUGH: u64 = 10;

/// The responses of a site. Those of 5xx that have an [`Excuse`] are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SiteErrors {
    /// The site.
    pub(crate) name: String,
    /// Responses that have ended.
    pub(crate) responses: u64,
    /// Requests that scripts and upstreams were to answer: those that no file has answered.
    pub(crate) made: u64,
    /// Responses with a status of 5xx.
    pub(crate) errors: u64,
    /// Responses of 5xx that are excused if scripts end, or upstreams answer, of which too few have
    /// done so yet. They are in no other number.
    pub(crate) unproven: u64,
}

impl SiteErrors {
    /// Returns the responses of the site with that name.
    pub(super) fn of(name: &str, site: SiteTotals<'_>) -> SiteErrors {
        let pool = site.pool();
        let errors: u64 =
            site.codes().filter(|(code, _)| *code >= 500).map(|(_, count)| count).sum();
        let [always, by_scripts, by_upstreams] =
            [Excuse::Always, Excuse::ScriptsEnd, Excuse::UpstreamsAnswer]
                .map(|excuse| site.excused(excuse));
        let mut unproven = 0;
        if Histogram::of(pool.took()).count < ENOUGH {
            unproven += by_scripts;
        }
        if site.upstream_answers() < ENOUGH {
            unproven += by_upstreams;
        }
        // The numbers change while they are read.
        let excused = errors.min(always + by_scripts + by_upstreams);
        let of_scripts = pool.of(PoolCounter::Requests) + pool.of(PoolCounter::QueueFull);
        SiteErrors {
            name: name.to_owned(),
            responses: site.requests().saturating_sub(excused),
            made: of_scripts.saturating_sub(by_scripts)
                + site.upstream_connections()
                + site.upstream_reuses(),
            errors: errors - excused,
            unproven: unproven.min(excused),
        }
    }

    /// Counts the responses as errors whose excuse is not proven.
    pub(crate) fn without_patience(self) -> SiteErrors {
        SiteErrors {
            responses: self.responses + self.unproven,
            made: self.made + self.unproven,
            errors: self.errors + self.unproven,
            unproven: 0,
            ..self
        }
    }

    /// Adds other responses of the site.
    pub(crate) fn add(&mut self, other: &SiteErrors) {
        self.responses += other.responses;
        self.made += other.made;
        self.errors += other.errors;
        self.unproven += other.unproven;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use howdah_http::Status;

    use super::super::{CountedFigures, FrontCounters};
    use super::*;

    /// Counts a response of site 0 on thread 0.
    fn count(front: &FrontCounters, status: Status, excuse: Option<Excuse>) {
        let figures = CountedFigures {
            status,
            bytes: 0,
            took: Duration::from_millis(3),
            is_complete: true,
            excuse,
        };
        front.thread(0).count(Some(0), figures);
    }

    fn front() -> FrontCounters {
        FrontCounters::new(1, vec![("shop".to_owned(), Vec::new())], Vec::new()).unwrap()
    }

    /// Responses, those made by scripts and upstreams, and errors, as long as there is patience and
    /// afterwards.
    fn judged(front: &FrontCounters) -> [(u64, u64, u64); 2] {
        let early = front.server_errors().remove(0);
        let late = early.clone().without_patience();
        [early, late].map(|site| (site.responses, site.made, site.errors))
    }

    /// Visitors who ask for too much cannot undo a reload. Scripts of which none ends can, once
    /// they had time to end.
    #[test]
    fn a_full_queue_is_no_server_error_where_scripts_run() {
        for (scripts, early, late) in [
            (0, (10, 10, 10), (30, 30, 30)),
            (9, (19, 19, 10), (39, 39, 30)),
            (10, (20, 20, 10), (20, 20, 10)),
        ] {
            let front = front();
            let thread = front.thread(0);
            let pool = &thread.pool(0).all;
            for _ in 0..scripts {
                count(&front, Status::OK, None);
                pool.count(PoolCounter::Requests);
                pool.count_figures(&howdah_php::RequestFigures::default());
            }
            for _ in 0..10 {
                count(&front, Status::SERVICE_UNAVAILABLE, Some(Excuse::ScriptsEnd));
                pool.count(PoolCounter::QueueFull);
                count(&front, Status::SERVICE_UNAVAILABLE, Some(Excuse::ScriptsEnd));
                pool.count(PoolCounter::Requests);
                pool.count(PoolCounter::QueueTimeouts);
                count(&front, Status::INTERNAL_SERVER_ERROR, None);
                pool.count(PoolCounter::Requests);
            }
            assert_eq!(judged(&front), [early, late], "{scripts}");
        }
    }

    #[test]
    fn busy_connections_to_upstreams_are_no_server_errors_where_upstreams_answer() {
        for (answers, early, late) in [(9, (9, 9, 0), (29, 29, 20)), (10, (10, 10, 0), (10, 10, 0))]
        {
            let front = front();
            for _ in 0..answers {
                count(&front, Status::OK, None);
                front.thread(0).count_upstream(0, false);
                front.thread(0).count_upstream_answer(0);
            }
            for _ in 0..20 {
                count(&front, Status::SERVICE_UNAVAILABLE, Some(Excuse::UpstreamsAnswer));
            }
            assert_eq!(judged(&front), [early, late], "{answers}");
        }
    }

    #[test]
    fn what_visitors_alone_cause_is_no_server_error() {
        let front = front();
        for _ in 0..20 {
            count(&front, Status::SERVICE_UNAVAILABLE, Some(Excuse::Always));
            count(&front, Status::INSUFFICIENT_STORAGE, Some(Excuse::Always));
        }
        count(&front, Status::UNAUTHORIZED, None);
        assert_eq!(judged(&front), [(1, 0, 0); 2]);
        // A site in which nothing works fails under any load.
        for _ in 0..10 {
            count(&front, Status::INTERNAL_SERVER_ERROR, None);
        }
        assert_eq!(judged(&front), [(11, 0, 10); 2]);
    }
}
