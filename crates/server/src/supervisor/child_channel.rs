//! The supervisor's end of the channel to a child process.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use howdah_sys::seqpacket::SeqPacket;

/// The channel to a child. It is closed once the child has closed its end.
#[derive(Debug)]
pub(super) struct ChildChannel(Option<SeqPacket>);

impl ChildChannel {
    /// Sends and receives over `socket`, which must be non-blocking.
    pub(super) fn new(socket: SeqPacket) -> ChildChannel {
        ChildChannel(Some(socket))
    }

    /// The socket, to wait for; `None` once the channel is closed.
    pub(super) fn awaited(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(AsFd::as_fd)
    }

    /// Sends a message. A child that has closed its end gets none: its death is handled when it is
    /// reaped.
    ///
    /// # Errors
    /// The channel is full because the child does not read.
    pub(super) fn send(&self, packet: &[u8], descriptors: &[OwnedFd]) -> io::Result<()> {
        let Some(socket) = &self.0 else {
            return Ok(());
        };
        let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        socket.send_now(packet, &descriptors)
    }

    /// Receives the next message, of at most `most` bytes. `None` if there is none.
    pub(super) fn receive(&mut self, most: usize) -> Option<Vec<u8>> {
        let mut packet = vec![0; most];
        match self.0.as_ref()?.receive(&mut packet) {
            Ok(received) if received.length > 0 => {
                packet.truncate(received.length);
                Some(packet)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            // The end of the stream, or a permanent error.
            Ok(_) | Err(_) => {
                self.0 = None;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_is_gone_gets_and_sends_nothing() {
        let (ours, theirs) = SeqPacket::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut channel = ChildChannel::new(ours);
        assert_eq!(channel.receive(8), None, "does not wait");
        theirs.send(b"one", &[]).unwrap();
        assert_eq!(channel.receive(8).unwrap(), b"one");
        channel.send(b"two", &[]).unwrap();
        let mut room = [0; 8];
        assert_eq!(theirs.receive(&mut room).unwrap().length, 3);
        theirs.shut_down();
        drop(theirs);
        assert!(channel.awaited().is_some());
        assert_eq!(channel.receive(8), None);
        assert!(channel.awaited().is_none());
        channel.send(b"three", &[]).unwrap();
    }
}
