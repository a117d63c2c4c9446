//! Opens log files, for appending.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::openat2_with;
use crate::check;

/// Opens the file at `path` for appending, if no part of the path is a symbolic link. Creates a
/// missing file, readable for its group. Also returns whether it has created one. For log files
/// that the operator names.
///
/// # Errors
/// The error of `open(2)`. A pipe without a reader is refused (`ENXIO`), because opening it would
/// wait for a reader.
pub fn append_unlinked(path: &CStr) -> io::Result<(OwnedFd, bool)> {
    let unlinked = |flags: libc::c_int| {
        let mode = if flags & libc::O_CREAT != 0 { APPEND_MODE } else { 0 };
        match openat2_with(libc::AT_FDCWD, path, flags, mode, libc::RESOLVE_NO_SYMLINKS) {
            // Before Linux 5.6, or refused by a sandbox that does not know the call.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                open_with(path, flags | libc::O_NOFOLLOW)
            }
            opened => opened,
        }
    };
    append_by(unlinked)
}

/// Opens a file for appending like [`append_unlinked`], and follows links.
///
/// # Errors
/// The errors of [`append_unlinked`].
pub fn append(path: &CStr) -> io::Result<(OwnedFd, bool)> {
    append_by(|flags| open_with(path, flags))
}

/// Opens a file by a function that takes the flags, and creates it where it is missing. Returns
/// whether it has.
fn append_by(open: impl Fn(libc::c_int) -> io::Result<OwnedFd>) -> io::Result<(OwnedFd, bool)> {
    let is = |error: &io::Error, number| error.raw_os_error() == Some(number);
    let created = match open(APPEND) {
        Err(error) if is(&error, libc::ENOENT) => open(APPEND | libc::O_CREAT | libc::O_EXCL),
        opened => return Ok((appending(opened?)?, false)),
    };
    match created {
        // Another process was faster, or the name is a link to a file that is missing.
        Err(error) if is(&error, libc::EEXIST) => {
            Ok((appending(open(APPEND | libc::O_CREAT)?)?, false))
        }
        created => Ok((appending(created?)?, true)),
    }
}

fn open_with(path: &CStr, flags: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: `path` is NUL-terminated, and the third argument is what `O_CREAT` asks for.
    let fd = check(unsafe { libc::open(path.as_ptr(), flags, APPEND_MODE) })?;
    // SAFETY: fresh descriptor, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Lets writes wait.
fn appending(file: OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: no memory arguments. Of all flags, only those that can be changed are taken.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_APPEND) })?;
    Ok(file)
}

const APPEND: libc::c_int =
    libc::O_WRONLY | libc::O_APPEND | libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_NONBLOCK;
const APPEND_MODE: libc::mode_t = 0o640;

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::fs;

    #[test]
    fn a_log_is_added_to_and_a_pipe_without_a_reader_does_not_wait() {
        let folder = std::env::temp_dir().join(format!("howdah-append-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let path = |name: &str| CString::new(folder.join(name).to_str().unwrap()).unwrap();
        for (line, is_first) in [("one\n", true), ("two\n", false)] {
            let (log, is_new) = append(&path("log")).unwrap();
            io::Write::write_all(&mut fs::File::from(log), line.as_bytes()).unwrap();
            assert_eq!(is_new, is_first);
        }
        std::os::unix::fs::symlink("later", folder.join("link")).unwrap();
        assert!(append(&path("link")).is_ok() && folder.join("later").exists());
        assert_eq!(fs::read_to_string(folder.join("log")).unwrap(), "one\ntwo\n");
        let made = std::process::Command::new("mkfifo").arg(folder.join("quiet")).status();
        assert!(made.unwrap().success());
        let error = append(&path("quiet")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENXIO));
        fs::remove_dir_all(&folder).unwrap();
    }
}
