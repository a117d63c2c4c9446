//! The server's state, as far as the screen shows it. Absent keys have their default, so that the
//! screen also shows other versions of the server.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The state of `howdah status --json`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ShownServer {
    pub(crate) version: String,
    pub(crate) state: String,
    pub(crate) generation: u64,
    pub(crate) uptime: f64,
    /// Seconds since 1970.
    pub(crate) time: f64,
    pub(crate) connections: ShownConnections,
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) sites: Vec<ShownSite>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ShownConnections {
    pub(crate) open: u64,
}

/// A site.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ShownSite {
    pub(crate) name: String,
    pub(crate) requests: u64,
    /// Responses by class of status.
    pub(crate) classes: BTreeMap<String, u64>,
    pub(crate) pool: Option<ShownPool>,
}

/// A site's PHP pool.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ShownPool {
    pub(crate) workers: Vec<ShownWorker>,
    pub(crate) active: u64,
    pub(crate) queue: u64,
    pub(crate) queue_wait: ShownTimes,
    pub(crate) duration: ShownTimes,
    /// Bytes.
    pub(crate) memory: u64,
    /// Seconds on a processor of all workers, also of those that have ended.
    pub(crate) cpu: f64,
    pub(crate) timeouts: u64,
    pub(crate) slow: u64,
}

/// A worker of a pool. Times are in seconds, sizes in bytes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ShownWorker {
    pub(crate) pid: u64,
    /// `idle` or `running`.
    pub(crate) state: String,
    pub(crate) requests: u64,
    pub(crate) method: Option<String>,
    pub(crate) url: Option<String>,
    /// Of the request that runs, or of the last one.
    pub(crate) time: f64,
    pub(crate) pss: Option<u64>,
    /// Since the start of the process.
    pub(crate) cpu: f64,
}

/// The number of measurements, by time.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ShownTimes {
    /// For each bound, in seconds: the number of times up to it.
    buckets: Vec<(f64, u64)>,
    count: u64,
}

impl ShownServer {
    /// Reads the JSON.
    ///
    /// # Errors
    /// The text is no state of a server; the reason is text for a person.
    pub(crate) fn parse(text: &str) -> Result<ShownServer, String> {
        serde_json::from_str(text).map_err(|error| {
            format!("the server's state cannot be read: {error}; is it of another version?")
        })
    }
}

impl ShownWorker {
    pub(crate) fn is_running(&self) -> bool {
        self.state == "running"
    }
}

impl ShownTimes {
    /// Returns the bound, in seconds, below which this part of all times is; `None` without times,
    /// or beyond the last bound.
    pub(crate) fn quantile(&self, part: f64) -> Option<f64> {
        let wanted = (self.count as f64 * part).ceil().max(1.0) as u64;
        self.buckets.iter().find(|(_, count)| *count >= wanted).map(|(bound, _)| *bound)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
}
