//! A set of a pool's workers.

use crate::layout::MOST_WORKERS;

/// A set of workers: one bit for each place in the pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkerSet(Vec<u64>);

impl WorkerSet {
    /// The workers `0..count`.
    pub fn first(count: usize) -> WorkerSet {
        (0..count).collect()
    }

    /// Returns whether the worker is in the set.
    pub fn has(&self, worker: usize) -> bool {
        self.0.get(worker / 64).is_some_and(|word| word & 1 << (worker % 64) != 0)
    }

    /// The words of the set, with the lowest workers first.
    pub(crate) fn words(&self) -> &[u64] {
        &self.0
    }

    /// The set with these words; `None` if there are more than a pool has places.
    pub(crate) fn of_words(words: Vec<u64>) -> Option<WorkerSet> {
        (words.len() <= MOST_WORKERS / 64).then_some(WorkerSet(words))
    }
}

impl FromIterator<usize> for WorkerSet {
    fn from_iter<Workers: IntoIterator<Item = usize>>(workers: Workers) -> WorkerSet {
        let mut words = Vec::new();
        for worker in workers.into_iter().filter(|worker| *worker < MOST_WORKERS) {
            let needed = words.len().max(worker / 64 + 1);
            words.resize(needed, 0);
            words[worker / 64] |= 1 << (worker % 64);
        }
        WorkerSet(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_what_it_was_made_of() {
        let set: WorkerSet = [0, 63, 64, 200, MOST_WORKERS].into_iter().collect();
        let found: Vec<usize> = (0..2 * MOST_WORKERS).filter(|worker| set.has(*worker)).collect();
        assert_eq!(found, [0, 63, 64, 200]);
        assert_eq!(WorkerSet::first(2), [1, 0].into_iter().collect());
        let has_place = |words| WorkerSet::of_words(vec![0; words]).is_some();
        assert!(has_place(MOST_WORKERS / 64) && !has_place(MOST_WORKERS / 64 + 1));
    }
}
