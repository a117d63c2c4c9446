//! The way in which a store asks the disk: with or without waiting.
//!
//! An event loop must not wait: a folder or a file that is not in the kernel's memory takes
//! milliseconds, on a busy disk far longer, and every client of the loop would wait with it. The
//! store of an event loop asks the kernel's memory first. Where that does not do, the answers of
//! the evaluation are void: another thread asks the same, which brings everything into memory, and
//! then the event loop asks again.

use std::cell::Cell;
use std::io;

use howdah_sys::open::Lookup;

use crate::locate::Obstacle;

/// The way the disk is asked, and whether it would have had to be waited for.
#[derive(Debug)]
pub(crate) struct Disk {
    lookup: Lookup,
    is_cold: Cell<bool>,
}

impl Disk {
    /// A disk that is waited for.
    pub(crate) fn waiting() -> Disk {
        Disk {
            lookup: Lookup::Full,
            is_cold: Cell::new(false),
        }
    }

    pub(crate) fn set_lookup(&mut self, lookup: Lookup) {
        self.lookup = lookup;
    }

    #[inline]
    pub(crate) fn lookup(&self) -> Lookup {
        self.lookup
    }

    /// Returns whether something was not in memory since the last [`take_cold`](Disk::take_cold).
    pub(crate) fn is_cold(&self) -> bool {
        self.is_cold.get()
    }

    #[inline]
    pub(crate) fn take_cold(&self) -> bool {
        self.is_cold.take()
    }

    /// Returns what an error of asking means. [`Postponed`](Obstacle::Postponed) where the disk
    /// would have had to be waited for, which is noted.
    pub(crate) fn obstacle(&self, error: io::Error) -> Obstacle {
        if self.lookup == Lookup::Cached && error.kind() == io::ErrorKind::WouldBlock {
            self.is_cold.set(true);
            return Obstacle::Postponed;
        }
        Obstacle::from(error)
    }
}
