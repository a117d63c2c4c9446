//! Paths opened folder by folder, for kernels before 5.6 and for sandboxes without `openat2(2)`.
//! Async-signal-safe.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::{Access, Lookup, open_at, step};
use crate::stat::{FileType, Stat};

/// Opens a file like [`unlinked`](super::unlinked), folder by folder.
///
/// # Errors
/// The errors of [`unlinked`](super::unlinked), and `EXDEV` for a path with `..`, which no resolved
/// path has.
pub(super) fn unlinked(path: &CStr, access: Access) -> io::Result<OwnedFd> {
    let bytes = path.to_bytes_with_nul();
    let start = if bytes.starts_with(b"/") { c"/" } else { c"." };
    let from = bytes.iter().take_while(|&&byte| byte == b'/').count();
    let below = CStr::from_bytes_with_nul(&bytes[from..]).map_err(io::Error::other)?;
    if bytes.len() == 1 {
        return Err(io::Error::from_raw_os_error(libc::ENOENT));
    }
    let start = open_at(libc::AT_FDCWD, start, Access::Folder.flags())?;
    beneath(start.as_fd(), below, access)
}

/// Opens a file like [`beneath`](super::beneath), folder by folder.
///
/// # Errors
/// The errors of [`beneath`](super::beneath), and `EXDEV` for a path that begins with `/` or has
/// `..`.
pub(super) fn beneath(folder: BorrowedFd<'_>, path: &CStr, access: Access) -> io::Result<OwnedFd> {
    let path = path.to_bytes();
    if path.starts_with(b"/") {
        return Err(io::Error::from_raw_os_error(libc::EXDEV));
    }
    let mut names = path
        .split(|&byte| byte == b'/')
        .filter(|name| !name.is_empty() && *name != b".")
        .peekable();
    let mut at = step(folder, c".", Access::Folder, Lookup::Full)?;
    if names.peek().is_none() {
        return step(folder, c".", access, Lookup::Full);
    }
    while let Some(name) = names.next() {
        if name == b".." {
            return Err(io::Error::from_raw_os_error(libc::EXDEV));
        }
        let mut buffer = [0; LONGEST_NAME + 1];
        let Some(space) = buffer.get_mut(..name.len()).filter(|space| space.len() <= LONGEST_NAME)
        else {
            return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
        };
        space.copy_from_slice(name);
        let name = CStr::from_bytes_until_nul(&buffer).map_err(io::Error::other)?;
        let access = if names.peek().is_some() { Access::Folder } else { access };
        at = match step(at.as_fd(), name, access, Lookup::Full) {
            Ok(next) if access == Access::Point && is_link(&Stat::of(next.as_fd())?) => {
                return Err(loop_error());
            }
            Ok(next) => next,
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                let is_link = Stat::of_name(at.as_fd(), name).is_ok_and(|stat| is_link(&stat));
                return Err(if is_link { loop_error() } else { error });
            }
            Err(error) => return Err(error),
        };
    }
    Ok(at)
}

fn is_link(stat: &Stat) -> bool {
    stat.file_type() == FileType::Link
}

fn loop_error() -> io::Error {
    io::Error::from_raw_os_error(libc::ELOOP)
}

/// NAME_MAX, the limit for one component of a path. A longer one is `ENAMETOOLONG`.
pub(super) const LONGEST_NAME: usize = 255;
