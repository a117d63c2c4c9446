//! The content of a response for a file.

use std::cell::{Cell, OnceCell, RefCell};
use std::cmp::Ordering;
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use howdah_sys::page_cache;
use howdah_sys::stat::{FileTime, Stat};

use crate::write_watch::WriteWatch;

/// The content of a response. It does not depend on the store any more: it holds its memory or its
/// open file.
#[derive(Clone, Debug)]
pub enum FileBody {
    /// Nothing: HEAD, 304, or an empty file.
    None,
    /// These bytes of a small file.
    Memory(Rc<[u8]>, Range<usize>),
    /// `length` bytes of `file` from `offset` on, at least one.
    File {
        /// Shared with other responses, so it has no position of its own: every read names its
        /// offset.
        file: Rc<OpenFile>,
        /// The offset of the first byte.
        offset: u64,
        /// The number of bytes that were promised in the head.
        length: u64,
    },
    /// `multipart/byteranges`: these parts in this order. No part has parts itself.
    Multipart(Vec<FileBody>),
}

impl FileBody {
    /// Returns the length in bytes.
    pub fn length(&self) -> u64 {
        match self {
            FileBody::None => 0,
            FileBody::Memory(_, range) => range.len() as u64,
            FileBody::File { length, .. } => *length,
            FileBody::Multipart(parts) => parts.iter().map(FileBody::length).sum(),
        }
    }
}

/// A regular file, open for reading.
///
/// A file can become shorter after the head with its length was sent. Then [`send`](Self::send) and
/// [`read_at`](Self::read_at) return 0. The connection must then be closed at once (a reset stream
/// in HTTP/2): padding would be taken for content, and the next response for the rest.
///
/// A file can also be overwritten in place. [`change`](Self::change) tells, so that a response does
/// not go on with the bytes of another state. A new time alone is no proof of that: see
/// [`was_written`](Self::was_written).
pub struct OpenFile {
    file: Arc<File>,
    /// The size when the file was opened, in bytes.
    size: u64,
    /// The modification time then, or one that the file was given later without a known write.
    modified: Cell<FileTime>,
    /// Whether `modified` is such a later one.
    is_accepted: Cell<bool>,
    /// `None` before the first byte was sent. `Some(None)`: writes are not reported.
    writes: OnceCell<Option<WriteWatch>>,
    /// The time at which all of a short file was last found in memory.
    warm: Cell<Option<Instant>>,
    hold: RefCell<Option<Weak<dyn Hold>>>,
}

/// A value that all who use an open file at a time have together, such as its place among the files
/// that may be open.
pub trait Hold: fmt::Debug + Send + Sync {
    /// The number of the site that sends the file. `None`: it is no site's.
    fn site(&self) -> Option<usize> {
        None
    }
}

impl OpenFile {
    pub(crate) fn new(file: File, stat: &Stat) -> OpenFile {
        if stat.size > FEW {
            // Where this fails, as with a file system that knows no advice, reads take longer.
            let _ = page_cache::stop_reading_ahead(file.as_fd());
        }
        OpenFile {
            file: Arc::new(file),
            size: stat.size,
            modified: Cell::new(stat.modified),
            is_accepted: Cell::new(false),
            writes: OnceCell::new(),
            warm: Cell::new(None),
            hold: RefCell::new(None),
        }
    }

    /// Takes over an open file as it is now.
    ///
    /// # Errors
    /// The error of `fstat(2)`.
    pub fn of(file: File) -> io::Result<OpenFile> {
        let stat = Stat::of(file.as_fd())?;
        Ok(OpenFile::new(file, &stat))
    }

    /// Returns whether sending these bytes would wait: some of them are on the disk only, as far as
    /// looks at every 64 KiB and at the last one show, or there are many and the file has holes.
    /// The kernel finds memory for each page of a hole that is read, and may have to free some for
    /// that; a file of holes costs nothing and has no end. A short file that is in memory is asked
    /// about once a second.
    pub fn is_cold(&self, part: &Range<u64>) -> bool {
        if self.warm.get().is_some_and(|found| found.elapsed() < ASKED_AGAIN) {
            return false;
        }
        let lacks = |offset| page_cache::lacks(self.file.as_fd(), offset);
        let is_cold = part.clone().step_by(FEW as usize).any(lacks)
            || lacks(part.end.saturating_sub(1))
            || part.end.saturating_sub(part.start) > FEW && self.has_holes();
        let is_whole = part.start == 0 && part.end >= self.size;
        self.warm.set((is_whole && !is_cold).then(Instant::now));
        is_cold
    }

    /// Returns whether the file takes less of the disk than its size. So does one that the file
    /// system compresses.
    fn has_holes(&self) -> bool {
        let allocated =
            |found: std::fs::Metadata| found.blocks().saturating_mul(BLOCK) < found.len();
        self.file.metadata().is_ok_and(allocated)
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Returns another handle of the file, for another thread. It is the same descriptor.
    pub fn share(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Returns the hold that others have on the file; `None` if nobody has one.
    pub fn hold(&self) -> Option<Arc<dyn Hold>> {
        self.hold.borrow().as_ref().and_then(Weak::upgrade)
    }

    /// Sets the hold that [`hold`](Self::hold) returns as long as somebody has it.
    pub fn set_hold(&self, hold: &Arc<dyn Hold>) {
        self.hold.replace(Some(Arc::downgrade(hold)));
    }

    /// Returns what has happened to the file since it was opened; `None` if nothing has, or if the
    /// file cannot be looked at. A file that grows, such as a log,
    /// is taken for one that was appended to: its first bytes are the same.
    pub fn change(&self) -> Option<FileChange> {
        let stat = Stat::of(self.file.as_fd()).ok()?;
        match stat.size.cmp(&self.size) {
            Ordering::Less => Some(FileChange::Cut),
            Ordering::Equal if stat.modified != self.modified.get() => {
                Some(FileChange::Written(stat.modified))
            }
            // The time was that of a write which took long.
            Ordering::Equal if self.is_accepted.get() && self.was_written() == Some(true) => {
                Some(FileChange::Written(stat.modified))
            }
            _ => None,
        }
    }

    /// Watches the file for writes from now on. Called when bytes of it were sent, and more follow.
    /// Where the file has changed before, or cannot be watched, every new time counts as a write.
    pub fn watch_writes(&self) {
        if self.writes.get().is_some() {
            return;
        }
        let site = self.hold().and_then(|hold| hold.site());
        // Without room now there may be some for the next response.
        if let Ok(watch) = WriteWatch::begin(self.file.as_fd(), site) {
            let watch = self.change().is_none().then_some(watch);
            self.writes.get_or_init(|| watch);
        }
    }

    /// Returns whether the file was written to since bytes of it were sent. `None`: that is not
    /// known. A write is reported when it is done, and its time is set before.
    pub fn was_written(&self) -> Option<bool> {
        self.writes.get()?.as_ref().map(WriteWatch::was_written)
    }

    /// Takes `time` for the file's, since no write to it is reported. A later report of one still
    /// counts.
    pub fn accept_time(&self, time: FileTime) {
        self.modified.set(time);
        self.is_accepted.set(true);
    }

    /// Sends up to `count` bytes from `offset` on to a socket, without a copy through our memory.
    /// Returns the number of bytes sent. 0: the file has become shorter, and the connection must be
    /// closed. `WouldBlock`: a non-blocking socket is full.
    ///
    /// # Errors
    /// The error of `sendfile(2)`.
    pub fn send(&self, socket: BorrowedFd<'_>, offset: u64, count: u64) -> io::Result<usize> {
        howdah_sys::sendfile::sendfile(
            socket,
            self.file.as_fd(),
            offset,
            usize::try_from(count).unwrap_or(usize::MAX),
        )
    }

    /// Reads from `offset` on, for a connection that cannot use `sendfile(2)` (TLS). 0: as for
    /// [`send`](Self::send).
    ///
    /// # Errors
    /// The error of `pread(2)`.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match self.file.read_at(buffer, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

/// The change of a file since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileChange {
    /// The file has become shorter.
    Cut,
    /// The file was last written at this time, and is as long as before. The kernel sets the time
    /// before the length: for a moment, a file that is being appended to looks the same.
    Written(FileTime),
}

/// The time for which a short file that was found in memory is believed to be there.
const ASKED_AGAIN: Duration = Duration::from_secs(1);
/// Bytes that are read at once even from holes: memory for these few pages is found quickly.
const FEW: u64 = 64 * 1024;
/// Bytes of a block in `stat(2)`.
const BLOCK: u64 = 512;

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.file.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_bytes_of_a_file_with_holes_are_waited_for() {
        let path = std::env::temp_dir().join(format!("howdah-holes-{}", std::process::id()));
        let open = || OpenFile::of(File::open(&path).unwrap()).unwrap();
        std::fs::write(&path, [7; 200_000]).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        let holes = open();
        std::fs::remove_file(&path).unwrap();
        // The bytes in memory are the same; and the first ones are no reason to wait.
        assert!(!holes.is_cold(&(0..FEW)));
        assert!(holes.is_cold(&(0..200_000)));
        std::fs::write(&path, [7; 200_000]).unwrap();
        let full = open();
        std::fs::remove_file(&path).unwrap();
        assert!(!full.is_cold(&(0..200_000)));
    }
}
