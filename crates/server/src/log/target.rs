//! The files and streams that logs are written to.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use howdah_config::SystemLog;
use howdah_sys::stat::Stat;
use howdah_sys::{credentials, descriptor, open, poll};

use super::system_log::{LineKind, SystemLogSocket};
use crate::operator_path;

/// Bytes that a pipe accepts atomically (`PIPE_BUF` on Linux).
pub(super) const ONE_PIECE: usize = 4096;

/// The destination of a log. Clones share one descriptor; replacing a file affects all of them.
#[derive(Debug, Clone)]
pub(crate) enum LogTarget {
    /// A standard stream.
    Stream(Arc<File>),
    /// The end of the file at this path.
    File(PathBuf, Arc<File>),
    /// The system's log.
    System(Arc<SystemLogSocket>),
}

impl LogTarget {
    /// The end of the file at `path`. A missing file is created.
    ///
    /// # Errors
    /// The file cannot be opened or made, such as where a link is on the way.
    pub(crate) fn file(path: &Path) -> io::Result<LogTarget> {
        let file = append(path)?;
        Ok(LogTarget::File(path.to_owned(), Arc::new(file.into())))
    }

    /// Looks for what keeps the file at `path` from being opened, without making it.
    ///
    /// # Errors
    /// The reason.
    pub(super) fn try_file(path: &Path) -> io::Result<()> {
        if is_of_system(path) {
            return Ok(());
        }
        let real = operator_path::resolved(path)?;
        match fs::metadata(&real) {
            Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            Ok(_) => Ok(()),
            // A name below a file is refused with another error.
            Err(_) => fs::read_dir(real.parent().unwrap_or(&real)).map(drop),
        }
    }

    /// The system's log, whose daemon listens at `path`. The daemon need not run.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub(crate) fn system(log: &SystemLog, path: &Path, kind: LineKind) -> io::Result<LogTarget> {
        let socket = SystemLogSocket::new(log.clone(), path.to_owned(), kind)?;
        Ok(LogTarget::System(Arc::new(socket)))
    }

    /// Standard error.
    ///
    /// # Errors
    /// The descriptor cannot be copied.
    pub(crate) fn stderr() -> io::Result<LogTarget> {
        LogTarget::stream(io::stderr().as_fd())
    }

    /// Standard output.
    ///
    /// # Errors
    /// The descriptor cannot be copied.
    pub(crate) fn stdout() -> io::Result<LogTarget> {
        LogTarget::stream(io::stdout().as_fd())
    }

    /// Returns a log that is written to a copy of this stream.
    ///
    /// # Errors
    /// The descriptor cannot be copied.
    pub(super) fn stream(stream: BorrowedFd<'_>) -> io::Result<LogTarget> {
        Ok(LogTarget::Stream(Arc::new(stream.try_clone_to_owned()?.into())))
    }

    /// Writes whole lines. Returns the number of lines that were lost, where that is known. Errors
    /// are ignored otherwise, because a log that cannot be written to is no reason to stop serving.
    ///
    /// Files and streams take as long as they need; the system's log has `patience`. Lines for a
    /// file are written with one `write(2)`. Lines for a pipe or another stream are written in
    /// groups that are accepted atomically. Lines of several processes never mix, except lines
    /// longer than [`ONE_PIECE`].
    pub(super) fn write(&self, mut lines: &[u8], patience: Duration) -> u64 {
        let file = match self {
            LogTarget::System(socket) => return socket.send(lines, patience),
            LogTarget::Stream(file) | LogTarget::File(_, file) => file,
        };
        if file.metadata().is_ok_and(|file| file.is_file()) {
            let _ = (&**file).write_all(lines);
            return 0;
        }
        while !lines.is_empty() {
            let (piece, rest) = lines.split_at(end_of_piece(lines));
            let _ = (&**file).write_all(piece);
            lines = rest;
        }
        0
    }

    /// Returns whether the log accepts a line within `patience`. A file always does. The system's
    /// log tells only when it gets one.
    pub(super) fn takes_a_line(&self, patience: Duration) -> bool {
        match self {
            LogTarget::System(_) => true,
            LogTarget::Stream(file) | LogTarget::File(_, file) => {
                poll::writable(file.as_fd(), patience).unwrap_or(true)
            }
        }
    }

    /// The path of the file; `None` for a stream and for the system's log.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            LogTarget::File(path, _) => Some(path),
            LogTarget::Stream(_) | LogTarget::System(_) => None,
        }
    }

    /// Opens the path again, after the file was renamed.
    ///
    /// # Errors
    /// The file cannot be opened or made; the former one stays in use.
    pub(crate) fn reopen(&self) -> io::Result<()> {
        match self {
            LogTarget::Stream(_) | LogTarget::System(_) => Ok(()),
            LogTarget::File(path, _) => self.replace(append(path)?),
        }
    }

    /// Uses `file` from now on, which a process with more rights has opened.
    ///
    /// # Errors
    /// The error of `dup3(2)`; the former file stays in use.
    pub(crate) fn replace(&self, file: OwnedFd) -> io::Result<()> {
        descriptor::replace(self.as_fd(), file.as_fd())
    }
}

impl AsFd for LogTarget {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            LogTarget::Stream(file) | LogTarget::File(_, file) => file.as_fd(),
            LogTarget::System(socket) => socket.as_fd(),
        }
    }
}

/// Opens a log file, readable for its group. The folder may belong to a site's owner, who could
/// have this process write to any file through a link.
fn append(path: &Path) -> io::Result<OwnedFd> {
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes());
    let (file, is_new) = match is_of_system(path) {
        true => open::append(&text(path)?)?,
        false => open::append_unlinked(&text(&operator_path::resolved(path)?)?)?,
    };
    if is_new {
        // Otherwise the file is root's alone.
        let _ = give_to_readers(&file);
    }
    Ok(file)
}

/// Gives a new file of root to the group [`READERS`], where that exists. A folder may have given
/// the file another group.
fn give_to_readers(file: &OwnedFd) -> io::Result<()> {
    let made = Stat::of(file.as_fd())?;
    match (made.owner, made.group) {
        (0, 0) => std::os::unix::fs::fchown(file, None, credentials::group_number(READERS)?),
        _ => Ok(()),
    }
}

/// The group that reads logs on Debian. logrotate gives it the next files.
const READERS: &str = "adm";

/// Whether the path may be a link to what is no path, as `/dev/stdout` is.
fn is_of_system(path: &Path) -> bool {
    ["/dev", "/proc"].iter().any(|system| path.starts_with(system))
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
    fn a_link_of_somebody_else_leads_to_no_other_file() {
        use std::os::unix::fs::{MetadataExt, lchown, symlink};
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("victim"), "").unwrap();
        std::fs::create_dir_all(at("site/logs")).unwrap();
        symlink("../victim", at("site/own-log")).unwrap();
        symlink("logs", at("site/own-logs")).unwrap();
        for name in ["site/own-log", "site/own-logs/log", "site/logs/log"] {
            LogTarget::file(&at(name)).unwrap().write(b"line\n", Duration::ZERO);
        }
        for (name, expected) in [
            ("site/log", None),
            ("site/logs/log", None),
            ("site/none/log", Some(io::ErrorKind::NotFound)),
            ("victim/log", Some(io::ErrorKind::NotADirectory)),
            ("site", Some(io::ErrorKind::IsADirectory)),
        ] {
            let found = LogTarget::try_file(&at(name)).err();
            assert_eq!(found.map(|error| error.kind()), expected, "{name}");
        }
        assert!(!at("site/log").exists());
        let content = |name: &str| std::fs::read_to_string(at(name)).unwrap();
        assert_eq!(
            (content("victim"), content("site/logs/log")),
            ("line\n".into(), "line\n".repeat(2))
        );
        if std::fs::metadata(at("victim")).unwrap().uid() != 0 {
            howdah_skip::skip!("only root can give links away");
            return;
        }
        for name in ["site/own-log", "site/own-logs", "site/logs", "site"] {
            lchown(at(name), Some(7), None).unwrap();
        }
        symlink("../new", at("site/dangling")).unwrap();
        lchown(at("site/dangling"), Some(7), None).unwrap();
        for name in ["site/own-log", "site/dangling"] {
            let error = LogTarget::file(&at(name)).unwrap_err().to_string();
            assert!(error.contains("belongs neither to root"), "{name}: {error}");
        }
        assert!(!at("new").exists());
        // A file of the same user elsewhere, which may be a script of another site.
        std::fs::create_dir(at("other")).unwrap();
        std::fs::write(at("other/a.php"), "").unwrap();
        symlink("../other/a.php", at("site/script")).unwrap();
        symlink("../other", at("site/folder")).unwrap();
        for name in ["other", "other/a.php", "site/script", "site/folder"] {
            lchown(at(name), Some(7), None).unwrap();
        }
        for name in ["site/script", "site/folder/a.php"] {
            let error = LogTarget::file(&at(name)).unwrap_err().to_string();
            assert!(error.contains("leads out of its folder"), "{name}: {error}");
        }
        lchown(at("site/script"), Some(0), None).unwrap();
        assert!(LogTarget::file(&at("site/script")).is_ok());
        // Within the own folder a link harms nobody.
        LogTarget::file(&at("site/own-logs/log"))
            .unwrap()
            .write(b"line\n", Duration::ZERO);
        assert_eq!(
            (content("victim"), content("site/logs/log")),
            ("line\n".into(), "line\n".repeat(3))
        );
    }

    #[test]
    fn a_new_log_of_root_is_for_the_group_that_reads_logs() {
        use std::os::unix::fs::{MetadataExt, chown};
        let Ok(Some(readers)) = credentials::group_number(READERS) else {
            howdah_skip::skip!("there is no group {READERS}");
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| {
            LogTarget::file(&folder.path().join(name)).unwrap();
            let found = std::fs::metadata(folder.path().join(name)).unwrap();
            (found.uid(), found.gid(), found.mode() & 0o777)
        };
        let (user, group, mode) = of("log");
        if user != 0 {
            howdah_skip::skip!("only root can give files to other groups");
            return;
        }
        assert_eq!((group, mode), (readers, 0o640));
        // The administrator's choice counts.
        chown(folder.path().join("log"), None, Some(0)).unwrap();
        assert_eq!(of("log"), (0, 0, 0o640));
        let shared = folder.path().join("shared");
        std::fs::create_dir(&shared).unwrap();
        chown(&shared, None, Some(7)).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o2755);
        std::fs::set_permissions(&shared, mode).unwrap();
        assert_eq!(of("shared/log"), (0, 7, 0o640));
    }

    #[test]
    fn a_moved_file_is_opened_anew_by_all_clones() {
        let folder = std::env::temp_dir().join(format!("howdah-log-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (path, moved) = (folder.join("log"), folder.join("log.1"));
        let target = LogTarget::file(&path).unwrap();
        let clone = target.clone();
        clone.write(b"one\n", Duration::ZERO);
        std::fs::rename(&path, &moved).unwrap();
        clone.write(b"two\n", Duration::ZERO);
        target.reopen().unwrap();
        clone.write(b"three\n", Duration::ZERO);
        assert_eq!(std::fs::read_to_string(&moved).unwrap(), "one\ntwo\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "three\n");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
