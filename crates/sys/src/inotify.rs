//! `inotify(7)`: notifications of changes in folders.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::{check, check_size};

/// A non-blocking queue of changes.
#[derive(Debug)]
pub struct Inotify(OwnedFd);

/// A watched folder. The kernel returns the same value for the same folder, whatever path it was
/// reached by, and never reuses it for another folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WatchId(i32);

/// A change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchEvent<'a> {
    /// An entry of the folder was created, removed, written to, or its rights were changed.
    Entry {
        /// The folder.
        folder: WatchId,
        /// The entry's name.
        name: &'a [u8],
    },
    /// The folder itself was moved or removed, or its rights were changed.
    Folder(WatchId),
    /// The folder is no longer watched: it was removed or unmounted, or [`Inotify::remove`] was
    /// called.
    Ended(WatchId),
    /// Changes were lost because the kernel's queue was full. Anything may have changed.
    Overflow,
}

impl Inotify {
    /// Creates an empty queue.
    ///
    /// # Errors
    /// The error of `inotify_init1(2)`, for example if the user has too many queues
    /// (`fs.inotify.max_user_instances`).
    pub fn new() -> io::Result<Inotify> {
        // SAFETY: no memory arguments.
        let fd = check(unsafe { libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC) })?;
        // SAFETY: fresh descriptor, owned by nobody else.
        Ok(Inotify(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Watches an open folder. It may be opened with `O_PATH`, but must be readable.
    ///
    /// # Errors
    /// `StorageFull` if the user has too many watches (`fs.inotify.max_user_watches`), or another
    /// error of `inotify_add_watch(2)`.
    ///
    /// inotify accepts only paths. The path of the descriptor in `/proc` cannot be redirected by a
    /// rename.
    pub fn watch(&self, folder: BorrowedFd<'_>) -> io::Result<WatchId> {
        self.add(folder, MASK)
    }

    /// Watches an open file, which must be readable, for writes and cuts. Each is reported as
    /// [`WatchEvent::Folder`] with the file's value, once it is done. A write through a memory map
    /// is not reported.
    ///
    /// # Errors
    /// The errors of [`watch`](Inotify::watch).
    pub fn watch_writes(&self, file: BorrowedFd<'_>) -> io::Result<WatchId> {
        self.add(file, libc::IN_MODIFY)
    }

    /// Stops watching a folder. Its queued changes are still delivered, followed by
    /// [`WatchEvent::Ended`].
    ///
    /// # Errors
    /// The error of `inotify_rm_watch(2)`.
    pub fn remove(&self, watch: WatchId) -> io::Result<()> {
        // SAFETY: no memory arguments.
        check(unsafe { libc::inotify_rm_watch(self.0.as_raw_fd(), watch.0) })?;
        Ok(())
    }

    /// Reads queued changes, as many as fit into `buffer` (at least [`LEAST_BUFFER`] bytes).
    /// Returns no changes if the queue is empty.
    ///
    /// # Errors
    /// The error of `read(2)`.
    pub fn read<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Events<'a>> {
        // SAFETY: the buffer is live and as long as we say.
        let read =
            unsafe { libc::read(self.0.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
        match check_size(read) {
            Ok(length) => Ok(Events(&buffer[..length])),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Events(&[])),
            Err(error) => Err(error),
        }
    }

    fn add(&self, what: BorrowedFd<'_>, mask: u32) -> io::Result<WatchId> {
        let path = CString::new(format!("/proc/self/fd/{}", what.as_raw_fd()))?;
        // SAFETY: `path` is NUL-terminated.
        check(unsafe { libc::inotify_add_watch(self.0.as_raw_fd(), path.as_ptr(), mask) })
            .map(WatchId)
    }
}

impl AsFd for Inotify {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The changes of one call of [`Inotify::read`], oldest first.
#[derive(Debug)]
pub struct Events<'a>(&'a [u8]);

impl<'a> Iterator for Events<'a> {
    type Item = WatchEvent<'a>;

    fn next(&mut self) -> Option<WatchEvent<'a>> {
        let (head, rest) = self.0.split_first_chunk::<HEAD>()?;
        let word = |at: usize| [head[at], head[at + 1], head[at + 2], head[at + 3]];
        let watch = WatchId(i32::from_ne_bytes(word(0)));
        let mask = u32::from_ne_bytes(word(4));
        let (name, rest) = rest.split_at_checked(u32::from_ne_bytes(word(12)) as usize)?;
        self.0 = rest;
        // The kernel pads names with NUL.
        let name = &name[..name.iter().position(|&byte| byte == 0).unwrap_or(name.len())];
        Some(if mask & libc::IN_Q_OVERFLOW != 0 {
            WatchEvent::Overflow
        } else if mask & libc::IN_IGNORED != 0 {
            WatchEvent::Ended(watch)
        } else if name.is_empty() {
            WatchEvent::Folder(watch)
        } else {
            WatchEvent::Entry { folder: watch, name }
        })
    }
}

/// Returns the watches that all processes of this user may have together
/// (`fs.inotify.max_user_watches`). `None`: the kernel does not tell.
pub fn most_watches() -> Option<usize> {
    let most = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_watches").ok()?;
    most.trim().parse().ok()
}

/// Bytes of one event with the longest possible name.
pub const LEAST_BUFFER: usize = HEAD + 256;

/// The fixed part of `struct inotify_event`: watch, mask, cookie, length of the name.
const HEAD: usize = 16;

/// The changes that can affect the result of opening a name in the folder. IN_CLOSE_WRITE is not
/// needed because IN_MODIFY precedes it. IN_EXCL_UNLINK leaves out writes to files that no longer
/// have a name.
const MASK: u32 = libc::IN_MODIFY
    | libc::IN_ATTRIB
    | libc::IN_CREATE
    | libc::IN_DELETE
    | libc::IN_MOVE
    | libc::IN_DELETE_SELF
    | libc::IN_MOVE_SELF
    | libc::IN_EXCL_UNLINK
    | libc::IN_ONLYDIR;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::path::{Path, PathBuf};

    fn folder(name: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("howdah-inotify-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn watched(path: &Path) -> (Inotify, WatchId) {
        let inotify = Inotify::new().unwrap();
        let watch = inotify.watch(File::open(path).unwrap().as_fd()).unwrap();
        (inotify, watch)
    }

    /// The names that something happened to, and `<words>` for what is no name.
    fn heard(inotify: &Inotify) -> Vec<String> {
        let mut buffer = [0; 4096];
        let mut heard: Vec<String> = inotify
            .read(&mut buffer)
            .unwrap()
            .map(|event| match event {
                WatchEvent::Entry { name, .. } => String::from_utf8(name.to_vec()).unwrap(),
                WatchEvent::Folder(_) => "<folder>".to_owned(),
                WatchEvent::Ended(_) => "<ended>".to_owned(),
                WatchEvent::Overflow => "<overflow>".to_owned(),
            })
            .collect();
        heard.dedup();
        heard
    }

    #[test]
    fn hears_of_every_change() {
        let path = folder("hears");
        let (inotify, watch) = watched(&path);
        assert_eq!(heard(&inotify), [""; 0]);
        fs::write(path.join("a"), "1").unwrap();
        assert_eq!(heard(&inotify), ["a"]);
        fs::write(path.join("a"), "2").unwrap();
        assert_eq!(heard(&inotify), ["a"]);
        fs::rename(path.join("a"), path.join("b")).unwrap();
        assert_eq!(heard(&inotify), ["a", "b"]);
        let rights = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(path.join("b"), rights).unwrap();
        assert_eq!(heard(&inotify), ["b"]);
        fs::remove_file(path.join("b")).unwrap();
        assert_eq!(heard(&inotify), ["b"]);
        let rights = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(&path, rights).unwrap();
        assert_eq!(heard(&inotify), ["<folder>"]);
        inotify.remove(watch).unwrap();
        assert_eq!(heard(&inotify), ["<ended>"]);
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn one_folder_is_one_watch() {
        let path = folder("one");
        let (inotify, first) = watched(&path);
        std::os::unix::fs::symlink(&path, path.join("again")).unwrap();
        let second = inotify.watch(File::open(path.join("again")).unwrap().as_fd()).unwrap();
        assert_eq!(first, second);
        fs::remove_dir_all(path).unwrap();
        assert_eq!(heard(&inotify).last().unwrap(), "<ended>");
    }

    #[test]
    fn only_folders_are_watched() {
        let inotify = Inotify::new().unwrap();
        let file = File::open("/proc/self/exe").unwrap();
        assert_eq!(inotify.watch(file.as_fd()).unwrap_err().kind(), io::ErrorKind::NotADirectory);
    }
}
