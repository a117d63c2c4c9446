//! The way in which a store asks the disk: with or without waiting.
//!
//! An event loop must not wait: a folder or a file that is not in the kernel's memory takes
//! milliseconds, on a busy disk far longer, and every client of the loop would wait with it. The
//! store of an event loop asks the kernel's memory first. Where that does not do, the answers of
//! the evaluation are void: another thread asks the same, which brings everything into memory, and
//! then the event loop asks again.
//!
//! Paths with symbolic links are walked name by name, which takes microseconds for each. The steps
//! of one evaluation are counted, and so are the names of folders that are read whole, and the
//! entries of directives that are merged for folders on the way. Where an event loop has taken its
//! share, the answers are void as well, and another thread evaluates the request.
//!
//! A process that has no descriptor left cannot ask the disk at all. Then nobody knows what is at a
//! path, or which directives protect it, and the answers are void for every thread.

use std::cell::Cell;
use std::io;

use howdah_sys::descriptor;
use howdah_sys::open::Lookup;

use crate::locate::PathObstacle;

/// The way the disk is asked, and whether it would have had to be waited for.
#[derive(Debug)]
pub(crate) struct DiskAccess {
    lookup: Lookup,
    is_cold: Cell<bool>,
    /// Steps along links that may be taken yet.
    steps: Cell<u64>,
    has_too_many_links: Cell<bool>,
    /// Whether the answers of an evaluation are counted on, so that reasons why they are void are
    /// noted.
    is_evaluating: bool,
    lacks_descriptors: Cell<bool>,
}

impl DiskAccess {
    /// A disk that is waited for.
    pub(crate) fn waiting() -> DiskAccess {
        DiskAccess {
            lookup: Lookup::Full,
            is_cold: Cell::new(false),
            steps: Cell::new(u64::MAX),
            has_too_many_links: Cell::new(false),
            is_evaluating: false,
            lacks_descriptors: Cell::new(false),
        }
    }

    /// Begins an evaluation. Sets whether to wait for the disk, and the steps along links that may
    /// be taken from now on.
    #[inline]
    pub(crate) fn bound(&mut self, lookup: Lookup, steps: u64) {
        self.lookup = lookup;
        self.steps.set(steps);
        self.is_evaluating = true;
    }

    /// Ends the evaluation: the disk is waited for again.
    #[inline]
    pub(crate) fn unbound(&mut self) {
        self.lookup = Lookup::Full;
        self.steps.set(u64::MAX);
        self.is_evaluating = false;
    }

    #[inline]
    pub(crate) fn lookup(&self) -> Lookup {
        self.lookup
    }

    /// Returns whether something was not in memory since the last call.
    #[inline]
    pub(crate) fn take_cold(&self) -> bool {
        self.is_cold.take()
    }

    /// Counts steps along links.
    ///
    /// # Errors
    /// [`Postponed`](PathObstacle::Postponed) where they are too many, which is noted.
    pub(crate) fn take_steps(&self, steps: u64) -> Result<(), PathObstacle> {
        match self.steps.get().checked_sub(steps) {
            Some(left) if !self.has_too_many_links.get() => {
                self.steps.set(left);
                Ok(())
            }
            _ => {
                self.has_too_many_links.set(true);
                Err(PathObstacle::Postponed)
            }
        }
    }

    /// Returns how many names of a folder may be read yet, and one more, which is one too many.
    pub(crate) fn most_names(&self) -> usize {
        let names = self.steps.get().saturating_mul(NAMES_IN_A_STEP).saturating_add(1);
        usize::try_from(names).unwrap_or(usize::MAX)
    }

    /// Counts names that were read of a folder.
    ///
    /// # Errors
    /// The errors of [`take_steps`](DiskAccess::take_steps).
    pub(crate) fn take_names(&self, names: usize) -> Result<(), PathObstacle> {
        self.take_steps((names as u64).div_ceil(NAMES_IN_A_STEP))
    }

    /// Counts entries of directives that are about to be merged.
    ///
    /// # Errors
    /// The steps are too many: see [`take_steps`](DiskAccess::take_steps).
    pub(crate) fn take_copies(&self, entries: usize) -> Result<(), PathObstacle> {
        self.take_steps((entries as u64).div_ceil(COPIES_IN_A_STEP))
    }

    /// Returns whether an answer is void since the last `take_cold`, `take_too_many_links` and
    /// `take_shortage`.
    pub(crate) fn is_void(&self) -> bool {
        self.is_cold.get() || self.has_too_many_links.get() || self.lacks_descriptors.get()
    }

    /// Returns whether a descriptor was missing in the evaluation since the last call.
    #[inline]
    pub(crate) fn take_shortage(&self) -> bool {
        self.lacks_descriptors.take()
    }

    /// Returns whether there were too many steps along links since the last call.
    #[inline]
    pub(crate) fn take_too_many_links(&self) -> bool {
        self.has_too_many_links.take()
    }

    /// Returns what an error of asking means. [`Postponed`](PathObstacle::Postponed) where the disk
    /// would have had to be waited for, which is noted, as a missing descriptor is.
    pub(crate) fn obstacle(&self, error: io::Error) -> PathObstacle {
        if self.lookup == Lookup::Cached && error.kind() == io::ErrorKind::WouldBlock {
            self.is_cold.set(true);
            return PathObstacle::Postponed;
        }
        if self.is_evaluating && descriptor::is_exhausted(&error) {
            self.lacks_descriptors.set(true);
        }
        PathObstacle::from(error)
    }
}

/// Names of a folder that are read in the time of one step along a link.
const NAMES_IN_A_STEP: u64 = 8;
/// Entries of directives that are copied in the time of one step along a link.
const COPIES_IN_A_STEP: u64 = 20;
