//! `SOCK_SEQPACKET` pairs: whole messages with attached descriptors (`SCM_RIGHTS`).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::process::Pid;
use crate::{check, check_size};

/// Largest number of descriptors in one message (`SCM_MAX_FD`). The kernel refuses more.
pub const MOST_DESCRIPTORS: usize = 253;

/// One end of a pair of connected message sockets.
#[derive(Debug)]
pub struct SeqPacket(OwnedFd);

/// The result of [`SeqPacket::receive`].
#[derive(Debug)]
pub struct Received {
    /// Bytes of the message, 0 at the end of the stream.
    pub length: usize,
    /// The attached descriptors, set to close-on-exec.
    pub descriptors: Vec<OwnedFd>,
    /// The message or its list of descriptors was longer than the buffer.
    pub truncated: bool,
}

impl SeqPacket {
    /// Creates two connected ends, close-on-exec and blocking.
    ///
    /// # Errors
    /// The error of `socketpair(2)`.
    pub fn pair() -> io::Result<(SeqPacket, SeqPacket)> {
        let mut ends: [RawFd; 2] = [-1; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        // SAFETY: `ends` has room for the two descriptors.
        check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) })?;
        // SAFETY: both are fresh and owned by nobody else.
        Ok(unsafe {
            (SeqPacket(OwnedFd::from_raw_fd(ends[0])), SeqPacket(OwnedFd::from_raw_fd(ends[1])))
        })
    }

    /// Sets whether later calls return `WouldBlock` instead of waiting.
    ///
    /// # Errors
    /// The error of `fcntl(2)`.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        let fd = self.0.as_raw_fd();
        // SAFETY: no memory arguments.
        let flags = check(unsafe { libc::fcntl(fd, libc::F_GETFL) })?;
        let flags = if nonblocking {
            flags | libc::O_NONBLOCK
        } else {
            flags & !libc::O_NONBLOCK
        };
        // SAFETY: no memory arguments.
        check(unsafe { libc::fcntl(fd, libc::F_SETFL, flags) })?;
        Ok(())
    }

    /// Sends one message with up to [`MOST_DESCRIPTORS`] descriptors. Waits while the peer's queue
    /// is full, unless the socket is non-blocking.
    ///
    /// # Errors
    /// `BrokenPipe` for a closed peer (never SIGPIPE), or another error of `sendmsg(2)`.
    pub fn send(&self, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.send_with(message, descriptors, 0)
    }

    /// Sends as [`SeqPacket::send`] does, but never waits, whatever the flags of the socket are.
    ///
    /// # Errors
    /// `WouldBlock` if the peer's queue is full, or an error as with [`SeqPacket::send`].
    pub fn send_now(&self, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.send_with(message, descriptors, libc::MSG_DONTWAIT)
    }

    fn send_with(
        &self,
        message: &[u8],
        descriptors: &[BorrowedFd<'_>],
        flags: libc::c_int,
    ) -> io::Result<()> {
        if descriptors.len() > MOST_DESCRIPTORS {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "too many descriptors in one message",
            ));
        }
        let raw: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        let mut part = libc::iovec {
            iov_base: message.as_ptr().cast_mut().cast(),
            iov_len: message.len(),
        };
        let mut control = ControlBuffer::default();
        // SAFETY: an all-zero `msghdr` is valid: no name, no parts, no control data.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        if !raw.is_empty() {
            let bytes = u32::try_from(size_of_val(raw.as_slice()))
                .map_err(|_| io::ErrorKind::InvalidInput)?;
            header.msg_control = control.0.as_mut_ptr().cast();
            // SAFETY: pure arithmetic.
            header.msg_controllen = unsafe { libc::CMSG_SPACE(bytes) } as usize;
            // SAFETY: the control buffer has room for one header and MOST_DESCRIPTORS descriptors,
            // checked above.
            unsafe {
                let first = libc::CMSG_FIRSTHDR(&raw const header);
                (*first).cmsg_level = libc::SOL_SOCKET;
                (*first).cmsg_type = libc::SCM_RIGHTS;
                (*first).cmsg_len = libc::CMSG_LEN(bytes) as usize;
                std::ptr::copy_nonoverlapping(
                    raw.as_ptr(),
                    libc::CMSG_DATA(first).cast(),
                    raw.len(),
                );
            }
        }
        loop {
            // SAFETY: the header points to live buffers of the stated sizes.
            let sent = unsafe {
                libc::sendmsg(self.0.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL | flags)
            };
            match check_size(sent) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Receives one message into `buffer`.
    ///
    /// # Errors
    /// The error of `recvmsg(2)`.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        self.receive_with(buffer, 0)
    }

    /// Receives one message without waiting, even on a socket that another process made blocking.
    ///
    /// # Errors
    /// `WouldBlock` if there is no message, or another error of `recvmsg(2)`.
    pub fn receive_now(&self, buffer: &mut [u8]) -> io::Result<Received> {
        self.receive_with(buffer, libc::MSG_DONTWAIT)
    }

    /// Receives the bytes of one message. The kernel closes attached descriptors; this process
    /// never has them.
    ///
    /// Closing the last descriptor of a file may wait, for example for a TCP connection with
    /// `SO_LINGER`. Therefore this call may wait if the peer is hostile, even on a non-blocking
    /// socket: call it where waiting does no harm.
    ///
    /// # Errors
    /// The error of `recvmsg(2)`.
    pub fn receive_bytes(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            // SAFETY: `buffer` is live and writable with that length.
            let got = unsafe {
                libc::recv(self.0.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0)
            };
            match check_size(got) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// Makes the kernel name the sender of each message, for [`SeqPacket::peek_with_sender`]. Call
    /// it before the peer can send.
    ///
    /// # Errors
    /// The error of `setsockopt(2)`.
    pub fn ask_for_senders(&self) -> io::Result<()> {
        let on: libc::c_int = 1;
        // SAFETY: the option is a live number of the stated size.
        check(unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PASSCRED,
                (&raw const on).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        })?;
        Ok(())
    }

    /// Looks as [`SeqPacket::peek_now`] does, at the whole next message, with the process that sent
    /// the message, as the kernel knows it. `None` at the end of the stream, and without
    /// [`SeqPacket::ask_for_senders`].
    ///
    /// # Errors
    /// `WouldBlock` if there is no message, or another error of `recvmsg(2)`.
    pub fn peek_with_sender(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<Pid>)> {
        // Room for the sender alone: descriptors stay in the message.
        let mut control = [0_u64; 4];
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
        let mut part = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        // SAFETY: an all-zero `msghdr` is valid.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control);
        let length = loop {
            // SAFETY: the header points to live, writable buffers of the stated sizes.
            let got = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut header, flags) };
            match check_size(got) {
                Ok(length) => break length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        };
        // SAFETY: the kernel filled in `header` and its control data just now.
        Ok((length, unsafe { sender(&header) }.filter(|_| length > 0)))
    }

    /// Reads the first bytes of the next message and leaves the message in the queue. Never waits.
    ///
    /// # Errors
    /// `WouldBlock` if there is no message, or another error of `recv(2)`.
    pub fn peek_now(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        // SAFETY: `buffer` is live and writable with that length.
        check_size(unsafe {
            libc::recv(self.0.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), flags)
        })
    }

    /// Returns another descriptor of the same socket.
    ///
    /// # Errors
    /// The error of `fcntl(2)`.
    pub fn duplicate(&self) -> io::Result<SeqPacket> {
        self.0.try_clone().map(SeqPacket)
    }

    /// Refuses messages of the peer for good: its calls fail with `BrokenPipe`. For a peer that is
    /// not trusted: closing a socket closes the descriptors in its queue, which may wait.
    ///
    /// # Errors
    /// The error of `shutdown(2)`.
    pub fn refuse_messages(&self) -> io::Result<()> {
        // SAFETY: no memory arguments.
        check(unsafe { libc::shutdown(self.0.as_raw_fd(), libc::SHUT_RD) })?;
        Ok(())
    }

    /// Ends both directions: every call that waits on either end returns.
    pub fn shut_down(&self) {
        // SAFETY: no memory arguments. It fails only for a socket whose peer is gone.
        unsafe { libc::shutdown(self.0.as_raw_fd(), libc::SHUT_RDWR) };
    }

    fn receive_with(&self, buffer: &mut [u8], flags: libc::c_int) -> io::Result<Received> {
        let mut part = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        let mut control = ControlBuffer::default();
        // SAFETY: an all-zero `msghdr` is valid.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control.0);
        let length = loop {
            // SAFETY: the header points to live, writable buffers of the stated sizes.
            let got = unsafe {
                libc::recvmsg(self.0.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC | flags)
            };
            match check_size(got) {
                Ok(length) => break length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        };
        let truncated = header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
        // SAFETY: the kernel filled in `header` and its control data just now.
        let descriptors = unsafe { passed_descriptors(&header) };
        Ok(Received { length, descriptors, truncated })
    }
}

impl From<OwnedFd> for SeqPacket {
    fn from(fd: OwnedFd) -> SeqPacket {
        SeqPacket(fd)
    }
}

impl From<SeqPacket> for OwnedFd {
    fn from(socket: SeqPacket) -> OwnedFd {
        socket.0
    }
}

impl AsFd for SeqPacket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for SeqPacket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Space for one `SCM_RIGHTS` message of the largest size, with the alignment of `cmsghdr`.
struct ControlBuffer([u64; 132]);

impl Default for ControlBuffer {
    fn default() -> Self {
        ControlBuffer([0; 132])
    }
}

/// Takes ownership of every descriptor that is attached to a message.
///
/// # Safety
/// `header` must be as `recvmsg` left it, with its control buffer alive. Call the function only
/// once per message.
unsafe fn passed_descriptors(header: &libc::msghdr) -> Vec<OwnedFd> {
    let mut descriptors = Vec::new();
    // SAFETY: walking the control data with the C macros stays inside msg_controllen; each
    // SCM_RIGHTS entry holds whole, fresh descriptors that are ours now.
    unsafe {
        let mut entry = libc::CMSG_FIRSTHDR(header);
        while !entry.is_null() {
            if (*entry).cmsg_level == libc::SOL_SOCKET && (*entry).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*entry).cmsg_len - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(entry).cast::<RawFd>();
                for position in 0..bytes / size_of::<RawFd>() {
                    descriptors.push(OwnedFd::from_raw_fd(data.add(position).read_unaligned()));
                }
            }
            entry = libc::CMSG_NXTHDR(header, entry);
        }
    }
    descriptors
}

/// Returns the sender of a message, if the kernel has named it.
///
/// # Safety
/// `header` must be as `recvmsg` left it, with its control buffer alive.
unsafe fn sender(header: &libc::msghdr) -> Option<Pid> {
    // SAFETY: the first entry, if there is one, is inside msg_controllen; its kind and its length
    // are checked before it is read.
    let pid = unsafe {
        let entry = libc::CMSG_FIRSTHDR(header);
        let wanted = libc::CMSG_LEN(size_of::<libc::ucred>() as u32) as usize;
        if entry.is_null()
            || (*entry).cmsg_level != libc::SOL_SOCKET
            || (*entry).cmsg_type != libc::SCM_CREDENTIALS
            || (*entry).cmsg_len < wanted
        {
            return None;
        }
        libc::CMSG_DATA(entry).cast::<libc::ucred>().read_unaligned().pid
    };
    Pid::from_number(u32::try_from(pid).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};

    #[test]
    fn a_descriptor_travels_with_its_message() {
        let (left, right) = SeqPacket::pair().unwrap();
        let memory = crate::memory::sealed_file(c"test", 5).unwrap();
        left.send(b"here", &[memory.as_fd()]).unwrap();
        let mut file = std::fs::File::from(memory);
        file.write_all(b"hello").unwrap();

        let mut buffer = [0; 16];
        let mut received = right.receive(&mut buffer).unwrap();
        assert_eq!(&buffer[..received.length], b"here");
        let mut theirs = std::fs::File::from(received.descriptors.remove(0));
        theirs.rewind().unwrap();
        let mut text = String::new();
        theirs.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
    }

    #[test]
    fn the_largest_list_of_descriptors_fits() {
        let (left, right) = SeqPacket::pair().unwrap();
        let same = vec![left.as_fd(); MOST_DESCRIPTORS];
        left.send(b"x", &same).unwrap();
        let received = right.receive(&mut [0; 1]).unwrap();
        assert_eq!(received.descriptors.len(), MOST_DESCRIPTORS);
        assert!(!received.truncated);
    }

    #[test]
    fn a_full_queue_is_an_error_on_a_blocking_socket() {
        let (left, _right) = SeqPacket::pair().unwrap();
        let error = (0..100_000).find_map(|_| left.send_now(&[0; 1000], &[]).err()).unwrap();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_descriptor_that_nobody_asked_for_is_closed_by_the_kernel() {
        let (left, right) = SeqPacket::pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        left.send(b"laden", &[writer.as_fd()]).unwrap();
        drop(writer);
        let mut buffer = [0; 16];
        let length = right.receive_bytes(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"laden");
        // The end of the pipe: nobody holds its writing end.
        assert_eq!(reader.read(&mut [0; 1]).unwrap(), 0);
    }

    #[test]
    fn the_kernel_names_the_sender_of_a_message_that_stays_in_the_queue() {
        let (left, right) = SeqPacket::pair().unwrap();
        left.send(b"before", &[]).unwrap();
        assert_eq!(right.peek_with_sender(&mut [0; 16]).unwrap(), (6, None));
        right.receive(&mut [0; 16]).unwrap();
        let nothing = right.peek_with_sender(&mut [0; 16]).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        right.ask_for_senders().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        left.send(b"laden", &[writer.as_fd()]).unwrap();
        drop(writer);
        let mut buffer = [0; 16];
        for _ in 0..2 {
            let (length, sender) = right.peek_with_sender(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], b"laden");
            assert_eq!(sender.unwrap().number(), std::process::id());
        }
        let mut received = right.receive(&mut buffer).unwrap();
        let mut writer = std::fs::File::from(received.descriptors.remove(0));
        writer.write_all(b"x").unwrap();
        assert_eq!(reader.read(&mut [0; 1]).unwrap(), 1, "it was in the message all the time");
        // Closed alone, it could live on in a child that another test has just forked.
        left.shut_down();
        assert_eq!(right.peek_with_sender(&mut buffer).unwrap(), (0, None));
    }

    #[test]
    fn an_end_that_refuses_messages_can_still_send_some() {
        let (left, right) = SeqPacket::pair().unwrap();
        left.refuse_messages().unwrap();
        let refused = right.send(b"no", &[]).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::BrokenPipe);
        left.send(b"yes", &[right.as_fd()]).unwrap();
        let received = right.receive(&mut [0; 8]).unwrap();
        assert_eq!((received.length, received.descriptors.len()), (3, 1));
    }

    #[test]
    fn a_receiver_returns_when_its_socket_is_shut_down() {
        let (left, right) = SeqPacket::pair().unwrap();
        std::thread::scope(|scope| {
            let receiver = scope.spawn(|| right.receive_bytes(&mut [0; 1]).unwrap());
            right.shut_down();
            assert_eq!(receiver.join().unwrap(), 0);
        });
        assert!(left.send_now(b"x", &[]).is_err());
    }

    #[test]
    fn a_closed_peer_is_the_end_and_then_an_error() {
        let (left, right) = SeqPacket::pair().unwrap();
        right.shut_down();
        drop(right);
        assert_eq!(left.send(b"x", &[]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(left.receive(&mut [0; 1]).unwrap().length, 0);
    }
}
