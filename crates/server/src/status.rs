//! The state of the server: gathered once, written as JSON, as metrics, as a table, as php-fpm's
//! status page.
//!
//! Gathering reads counters, the threads' numbers and the pools' shared memory, and never waits for
//! a pool. The claims of a pool about itself are bounded where they are read, and escaped where
//! they are written.

mod caches;
mod certificates;
mod facts;
mod fpm;
pub(crate) mod metrics;
mod snapshot;
mod table;

pub(crate) use self::facts::{MissingListener, ServerFacts};
pub(crate) use self::fpm::{FpmQuery, function_piece as fpm_function_piece, page as fpm_page};
pub(crate) use self::snapshot::{
    CodeCounts, LaneSnapshot, MemorySumSnapshot, PoolSnapshot, SiteSnapshot, Snapshot,
    WorkerSnapshot, WorkerState,
};
pub(crate) use self::table::table;
