//! `eventfd(2)`: the bell that wakes a sleeping event loop.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::check;

/// A non-blocking event counter.
///
/// An edge-triggered epoll reports each [`EventFd::ring`] anew, so a listener of that kind need not
/// read it.
#[derive(Debug)]
pub struct EventFd(File);

impl EventFd {
    /// A new counter at zero.
    pub fn new() -> io::Result<EventFd> {
        // SAFETY: eventfd has no memory arguments.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
        // SAFETY: the kernel just gave us this descriptor, nobody else owns it.
        Ok(EventFd(unsafe { File::from_raw_fd(fd) }))
    }

    /// Adds one. A counter that is full already says what we want to say, so that is not an error.
    pub fn ring(&self) -> io::Result<()> {
        match (&self.0).write_all(&1u64.to_ne_bytes()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            other => other,
        }
    }

    /// Takes the count and sets it to zero; 0 if nobody rang.
    pub fn take(&self) -> io::Result<u64> {
        let mut count = [0; 8];
        match (&self.0).read_exact(&mut count) {
            Ok(()) => Ok(u64::from_ne_bytes(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error),
        }
    }
}

impl From<OwnedFd> for EventFd {
    fn from(fd: OwnedFd) -> EventFd {
        EventFd(File::from(fd))
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_rings() {
        let bell = EventFd::new().unwrap();
        assert_eq!(bell.take().unwrap(), 0);
        bell.ring().unwrap();
        bell.ring().unwrap();
        assert_eq!(bell.take().unwrap(), 2);
        assert_eq!(bell.take().unwrap(), 0);
    }
}
