//! A part of the directive cache that is locked as a whole.

use std::collections::HashMap;
use std::sync::Arc;

use howdah_htaccess::Compiled;
use howdah_sys::stat::Stat;

use super::Owner;

/// A part of the cache, by scope and folder.
#[derive(Default)]
pub(super) struct CacheShard {
    pub(super) entries: HashMap<Box<[u8]>, CachedDirectives>,
}

/// Compiled directives in the cache.
pub(super) struct CachedDirectives {
    pub(super) owner: Owner,
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
    /// Inserts an entry. Returns the weight of those that it has replaced.
    pub(super) fn insert(&mut self, key: Box<[u8]>, entry: CachedDirectives) -> usize {
        let mut freed = self.remove(&key);
        for spares_used in [true, false] {
            if !self.has_room()
                && let Some(owner) = self.richest()
            {
                freed += self.retain(|entry| {
                    entry.owner != owner || spares_used && std::mem::take(&mut entry.was_asked)
                });
            }
        }
        self.entries.insert(key, entry);
        freed
    }

    /// The owner that has the most entries.
    fn richest(&self) -> Option<Owner> {
        let mut counts: HashMap<Owner, usize> = HashMap::new();
        for entry in self.entries.values() {
            *counts.entry(entry.owner).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(owner, _)| owner)
    }

    fn has_room(&self) -> bool {
        self.entries.len() < MOST_FILES / SHARDS
    }

    /// Returns the weight of the entry that it has removed; 0 for none.
    pub(super) fn remove(&mut self, key: &[u8]) -> usize {
        self.entries.remove(key).map_or(0, |entry| entry.weight)
    }

    /// Returns the weight of the entries that are not kept.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&mut CachedDirectives) -> bool) -> usize {
        let mut freed = 0;
        self.entries.retain(|_, entry| {
            let is_kept = keep(entry);
            freed += if is_kept { 0 } else { entry.weight };
            is_kept
        });
        freed
    }
}

/// Parts that are locked separately.
pub(super) const SHARDS: usize = 16;

/// Files that are kept, of all shards together.
pub(super) const MOST_FILES: usize = 4096;
