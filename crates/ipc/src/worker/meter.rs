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
/// Nanoseconds for which a measurement of the memory is put off until the worker has no request.
const MEMORY_PATIENCE: u64 = 1_000_000_000;

/// Measures how long this worker's scripts take, and the processor's share of that time.
#[derive(Debug, Default)]
pub(super) struct CpuMeter {
    pub(super) schedule: Option<ScheduleMeter>,
    /// Average nanoseconds of recent scripts.
    average: u64,
    /// Time at which the last script ended.
    pub(super) ended: u64,
}

impl CpuMeter {
    /// Opens the kernel's figures about the processor time of this process.
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
    /// spent waiting for a processor is not counted. `None`: the script was not measured, or the
    /// kernel has not told the times.
    pub(super) fn end(&mut self, took: u64, before: Option<CpuTimes>) -> Option<u32> {
        self.average = self.average - self.average / 8 + took / 8;
        Some(share(took, before?, self.schedule.as_ref()?.spent().ok()?))
    }
}

/// The per mille of `took` nanoseconds that the process was on a processor between two readings.
/// Time spent waiting for a processor is not counted.
fn share(took: u64, before: CpuTimes, after: CpuTimes) -> u32 {
    let running = after.running.saturating_sub(before.running);
    let delayed = after.delayed.saturating_sub(before.delayed);
    let own = took.saturating_sub(delayed).max(running).max(1);
    // At most 1000.
    (running.saturating_mul(1000) / own) as u32
}

/// Measures this worker from time to time, between its requests.
#[derive(Debug, Default)]
pub(super) struct UsageMeter {
    /// Times of the last measurements; 0 for none.
    processor: u64,
    memory: u64,
    /// Time of the first question about the memory; 0 for none.
    asked: u64,
    pub(super) file: Option<MemoryMeter>,
}

impl UsageMeter {
    /// Opens the kernel's figures about the memory of this process.
    pub(super) fn open(&mut self) {
        self.file = MemoryMeter::of_this_process().ok();
    }

    /// Returns the nanoseconds on a processor, if it is time to measure them. `None`: they were
    /// measured a moment ago.
    pub(super) fn processor(&mut self, now: u64) -> Option<u64> {
        is_due(&mut self.processor, now, PROCESSOR_INTERVAL).then(usage::processor_time)
    }

    /// Returns whether it is time to measure the memory. `ended` is the time at which the last
    /// request ended, 0 before the first one.
    pub(super) fn is_memory_due(&self, ended: u64) -> bool {
        ended > 0 && (self.memory == 0 || ended.saturating_sub(self.memory) >= MEMORY_INTERVAL)
    }

    /// Returns whether a worker has to measure its memory although it always has requests.
    pub(super) fn is_memory_overdue(&mut self, ended: u64) -> bool {
        if self.asked == 0 {
            self.asked = ended;
        }
        let due = match self.memory {
            0 => self.asked,
            last => last.saturating_add(MEMORY_INTERVAL),
        };
        ended.saturating_sub(due) >= MEMORY_PATIENCE
    }

    /// Returns the memory at the time `now`, if the kernel tells. `None`: the kernel has not told
    /// it.
    pub(super) fn memory(&mut self, now: u64) -> Option<MemoryUse> {
        self.memory = now;
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn memory_is_measured_in_a_pause_and_without_one_a_little_later() {
        let second = 1_000_000_000;
        let mut usage = UsageMeter::default();
        assert!(!usage.is_memory_due(0), "before the first request");
        let first = 5 * second;
        assert!(usage.is_memory_due(first) && !usage.is_memory_overdue(first));
        assert!(!usage.is_memory_overdue(first + second - 1));
        assert!(usage.is_memory_overdue(first + second));
        assert!(usage.memory(first + second).is_some());
        for (later, is_due, is_overdue) in
            [(0, false, false), (10, true, false), (11, true, true), (99, true, true)]
        {
            let now = first + (1 + later) * second;
            assert_eq!(usage.is_memory_due(now), is_due, "{later}");
            assert_eq!(usage.is_memory_overdue(now), is_overdue, "{later}");
        }
    }

    #[test]
    fn the_average_follows_the_scripts_and_short_ones_are_not_measured() {
        let mut meter = CpuMeter::default();
        for (took, average) in [(800, 100), (800, 188), (4, 165)] {
            assert_eq!(meter.end(took, None), None);
            assert_eq!(meter.average, average);
        }
        meter.average = METERED - 1;
        assert!(meter.begin().is_none() && meter.schedule.is_none());
        meter.average = METERED;
        let before = meter.begin();
        // A kernel without scheduler statistics has nothing to tell.
        assert_eq!(before.is_some(), ScheduleMeter::of_this_process().is_ok());
        let share = meter.end(METERED, before);
        assert_eq!(share.is_some(), before.is_some());
        assert!(share.is_none_or(|share| share <= 1000));
    }

    #[test]
    fn waiting_for_a_processor_is_not_a_script_s_own_time() {
        let rows = [
            // took, running, delayed, expected
            (1_000, 250, 0, 250),
            (1_000, 250, 500, 500),
            (1_000, 0, 500, 0),
            // The kernel is a few milliseconds late, or early.
            (1_000, 3_000, 0, 1_000),
            (1_000, 250, 3_000, 1_000),
            (0, 0, 0, 0),
        ];
        let before = CpuTimes { running: 70, delayed: 90 };
        for (took, running, delayed, expected) in rows {
            let after = CpuTimes {
                running: 70 + running,
                delayed: 90 + delayed,
            };
            assert_eq!(share(took, before, after), expected, "{took} {running} {delayed}");
        }
    }

    #[test]
    fn what_a_worker_uses_is_measured_from_time_to_time() {
        let mut last = 0;
        for (now, is_time) in [(50, true), (149, false), (150, true), (249, false), (250, true)] {
            assert_eq!(is_due(&mut last, now, 100), is_time, "{now}");
        }
        let mut meter = UsageMeter::default();
        assert!(meter.processor(1).is_some_and(|nanoseconds| nanoseconds > 1));
        assert_eq!(meter.processor(PROCESSOR_INTERVAL), None);
    }
}
