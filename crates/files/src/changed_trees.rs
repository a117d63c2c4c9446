//! Folders that have changed with everything below them.

use std::collections::HashMap;

use crate::path_changes::PathChange;

/// Changed folders, by root. A root with many of them counts as changed as a whole: its site pays
/// for that, and no other.
#[derive(Debug, Default)]
pub(crate) struct ChangedTrees(HashMap<u32, Vec<PathChange>>);

impl ChangedTrees {
    /// Everything below some roots.
    pub(crate) fn of_roots(roots: impl IntoIterator<Item = u32>) -> ChangedTrees {
        ChangedTrees(roots.into_iter().map(|root| (root, vec![everything(root)])).collect())
    }

    pub(crate) fn add(&mut self, change: PathChange) {
        let root = change.root;
        let trees = self.0.entry(root).or_default();
        if trees.iter().any(|tree| tree.covers(root, &change.path)) {
            return;
        }
        trees.push(change);
        if trees.len() > MOST_TREES {
            *trees = vec![everything(root)];
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether that path is one of the folders or below one.
    pub(crate) fn cover(&self, root: u32, path: &[u8]) -> bool {
        let trees = self.0.get(&root);
        trees.is_some_and(|trees| trees.iter().any(|tree| tree.covers(root, path)))
    }

    /// Returns whether the root itself is one of the folders.
    pub(crate) fn have_root(&self, root: u32) -> bool {
        self.cover(root, b"")
    }
}

fn everything(root: u32) -> PathChange {
    PathChange { root, path: Vec::new(), whole: true }
}

/// Changed folders of one root at once. Beyond, it is cheaper to forget all of the root.
const MOST_TREES: usize = 32;
