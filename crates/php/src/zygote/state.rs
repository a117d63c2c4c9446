//! The state of a zygote that changes with its workers and their queue.

use std::time::Instant;

use super::LeaseSender;
use crate::lanes::{LaneLimits, PoolLanes};
use crate::memory::{MemoryFootprint, MemorySum};
use crate::roster::WorkerRoster;

/// The state of a zygote that all threads share, behind a lock.
#[derive(Debug)]
pub(super) struct ZygoteState {
    /// Requests that wait for a slot.
    pub(super) lanes: PoolLanes<LeaseSender>,
    pub(super) roster: WorkerRoster,
    /// Time at which the zygote has told of a worker's start or death last.
    pub(super) staffed: Instant,
    /// Nanoseconds on a processor of workers that have died, to be counted.
    pub(super) processor: u64,
    /// Nanoseconds on a processor that were counted.
    pub(super) counted_processor: u64,
    /// The zygote does not know yet which workers are wanted.
    pub(super) is_untold: bool,
    /// The memory that the workers need.
    pub(super) footprint: MemoryFootprint,
    /// The sum of memory that the last look has made.
    pub(super) memory: Option<MemorySum>,
    /// A limit of memory has become smaller, and there may be more workers than room for them.
    pub(super) is_cut: bool,
    /// Looks in a row that found more workers than the memory has room for.
    pub(super) excess: u32,
}

impl ZygoteState {
    /// The state of a zygote whose first workers start now.
    pub(super) fn new(lanes: &[LaneLimits], roster: WorkerRoster) -> ZygoteState {
        ZygoteState {
            lanes: PoolLanes::new(lanes),
            roster,
            staffed: Instant::now(),
            processor: 0,
            counted_processor: 0,
            is_untold: false,
            footprint: MemoryFootprint::default(),
            memory: None,
            is_cut: false,
            excess: 0,
        }
    }
}
