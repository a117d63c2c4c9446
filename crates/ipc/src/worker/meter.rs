//! Measuring what a worker and its scripts use.

use howdah_sys::schedule::{CpuTimes, ScheduleMeter};
use howdah_sys::usage::{self, MemoryMeter, MemoryUse};

/// Average nanoseconds of a script from which its processor time is measured. Measuring costs two
/// microseconds.
const METERED: u64 = 200_000;
/// Nanoseconds between two measurements of the worker's processor time.
const PROCESSOR_INTERVAL: u64 = 1_000_000_000;
/// Nanoseconds between two measurements of the worker's memory, which take about a millisecond.
const MEMORY_INTERVAL: u64 = 10_000_000_000;

/// Measures how long this worker's scripts take, and the processor's share of that time.
#[derive(Debug, Default)]
pub(super) struct CpuMeter {
    schedule: Option<ScheduleMeter>,
    /// Average nanoseconds of recent scripts.
    average: u64,
    /// Time at which the last script ended.
    pub(super) ended: u64,
}

impl CpuMeter {
    /// Opens what the kernel has about this process.
    pub(super) fn open(&mut self) {
        self.schedule = ScheduleMeter::of_this_process().ok();
    }

    /// Reads the processor times before a script. `None` if scripts are too short for the
    /// measurement.
    pub(super) fn begin(&mut self) -> Option<CpuTimes> {
        if self.average < METERED {
            return None;
        }
        if self.schedule.is_none() {
            self.open();
        }
        self.schedule.as_ref()?.spent().ok()
    }

    /// Returns the per mille of a script's time during which the script was on a processor. Time
    /// spent waiting for a processor is not counted.
    pub(super) fn end(&mut self, took: u64, before: Option<CpuTimes>) -> Option<u32> {
        self.average = self.average - self.average / 8 + took / 8;
        let (before, after) = (before?, self.schedule.as_ref()?.spent().ok()?);
        let running = after.running.saturating_sub(before.running);
        let delayed = after.delayed.saturating_sub(before.delayed);
        let own = took.saturating_sub(delayed).max(running).max(1);
        u32::try_from(running.saturating_mul(1000) / own).ok()
    }
}

/// Measures this worker from time to time, between its requests.
#[derive(Debug, Default)]
pub(super) struct UsageMeter {
    /// Times of the last measurements; 0 for none.
    processor: u64,
    memory: u64,
    file: Option<MemoryMeter>,
}

impl UsageMeter {
    /// As [`CpuMeter::open`].
    pub(super) fn open(&mut self) {
        self.file = MemoryMeter::of_this_process().ok();
    }

    /// Returns the nanoseconds on a processor, if it is time to measure them.
    pub(super) fn processor(&mut self, now: u64) -> Option<u64> {
        is_due(&mut self.processor, now, PROCESSOR_INTERVAL).then(usage::processor_time)
    }

    /// Returns the memory, if it is time to measure it and the kernel tells.
    pub(super) fn memory(&mut self, now: u64) -> Option<MemoryUse> {
        if !is_due(&mut self.memory, now, MEMORY_INTERVAL) {
            return None;
        }
        if self.file.is_none() {
            self.open();
        }
        self.file.as_ref()?.read().ok()
    }
}

/// Returns whether `interval` has passed since `last`, which becomes `now` then.
fn is_due(last: &mut u64, now: u64, interval: u64) -> bool {
    let is_due = *last == 0 || now.saturating_sub(*last) >= interval;
    if is_due {
        *last = now;
    }
    is_due
}
