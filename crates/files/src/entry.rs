//! An entry of the entry table: one path.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use howdah_htaccess::Compiled;
use howdah_site::{DocumentPath, PathKind};
use howdah_sys::stat::{FileTime, Stat};

use crate::document::Document;
use crate::folders::FolderBelow;
use crate::in_force::RulesInForce;
use crate::open_root::OpenRoot;

/// An entry of the entry table: one path.
#[derive(Debug)]
pub(crate) struct PathEntry {
    pub hash: u64,
    pub path: DocumentPath,
    pub root: Rc<OpenRoot>,
    /// The folder that the path is in, or the first component on the way that is no folder.
    pub folder: Rc<FolderBelow>,
    pub kind: EntryKind,
    /// The state of the file when it was found; `None` where nothing was.
    pub stat: Option<Stat>,
    /// Whether every folder on the way is watched. If not, the disk is asked at every request.
    pub watched: bool,
    /// The second in which the disk was last asked.
    pub checked: u64,
    /// Whether every later change shows in the file's times; see [`is_settled`].
    pub settled: bool,
    /// Set by every use, cleared by the clock hand.
    pub used: bool,
    /// The rules in force there; for a `.htaccess` file, those of its folder.
    pub in_force: RulesInForce,
}

/// The kind of an entry, with the data that the entry keeps.
#[derive(Debug)]
pub(crate) enum EntryKind {
    Missing,
    Forbidden,
    Directory,
    /// A regular file named like a PHP source: it is never opened here.
    Script,
    /// A `.htaccess` file, compiled, and its length in bytes. It is never sent.
    Directives(Arc<Compiled>, u64),
    /// A regular file that can be sent.
    File(Document),
}

impl EntryKind {
    pub(crate) fn path_kind(&self) -> PathKind {
        match self {
            EntryKind::Missing => PathKind::Missing,
            EntryKind::Forbidden => PathKind::Forbidden,
            EntryKind::Directory => PathKind::Directory,
            EntryKind::Script | EntryKind::Directives(..) | EntryKind::File(_) => PathKind::File,
        }
    }
}

impl PathEntry {
    /// Returns whether the entry can be used without asking the disk.
    #[inline]
    pub(crate) fn is_fresh(&self, now: u64) -> bool {
        self.watched && self.checked == now
    }

    /// Bytes held in memory.
    pub(crate) fn memory(&self) -> usize {
        match &self.kind {
            EntryKind::File(document) => document.memory(),
            EntryKind::Directives(_, size) => *size as usize,
            _ => 0,
        }
    }

    /// Descriptors held open.
    pub(crate) fn descriptors(&self) -> usize {
        match &self.kind {
            EntryKind::File(document) => document.descriptors(),
            _ => 0,
        }
    }
}

/// Returns whether every later change of a file that had these times at `read` shows in its times.
///
/// Kernels before 6.13 take the time from the last tick of their clock, up to 10 ms ago. A file
/// that was changed within the tick in which it was read can be changed again without a trace in
/// its times; a file that has been left alone for longer cannot.
pub(crate) fn is_settled(stat: &Stat, read: FileTime) -> bool {
    let nanoseconds =
        |time: FileTime| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds);
    nanoseconds(read) - nanoseconds(stat.changed) > LONGEST_TICK
}

/// The kernel's time, for [`is_settled`].
pub(crate) fn now() -> FileTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    FileTime {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanoseconds: since.subsec_nanos(),
    }
}

/// Nanoseconds: two ticks of a kernel with 100 of them a second.
const LONGEST_TICK: i128 = 20_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settled_after_two_ticks() {
        let stat = |seconds, nanoseconds| {
            let time = FileTime { seconds, nanoseconds };
            Stat {
                device: 1,
                inode: 1,
                mode: 0,
                owner: 0,
                group: 0,
                size: 0,
                modified: time,
                changed: time,
            }
        };
        let read = FileTime { seconds: 100, nanoseconds: 10_000_000 };
        assert!(is_settled(&stat(99, 980_000_000), read));
        assert!(!is_settled(&stat(99, 999_000_000), read));
        assert!(!is_settled(&stat(100, 10_000_000), read));
        assert!(!is_settled(&stat(200, 0), read));
    }
}
