//! Waits for a descriptor in the event loop.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

use crate::epoll;
use crate::seqpacket::{Received, SeqPacket};

/// A descriptor that is registered with the event loop of the thread that created this value.
///
/// The descriptor is a duplicate, therefore it cannot be closed while it is registered. Edges are
/// reported: a woken task either reads until nothing is left, or uses the edge itself as the
/// message.
#[derive(Debug)]
pub struct Readable(AsyncFd<OwnedFd>);

impl Readable {
    /// Registers a duplicate of `fd`, which should be non-blocking.
    ///
    /// # Errors
    /// The descriptor cannot be duplicated or registered.
    pub fn new(fd: BorrowedFd<'_>) -> io::Result<Readable> {
        let own = fd.try_clone_to_owned()?;
        // SAFETY: the descriptor is owned by the `AsyncFd` itself, and stays open and the same
        // until that is dropped.
        let registered = unsafe { AsyncFd::register_with_interest(own, Interest::READABLE) };
        Ok(Readable(registered.map_err(io::Error::from)?))
    }

    /// Watches as [`Readable::new`] does, a socket that several threads or processes watch: each
    /// event wakes one of the sleeping threads. On a system without this option, each event wakes
    /// all of them.
    ///
    /// The woken thread reads until nothing is left. A thread that stops watching drops this value
    /// first and reads afterwards, because its last event has woken no other thread.
    ///
    /// # Errors
    /// The errors of [`Readable::new`].
    pub fn exclusive(fd: BorrowedFd<'_>) -> io::Result<Readable> {
        let readable = Readable::new(fd)?;
        // After a failure the registration is unchanged.
        let _ = epoll::make_exclusive(readable.0.get_ref().as_fd());
        Ok(readable)
    }

    /// Waits until there may be something to read. The guard clears or keeps that state.
    ///
    /// # Errors
    /// The event loop has been shut down.
    pub async fn ready(&self) -> io::Result<AsyncFdReadyGuard<'_, OwnedFd>> {
        self.0.readable().await
    }

    /// Waits for the next message of `socket`, which this value watches. `None`: the other end is
    /// closed.
    ///
    /// # Errors
    /// The error of `recvmsg(2)`, or the event loop has been shut down.
    pub async fn next_message(
        &self,
        socket: &SeqPacket,
        buffer: &mut [u8],
    ) -> io::Result<Option<Received>> {
        loop {
            let mut ready = self.ready().await?;
            match socket.receive_now(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(error) => return Err(error),
                Ok(received) => return Ok((received.length > 0).then_some(received)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eventfd::EventFd;
    use std::net::TcpStream;

    #[test]
    fn every_ring_is_an_edge_though_nobody_reads_the_count() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let bell = EventFd::new().unwrap();
            let readable = Readable::new(bell.as_fd()).unwrap();
            for _ in 0..3 {
                bell.ring().unwrap();
                readable.ready().await.unwrap().clear_ready();
            }
        });
    }

    #[test]
    fn an_exclusive_registration_still_tells_of_every_connection() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let listener = crate::listen::listen("127.0.0.1:0".parse().unwrap(), 16).unwrap();
            let readable = Readable::exclusive(listener.as_fd()).unwrap();
            for _ in 0..3 {
                let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                let mut ready = readable.ready().await.unwrap();
                listener.accept().unwrap();
                assert!(listener.accept().is_err());
                ready.clear_ready();
            }
        });
    }
}
