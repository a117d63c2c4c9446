//! `memfd_create(2)` and `mmap(2)`: memory that processes share and that no other process can find.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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

    /// Keeps later child processes from having this mapping, however they are created
    /// (`MADV_DONTFORK`). An access of such a child ends the child with SIGSEGV.
    ///
    /// # Errors
    /// The error of `madvise(2)`.
    pub fn keep_from_children(&self) -> io::Result<()> {
        advise(self.base, self.length, libc::MADV_DONTFORK)
    }

    /// Releases the pages of `[offset, offset+length)` to the kernel, for all processes that map
    /// the file. They read as zero afterwards. Both numbers are multiples of the page size.
    ///
    /// Waits while another process writes to the file with `write(2)`.
    ///
    /// # Errors
    /// `InvalidInput` if the range is not inside the mapping, or the error of `madvise(2)`.
    pub fn release(&self, offset: usize, length: usize) -> io::Result<()> {
        if offset.checked_add(length).is_none_or(|end| end > self.length) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: inside the mapping (checked above).
        let start = unsafe { self.base.add(offset) };
        advise(start, length, libc::MADV_REMOVE)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: we mapped exactly this range, and no pointer into it outlives the owner of the
        // mapping.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

fn advise(start: NonNull<u8>, length: usize, advice: libc::c_int) -> io::Result<()> {
    // SAFETY: the callers pass a part of a mapping that they own. None of the advices that they
    // give unmaps it in this process.
    check(unsafe { libc::madvise(start.as_ptr().cast(), length, advice) })?;
    Ok(())
}

/// A mark that tells a process from its later children, however these are created: `fork(2)`, a
/// raw `clone(2)`, or a library. Reading it costs one load.
#[derive(Debug)]
pub struct ProcessMark(NonNull<AtomicBool>);

// SAFETY: the mark is an atomic in memory that is never unmapped.
unsafe impl Send for ProcessMark {}
// SAFETY: as above.
unsafe impl Sync for ProcessMark {}

impl ProcessMark {
    /// Marks this process. The mark's page of memory is never freed.
    ///
    /// # Errors
    /// The error of `mmap(2)` or `madvise(2)`. Linux has `MADV_WIPEONFORK` since 4.14.
    pub fn new() -> io::Result<ProcessMark> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no existing memory.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, protection, flags, -1, 0) };
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let page = NonNull::new(page.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        advise(page, PAGE, libc::MADV_WIPEONFORK)?;
        let mark = ProcessMark(page.cast());
        mark.word().store(true, Ordering::Relaxed);
        Ok(mark)
    }

    /// Returns whether this process created the mark. `false` in its child processes.
    #[inline]
    pub fn is_here(&self) -> bool {
        self.word().load(Ordering::Relaxed)
    }

    fn word(&self) -> &AtomicBool {
        // SAFETY: the page is mapped for the life of the process, zeroed or written by `new`, and
        // accessed as this atomic only.
        unsafe { self.0.as_ref() }
    }
}

/// Bytes of the smallest page of memory. The kernel rounds up.
const PAGE: usize = 4096;

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

/// Numbers that this process shares with the children that it forks, all 0 at first.
#[derive(Debug)]
pub struct SharedNumbers {
    mapping: Mapping,
    count: usize,
}

impl SharedNumbers {
    /// Creates `count` numbers.
    ///
    /// # Errors
    /// The error of a system call.
    pub fn new(count: usize) -> io::Result<SharedNumbers> {
        let length =
            count.max(1).checked_mul(size_of::<u64>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let file = sealed_file(c"numbers", length)?;
        Ok(SharedNumbers {
            mapping: Mapping::new(file.as_fd(), length)?,
            count,
        })
    }

    /// Reads a number. A number that does not exist is 0.
    pub fn load(&self, index: usize) -> u64 {
        self.number(index).map_or(0, |number| number.load(Ordering::Relaxed))
    }

    /// Writes a number. A number that does not exist is not written.
    pub fn store(&self, index: usize, value: u64) {
        self.number(index)
            .into_iter()
            .for_each(|number| number.store(value, Ordering::Relaxed));
    }

    fn number(&self, index: usize) -> Option<&AtomicU64> {
        let base = self.mapping.base().cast::<AtomicU64>();
        // SAFETY: the mapping is aligned to pages, has room for `count` numbers, and lives as long
        // as `self`. All processes use atomic operations alone.
        (index < self.count).then(|| unsafe { base.add(index).as_ref() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

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
    fn released_pages_read_as_zeros_everywhere() {
        let file = sealed_file(c"test", 8192).unwrap();
        let [one, two] = [(), ()].map(|()| Mapping::new(file.as_fd(), 8192).unwrap());
        for offset in [0, 4096] {
            // SAFETY: inside both mappings, which are private to this test.
            unsafe { one.base().add(offset).write_volatile(42) };
        }
        one.release(4096, 4096).unwrap();
        // SAFETY: as above.
        let [kept, gone] = [0, 4096].map(|at| unsafe { two.base().add(at).read_volatile() });
        assert_eq!((kept, gone), (42, 0));
        assert!(one.release(4096, 8192).is_err());
    }

    #[test]
    fn a_child_process_has_neither_the_mapping_nor_the_mark() {
        let file = sealed_file(c"test", 4096).unwrap();
        let mapping = Mapping::new(file.as_fd(), 4096).unwrap();
        mapping.keep_from_children().unwrap();
        let mark = ProcessMark::new().unwrap();
        assert!(mark.is_here());
        for access in [false, true] {
            // SAFETY: the child makes no call that takes a lock: it reads memory and ends.
            let child = unsafe { libc::syscall(libc::SYS_fork) };
            if child == 0 {
                // SAFETY: the access ends the child with SIGSEGV, which the test expects.
                unsafe {
                    libc::signal(libc::SIGSEGV, libc::SIG_DFL);
                    if access {
                        mapping.base().as_ptr().read_volatile();
                    }
                    libc::_exit(i32::from(mark.is_here()));
                }
            }
            let mut status = 0;
            // SAFETY: `status` is live.
            unsafe { libc::waitpid(libc::c_int::try_from(child).unwrap(), &raw mut status, 0) };
            let expected = if access { libc::SIGSEGV } else { 0 };
            assert_eq!(status & 0x7F, expected, "access: {access}");
            assert_eq!(libc::WEXITSTATUS(status), 0);
        }
    }

    #[test]
    fn a_file_of_another_size_is_refused() {
        let file = sealed_file(c"test", 4096).unwrap();
        assert!(Mapping::new(file.as_fd(), 8192).is_err());
    }

    #[test]
    fn numbers_are_shared() {
        let numbers = SharedNumbers::new(2).unwrap();
        numbers.store(1, 7);
        numbers.store(2, 8);
        assert_eq!((numbers.load(0), numbers.load(1), numbers.load(2)), (0, 7, 0));
        std::thread::scope(|scope| {
            scope.spawn(|| numbers.store(0, u64::MAX));
        });
        assert_eq!(numbers.load(0), u64::MAX);
    }
}
