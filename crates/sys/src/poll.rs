//! `poll(2)`: waits for the first ready descriptor of several.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use crate::check;

/// Waits until one of `descriptors` is readable, closed by its peer or broken, for at most
/// `timeout` (`None`: forever). Returns the readiness of each descriptor. No descriptor is ready
/// after the timeout or a signal.
///
/// # Errors
/// Those of `poll(2)`, except an interruption by a signal.
pub fn readable(
    descriptors: &[BorrowedFd<'_>],
    timeout: Option<Duration>,
) -> io::Result<Vec<bool>> {
    wait(descriptors, libc::POLLIN, timeout)
}

/// Waits for at most `timeout` until `descriptor` accepts more bytes, and returns whether it does.
/// A ready pipe accepts at least `PIPE_BUF` bytes. A broken pipe and a regular file are always
/// ready.
///
/// # Errors
/// The errors of [`readable`].
pub fn writable(descriptor: BorrowedFd<'_>, timeout: Duration) -> io::Result<bool> {
    Ok(wait(&[descriptor], libc::POLLOUT, Some(timeout))? == [true])
}

fn wait(
    descriptors: &[BorrowedFd<'_>],
    events: libc::c_short,
    timeout: Option<Duration>,
) -> io::Result<Vec<bool>> {
    let mut entries: Vec<libc::pollfd> = descriptors
        .iter()
        .map(|descriptor| libc::pollfd {
            fd: descriptor.as_raw_fd(),
            events,
            revents: 0,
        })
        .collect();
    // Rounded up, to make sure that the deadline has passed after the timeout.
    let milliseconds = timeout.map_or(-1, |timeout| {
        i32::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
    });
    let count = libc::nfds_t::try_from(entries.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: `entries` is a live array of `count` entries.
    match check(unsafe { libc::poll(entries.as_mut_ptr(), count, milliseconds) }) {
        Ok(_) => Ok(entries.iter().map(|entry| entry.revents != 0).collect()),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(vec![false; entries.len()]),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn tells_who_has_something_to_read() {
        let (quiet, _kept) = io::pipe().unwrap();
        let (loud, mut writer) = io::pipe().unwrap();
        let both = [quiet.as_fd(), loud.as_fd()];
        let nothing = readable(&both, Some(Duration::from_millis(1))).unwrap();
        assert_eq!(nothing, [false, false]);
        writer.write_all(b"x").unwrap();
        assert_eq!(readable(&both, None).unwrap(), [false, true]);
    }

    #[test]
    fn a_closed_peer_counts() {
        let (reader, writer) = io::pipe().unwrap();
        drop(writer);
        assert_eq!(readable(&[reader.as_fd()], None).unwrap(), [true]);
    }

    #[test]
    fn a_full_pipe_takes_nothing_more() {
        let (mut reader, writer) = io::pipe().unwrap();
        crate::descriptor::set_nonblocking(&writer).unwrap();
        while (&writer).write(&[0; 4096]).is_ok() {}
        assert!(!writable(writer.as_fd(), Duration::ZERO).unwrap());
        io::Read::read_exact(&mut reader, &mut [0; 8192]).unwrap();
        assert!(writable(writer.as_fd(), Duration::ZERO).unwrap());
    }
}
