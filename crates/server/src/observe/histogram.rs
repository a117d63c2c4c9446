//! Measurements of time by their size, as [`Counters::observe`] counts them.
//!
//! [`Counters::observe`]: howdah_php::counters::Counters::observe

use howdah_php::counters::BOUNDS;
use serde::{Deserialize, Serialize};

/// The number of measurements, by time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Histogram {
    /// For each bound, in seconds: the number of times up to it.
    pub(crate) buckets: Vec<(f64, u64)>,
    /// The number of all times.
    pub(crate) count: u64,
    /// The sum of all times, in seconds.
    pub(crate) sum: f64,
}

impl Histogram {
    /// `words` are the buckets and the sum, as `Counters::observe` counts.
    pub(crate) fn of(words: &[u64]) -> Histogram {
        let mut count = 0;
        let mut buckets = Vec::with_capacity(BOUNDS.len());
        for (bound, number) in BOUNDS.iter().zip(words) {
            count += number;
            buckets.push((*bound as f64 / 1e6, count));
        }
        let beyond = words.get(BOUNDS.len()).copied().unwrap_or(0);
        let sum = words.get(BOUNDS.len() + 1).copied().unwrap_or(0);
        Histogram {
            buckets,
            count: count + beyond,
            sum: sum as f64 / 1e6,
        }
    }

    /// Returns the bound, in seconds, below which this part of all times is; `None` without times,
    /// or beyond the last bound.
    pub(crate) fn quantile(&self, part: f64) -> Option<f64> {
        let wanted = (self.count as f64 * part).ceil().max(1.0) as u64;
        let found = self.buckets.iter().find(|(_, count)| *count >= wanted);
        found.map(|(bound, _)| *bound)
    }
}
