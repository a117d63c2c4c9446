//! The files and streams that logs are written to.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use howdah_sys::{descriptor, open, poll};

/// Bytes that a pipe accepts atomically (`PIPE_BUF` on Linux).
pub(super) const ONE_PIECE: usize = 4096;

/// The destination of a log: a standard stream, or the end of a file. Clones share one descriptor;
/// replacing the file affects all of them.
#[derive(Debug, Clone)]
pub(crate) struct LogTarget {
    /// `None` for a standard stream.
    path: Option<PathBuf>,
    file: Arc<File>,
}

impl LogTarget {
    /// The end of the file at `path`. A missing file is created.
    pub(crate) fn file(path: &Path) -> io::Result<LogTarget> {
        let file = append(path)?;
        Ok(LogTarget {
            path: Some(path.to_owned()),
            file: Arc::new(file.into()),
        })
    }

    /// Standard error.
    pub(crate) fn stderr() -> io::Result<LogTarget> {
        LogTarget::stream(io::stderr().as_fd())
    }

    /// Standard output.
    pub(crate) fn stdout() -> io::Result<LogTarget> {
        LogTarget::stream(io::stdout().as_fd())
    }

    pub(super) fn stream(stream: BorrowedFd<'_>) -> io::Result<LogTarget> {
        Ok(LogTarget {
            path: None,
            file: Arc::new(stream.try_clone_to_owned()?.into()),
        })
    }

    /// Writes whole lines and waits until they are written. Errors are ignored, because a log that
    /// cannot be written to is no reason to stop serving.
    ///
    /// Lines for a file are written with one `write(2)`. Lines for a pipe or another stream are
    /// written in groups that are accepted atomically. Lines of several processes never mix, except
    /// lines longer than [`ONE_PIECE`].
    pub(super) fn write(&self, mut lines: &[u8]) {
        if self.file.metadata().is_ok_and(|file| file.is_file()) {
            let _ = (&*self.file).write_all(lines);
            return;
        }
        while !lines.is_empty() {
            let (piece, rest) = lines.split_at(end_of_piece(lines));
            let _ = (&*self.file).write_all(piece);
            lines = rest;
        }
    }

    /// Returns whether the log accepts a line within `patience`. A file always does.
    pub(super) fn takes_a_line(&self, patience: Duration) -> bool {
        poll::writable(self.file.as_fd(), patience).unwrap_or(true)
    }

    /// The path of the file; `None` for a stream.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Opens the path again, after the file was renamed.
    pub(crate) fn reopen(&self) -> io::Result<()> {
        match &self.path {
            None => Ok(()),
            Some(path) => self.replace(append(path)?),
        }
    }

    /// Uses `file` from now on, which a process with more rights has opened.
    pub(crate) fn replace(&self, file: OwnedFd) -> io::Result<()> {
        descriptor::replace(self.file.as_fd(), file.as_fd())
    }
}

impl AsFd for LogTarget {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Opens a log file, readable for its group.
fn append(path: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    open::append(&path)
}

/// The end of the last line within the first [`ONE_PIECE`] bytes; the end of the first line if that
/// line is longer.
fn end_of_piece(lines: &[u8]) -> usize {
    if lines.len() <= ONE_PIECE {
        return lines.len();
    }
    let is_end = |byte: &u8| *byte == b'\n';
    match lines[..ONE_PIECE].iter().rposition(is_end) {
        Some(end) => end + 1,
        None => lines.iter().position(is_end).map_or(lines.len(), |end| end + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_lines() {
        let lines = |lengths: &[usize]| -> Vec<u8> {
            let line = |length: &usize| [vec![b'x'; length - 1], vec![b'\n']].concat();
            lengths.iter().flat_map(line).collect()
        };
        for (lengths, end) in [
            (&[10, 20][..], 30),
            (&[4000, 96], 4096),
            (&[4000, 97], 4000),
            (&[5000, 10], 5000),
            (&[100, 5000], 100),
        ] {
            assert_eq!(end_of_piece(&lines(lengths)), end, "{lengths:?}");
        }
        assert_eq!(end_of_piece(&[b'x'; 5000]), 5000);
    }

    #[test]
    fn a_moved_file_is_opened_anew_by_all_clones() {
        let folder = std::env::temp_dir().join(format!("howdah-log-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (path, moved) = (folder.join("log"), folder.join("log.1"));
        let target = LogTarget::file(&path).unwrap();
        let clone = target.clone();
        clone.write(b"one\n");
        std::fs::rename(&path, &moved).unwrap();
        clone.write(b"two\n");
        target.reopen().unwrap();
        clone.write(b"three\n");
        assert_eq!(std::fs::read_to_string(&moved).unwrap(), "one\ntwo\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "three\n");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
