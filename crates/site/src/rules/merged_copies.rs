//! The entries that merging directives has copied, counted as long as the copies live.

use std::cell::Cell;
use std::rc::Rc;

/// The entries that the rules of one host have copied from their files, and how many there may be.
/// An entry takes about 200 bytes.
#[derive(Clone, Debug)]
pub struct MergedCopies(Rc<CopySum>);

#[derive(Debug)]
struct CopySum {
    sum: Cell<usize>,
    most: usize,
}

impl MergedCopies {
    /// No entries, of which there may be `most`. [`Rules::below`](super::Rules::below) exceeds
    /// that, and the host lets go of rules then; combinations of sections are not kept.
    pub fn bounded(most: usize) -> MergedCopies {
        MergedCopies(Rc::new(CopySum { sum: Cell::new(0), most }))
    }

    /// Returns the number of the entries.
    pub fn sum(&self) -> usize {
        self.0.sum.get()
    }

    /// Returns whether there are more than there may be.
    pub fn is_exceeded(&self) -> bool {
        self.sum() > self.0.most
    }
}

impl Default for MergedCopies {
    /// Makes a sum without a bound.
    fn default() -> MergedCopies {
        MergedCopies::bounded(usize::MAX)
    }
}

/// The merged settings of one folder, in whatever table.
#[derive(Debug)]
pub(super) struct FolderMerges {
    all: MergedCopies,
    /// The part of the sum that is of this folder.
    copied: Cell<usize>,
    /// Combinations of sections that are kept.
    combinations: Cell<usize>,
}

impl FolderMerges {
    pub(super) fn new(all: &MergedCopies) -> Rc<FolderMerges> {
        Rc::new(FolderMerges {
            all: all.clone(),
            copied: Cell::new(0),
            combinations: Cell::new(0),
        })
    }

    /// The entries that the folder's settings have copied.
    pub(super) fn copied(&self) -> usize {
        self.copied.get()
    }

    /// Counts another combination that is kept. Returns `false` where there is no room for it.
    pub(super) fn keep_combination(&self) -> bool {
        let number = self.combinations.get();
        let has_room = number < MOST_COMBINATIONS && !self.all.is_exceeded();
        self.combinations.set(number + usize::from(has_room));
        has_room
    }
}

/// Entries in the sum, until dropped.
#[derive(Debug)]
pub(super) struct CountedCopies {
    pub(super) folder: Rc<FolderMerges>,
    entries: usize,
}

impl CountedCopies {
    pub(super) fn new(folder: &Rc<FolderMerges>, entries: usize) -> CountedCopies {
        folder.copied.set(folder.copied.get() + entries);
        let sum = &folder.all.0.sum;
        sum.set(sum.get() + entries);
        CountedCopies { folder: Rc::clone(folder), entries }
    }
}

impl Drop for CountedCopies {
    fn drop(&mut self) {
        let (copied, sum) = (&self.folder.copied, &self.folder.all.0.sum);
        copied.set(copied.get() - self.entries);
        sum.set(sum.get() - self.entries);
    }
}

/// Combinations of sections that are kept for one folder. Others are merged for each request.
pub(super) const MOST_COMBINATIONS: usize = 64;
