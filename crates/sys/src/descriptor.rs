//! File descriptors: flags, inheritance and replacement.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::{check, check_size};

/// Makes every later call on this open file return `WouldBlock` instead of waiting.
///
/// # Errors
/// The error of `fcntl(2)`.
pub fn set_nonblocking(descriptor: impl AsFd) -> io::Result<()> {
    let fd = descriptor.as_fd().as_raw_fd();
    // SAFETY: no memory arguments.
    let flags = check(unsafe { libc::fcntl(fd, libc::F_GETFL) })?;
    // SAFETY: no memory arguments.
    check(unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) })?;
    Ok(())
}

/// Makes the kernel enlarge this process's table of descriptors for `count` of them.
///
/// The kernel doubles the table when it is full. In a process of several threads that waits until
/// no processor uses the former table (`synchronize_rcu`), and all threads that open something wait
/// with it. In a process of one thread, where this function belongs, it waits for nothing.
///
/// # Errors
/// The error of `fcntl(2)`, such as `EINVAL` where `count` is beyond the limit of descriptors.
pub fn make_room(descriptor: impl AsFd, count: u64) -> io::Result<()> {
    let highest = RawFd::try_from(count.saturating_sub(1)).unwrap_or(RawFd::MAX);
    duplicate_above(descriptor.as_fd().as_raw_fd(), highest).map(drop)
}

/// Returns a copy of the descriptor whose number is at least `lowest`.
///
/// # Errors
/// The error of `fcntl(2)`: `EINVAL` where `lowest` is beyond the limit of descriptors, `EMFILE`
/// where none is free.
pub(crate) fn duplicate_above(fd: RawFd, lowest: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: no memory arguments.
    let copy = check(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, lowest) })?;
    // SAFETY: fresh descriptor, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Returns whether the descriptor is an end of a pipe. Asks no file system.
pub fn is_pipe(descriptor: BorrowedFd<'_>) -> bool {
    // SAFETY: no memory arguments.
    unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_GETPIPE_SZ) != -1 }
}

/// Reads from a non-blocking pipe. A writer that stops in the middle of its `write(2)`, because its
/// memory cannot be read at once, does not stop this call (Linux 6.4).
///
/// # Errors
/// `WouldBlock` if there is nothing to read or the pipe is in use, or another error of
/// `preadv2(2)`.
pub fn read_now(pipe: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    let part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let fd = pipe.as_raw_fd();
    // SAFETY: one live part of the stated length. The offset -1 means the file's own.
    let read = check_size(unsafe { libc::preadv2(fd, &raw const part, 1, -1, libc::RWF_NOWAIT) });
    match read {
        Err(error) if is_unknown(&error) => {
            // SAFETY: `buffer` is live and writable with that length.
            check_size(unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) })
        }
        result => result,
    }
}

/// Returns the number of bytes in a pipe that nobody has read yet. Either end of it will do.
///
/// # Errors
/// The error of `ioctl(2)`.
pub fn unread(pipe: BorrowedFd<'_>) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: FIONREAD writes one int, which is live.
    check(unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut bytes) })?;
    Ok(usize::try_from(bytes).unwrap_or(0))
}

/// Returns whether the kernel does not have the flag for this kind of file.
pub(crate) fn is_unknown(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL))
}

/// Returns whether `error` says that the process or the system has as many open files as it may
/// have (`EMFILE`, `ENFILE`).
pub fn is_exhausted(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Sets whether `descriptor` stays open when this process executes another program.
///
/// # Errors
/// The error of `fcntl(2)`.
pub fn set_inheritable(descriptor: BorrowedFd<'_>, inheritable: bool) -> io::Result<()> {
    let flags = if inheritable { 0 } else { libc::FD_CLOEXEC };
    // SAFETY: no memory arguments.
    check(unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_SETFD, flags) })?;
    Ok(())
}

/// Takes ownership of a descriptor that this process was started with, and makes it close-on-exec.
///
/// # Errors
/// The descriptor is not open, is a standard one, or is already close-on-exec. A close-on-exec
/// descriptor was opened by this process or taken over before, therefore it has an owner.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: no memory arguments.
    let flags = check(unsafe { libc::fcntl(number, libc::F_GETFD) })?;
    if number <= libc::STDERR_FILENO || flags & libc::FD_CLOEXEC != 0 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("descriptor {number} was not inherited"),
        ));
    }
    // SAFETY: no memory arguments.
    check(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    // SAFETY: it is open, and everything that this process opens itself is close-on-exec, so nobody
    // else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Replaces the open file of the descriptor `old` by `new` atomically: a concurrent write to `old`
/// reaches either the former file or the new one.
///
/// # Errors
/// The error of `dup3(2)`.
pub fn replace(old: BorrowedFd<'_>, new: BorrowedFd<'_>) -> io::Result<()> {
    if old.as_raw_fd() == new.as_raw_fd() {
        return Ok(());
    }
    // SAFETY: both are open; the number `old` stays owned by whom it was.
    check(unsafe { libc::dup3(new.as_raw_fd(), old.as_raw_fd(), libc::O_CLOEXEC) })?;
    Ok(())
}

/// Closes every descriptor except the standard ones and those in `keep`.
///
/// # Safety
/// Call it only in a new child process in which no owner of a closed descriptor will use or drop
/// it.
pub(crate) unsafe fn close_all_but(keep: &[RawFd]) {
    let mut keep: Vec<RawFd> =
        keep.iter().copied().filter(|fd| *fd > libc::STDERR_FILENO).collect();
    keep.sort_unstable();
    let mut first = libc::STDERR_FILENO + 1;
    for fd in keep {
        if first < fd {
            close_range(first, fd - 1, 0);
        }
        first = fd + 1;
    }
    close_range(first, RawFd::MAX, 0);
}

/// Makes every descriptor from `first` on close-on-exec.
pub(crate) fn close_on_exec_from(first: RawFd) {
    close_range(first, RawFd::MAX, libc::CLOSE_RANGE_CLOEXEC);
}

/// Calls `close_range(2)`, or changes descriptors one by one on kernels before 5.11.
fn close_range(first: RawFd, last: RawFd, flags: libc::c_uint) {
    // SAFETY: no memory arguments; that the descriptors may be closed is for the callers above to
    // know.
    if unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } == 0 {
        return;
    }
    // SAFETY: no memory arguments.
    let most = unsafe { libc::sysconf(libc::_SC_OPEN_MAX) };
    let most = RawFd::try_from(most).unwrap_or(1024);
    for fd in first..=last.min(most) {
        // SAFETY: as above.
        unsafe {
            if flags & libc::CLOSE_RANGE_CLOEXEC == 0 {
                libc::close(fd);
            } else {
                libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};

    #[test]
    fn what_we_opened_ourselves_was_not_inherited() {
        let (reader, _writer) = io::pipe().unwrap();
        assert!(inherited(reader.as_raw_fd()).is_err());
        assert!(inherited(2).is_err());
    }

    #[test]
    fn an_inherited_descriptor_is_taken_over_once() {
        let (reader, _writer) = io::pipe().unwrap();
        let number = OwnedFd::from(reader);
        set_inheritable(number.as_fd(), true).unwrap();
        let number = std::os::fd::IntoRawFd::into_raw_fd(number);
        let ours = inherited(number).unwrap();
        assert!(inherited(number).is_err());
        drop(ours);
    }

    #[test]
    fn a_table_with_room_is_not_enlarged_later() {
        let size = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let size = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap();
            size.trim().parse::<u64>().unwrap()
        };
        let (reader, _writer) = io::pipe().unwrap();
        make_room(&reader, 700).unwrap();
        assert!(size() >= 700, "{}", size());
        let (_, hard) = crate::process::descriptor_limit().unwrap();
        assert!(make_room(&reader, hard.saturating_add(1)).is_err());
    }

    #[test]
    fn a_pipe_is_read_without_waiting() {
        let (reader, mut writer) = io::pipe().unwrap();
        set_nonblocking(&reader).unwrap();
        let mut buffer = [0; 8];
        let error = read_now(reader.as_fd(), &mut buffer).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        writer.write_all(b"line").unwrap();
        assert_eq!(read_now(reader.as_fd(), &mut buffer).unwrap(), 4);
        assert_eq!(&buffer[..4], b"line");
        drop(writer);
        // It may live on for a moment in a child that another test has just forked.
        crate::poll::readable(&[reader.as_fd()], None).unwrap();
        assert_eq!(read_now(reader.as_fd(), &mut buffer).unwrap(), 0);
    }

    #[test]
    fn a_replaced_descriptor_leads_to_the_new_file() {
        let (_former_reader, former) = io::pipe().unwrap();
        let (mut reader, new) = io::pipe().unwrap();
        replace(former.as_fd(), new.as_fd()).unwrap();
        drop(new);
        let mut former = File::from(OwnedFd::from(former));
        former.write_all(b"here").unwrap();
        drop(former);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "here");
    }
}
