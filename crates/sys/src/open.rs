//! `openat2(2)`: opens files below a folder. No name, link or rename can lead out of the folder.

mod append;
mod links;
mod steps;

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::stat::Stat;
use crate::{check, check_size, remote};

pub use self::append::{append, append_unlinked};
pub use self::links::{LinkBound, MOST_LINK_NAMES, MOST_LINKS, TooManyNames, counted};

/// The purpose of opening a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To read its bytes. Opening never waits: a pipe without a writer is opened at once.
    Read,
    /// To refer to it (`O_PATH`). This requires no right to read and has no effect on devices.
    Point,
    /// To refer to a folder; anything else is `NotADirectory`.
    Folder,
}

impl Access {
    fn flags(self) -> libc::c_int {
        libc::O_CLOEXEC
            | match self {
                Access::Read => libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY,
                Access::Point => libc::O_PATH,
                Access::Folder => libc::O_PATH | libc::O_DIRECTORY,
            }
    }
}

/// The extent to which a path is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// In the kernel's memory: `WouldBlock` where the disk has to be asked. As
    /// [`Full`](Lookup::Full) before Linux 5.12 and in sandboxes without `openat2`.
    Cached,
    /// On the disk as well, which may take long.
    Full,
}

/// Returns whether `error` says that a symbolic link is in the way, or too many are (`ELOOP`).
pub fn is_link_refused(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ELOOP)
}

/// Opens the folder at `path` with `O_PATH` and follows links. For paths that the operator wrote.
///
/// # Errors
/// The error of `open(2)`, `ELOOP` also where the links have more than [`MOST_LINK_NAMES`]. With
/// [`Lookup::Cached`] `WouldBlock` for every folder of a file system that may hang: what the kernel
/// has in memory of it is no answer.
pub fn folder(path: &CStr, lookup: Lookup) -> io::Result<OwnedFd> {
    counted(path, (Access::Folder, true), lookup, &mut 0)
}

/// Opens the file at `path` for reading and follows links. For files that a site's owner names.
/// Never waits for another process.
///
/// # Errors
/// The error of `open(2)`. With [`Lookup::Cached`] as with [`folder()`].
pub fn file(path: &CStr, lookup: Lookup) -> io::Result<OwnedFd> {
    counted(path, (Access::Read, true), lookup, &mut 0)
}

/// Opens as [`file()`] does, if it is a regular file. For files that a site's owner can replace by
/// a pipe at any moment: what was opened is looked at, not the path.
///
/// # Errors
/// The error of `open(2)`, or the file is another kind of file.
pub fn regular_file(path: &Path) -> io::Result<(File, u64)> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    regular(file(&path, Lookup::Full)?)
}

/// Opens as [`regular_file()`] does, if no part of the path is a symbolic link.
///
/// # Errors
/// The errors of [`regular_file()`] and [`unlinked()`].
pub fn unlinked_regular_file(path: &Path) -> io::Result<(File, u64)> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    regular(unlinked(&path, Access::Read)?)
}

/// Returns the file with its length in bytes, if it is a regular file.
fn regular(file: OwnedFd) -> io::Result<(File, u64)> {
    let file = File::from(file);
    let found = file.metadata()?;
    match found.is_file() {
        true => Ok((file, found.len())),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

/// Opens the file at `path` and follows links. Async-signal-safe.
///
/// # Errors
/// The error of `open(2)`.
pub(crate) fn linked(path: &CStr, access: Access) -> io::Result<OwnedFd> {
    // SAFETY: `path` is NUL-terminated.
    let fd = check(unsafe { libc::open(path.as_ptr(), access.flags()) })?;
    // SAFETY: fresh descriptor, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Opens the file at `path` if no part of the path is a symbolic link. For paths that were resolved
/// before, and that a site's owner may change. Async-signal-safe.
///
/// # Errors
/// `ELOOP` for a link anywhere in the path, or another error of `openat2(2)`.
pub fn unlinked(path: &CStr, access: Access) -> io::Result<OwnedFd> {
    match openat2(libc::AT_FDCWD, path, access.flags(), libc::RESOLVE_NO_SYMLINKS) {
        // As in `beneath`.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
            steps::unlinked(path, access)
        }
        opened => opened,
    }
}

/// Returns what is at `path`, with `follows` at the end of a link there. For paths that a site's
/// owner names.
///
/// # Errors
/// The error of `stat(2)`. With [`Lookup::Cached`] as with [`folder()`].
pub fn stat(path: &CStr, follows: bool, lookup: Lookup) -> io::Result<Stat> {
    Stat::of(counted(path, (Access::Point, follows), lookup, &mut 0)?.as_fd())
}

/// Opens a file again, for reading only. The result shares neither flags nor offset nor rights
/// with `file`, therefore it can be given to a process that is not trusted.
///
/// # Errors
/// The error of `open(2)`, among others if `/proc` is not mounted.
pub fn again_for_reading(file: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    linked(&path, Access::Read)
}

/// Opens `path` below `folder`.
///
/// # Errors
/// `ELOOP` for a symbolic link anywhere in the path, `EXDEV` if the path leads out of the folder,
/// or another error of `openat2(2)`. With [`Lookup::Cached`] `WouldBlock` for everything on a file
/// system that may hang and is mounted below the folder.
pub fn beneath(
    folder: BorrowedFd<'_>,
    path: &CStr,
    access: Access,
    lookup: Lookup,
) -> io::Result<OwnedFd> {
    if lookup == Lookup::Cached
        && let Some(opened) = cached_below(folder.as_raw_fd(), path, access.flags(), BENEATH)
    {
        return opened;
    }
    if !WITHOUT_OPENAT2.load(Ordering::Relaxed) {
        match openat2(folder.as_raw_fd(), path, access.flags(), BENEATH) {
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
                WITHOUT_OPENAT2.store(true, Ordering::Relaxed);
            }
            // Either a sandbox refuses a call that is newer than its rules, or the file itself is
            // refused, which the next attempt reports again.
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {}
            other => return other,
        }
    }
    steps::beneath(folder, path, access)
}

/// Opens one component in `folder` and never follows a link. The name must not contain a slash and
/// must not be `..`. With [`Access::Point`] the link itself is opened.
///
/// # Errors
/// `ELOOP` for a link (`NotADirectory` with [`Access::Folder`]), or another error of `openat(2)`.
/// `WouldBlock` as with [`beneath`].
pub fn step(
    folder: BorrowedFd<'_>,
    name: &CStr,
    access: Access,
    lookup: Lookup,
) -> io::Result<OwnedFd> {
    if name == c".." || name.to_bytes().contains(&b'/') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = access.flags() | libc::O_NOFOLLOW;
    if lookup == Lookup::Cached
        && let Some(opened) = cached_below(folder.as_raw_fd(), name, flags, 0)
    {
        return opened;
    }
    open_at(folder.as_raw_fd(), name, flags)
}

/// Opens a folder in `folder`, which is on a file system that does not hang, if it is no link, and
/// on such a file system, too. Never waits for another machine or process, from Linux 5.12 on.
///
/// # Errors
/// `WouldBlock` for a folder on a file system that may hang, or the error of `openat2(2)`.
pub(crate) fn local_step(folder: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let (folder, flags) = (folder.as_raw_fd(), Access::Folder.flags() | libc::O_NOFOLLOW);
    match cached(folder, name, flags, 0) {
        Some(Ok(found)) if remote::may_hang(found.as_fd()) => Err(io::ErrorKind::WouldBlock.into()),
        // The kernel has every folder in memory at which something is mounted.
        Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {
            openat2(folder, name, flags, libc::RESOLVE_NO_XDEV)
        }
        Some(found) => found,
        None => open_at(folder, name, flags),
    }
}

fn open_at(folder: RawFd, name: &CStr, flags: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: `name` is NUL-terminated.
    let fd = check(unsafe { libc::openat(folder, name.as_ptr(), flags) })?;
    // SAFETY: fresh descriptor, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Returns the target of a link that was opened with [`Access::Point`].
///
/// # Errors
/// The error of `readlinkat(2)`.
pub fn link_target(link: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let mut target = vec![0; LONGEST_TARGET];
    // SAFETY: the empty name means the descriptor itself; the buffer has the length given.
    let length = check_size(unsafe {
        libc::readlinkat(link.as_raw_fd(), c"".as_ptr(), target.as_mut_ptr().cast(), target.len())
    })?;
    target.truncate(length);
    Ok(target)
}

/// Error numbers of opening, as in [`io::Error::raw_os_error`]: `io::ErrorKind` does not
/// distinguish all of them.
pub mod errno {
    pub use libc::{
        EACCES, ELOOP, EMFILE, ENAMETOOLONG, ENFILE, ENODEV, ENOENT, ENOTDIR, ENXIO, EPERM, EXDEV,
    };
}

/// Opens as [`cached`] does, a path that is only pointed to: `WouldBlock` for everything on a file
/// system that may hang. The kernel's copy in memory is no answer there.
fn cached_at_hand(path: &CStr, flags: libc::c_int, resolve: u64) -> Option<io::Result<OwnedFd>> {
    let opened = cached(libc::AT_FDCWD, path, flags, resolve)?;
    Some(opened.and_then(|found| match remote::may_hang(found.as_fd()) {
        false => Ok(found),
        true => Err(io::ErrorKind::WouldBlock.into()),
    }))
}

/// Opens as [`cached`] does, a path below `folder`: `WouldBlock` if the path leads to a file system
/// that may hang from one that may not. The kernel's copy in memory is no answer there.
fn cached_below(
    folder: RawFd,
    path: &CStr,
    flags: libc::c_int,
    resolve: u64,
) -> Option<io::Result<OwnedFd>> {
    // Without a mount on the way, which is usual, one call does.
    match cached(folder, path, flags, resolve | libc::RESOLVE_NO_XDEV)? {
        Err(error) if error.raw_os_error() == Some(libc::EXDEV) => {}
        opened => return Some(opened),
    }
    // A mount is on the way, or the path leads out of the folder. A file that is only pointed to is
    // not opened by its file system.
    let kept = libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_DIRECTORY;
    match cached(folder, path, libc::O_PATH | flags & kept, resolve)? {
        Ok(found) if remote::may_hang(found.as_fd()) => Some(Err(io::ErrorKind::WouldBlock.into())),
        Ok(_) => cached(folder, path, flags, resolve),
        Err(error) => Some(Err(error)),
    }
}

/// Opens a path by what the kernel has in memory. `None`: the kernel or a sandbox does not know
/// how.
fn cached(
    folder: RawFd,
    path: &CStr,
    flags: libc::c_int,
    resolve: u64,
) -> Option<io::Result<OwnedFd>> {
    if WITHOUT_CACHED.load(Ordering::Relaxed) {
        return None;
    }
    let opened = openat2(folder, path, flags, resolve | libc::RESOLVE_CACHED);
    match opened.as_ref().err().and_then(io::Error::raw_os_error) {
        Some(libc::EINVAL | libc::ENOSYS) => {
            // A file system may refuse a name in the same way.
            let here = openat2(libc::AT_FDCWD, c"/", libc::O_PATH, libc::RESOLVE_CACHED);
            WITHOUT_CACHED.store(here.is_err(), Ordering::Relaxed);
            None
        }
        // A sandbox refuses the call, or the file is refused, which the next attempt reports again.
        Some(libc::EPERM) => None,
        _ => Some(opened),
    }
}

fn openat2(folder: RawFd, path: &CStr, flags: libc::c_int, resolve: u64) -> io::Result<OwnedFd> {
    openat2_with(folder, path, flags, 0, resolve)
}

fn openat2_with(
    folder: RawFd,
    path: &CStr,
    flags: libc::c_int,
    mode: libc::mode_t,
    resolve: u64,
) -> io::Result<OwnedFd> {
    // SAFETY: an all-zero `open_how` is valid, and asks for nothing.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = u64::from(flags.cast_unsigned());
    how.mode = mode.into();
    how.resolve = resolve;
    // SAFETY: `path` is NUL-terminated, `how` is live and as long as we say.
    let result = unsafe {
        libc::syscall(
            libc::SYS_openat2,
            folder,
            path.as_ptr(),
            &raw const how,
            size_of::<libc::open_how>(),
        )
    };
    let fd = check(libc::c_int::try_from(result).unwrap_or(-1))?;
    // SAFETY: fresh descriptor, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A path that leads out of its folder or through a link is refused.
const BENEATH: u64 =
    libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS | libc::RESOLVE_NO_SYMLINKS;

/// Set once the kernel has refused the call as unknown.
static WITHOUT_OPENAT2: AtomicBool = AtomicBool::new(false);

/// Set once the kernel has refused `RESOLVE_CACHED` as unknown.
static WITHOUT_CACHED: AtomicBool = AtomicBool::new(false);

/// PATH_MAX, the limit for a link's target.
const LONGEST_TARGET: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::FileType;
    use std::fs;
    use std::os::unix::ffi::OsStringExt;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    #[test]
    fn only_regular_files_are_read_and_no_writer_is_waited_for() {
        let folder = Folder::new("regular");
        let (file, length) = regular_file(&folder.0.join("a/file-link")).unwrap();
        assert_eq!((std::io::read_to_string(file).unwrap(), length), ("x".to_owned(), 1));
        let pipe = folder.0.join("pipe");
        let name = CString::new(pipe.as_os_str().as_bytes()).unwrap();
        // SAFETY: NUL-terminated.
        check(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }).unwrap();
        for other in [pipe, folder.0.join("a"), "/dev/zero".into()] {
            let error = regular_file(&other).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{}", other.display());
        }
    }

    #[test]
    fn a_path_that_was_exchanged_for_a_link_is_not_opened() {
        let folder = Folder::new("unlinked");
        let opened = |name: &str| {
            let path = CString::new(
                folder.0.canonicalize().unwrap().join(name).into_os_string().into_vec(),
            );
            let path = path.unwrap();
            [unlinked(&path, Access::Point), steps::unlinked(&path, Access::Point)]
                .map(|opened| opened.map(|_| ()).map_err(|error| error.raw_os_error()))
        };
        for found in ["a/b/file", "a/b", "a//./b/", ""] {
            assert_eq!(opened(found), [Ok(()); 2], "{found}");
        }
        for link in ["a/link", "a/link/file", "a/file-link"] {
            assert_eq!(opened(link), [Err(Some(libc::ELOOP)); 2], "{link}");
        }
        let long = "x".repeat(steps::LONGEST_NAME + 1);
        for (missing, error) in
            [("a/c", libc::ENOENT), ("a/b/file/x", libc::ENOTDIR), (&long, libc::ENAMETOOLONG)]
        {
            assert_eq!(opened(missing), [Err(Some(error)); 2], "{missing}");
        }
        for (path, access) in [(c"/", Access::Folder), (c".", Access::Folder)] {
            assert!(steps::unlinked(path, access).is_ok(), "{path:?}");
        }
        let error = steps::unlinked(c"", Access::Point).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path =
                std::env::temp_dir().join(format!("howdah-open-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(path.join("a/b")).unwrap();
            fs::write(path.join("a/b/file"), "x").unwrap();
            symlink("b", path.join("a/link")).unwrap();
            symlink("b/file", path.join("a/file-link")).unwrap();
            symlink("/etc/passwd", path.join("out")).unwrap();
            Folder(path)
        }

        fn open(&self) -> OwnedFd {
            folder(&CString::new(self.0.to_str().unwrap()).unwrap(), Lookup::Full).unwrap()
        }
    }

    /// Opens as an event loop does: on the disk only where the kernel's memory does not do.
    fn again_if_cold(open: impl Fn(Lookup) -> io::Result<OwnedFd>) -> io::Result<OwnedFd> {
        match open(Lookup::Cached) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => open(Lookup::Full),
            other => other,
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn both_ways_agree() {
        let folder = Folder::new("agree");
        let root = folder.open();
        let rows: [(&CStr, Access, Option<i32>); 16] = [
            (c"a/b/file", Access::Read, None),
            (c"a/b/file", Access::Point, None),
            (c"a/b/file", Access::Folder, Some(libc::ENOTDIR)),
            (c"a/b", Access::Folder, None),
            (c"a/b", Access::Read, None),
            (c".", Access::Folder, None),
            (c".", Access::Read, None),
            (c"a/b/none", Access::Read, Some(libc::ENOENT)),
            (c"none/file", Access::Read, Some(libc::ENOENT)),
            (c"a/b/file/x", Access::Read, Some(libc::ENOTDIR)),
            (c"a/link/file", Access::Read, Some(libc::ELOOP)),
            (c"a/link", Access::Point, Some(libc::ELOOP)),
            (c"a/file-link", Access::Read, Some(libc::ELOOP)),
            (c"out", Access::Point, Some(libc::ELOOP)),
            (c"../x", Access::Read, Some(libc::EXDEV)),
            (c"/etc/passwd", Access::Read, Some(libc::EXDEV)),
        ];
        for (path, access, expected) in rows {
            for (way, result) in [
                ("openat2", beneath(root.as_fd(), path, access, Lookup::Full)),
                ("cached", again_if_cold(|lookup| beneath(root.as_fd(), path, access, lookup))),
                ("steps", steps::beneath(root.as_fd(), path, access)),
            ] {
                let found = result.as_ref().err().map(|error| error.raw_os_error().unwrap());
                assert_eq!(found, expected, "{way} {path:?} {access:?}");
            }
        }
        // A folder that is a link: openat2 says ELOOP or ENOTDIR, depending on the kernel; never
        // success.
        assert!(beneath(root.as_fd(), c"a/link", Access::Folder, Lookup::Full).is_err());
        assert!(steps::beneath(root.as_fd(), c"a/link", Access::Folder).is_err());
    }

    #[test]
    fn a_link_is_read_by_its_descriptor() {
        let folder = Folder::new("link");
        let root = folder.open();
        let step = |name, access| again_if_cold(|lookup| step(root.as_fd(), name, access, lookup));
        let link = step(c"out", Access::Point).unwrap();
        assert_eq!(link_target(link.as_fd()).unwrap(), b"/etc/passwd");
        assert_eq!(step(c"out", Access::Read).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        assert!(step(c"..", Access::Folder).is_err());
        assert!(step(c"a/b", Access::Folder).is_err());
    }

    #[test]
    fn a_pipe_does_not_make_us_wait() {
        let folder = Folder::new("pipe");
        let path = CString::new(folder.0.join("pipe").to_str().unwrap()).unwrap();
        // SAFETY: `path` is NUL-terminated.
        assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
        let pipe = beneath(folder.open().as_fd(), c"pipe", Access::Read, Lookup::Cached).unwrap();
        assert_eq!(Stat::of(pipe.as_fd()).unwrap().file_type(), FileType::Special);
    }
}
