//! Measured memory of a pool's workers, kept where it outlives the front: the next generation need
//! not guess.

use std::sync::Arc;

use howdah_sys::memory::SharedNumbers;

/// Measured memory of a pool's workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MeasuredMemory {
    /// Bytes of a worker between requests, on average; 0 while nothing is known.
    pub resting: u64,
    /// Bytes that scripts needed at most; 0 while nothing is known.
    pub script: u64,
    /// The number of the settings that PHP had, as
    /// [`FromZygote::Ready`](howdah_ipc::control::FromZygote::Ready) has it.
    pub settings: u64,
}

/// The place of a pool's [`MeasuredMemory`].
#[derive(Debug, Clone)]
pub struct MemoryRecord {
    numbers: Arc<SharedNumbers>,
    first: usize,
}

impl MemoryRecord {
    /// The numbers that each place takes.
    pub const WORDS: usize = 3;

    /// The record at `place`, of those in `numbers`.
    pub fn new(numbers: Arc<SharedNumbers>, place: usize) -> MemoryRecord {
        let first = place.saturating_mul(MemoryRecord::WORDS);
        MemoryRecord { numbers, first }
    }

    /// Reads what was written last; `None` before.
    pub fn read(&self) -> Option<MeasuredMemory> {
        let [resting, script, settings] =
            [0, 1, 2].map(|word| self.numbers.load(self.first + word));
        let found = MeasuredMemory { resting, script, settings };
        Some(found).filter(|_| (resting, script) != (0, 0))
    }

    /// Replaces what was written before.
    pub fn write(&self, measured: MeasuredMemory) {
        self.numbers.store(self.first, measured.resting);
        self.numbers.store(self.first + 1, measured.script);
        self.numbers.store(self.first + 2, measured.settings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_apart() {
        let numbers = Arc::new(SharedNumbers::new(2 * MemoryRecord::WORDS).unwrap());
        let [one, other] = [0, 1].map(|place| MemoryRecord::new(numbers.clone(), place));
        let measured = MeasuredMemory { resting: 7, script: 8, settings: 9 };
        other.write(measured);
        assert_eq!((one.read(), other.read()), (None, Some(measured)));
        assert_eq!(MemoryRecord::new(numbers, 2).read(), None, "there is no such place");
    }
}
