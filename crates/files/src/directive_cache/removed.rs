//! Rules that are not in the cache any more: they are freed when no thread has them, and never by
//! an event loop.

use std::sync::{Arc, Mutex};

use howdah_htaccess::Compiled;

use super::lock;
use super::shard::CachedDirectives;

/// Entries that were removed from a shard, whose rules are not freed under its lock.
#[derive(Default)]
pub(super) struct RemovedEntries {
    /// Bytes of memory, of all rules together.
    pub(super) weight: usize,
    /// Each with its weight.
    pub(super) rules: Vec<(usize, Arc<Compiled>)>,
}

impl RemovedEntries {
    pub(super) fn add(&mut self, entry: &CachedDirectives) {
        self.weight += entry.weight;
        self.rules.push((entry.weight, Arc::clone(&entry.compiled)));
    }
}

/// Removed rules that wait until they are freed. To free many takes milliseconds, which an event
/// loop that is the last to have them would not have.
#[derive(Default)]
pub(super) struct RemovedRules {
    /// Each with its weight. Threads may still have them.
    waiting: Mutex<Vec<(usize, Arc<Compiled>)>>,
}

impl RemovedRules {
    /// Keeps what was removed until [`free_unused`](Self::free_unused).
    pub(super) fn add(&self, removed: RemovedEntries) {
        lock(&self.waiting).extend(removed.rules);
    }

    /// Frees the rules that no thread has any more. Returns their weight.
    pub(super) fn free_unused(&self) -> usize {
        let (unused, used) = std::mem::take(&mut *lock(&self.waiting))
            .into_iter()
            .partition::<Vec<_>, _>(|(_, rules)| Arc::strong_count(rules) == 1);
        lock(&self.waiting).extend(used);
        unused.iter().map(|(weight, _)| weight).sum()
    }

    /// Returns whether threads had removed rules when they were last looked at.
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.waiting).is_empty()
    }
}
