//! `epoll(7)`: the one option that tokio does not offer.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use crate::check;

/// Changes the registration of `watched` with an epoll instance of this process to
/// `EPOLLEXCLUSIVE`: of the threads that wait for copies of one socket, each event wakes one.
///
/// The instance belongs to tokio, which reveals neither its descriptor nor the data of a
/// registration. The kernel lists both in `/proc/self/fdinfo`.
///
/// # Errors
/// `/proc` does not show the registration. The registration is unchanged then.
pub(crate) fn make_exclusive(watched: BorrowedFd<'_>) -> io::Result<()> {
    let Registration { instance, events, data } = registration_of(watched.as_raw_fd())?;
    let kept = events & (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET).cast_unsigned();
    control(instance, libc::EPOLL_CTL_DEL, watched, 0, 0)?;
    let exclusive = kept | libc::EPOLLEXCLUSIVE.cast_unsigned();
    control(instance, libc::EPOLL_CTL_ADD, watched, exclusive, data)
        .or_else(|_| control(instance, libc::EPOLL_CTL_ADD, watched, events, data))
}

/// An entry of an epoll instance.
#[derive(Debug, PartialEq, Eq)]
struct Registration {
    instance: RawFd,
    events: u32,
    data: u64,
}

fn registration_of(watched: RawFd) -> io::Result<Registration> {
    for entry in fs::read_dir("/proc/self/fdinfo")? {
        let entry = entry?;
        // Other threads open and close descriptors during the iteration.
        let Ok(text) = fs::read_to_string(entry.path()) else {
            continue;
        };
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let (Some(instance), Some((events, data))) = (number, find(&text, watched)) {
            return Ok(Registration { instance, events, data });
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Finds `tfd: 9 events: 80000019 data: 7f1c…` of descriptor `watched`; both numbers are
/// hexadecimal.
fn find(text: &str, watched: RawFd) -> Option<(u32, u64)> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let mut value = |name| (words.next()? == name).then(|| words.next())?;
        let descriptor: RawFd = value("tfd:")?.parse().ok()?;
        let events = u32::from_str_radix(value("events:")?, 16).ok()?;
        let data = u64::from_str_radix(value("data:")?, 16).ok()?;
        (descriptor == watched).then_some((events, data))
    })
}

fn control(
    instance: RawFd,
    operation: libc::c_int,
    watched: BorrowedFd<'_>,
    events: u32,
    data: u64,
) -> io::Result<()> {
    let mut event = libc::epoll_event { events, u64: data };
    // SAFETY: `event` is live. The kernel hands `data` to the owner of the instance, who registered
    // this descriptor with the same `data` and removes it before `data` loses its meaning.
    check(unsafe { libc::epoll_ctl(instance, operation, watched.as_raw_fd(), &raw mut event) })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_is_read_as_the_kernel_writes_it() {
        let text = "pos:\t0\nflags:\t02000002\n\
                    tfd:        5 events:       19 data:                7  pos:0 ino:3e sdev:d\n\
                    tfd:       12 events: 8000201f data:     7f1c00ab4010  pos:0 ino:9 sdev:8\n";
        assert_eq!(find(text, 12), Some((0x8000_201f, 0x7f1c_00ab_4010)));
        assert_eq!(find(text, 5), Some((0x19, 7)));
        assert_eq!(find(text, 1), None);
        assert_eq!(find("tfd: 1 events:\n", 1), None);
    }
}
