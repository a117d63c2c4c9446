//! The paths that have changed, within a bound of work.

use std::collections::{HashMap, HashSet};

use howdah_sys::inotify::WatchId;

/// A path below a root that has changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PathChange {
    pub root: u32,
    pub path: Vec<u8>,
    /// Whether everything below may have changed as well. If not, that is so only if `path` was
    /// known to be a folder.
    pub whole: bool,
}

/// The changes that are read at once.
///
/// A change in a folder is one of every path that leads to the folder, and a site's owner makes
/// thousands of changes and of paths in no time. Each path costs steps. Beyond a bound everything
/// counts as changed of the root that has taken them; beyond another one, of every root that
/// changes further.
#[derive(Debug, Default)]
pub(crate) struct PathChanges {
    list: Vec<PathChange>,
    /// The roots of which everything has changed.
    whole: HashSet<u32>,
    /// The folders of whose roots everything has changed.
    exhausted: HashSet<WatchId>,
    steps_by_root: HashMap<u32, usize>,
    steps: usize,
}

impl PathChanges {
    /// Returns whether a change in that folder says nothing new.
    pub(crate) fn know_all_of(&self, folder: WatchId) -> bool {
        self.exhausted.contains(&folder)
    }

    /// Returns whether everything counts as changed of every root that changes further.
    pub(crate) fn are_many(&self) -> bool {
        self.steps > MOST_STEPS
    }

    /// Adds the change of `name` in the folder at `path`, or of the folder itself if there is no
    /// name. Returns whether everything of the root has changed.
    pub(crate) fn add(&mut self, root: u32, (path, name): (&[u8], &[u8]), whole: bool) -> bool {
        if self.whole.contains(&root) {
            return true;
        }
        let steps = 1 + (path.len() + name.len()) / BYTES_OF_STEP;
        let of_root = self.steps_by_root.entry(root).or_default();
        *of_root += steps;
        self.steps += steps;
        if *of_root > MOST_STEPS_OF_ROOT || self.steps > MOST_STEPS {
            self.whole.insert(root);
            return true;
        }
        let path = below(path, name);
        let change = PathChange { root, path, whole };
        if self.list.last() != Some(&change) {
            self.list.push(change);
        }
        false
    }

    /// Everything of a root has changed.
    pub(crate) fn add_root(&mut self, root: u32) {
        self.steps += 1;
        self.whole.insert(root);
    }

    /// Everything has changed of all roots that a change in that folder concerns.
    pub(crate) fn exhaust(&mut self, folder: WatchId, roots: impl Iterator<Item = u32>) {
        if self.exhausted.insert(folder) {
            self.whole.extend(roots);
        }
    }

    /// Returns the changes.
    pub(crate) fn into_list(self) -> Vec<PathChange> {
        let PathChanges { mut list, whole, .. } = self;
        if !whole.is_empty() {
            list.retain(|change| !whole.contains(&change.root));
        }
        let everything = |root| PathChange { root, path: Vec::new(), whole: true };
        list.extend(whole.into_iter().map(everything));
        list
    }
}

/// Returns the path of a name in the folder at `path`; of the folder itself if there is no name.
fn below(path: &[u8], name: &[u8]) -> Vec<u8> {
    match (path.is_empty(), name.is_empty()) {
        (true, _) => name.to_vec(),
        (_, true) => path.to_vec(),
        _ => [path, &b"/"[..], name].concat(),
    }
}

/// Bytes of a path that cost a step.
const BYTES_OF_STEP: usize = 256;

/// Steps of the changes of one root. Beyond, it is cheaper to forget all of the root.
const MOST_STEPS_OF_ROOT: usize = 2048;

/// Steps of the changes of all roots: some milliseconds.
const MOST_STEPS: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    fn everything(root: u32) -> PathChange {
        PathChange { root, path: Vec::new(), whole: true }
    }

    #[test]
    fn a_root_with_many_changes_has_changed_as_a_whole_and_others_have_not() {
        let mut changes = PathChanges::default();
        let folder = "x".repeat(BYTES_OF_STEP);
        let paths = |changes: &mut PathChanges| {
            let names = (0..10_000).map(|number| format!("{number}"));
            names
                .filter(|name| changes.add(1, (folder.as_bytes(), name.as_bytes()), false))
                .count()
        };
        assert_eq!(paths(&mut changes), 10_000 - MOST_STEPS_OF_ROOT / 2);
        assert!(!changes.add(2, (b"a", b"b"), false) && !changes.add(2, (b"", b"c"), false));
        assert!(!changes.add(2, (b"d", b""), true) && !changes.are_many());
        let change = |path: &str, whole| PathChange { root: 2, path: path.into(), whole };
        let expected = [change("a/b", false), change("c", false), change("d", true), everything(1)];
        assert_eq!(changes.into_list(), expected);
    }

    #[test]
    fn many_roots_together_have_a_bound() {
        let mut changes = PathChanges::default();
        let mut added = 0;
        for root in 0..20_000 {
            added += usize::from(!changes.add(root, (b"a", b"b"), false));
        }
        assert_eq!(added, MOST_STEPS);
        assert!(changes.are_many());
        let list = changes.into_list();
        assert_eq!(list.len(), 20_000);
        assert_eq!(list.iter().filter(|change| change.whole).count(), 20_000 - MOST_STEPS);
    }
}
