//! Socket options that the standard library does not offer.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::check_size;

/// Sends `bytes` with `MSG_MORE`: the kernel holds an incomplete packet back because more bytes
/// follow at once.
///
/// # Errors
/// The error of `send(2)`.
pub fn send_more(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_MORE | libc::MSG_NOSIGNAL;
    // SAFETY: `bytes` is live, readable memory of that length.
    check_size(unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) })
}

/// Looks for the end of the other side without taking bytes. Returns 0 at the end, 1 where a byte
/// waits.
///
/// # Errors
/// `WouldBlock` where neither is so, and the other errors of `recv(2)`.
pub fn peek(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let mut byte = [0_u8; 1];
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: `byte` is live, writable memory of that length.
    check_size(unsafe {
        libc::recv(socket.as_raw_fd(), byte.as_mut_ptr().cast(), byte.len(), flags)
    })
}

/// Returns the number of bytes that were sent over a TCP connection and that the other side has not
/// acknowledged.
///
/// # Errors
/// The error of `ioctl(2)`.
pub fn unacknowledged(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let mut count: libc::c_int = 0;
    // SAFETY: the request writes one number, for which `count` is live memory.
    crate::check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut count) })?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Returns the user that the process at the other end of a Unix socket had when it connected.
///
/// # Errors
/// The error of `getsockopt(2)`: `socket` is no Unix socket.
pub fn peer_user(socket: BorrowedFd<'_>) -> io::Result<u32> {
    // SAFETY: an all-zero `ucred` is a valid value of that plain C struct.
    let mut found: libc::ucred = unsafe { std::mem::zeroed() };
    let mut length = libc::socklen_t::try_from(size_of::<libc::ucred>()).unwrap_or(0);
    // SAFETY: `found` is a live buffer of that length, and `length` says so.
    crate::check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut length,
        )
    })?;
    Ok(found.uid)
}

/// Makes the kernel refuse messages with descriptors (`SCM_RIGHTS`) to a Unix socket, or to the
/// connections of one that listens: their senders get `EPERM`. Closing a descriptor that nobody
/// asked for may wait as long as its sender likes.
///
/// # Errors
/// The error of `setsockopt(2)`, on kernels before Linux 6.16 always.
pub fn refuse_descriptors(socket: BorrowedFd<'_>) -> io::Result<()> {
    const SO_PASSRIGHTS: libc::c_int = 83;
    let off: libc::c_int = 0;
    // SAFETY: the option is a live number of the stated size.
    crate::check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const off).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn the_other_side_has_a_user() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(peer_user(one.as_fd()).unwrap(), crate::credentials::own_user());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let told = peer_user(listener.as_fd());
        assert!(told.is_err() || told.is_ok_and(|user| user == u32::MAX));
    }

    #[test]
    fn connections_of_a_listener_that_refuses_descriptors_take_bytes_alone() {
        use crate::seqpacket::SeqPacket;
        use std::os::fd::OwnedFd;
        use std::os::unix::net::{UnixListener, UnixStream};

        let name = format!("howdah-descriptors-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listener = UnixListener::bind(&path).unwrap();
        if refuse_descriptors(listener.as_fd()).is_err() {
            std::fs::remove_file(path).unwrap();
            howdah_skip::skip!("before Linux 6.16 every socket takes descriptors");
            return;
        }
        let client = SeqPacket::from(OwnedFd::from(UnixStream::connect(&path).unwrap()));
        std::fs::remove_file(path).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let refused = client.send(b"laden", &[listener.as_fd()]).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
        client.send(b"bytes", &[]).unwrap();
        drop(client);
        let mut all = String::new();
        server.read_to_string(&mut all).unwrap();
        assert_eq!(all, "bytes");
    }

    #[test]
    fn peeking_takes_nothing() {
        let (mut one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        let nothing = peek(other.as_fd()).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        std::io::Write::write_all(&mut one, b"ab").unwrap();
        assert_eq!(peek(other.as_fd()).unwrap(), 1);
        assert_eq!(peek(other.as_fd()).unwrap(), 1);
        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        // Closed alone, it could live on in a child that another test has just forked.
        one.shutdown(std::net::Shutdown::Both).unwrap();
        assert_eq!(peek(other.as_fd()).unwrap(), 0);
    }

    #[test]
    fn bytes_that_the_other_side_has_no_room_for_are_not_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        assert_eq!(unacknowledged(server.as_fd()).unwrap(), 0);
        server.set_nonblocking(true).unwrap();
        let mut sent = 0;
        while let Ok(count) = std::io::Write::write(&mut server, &[0; 65536]) {
            sent += count;
        }
        let left = unacknowledged(server.as_fd()).unwrap();
        assert!(left > 0 && left <= sent, "{left} of {sent}");
        client.read_exact(&mut vec![0; sent]).unwrap();
        while unacknowledged(server.as_fd()).unwrap() > 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_follows_goes_with_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        assert_eq!(send_more(server.as_fd(), b"head ").unwrap(), 5);
        std::io::Write::write_all(&mut server, b"body").unwrap();
        drop(server);
        let mut all = String::new();
        client.read_to_string(&mut all).unwrap();
        assert_eq!(all, "head body");
    }
}
