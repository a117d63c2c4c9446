//! The page cache: reading the part of a file that is in memory, without waiting for the disk.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::check_size;
use crate::descriptor::is_unknown;

/// Reads from `offset` on what is in memory. Returns the number of bytes read, 0 at the end of the
/// file. May wait where the file system cannot tell (network file systems, some in user space).
///
/// # Errors
/// `WouldBlock` if the first byte is on the disk only, or another error of `preadv2(2)`.
pub fn read(file: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    match read_with(file, buffer, offset, libc::RWF_NOWAIT) {
        Err(error) if is_unknown(&error) => read_with(file, buffer, offset, 0),
        result => result,
    }
}

/// Returns whether the byte at `offset` is certainly on the disk only.
pub fn lacks(file: BorrowedFd<'_>, offset: u64) -> bool {
    read_with(file, &mut [0], offset, libc::RWF_NOWAIT)
        .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

/// Makes the kernel read what this open file is asked for, and nothing ahead of it. Without this, a
/// read of a few bytes in memory may find memory for megabytes behind them before it returns
/// (`read_ahead_kb` of the disk).
///
/// # Errors
/// The error of `posix_fadvise(2)`.
pub fn stop_reading_ahead(file: BorrowedFd<'_>) -> io::Result<()> {
    advise(file, 0, 0, libc::POSIX_FADV_RANDOM)
}

/// Begins to bring a part of the file into memory, without waiting for the disk.
///
/// # Errors
/// The error of `posix_fadvise(2)`.
pub fn read_ahead(file: BorrowedFd<'_>, part: &Range<u64>) -> io::Result<()> {
    let number = |value| libc::off_t::try_from(value).map_err(|_| io::ErrorKind::InvalidInput);
    let length = number(part.end.saturating_sub(part.start))?;
    advise(file, number(part.start)?, length, libc::POSIX_FADV_WILLNEED)
}

/// Removes the file from memory, as far as its bytes are on the disk and nothing uses them. Tests
/// make a file cold with this.
///
/// # Errors
/// The error of `fsync(2)` or `posix_fadvise(2)`.
pub fn remove(file: BorrowedFd<'_>) -> io::Result<()> {
    let fd = file.as_raw_fd();
    // SAFETY: no memory arguments.
    crate::check(unsafe { libc::fsync(fd) })?;
    advise(file, 0, 0, libc::POSIX_FADV_DONTNEED)
}

fn advise(
    file: BorrowedFd<'_>,
    offset: libc::off_t,
    length: libc::off_t,
    advice: libc::c_int,
) -> io::Result<()> {
    // SAFETY: no memory arguments.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, length, advice) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

fn read_with(
    file: BorrowedFd<'_>,
    buffer: &mut [u8],
    offset: u64,
    flags: libc::c_int,
) -> io::Result<usize> {
    let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    let part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    loop {
        // SAFETY: one live, writable part of the stated length.
        let read = check_size(unsafe {
            libc::preadv2(file.as_raw_fd(), &raw const part, 1, offset, flags)
        });
        match read {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_cold_file_is_not_waited_for() {
        let path = std::env::temp_dir().join(format!("howdah-page-cache-{}", std::process::id()));
        let mut file = std::fs::File::create_new(&path).unwrap();
        file.write_all(&[7; 100_000]).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut buffer = [0; 10];
        assert_eq!(read(file.as_fd(), &mut buffer, 99_995).unwrap(), 5);
        assert_eq!(buffer[..5], [7; 5]);
        assert_eq!(read(file.as_fd(), &mut buffer, 100_000).unwrap(), 0);
        assert!(!lacks(file.as_fd(), 0));
        assert!(!lacks(file.as_fd(), 1 << 40), "behind the end there is nothing to wait for");
        assert!(read(file.as_fd(), &mut buffer, u64::MAX).is_err());

        remove(file.as_fd()).unwrap();
        // A file system in memory still has the bytes.
        if let Err(error) = read(file.as_fd(), &mut buffer, 0) {
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        }
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut buffer, 50_000).unwrap();
        assert!(!lacks(file.as_fd(), 50_000));
    }

    /// A file of that many bytes, of which the first megabyte was read since it was written,
    /// without reading ahead. `None`: a file system in memory.
    fn partly_read(size: usize) -> Option<std::fs::File> {
        let path = std::env::temp_dir().join(format!("howdah-read-ahead-{}", std::process::id()));
        std::fs::write(&path, vec![7; size]).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        stop_reading_ahead(file.as_fd()).unwrap();
        remove(file.as_fd()).unwrap();
        if !lacks(file.as_fd(), size as u64 - 1) {
            return None;
        }
        let mut buffer = vec![0; 64 << 10];
        for turn in 0..16 {
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut buffer, turn << 16).unwrap();
        }
        assert!(!lacks(file.as_fd(), 100));
        Some(file)
    }

    #[test]
    fn bytes_that_nobody_asked_for_stay_on_the_disk() {
        const SIZE: usize = 16 << 20;
        const LAST: u64 = SIZE as u64 - 1;
        // A part may have stayed in memory since it was written.
        let is_left = |file: &std::fs::File| lacks(file.as_fd(), 2 << 20);
        assert!((0..8).any(|_| partly_read(SIZE).is_none_or(|file| is_left(&file))));
        let Some(file) = partly_read(SIZE) else {
            return;
        };
        read_ahead(file.as_fd(), &(LAST..LAST + 1)).unwrap();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while lacks(file.as_fd(), LAST) {
            assert!(std::time::Instant::now() < until, "it was asked for");
            std::thread::yield_now();
        }
    }
}
