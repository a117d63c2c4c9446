//! The free space of a file system.

use std::ffi::CStr;
use std::io;

use crate::check;

/// Returns the bytes that ordinary users may still write to the file system of `path`.
///
/// # Errors
/// The error of `statvfs(3)`.
pub fn free(path: &CStr) -> io::Result<u64> {
    // SAFETY: an all-zero `statvfs` is a valid value of that plain C struct.
    let mut system: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `path` ends with a NUL, and `system` is live.
    check(unsafe { libc::statvfs(path.as_ptr(), &raw mut system) })?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_file_system_has_room_and_a_missing_path_is_an_error() {
        assert!(super::free(c"/dev/shm").or_else(|_| super::free(c"/")).is_ok());
        assert!(super::free(c"/nowhere/at/all").is_err());
    }
}
