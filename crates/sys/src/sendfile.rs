//! `sendfile(2)`: sends from the page cache to a socket without copying through user memory.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::check_size;

/// Sends up to `count` bytes of `file` from `offset`. Returns the number of bytes sent. The file's
/// own position does not change.
///
/// Returns 0 for a `count` above 0 if the file ends at or before `offset`: the file has become
/// shorter, and the promised bytes cannot be sent.
///
/// # Errors
/// `WouldBlock` if a non-blocking socket accepts no bytes. `BrokenPipe` for a closed peer if
/// SIGPIPE is ignored, which Rust's runtime does.
pub fn sendfile(
    socket: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    offset: u64,
    count: usize,
) -> io::Result<usize> {
    let mut offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    loop {
        // SAFETY: `offset` is a live word; both descriptors are open.
        let sent = unsafe {
            libc::sendfile(socket.as_raw_fd(), file.as_raw_fd(), &raw mut offset, count.min(MOST))
        };
        match check_size(sent) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Largest number of bytes that the kernel sends in one call. Further bytes need another call.
const MOST: usize = 0x7fff_f000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    fn file(bytes: &[u8]) -> std::fs::File {
        let mut file =
            std::fs::File::from(crate::memory::sealed_file(c"test", bytes.len()).unwrap());
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn sends_the_part_asked_for() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        assert_eq!(sendfile(ours.as_fd(), file(b"0123456789").as_fd(), 3, 4).unwrap(), 4);
        let mut received = [0; 4];
        theirs.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"3456");
    }

    #[test]
    fn nothing_behind_the_end() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let file = file(b"0123456789");
        assert_eq!(sendfile(ours.as_fd(), file.as_fd(), 8, 100).unwrap(), 2);
        assert_eq!(sendfile(ours.as_fd(), file.as_fd(), 10, 1).unwrap(), 0);
        assert_eq!(sendfile(ours.as_fd(), file.as_fd(), 1 << 40, 1).unwrap(), 0);
        assert!(sendfile(ours.as_fd(), file.as_fd(), u64::MAX, 1).is_err());
    }

    #[test]
    fn a_full_socket_would_block() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let file = file(&vec![7; 1 << 20]);
        let mut sent = 0;
        let error = loop {
            match sendfile(ours.as_fd(), file.as_fd(), sent % (1 << 20), 1 << 20) {
                Ok(count) => sent += count as u64,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_peer_that_went_away() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.shutdown(std::net::Shutdown::Both).unwrap();
        let error = sendfile(ours.as_fd(), file(b"x").as_fd(), 0, 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
