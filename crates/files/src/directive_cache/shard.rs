//! A part of the directive cache that is locked as a whole.

use std::collections::HashMap;
use std::sync::Arc;

use howdah_htaccess::Compiled;
use howdah_sys::stat::Stat;

use super::DirectiveOwner;
use super::removed::RemovedEntries;

/// A part of the cache, by scope and folder.
#[derive(Default)]
pub(super) struct CacheShard {
    pub(super) entries: HashMap<Box<[u8]>, CachedDirectives>,
}

/// Compiled directives in the cache.
pub(super) struct CachedDirectives {
    pub(super) owner: DirectiveOwner,
    pub(super) digest: u128,
    /// The state of the file that had the content; `None` where a later change might not show.
    pub(super) stat: Option<Stat>,
    /// Bytes of memory, see [`super::weight`].
    pub(super) weight: usize,
    /// Whether a thread has asked for it since room was last made.
    pub(super) was_asked: bool,
    pub(super) compiled: Arc<Compiled>,
}

impl CacheShard {
    /// Inserts an entry. Returns those that it has replaced.
    pub(super) fn insert(&mut self, key: Box<[u8]>, entry: CachedDirectives) -> RemovedEntries {
        let mut removed = self.remove(&key);
        for spares_used in [true, false] {
            if !self.has_room()
                && let Some(owner) = self.richest()
            {
                self.retain(&mut removed, |entry| {
                    entry.owner != owner || spares_used && std::mem::take(&mut entry.was_asked)
                });
            }
        }
        self.entries.insert(key, entry);
        removed
    }

    /// The owner that has the most entries.
    fn richest(&self) -> Option<DirectiveOwner> {
        let mut counts: HashMap<DirectiveOwner, usize> = HashMap::new();
        for entry in self.entries.values() {
            *counts.entry(entry.owner).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(owner, _)| owner)
    }

    fn has_room(&self) -> bool {
        self.entries.len() < MOST_FILES / SHARDS
    }

    /// Returns the entry that it has removed, or nothing.
    pub(super) fn remove(&mut self, key: &[u8]) -> RemovedEntries {
        let mut removed = RemovedEntries::default();
        self.entries.remove(key).iter().for_each(|entry| removed.add(entry));
        removed
    }

    /// Removes the entries that are not kept, and adds them to `removed`.
    pub(super) fn retain(
        &mut self,
        removed: &mut RemovedEntries,
        mut keep: impl FnMut(&mut CachedDirectives) -> bool,
    ) {
        self.entries.retain(|_, entry| {
            let is_kept = keep(entry);
            if !is_kept {
                removed.add(entry);
            }
            is_kept
        });
    }
}

/// Parts that are locked separately.
pub(super) const SHARDS: usize = 16;

/// Files that are kept, of all shards together. Beyond it, entries give way to new ones.
pub(super) const MOST_FILES: usize = 4096;
