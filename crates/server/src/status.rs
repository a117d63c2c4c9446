//! The state of the server: gathered once, written as JSON, as metrics, as a table, as php-fpm's
//! status page.
//!
//! Gathering reads counters, the threads' numbers and the pools' shared memory, and never waits for
//! a pool. What a pool says about itself is bounded where it is read, and escaped where it is
//! written.

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
    CodeCounts, LaneSnapshot, PoolSnapshot, SiteSnapshot, Snapshot, WorkerSnapshot, WorkerState,
};
pub(crate) use self::table::table;
