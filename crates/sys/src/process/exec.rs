//! Replaces this process by another program.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Replaces this process by `program`. Returns only after a failure. Blocked signals stay blocked
/// and wait for the new program; `std` would unblock them.
pub fn execute(program: &Path, arguments: &[CString], environment: &[CString]) -> io::Error {
    let program = match CString::new(OsStr::new(program).as_bytes()) {
        Ok(program) => program,
        Err(error) => return error.into(),
    };
    let (arguments, environment) = (pointers(arguments), pointers(environment));
    // SAFETY: NUL-terminated strings and null-terminated arrays of them, all alive.
    unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    io::Error::last_os_error()
}

/// The array of pointers for `execve`.
pub(super) fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
}
