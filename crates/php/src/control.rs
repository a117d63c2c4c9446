//! The messages of a zygote, received by a thread of their own.
//!
//! Processes of the pool may have the other end of the socket. A message can carry descriptors, and
//! a receiver that does not want them has to close them, which may wait as long as the sender
//! likes: closing a TCP connection with `SO_LINGER` waits for its peer. Such a message stops the
//! thread of its own pool, and no event loop.

use std::convert::Infallible;
use std::io;
use std::ops::Deref;
use std::sync::mpsc as threads;

use howdah_ipc::control::FromZygote;
use howdah_sys::seqpacket::SeqPacket;
use tokio::sync::mpsc;

/// A descriptor of the front's end of a zygote's socket. The thread of [`ZygoteMessages`] has the
/// last one: messages that nobody has received are closed with it.
#[derive(Debug)]
pub(crate) struct FrontSocket {
    socket: SeqPacket,
    /// Dropped after the descriptor.
    open: threads::Sender<Infallible>,
}

/// Tells when no [`FrontSocket`] of a zygote is open any more.
#[derive(Debug)]
pub(crate) struct SocketEnd(threads::Receiver<Infallible>);

impl FrontSocket {
    pub(crate) fn of(socket: SeqPacket) -> (FrontSocket, SocketEnd) {
        let (open, end) = threads::channel();
        (FrontSocket { socket, open }, SocketEnd(end))
    }

    fn duplicate(&self) -> io::Result<FrontSocket> {
        let socket = self.socket.duplicate()?;
        Ok(FrontSocket { socket, open: self.open.clone() })
    }
}

impl Deref for FrontSocket {
    type Target = SeqPacket;

    fn deref(&self) -> &SeqPacket {
        &self.socket
    }
}

/// The messages of one zygote. Its thread ends when this value and every [`FrontSocket`] of the
/// zygote are dropped.
#[derive(Debug)]
pub(crate) struct ZygoteMessages {
    socket: FrontSocket,
    received: mpsc::Receiver<io::Result<FromZygote>>,
}

impl ZygoteMessages {
    /// Starts the thread, which receives from a duplicate of `socket` and closes it after `end`.
    ///
    /// # Errors
    /// The socket cannot be duplicated, or the system has no resources for a thread.
    pub(crate) fn of(socket: &FrontSocket, end: SocketEnd) -> io::Result<ZygoteMessages> {
        let (socket, last) = (socket.duplicate()?, SeqPacket::duplicate(socket)?);
        let (sender, received) = mpsc::channel(MOST_WAITING);
        let run = move || {
            receive(&last, &sender);
            drop(sender);
            // Nothing is ever sent.
            let _ = end.0.recv();
            drop(last);
        };
        std::thread::Builder::new()
            .name("howdah-control".to_owned())
            .stack_size(STACK)
            .spawn(run)?;
        Ok(ZygoteMessages { socket, received })
    }

    /// Waits for the next message. `None` once the zygote has closed its end.
    ///
    /// # Errors
    /// A message is malformed.
    pub(crate) async fn next(&mut self) -> io::Result<Option<FromZygote>> {
        self.received.recv().await.transpose()
    }
}

impl Drop for ZygoteMessages {
    fn drop(&mut self) {
        // The thread returns from its call, and finds the channel closed.
        self.received.close();
        self.socket.shut_down();
    }
}

/// Runs in the thread.
fn receive(socket: &SeqPacket, to: &mpsc::Sender<io::Result<FromZygote>>) {
    let mut room = [0; 4096];
    while let Ok(length) = socket.receive_bytes(&mut room)
        && length > 0
    {
        // A zygote that sends faster than the pool reads has to wait.
        if to.blocking_send(FromZygote::decode(&room[..length])).is_err() {
            return;
        }
    }
}

/// Messages that wait for the event loop. Further ones stay in the socket.
const MOST_WAITING: usize = 64;
/// Bytes of the thread's stack, of which it uses a few pages.
const STACK: usize = 128 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::time::Duration;

    #[tokio::test]
    async fn messages_arrive_until_the_end() {
        let (ours, theirs) = SeqPacket::pair().unwrap();
        let (ours, end) = FrontSocket::of(ours);
        let mut messages = ZygoteMessages::of(&ours, end).unwrap();
        let started = FromZygote::Started { worker: 1, pid: 7 };
        theirs.send(&started.encode(), &[ours.as_fd()]).unwrap();
        assert_eq!(messages.next().await.unwrap(), Some(started));
        theirs.send(b"nonsense", &[]).unwrap();
        assert!(messages.next().await.is_err());
        drop(theirs);
        assert_eq!(messages.next().await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_zygote_hears_when_nobody_reads_its_messages_any_more() {
        let (ours, theirs) = SeqPacket::pair().unwrap();
        let (ours, end) = FrontSocket::of(ours);
        let messages = ZygoteMessages::of(&ours, end).unwrap();
        let heard = || theirs.receive_now(&mut [0; 16]).map(|received| received.length);
        assert!(heard().is_err(), "nothing was sent");
        drop(messages);
        assert_eq!(heard().unwrap(), 0);
        drop(ours);
    }

    #[tokio::test]
    async fn a_flood_of_messages_waits_in_the_socket() {
        let (ours, theirs) = SeqPacket::pair().unwrap();
        let (ours, end) = FrontSocket::of(ours);
        let mut messages = ZygoteMessages::of(&ours, end).unwrap();
        let message = FromZygote::Cleaned { slot: 1 }.encode();
        // The thread takes a bounded number of them.
        let mut sent = 0_u32;
        let mut quiet = 0;
        while quiet < 20 {
            match theirs.send_now(&message, &[]) {
                Ok(()) => (sent, quiet) = (sent + 1, 0),
                Err(_) => {
                    quiet += 1;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
            assert!(sent < 100_000, "the flood is kept in memory");
        }
        for _ in 0..sent {
            assert!(messages.next().await.unwrap().is_some());
        }
    }
}
