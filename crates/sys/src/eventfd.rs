//! `eventfd(2)`: a counter that wakes an event loop.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::check;

/// A non-blocking event counter.
///
/// An edge-triggered epoll reports every [`EventFd::ring`], therefore its listener does not have to
/// read the counter.
#[derive(Debug)]
pub struct EventFd(File);

impl EventFd {
    /// Creates a counter at zero.
    ///
    /// # Errors
    /// The error of `eventfd(2)`.
    pub fn new() -> io::Result<EventFd> {
        // SAFETY: eventfd has no memory arguments.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
        // SAFETY: the kernel just gave us this descriptor, nobody else owns it.
        Ok(EventFd(unsafe { File::from_raw_fd(fd) }))
    }

    /// Adds one, and notifies the listener. A full counter notifies nobody, therefore it is set to
    /// zero first.
    ///
    /// # Errors
    /// The error of `write(2)` or `read(2)`.
    pub fn ring(&self) -> io::Result<()> {
        let add = || (&self.0).write_all(&1u64.to_ne_bytes());
        match add() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.take()?;
                match add() {
                    // Somebody has filled it again, and has notified the listener by that.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
                    other => other,
                }
            }
            other => other,
        }
    }

    /// Returns the count and sets it to zero. 0 if [`EventFd::ring`] was not called.
    ///
    /// # Errors
    /// The error of `read(2)`.
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

impl From<EventFd> for OwnedFd {
    fn from(bell: EventFd) -> OwnedFd {
        bell.0.into()
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

    #[test]
    fn a_full_counter_notifies_all_the_same() {
        let bell = EventFd::new().unwrap();
        let most = u64::MAX - 1;
        (&bell.0).write_all(&most.to_ne_bytes()).unwrap();
        bell.ring().unwrap();
        assert_eq!(bell.take().unwrap(), 1);
    }
}
