//! How many workers a pool keeps.

use std::time::Duration;

/// How the number of a pool's workers follows its load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scaling {
    /// All workers are kept.
    Static,
    /// Some workers are kept free for requests that will come.
    Dynamic {
        /// Workers at the start.
        start: usize,
        /// Free workers at least.
        least_spare: usize,
        /// Free workers at most.
        most_spare: usize,
        /// How long further free workers sleep before they end; `None` for ever.
        idle_timeout: Option<Duration>,
    },
    /// Workers are started for requests, and end when there are none.
    OnDemand {
        /// How long a worker sleeps before it ends.
        idle_timeout: Duration,
    },
}

/// What is asked of a pool's workers at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Demand {
    /// Workers that the pool wants.
    pub(crate) wanted: usize,
    /// Of these, workers that have not started yet.
    pub(crate) starting: usize,
    /// Workers that sleep.
    pub(crate) idle: usize,
    /// Requests that no worker has taken.
    pub(crate) queued: usize,
    /// Requests that found no sleeping worker since the last look.
    pub(crate) lacking: usize,
}

impl Scaling {
    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Scaling::Static => "static",
            Scaling::Dynamic { .. } => "dynamic",
            Scaling::OnDemand { .. } => "ondemand",
        }
    }

    /// Number of workers at the start, of at most `most`.
    pub(crate) fn first(self, most: usize) -> usize {
        match self {
            Scaling::Static => most,
            Scaling::Dynamic { start, .. } => start.min(most),
            Scaling::OnDemand { .. } => 0,
        }
    }

    /// Whether the number of workers changes.
    pub(crate) fn is_fixed(self) -> bool {
        self == Scaling::Static
    }

    /// Free workers that are always kept.
    pub(crate) fn least_spare(self) -> usize {
        match self {
            Scaling::Dynamic { least_spare, .. } => least_spare,
            Scaling::Static | Scaling::OnDemand { .. } => 0,
        }
    }

    /// Number of workers to start. `useful` is how many more should be awake for requests that wait.
    pub(crate) fn growth(self, demand: Demand, useful: usize) -> usize {
        if self.is_fixed() {
            return 0;
        }
        // A request may have been taken since it found no worker. A worker that starts is for an
        // earlier request.
        let asked = match demand.lacking {
            0 => 0,
            lacking => (lacking + demand.starting)
                .min(demand.queued)
                .min(demand.starting.saturating_add(useful)),
        };
        (asked + self.least_spare()).saturating_sub(demand.starting + demand.idle)
    }

    /// Number of sleeping workers that are too many, whatever the time that they have slept.
    pub(crate) fn surplus(self, demand: Demand) -> usize {
        match self {
            // One at a time, as php-fpm does it: load comes in waves.
            Scaling::Dynamic { most_spare, .. } if demand.queued == 0 => {
                usize::from(demand.idle > most_spare)
            }
            _ => 0,
        }
    }

    /// How long a worker sleeps before it ends; `None` for ever.
    pub(crate) fn idle_timeout(self) -> Option<Duration> {
        match self {
            Scaling::Static => None,
            Scaling::Dynamic { idle_timeout, .. } => idle_timeout,
            Scaling::OnDemand { idle_timeout } => Some(idle_timeout),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ON_DEMAND: Scaling = Scaling::OnDemand { idle_timeout: Duration::from_secs(10) };
    const DYNAMIC: Scaling = Scaling::Dynamic {
        start: 2,
        least_spare: 1,
        most_spare: 3,
        idle_timeout: None,
    };

    fn demand(starting: usize, idle: usize, queued: usize, lacking: usize) -> Demand {
        Demand {
            wanted: 0,
            starting,
            idle,
            queued,
            lacking,
        }
    }

    #[test]
    fn workers_are_started_for_requests_that_found_none() {
        for (scaling, demand, expected) in [
            (Scaling::Static, demand(0, 0, 9, 9), 0),
            (ON_DEMAND, demand(0, 0, 1, 1), 1),
            // Taken meanwhile.
            (ON_DEMAND, demand(0, 0, 0, 1), 0),
            // One of them will be taken by a worker that was woken.
            (ON_DEMAND, demand(0, 0, 2, 1), 1),
            // The worker that starts is for the first.
            (ON_DEMAND, demand(1, 0, 2, 1), 1),
            // No request lacks a worker: those awake are enough.
            (ON_DEMAND, demand(0, 0, 50, 0), 0),
            (DYNAMIC, demand(0, 0, 0, 0), 1),
            (DYNAMIC, demand(0, 1, 0, 0), 0),
            (DYNAMIC, demand(1, 0, 0, 0), 0),
            (DYNAMIC, demand(0, 0, 2, 2), 3),
            (DYNAMIC, demand(2, 0, 2, 1), 1),
        ] {
            assert_eq!(scaling.growth(demand, 99), expected, "{scaling:?} {demand:?}");
        }
        assert_eq!(ON_DEMAND.growth(demand(0, 0, 9, 9), 2), 2, "more would only take turns");
        assert_eq!(DYNAMIC.growth(demand(0, 0, 9, 9), 2), 3);
    }

    #[test]
    fn only_spare_workers_beyond_the_most_end_before_their_time() {
        for (scaling, demand, expected) in [
            (Scaling::Static, demand(0, 9, 0, 0), 0),
            (ON_DEMAND, demand(0, 9, 0, 0), 0),
            (DYNAMIC, demand(0, 3, 0, 0), 0),
            (DYNAMIC, demand(0, 5, 0, 0), 1),
            (DYNAMIC, demand(0, 5, 1, 0), 0),
        ] {
            assert_eq!(scaling.surplus(demand), expected, "{scaling:?} {demand:?}");
        }
    }
}
