//! The number of workers that should be awake, and of requests that should wait for them.
//!
//! Scripts below 100 µs: half as many workers as processors are enough, since the front needs as
//! much again, and they are free before another could be woken. Longer ones: half as many again as
//! would keep the processors busy with the share of their time in which scripts work and do not
//! wait, for a database for example.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

/// The shortest [`AwakeLimit::patience`].
const LEAST_PATIENCE: Duration = Duration::from_millis(1);
/// The longest [`AwakeLimit::patience`], however long scripts take.
const MOST_PATIENCE: Duration = Duration::from_millis(100);
/// Nanoseconds up to which a script is short. One that asks a database is not.
const SHORT: u32 = 100_000;
/// Nanoseconds from which on a script is long: several of them are a wait that a visitor notices.
const LONG: u32 = 500_000;
/// Nanoseconds that one script adds to the average at most: one that was interrupted, or slow for
/// once, does not count as a hundred.
const LONGEST_NOTED: u32 = 1_000_000;

/// The time that scripts take, roughly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScriptLength {
    /// Less than 100 µs.
    Short,
    /// Less than half a millisecond.
    Middle,
    Long,
}

/// The limit of workers that are awake, from the scripts that ran lately.
#[derive(Debug)]
pub(crate) struct AwakeLimit {
    processors: usize,
    /// Nanoseconds that scripts took lately, each at most [`LONGEST_NOTED`]; an average.
    service: AtomicU32,
    /// The average of `service`, without that bound.
    wall: AtomicU32,
    /// Per mille of a script's time, without waiting for a processor, that it is on one; an
    /// average.
    share: AtomicU32,
    /// Workers that should be awake at most; 0 while nothing is known.
    limit: AtomicUsize,
    /// Workers that the memory has room for; `usize::MAX` where that does not matter.
    memory: AtomicUsize,
}

impl AwakeLimit {
    /// No limit yet.
    pub(crate) fn new(processors: usize) -> AwakeLimit {
        AwakeLimit {
            processors,
            service: AtomicU32::new(UNKNOWN),
            wall: AtomicU32::new(UNKNOWN),
            share: AtomicU32::new(UNKNOWN),
            limit: AtomicUsize::new(0),
            memory: AtomicUsize::new(usize::MAX),
        }
    }

    /// Sets how many workers the memory has room for; `None` where that does not matter.
    pub(crate) fn bound_by_memory(&self, room: Option<usize>) {
        self.memory.store(room.unwrap_or(usize::MAX), Ordering::Relaxed);
    }

    /// The number of further workers that the memory has room for, where `awake` are.
    pub(crate) fn memory_room(&self, awake: usize) -> usize {
        self.memory.load(Ordering::Relaxed).saturating_sub(awake)
    }

    /// Workers that should be awake at most; `None` for any number.
    pub(crate) fn most(&self) -> Option<usize> {
        let memory = self.memory.load(Ordering::Relaxed);
        match self.limit.load(Ordering::Relaxed) {
            0 => (memory < usize::MAX).then_some(memory),
            limit => Some(limit.min(memory)),
        }
    }

    /// Notes that a script took `took` nanoseconds, and which share of them it worked, per mille,
    /// if the worker knows. Returns the limit that follows; `None` while too little is known.
    pub(crate) fn note(&self, took: u32, share: Option<u32>) -> Option<usize> {
        let service = average(&self.service, took.min(LONGEST_NOTED));
        let wall = average(&self.wall, took);
        let share = share.map(|share| average(&self.share, share));
        let limit = if service < SHORT {
            self.processors.div_ceil(2)
        } else {
            let share = share.filter(|_| wall >= SHORT)?;
            (self.processors * 1500).div_ceil(share.max(1) as usize)
        };
        self.limit.store(limit, Ordering::Relaxed);
        self.most()
    }

    /// Returns how long scripts took lately; long while nothing is known. If they are not long, a
    /// request that is begun in the order in which it came waits for a moment only.
    pub(crate) fn script_length(&self) -> ScriptLength {
        match self.service.load(Ordering::Relaxed) {
            service if service < SHORT => ScriptLength::Short,
            service if service < LONG => ScriptLength::Middle,
            _ => ScriptLength::Long,
        }
    }

    /// Notes that the scripts that run now take long, before any of them has ended.
    pub(crate) fn note_long(&self) {
        self.service.fetch_max(LONGEST_NOTED, Ordering::Relaxed);
    }

    /// The number of further workers that should be awake, where `awake` are.
    pub(crate) fn room(&self, awake: usize) -> usize {
        self.most().map_or(usize::MAX, |most| most.saturating_sub(awake))
    }

    /// The time that a request that was left to the workers awake may wait while none is taken from
    /// the queue: the time of two scripts.
    pub(crate) fn patience(&self) -> Duration {
        let wall = Duration::from_nanos(self.wall.load(Ordering::Relaxed).into());
        (2 * wall).clamp(LEAST_PATIENCE, MOST_PATIENCE)
    }
}

/// An average before its first value.
const UNKNOWN: u32 = u32::MAX;

/// Takes `value` into a running average over about sixteen.
fn average(word: &AtomicU32, value: u32) -> u32 {
    let average = match word.load(Ordering::Relaxed) {
        UNKNOWN => value,
        average => average - average / 16 + value / 16,
    };
    // Of two threads at once one value may get lost, which an average survives.
    word.store(average, Ordering::Relaxed);
    average
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit after many scripts of one kind, on four processors.
    fn limit(took: u32, share: Option<u32>) -> Option<usize> {
        let awake = AwakeLimit::new(4);
        (0..100).map(|_| awake.note(took, share)).last().unwrap()
    }

    #[test]
    fn the_limit_follows_what_scripts_do() {
        for (took, share, expected) in [
            (20_000, None, Some(2)),
            (20_000, Some(1000), Some(2)),
            (99_999, Some(1000), Some(2)),
            (100_000, Some(1000), Some(6)),
            // Half as many again as processors, if scripts never wait.
            (5_000_000, Some(1000), Some(6)),
            (5_000_000, Some(500), Some(12)),
            (5_000_000, Some(0), Some(6000)),
            (5_000_000, None, None),
        ] {
            assert_eq!(limit(took, share), expected, "{took} ns, {share:?} per mille");
        }
    }

    #[test]
    fn scripts_are_short_until_some_that_run_take_long() {
        let awake = AwakeLimit::new(4);
        let after = |took: u32, count: u32| {
            (0..count).for_each(|_| _ = awake.note(took, None));
            awake.script_length()
        };
        assert_eq!(awake.script_length(), ScriptLength::Long, "nothing is known");
        assert_eq!(after(20_000, 1), ScriptLength::Short);
        awake.note_long();
        assert_eq!(awake.script_length(), ScriptLength::Long);
        assert_eq!(after(20_000, 100), ScriptLength::Short);
        assert_eq!(after(200_000, 100), ScriptLength::Middle);
        assert_eq!(after(600_000, 100), ScriptLength::Long);
        assert_eq!(after(20_000, 100), ScriptLength::Short);
        for (took, length) in [
            (99_999, ScriptLength::Short),
            (100_000, ScriptLength::Middle),
            (499_999, ScriptLength::Middle),
            (500_000, ScriptLength::Long),
        ] {
            let awake = AwakeLimit::new(4);
            awake.note(took, None);
            assert_eq!(awake.script_length(), length, "{took} ns");
        }
        assert_eq!(after(u32::MAX, 3), ScriptLength::Middle);
        assert_eq!(after(u32::MAX, 20), ScriptLength::Long);
    }

    #[test]
    fn without_scripts_there_is_no_limit_and_patience_is_bounded() {
        let awake = AwakeLimit::new(4);
        assert_eq!(awake.room(100), usize::MAX);
        assert_eq!(awake.patience(), MOST_PATIENCE);
        awake.note(1000, None);
        assert_eq!([0, 1, 2, 3].map(|workers| awake.room(workers)), [2, 1, 0, 0]);
        assert_eq!(awake.patience(), LEAST_PATIENCE);
    }

    #[test]
    fn no_more_workers_are_awake_than_the_memory_has_room_for() {
        let awake = AwakeLimit::new(4);
        awake.bound_by_memory(Some(3));
        assert_eq!((awake.most(), awake.room(2), awake.memory_room(2)), (Some(3), 1, 1));
        // Six would keep the processors busy.
        assert_eq!(awake.note(5_000_000, Some(1000)), Some(3));
        awake.bound_by_memory(Some(10));
        assert_eq!((awake.most(), awake.room(2), awake.memory_room(2)), (Some(6), 4, 8));
        awake.bound_by_memory(None);
        assert_eq!((awake.most(), awake.memory_room(2)), (Some(6), usize::MAX - 2));
    }
}
