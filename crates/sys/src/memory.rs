//! `memfd_create(2)` and `mmap(2)`: memory that processes share and that no other process can find.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

use crate::{check, check_size};

/// Creates an anonymous file of `length` zero bytes, whose size cannot be changed.
///
/// The seal is necessary: a peer that could shrink the file could make this process fail with
/// SIGBUS.
///
/// # Errors
/// The error of a system call.
pub fn sealed_file(name: &std::ffi::CStr, length: usize) -> io::Result<OwnedFd> {
    // SAFETY: `name` is NUL-terminated.
    let fd = check(unsafe {
        libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING)
    })?;
    // SAFETY: fresh descriptor, owned by nobody else.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    let length = libc::off_t::try_from(length).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: no memory arguments.
    check(unsafe { libc::ftruncate(fd, length) })?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: no memory arguments.
    check(unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, seals) })?;
    Ok(file)
}

/// Returns whether `file` is sealed as by [`sealed_file`] and has exactly `length` bytes.
///
/// # Errors
/// The error of a system call.
pub fn is_sealed(file: BorrowedFd<'_>, length: usize) -> io::Result<bool> {
    // SAFETY: no memory arguments.
    let seals = check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) })?;
    let wanted = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
    // SAFETY: an all-zero `stat` is a valid value of that plain C struct.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` is a live buffer of the right type.
    check(unsafe { libc::fstat(file.as_raw_fd(), &raw mut stat) })?;
    Ok(seals & wanted == wanted && usize::try_from(stat.st_size) == Ok(length))
}

/// A shared, writable mapping, unmapped on drop.
///
/// Only a pointer is available: other processes write to these bytes at any time, therefore no
/// reference to them may exist.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: a mapping is an address range; all access goes through raw pointers whose users take care
// of ordering.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `length` bytes of `file`, which must not be shorter (see [`is_sealed`]).
    ///
    /// # Errors
    /// The file is not sealed with this length, or the error of `mmap(2)`.
    pub fn new(file: BorrowedFd<'_>, length: usize) -> io::Result<Mapping> {
        if !is_sealed(file, length)? {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "shared memory has another size, or is not sealed",
            ));
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Mapping { base, length })
    }

    /// Pointer to the first byte.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Number of mapped bytes.
    pub fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: we mapped exactly this range, and no pointer into it outlives the owner of the
        // mapping.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

/// Releases the pages of `[offset, offset+length)` of a memory file to the kernel. They read as
/// zero afterwards.
///
/// # Errors
/// The error of `fallocate(2)`.
pub fn release(file: impl AsFd, offset: usize, length: usize) -> io::Result<()> {
    let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    let length = libc::off_t::try_from(length).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: no memory arguments; mappings of the range stay valid and read zeros.
    check(unsafe { libc::fallocate(file.as_fd().as_raw_fd(), mode, offset, length) })?;
    Ok(())
}

/// Calls `writev(2)` with raw parts. The kernel copies the bytes, therefore they may change during
/// the call.
///
/// # Errors
/// The error of `writev(2)`.
///
/// # Safety
/// Every part must be mapped, readable memory during the call.
pub unsafe fn write_parts(to: BorrowedFd<'_>, parts: &[libc::iovec]) -> io::Result<usize> {
    let count = libc::c_int::try_from(parts.len()).unwrap_or(libc::c_int::MAX);
    // SAFETY: `parts` is a live array of `count` entries; the caller vouches for what they point
    // to.
    check_size(unsafe { libc::writev(to.as_raw_fd(), parts.as_ptr(), count) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_file_cannot_be_shrunk() {
        let file = sealed_file(c"test", 8192).unwrap();
        assert!(is_sealed(file.as_fd(), 8192).unwrap());
        let file = std::fs::File::from(file);
        assert!(file.set_len(0).is_err());
        assert!(file.set_len(1 << 20).is_err());
    }

    #[test]
    fn two_mappings_see_the_same_bytes() {
        let file = sealed_file(c"test", 4096).unwrap();
        let one = Mapping::new(file.as_fd(), 4096).unwrap();
        let two = Mapping::new(file.as_fd(), 4096).unwrap();
        // SAFETY: both mappings are 4096 bytes long and private to this test.
        unsafe { one.base().as_ptr().add(7).write_volatile(42) };
        // SAFETY: as above.
        assert_eq!(unsafe { two.base().as_ptr().add(7).read_volatile() }, 42);
    }

    #[test]
    fn a_file_of_another_size_is_refused() {
        let file = sealed_file(c"test", 4096).unwrap();
        assert!(Mapping::new(file.as_fd(), 8192).is_err());
    }
}
