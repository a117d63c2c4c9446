//! The number of workers that a pool keeps.

use std::time::Duration;

use crate::memory::{MemoryFigures, MemoryFootprint, MemorySum};

/// The way the number of a pool's workers follows its load.
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
        /// The time that further free workers sleep before they end; `None` for ever.
        idle_timeout: Option<Duration>,
    },
    /// Workers are started for requests, and end when there are none.
    OnDemand {
        /// The time that a worker sleeps before it ends.
        idle_timeout: Duration,
    },
    /// Workers are started for requests, as far as the memory has room for them. They end when they
    /// have rested, or when memory is short; one stays.
    Auto {
        /// Workers at the start.
        start: usize,
        /// The time that a worker sleeps before it ends.
        idle_timeout: Duration,
        /// The part of all memory that the workers may use together, per cent.
        memory_share: u64,
        /// Bytes that all processes of the pool may use.
        memory: Option<u64>,
    },
}

/// The demand on a pool's workers at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WorkerDemand {
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
            Scaling::Auto { .. } => "auto",
        }
    }

    /// Number of workers at the start, of at most `most`.
    pub(crate) fn first(self, most: usize, memory: Option<MemoryFigures>) -> usize {
        match self {
            Scaling::Static => most,
            Scaling::Dynamic { start, .. } => start.min(most),
            Scaling::OnDemand { .. } => 0,
            Scaling::Auto { start, .. } => {
                let room = memory.and_then(|figures| {
                    let share = self.most_memory(figures.limit)?;
                    Some(MemorySum::of(figures, MemoryFootprint::default(), 0, share).room)
                });
                start.min(most).min(room.unwrap_or(most)).max(1)
            }
        }
    }

    /// The way of a pool that gets no further requests, but for those that connections of before
    /// still bring: workers that sleep end at once.
    pub(crate) const DRAINING: Scaling = Scaling::OnDemand { idle_timeout: Duration::ZERO };

    /// Whether the number of workers changes.
    pub(crate) fn is_fixed(self) -> bool {
        self == Scaling::Static
    }

    /// Whether the number of workers depends on memory.
    pub(crate) fn depends_on_memory(self) -> bool {
        matches!(self, Scaling::Auto { .. })
    }

    /// Free workers that are always kept.
    pub(crate) fn least_spare(self) -> usize {
        match self {
            Scaling::Dynamic { least_spare, .. } => least_spare,
            Scaling::Static | Scaling::OnDemand { .. } | Scaling::Auto { .. } => 0,
        }
    }

    /// Workers that are always kept.
    pub(crate) fn least(self) -> usize {
        usize::from(matches!(self, Scaling::Auto { .. }))
    }

    /// Bytes that the pool's workers may use at most, of `limit` bytes of all memory. `None` where
    /// the number of workers does not depend on memory.
    pub(crate) fn most_memory(self, limit: u64) -> Option<u64> {
        let Scaling::Auto { memory_share, memory, .. } = self else {
            return None;
        };
        let share = limit / 100 * memory_share;
        let own = memory.map_or(u64::MAX, |memory| memory / 100 * FOR_WORKERS);
        Some(share.min(own))
    }

    /// Number of workers to start. `useful` is how many more should be awake for requests that
    /// wait.
    pub(crate) fn growth(self, demand: WorkerDemand, useful: usize) -> usize {
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
    pub(crate) fn surplus(self, demand: WorkerDemand) -> usize {
        match self {
            // One at a time, as php-fpm does it: load comes in waves.
            Scaling::Dynamic { most_spare, .. } if demand.queued == 0 => {
                usize::from(demand.idle > most_spare)
            }
            _ => 0,
        }
    }

    /// The time that a worker sleeps before it ends; `None` for ever.
    pub(crate) fn idle_timeout(self) -> Option<Duration> {
        match self {
            Scaling::Static => None,
            Scaling::Dynamic { idle_timeout, .. } => idle_timeout,
            Scaling::OnDemand { idle_timeout } | Scaling::Auto { idle_timeout, .. } => {
                Some(idle_timeout)
            }
        }
    }
}

/// The part of a pool's own limit of memory that is for its workers, per cent. The zygotes and what
/// scripts start need the rest.
const FOR_WORKERS: u64 = 85;

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

    fn demand(starting: usize, idle: usize, queued: usize, lacking: usize) -> WorkerDemand {
        WorkerDemand {
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
    fn a_pool_gets_its_share_of_the_memory_or_less() {
        let auto = |memory| Scaling::Auto {
            start: 1,
            idle_timeout: Duration::from_secs(1),
            memory_share: 80,
            memory,
        };
        assert_eq!(auto(None).most_memory(1000), Some(800));
        assert_eq!(auto(Some(500)).most_memory(1000), Some(425));
        assert_eq!(ON_DEMAND.most_memory(1000), None);
        let figures = |available: u64| {
            Some(MemoryFigures {
                limit: 1 << 30,
                available: available << 20,
            })
        };
        let auto = Scaling::Auto {
            start: 4,
            idle_timeout: Duration::from_secs(1),
            memory_share: 80,
            memory: Some(200 << 20),
        };
        assert_eq!(auto.first(8, None), 4);
        assert_eq!(auto.first(3, None), 3);
        assert_eq!(auto.first(8, figures(900)), 2, "170 MiB for workers of 64 MiB");
        assert_eq!(auto.first(8, figures(1)), 1);
    }

    #[test]
    fn the_name_tells_what_the_number_of_workers_follows() {
        let auto = Scaling::Auto {
            start: 1,
            idle_timeout: Duration::ZERO,
            memory_share: 80,
            memory: None,
        };
        for (scaling, name, depends_on_memory, least) in [
            (Scaling::Static, "static", false, 0),
            (DYNAMIC, "dynamic", false, 0),
            (ON_DEMAND, "ondemand", false, 0),
            (auto, "auto", true, 1),
        ] {
            assert_eq!(scaling.name(), name);
            assert_eq!(scaling.depends_on_memory(), depends_on_memory, "{name}");
            assert_eq!(scaling.least(), least, "{name}");
        }
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
