//! The entry table: entries found by path, bounded in number, memory and descriptors.

use std::hash::{BuildHasher, Hasher};
use std::os::unix::ffi::OsStrExt;

use hashbrown::HashTable;
use howdah_site::{DocumentPath, Symlinks};

use crate::entry::PathEntry;
use crate::folders::UsedFolders;
use crate::limits::StoreLimits;
use crate::open_root::OpenRoot;

/// Entries in numbered places, an index by path, and a clock hand that evicts.
///
/// Invariant: `index` holds exactly the places of `entries` that are taken, each under its entry's
/// hash; `memory` and `descriptors` are the sums over them.
pub(crate) struct EntryTable {
    limits: StoreLimits,
    hasher: foldhash::fast::RandomState,
    index: HashTable<u32>,
    entries: Vec<Option<PathEntry>>,
    free: Vec<u32>,
    hand: usize,
    memory: usize,
    descriptors: usize,
    /// Entries of `.htaccess` files that were removed so far.
    htaccess_removed: u64,
    /// Entries that were removed so far.
    removed: u64,
}

impl EntryTable {
    pub(crate) fn new(limits: StoreLimits) -> EntryTable {
        EntryTable {
            limits,
            hasher: foldhash::fast::RandomState::default(),
            index: HashTable::new(),
            entries: Vec::new(),
            free: Vec::new(),
            hand: 0,
            memory: 0,
            descriptors: 0,
            htaccess_removed: 0,
            removed: 0,
        }
    }

    #[inline]
    pub(crate) fn hash(&self, path: &DocumentPath) -> u64 {
        let root = path.root().as_os_str().as_bytes();
        self.hash_parts(root, path.symlinks(), path.scope(), path.relative())
    }

    /// The place of the entry for `path`, of which `hash` is the [`hash`](Self::hash). `None` if
    /// the table has no such entry.
    #[inline]
    pub(crate) fn find(&self, hash: u64, path: &DocumentPath) -> Option<u32> {
        let found = self.index.find(hash, |&place| self.is_at(place, path))?;
        Some(*found)
    }

    /// Returns whether the entry at `place` is that of `path`.
    #[inline]
    pub(crate) fn is_at(&self, place: u32, path: &DocumentPath) -> bool {
        matches!(self.entries.get(place as usize), Some(Some(entry)) if entry.path == *path)
    }

    /// The entry at a place that [`find`](Self::find) or [`insert`](Self::insert) returned, if it
    /// has not been removed. `None` otherwise.
    #[inline]
    pub(crate) fn at(&mut self, place: u32) -> Option<&mut PathEntry> {
        self.entries.get_mut(place as usize)?.as_mut()
    }

    /// Inserts an entry and makes room for it. The table must not hold an entry for its path.
    pub(crate) fn insert(&mut self, entry: PathEntry) -> u32 {
        while self.index.len() >= self.limits.entries.max(1) {
            self.evict(None, |_| true);
        }
        self.memory += entry.memory();
        self.descriptors += entry.descriptors();
        let hash = entry.hash;
        let place = match self.free.pop() {
            Some(place) => {
                self.entries[place as usize] = Some(entry);
                place
            }
            None => {
                self.entries.push(Some(entry));
                (self.entries.len() - 1) as u32
            }
        };
        let entries = &self.entries;
        self.index.insert_unique(hash, place, |&place| {
            entries[place as usize].as_ref().map_or(0, |entry| entry.hash)
        });
        while self.memory > self.limits.memory
            && self.evict(Some(place), |entry| entry.memory() > 0)
        {}
        while self.descriptors > self.limits.descriptors
            && self.evict(Some(place), |entry| entry.descriptors() > 0)
        {}
        place
    }

    /// Removes the entry at `place`, if there is one.
    pub(crate) fn remove(&mut self, place: u32) {
        let Some(entry) = self.entries.get_mut(place as usize).and_then(Option::take) else {
            return;
        };
        if let Ok(found) = self.index.find_entry(entry.hash, |&other| other == place) {
            found.remove();
        }
        self.removed += 1;
        self.htaccess_removed += u64::from(entry.path.is_htaccess());
        self.free.push(place);
        self.memory -= entry.memory();
        self.descriptors -= entry.descriptors();
    }

    /// Removes the entry for a path below that root. Returns whether there was one.
    pub(crate) fn remove_path(&mut self, root: &OpenRoot, relative: &[u8]) -> bool {
        let hash = self.hash_parts(root.path(), root.symlinks(), root.scope(), relative);
        let found = self.index.find(hash, |&place| {
            matches!(&self.entries[place as usize], Some(entry)
                if entry.root.number() == root.number() && entry.path.relative() == relative)
        });
        let place = found.copied();
        place.inspect(|&place| self.remove(place)).is_some()
    }

    /// Removes the entries that `keep` rejects. Returns how many.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&PathEntry) -> bool) -> u64 {
        let mut removed = 0;
        for place in 0..self.entries.len() as u32 {
            if matches!(&self.entries[place as usize], Some(entry) if !keep(entry)) {
                self.remove(place);
                removed += 1;
            }
        }
        removed
    }

    /// All entries.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut PathEntry> {
        self.entries.iter_mut().flatten()
    }

    /// The folders that lead to the entries.
    pub(crate) fn used_folders(&self) -> UsedFolders {
        let mut used = UsedFolders::default();
        for entry in self.entries.iter().flatten() {
            used.add(entry.root.number(), entry.path.relative());
        }
        used
    }

    /// Closes every file, for when the process has no descriptors left.
    pub(crate) fn close_files(&mut self) {
        self.retain(|entry| entry.descriptors() == 0);
    }

    /// Entries of `.htaccess` files that were removed so far, for whatever reason.
    pub(crate) fn htaccess_removed(&self) -> u64 {
        self.htaccess_removed
    }

    /// Entries that were removed so far, for whatever reason.
    #[inline]
    pub(crate) fn removed(&self) -> u64 {
        self.removed
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    pub(crate) fn descriptors(&self) -> usize {
        self.descriptors
    }

    /// Moves the clock hand to the next entry that counts and has not been used since the hand last
    /// passed, and removes it. Returns whether any entry counts.
    fn evict(&mut self, spared: Option<u32>, counts: impl Fn(&PathEntry) -> bool) -> bool {
        // The first round may clear the mark of every entry, so the second finds one.
        for _ in 0..2 * self.entries.len() {
            self.hand = (self.hand + 1) % self.entries.len();
            let place = self.hand as u32;
            let Some(entry) = &mut self.entries[self.hand] else {
                continue;
            };
            if Some(place) == spared || !counts(entry) || std::mem::take(&mut entry.used) {
                continue;
            }
            self.remove(place);
            return true;
        }
        false
    }

    #[inline]
    fn hash_parts(&self, root: &[u8], symlinks: Symlinks, scope: u32, relative: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(root);
        hasher.write(relative);
        hasher.write_u64(u64::from(scope) << 8 | symlinks as u64);
        hasher.finish()
    }
}
