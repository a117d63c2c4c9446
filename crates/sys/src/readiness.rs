//! Waiting for a descriptor in the event loop.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll};

use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

use crate::epoll;

/// A descriptor, registered with the event loop of the thread that made this.
///
/// It is a duplicate of our own, so that nothing can close it while the event loop knows it. Edges
/// are reported: whoever is woken either reads until there is nothing left, or takes the edge
/// itself for the message.
#[derive(Debug)]
pub struct Readable(AsyncFd<OwnedFd>);

impl Readable {
    /// Registers a duplicate of `fd`, which should be non-blocking.
    pub fn new(fd: BorrowedFd<'_>) -> io::Result<Readable> {
        let own = fd.try_clone_to_owned()?;
        // SAFETY: the descriptor is owned by the `AsyncFd` itself, and stays open and the same
        // until that is dropped.
        let registered = unsafe { AsyncFd::register_with_interest(own, Interest::READABLE) };
        Ok(Readable(registered.map_err(io::Error::from)?))
    }

    /// As [`Readable::new`], for a socket that several threads or processes watch: each event wakes
    /// one of those that sleep. On a system that cannot do that, each event wakes all of them.
    ///
    /// The thread that is woken reads until there is nothing left. One that stops watching drops
    /// this first and reads then, because an event that it got no longer wakes another.
    ///
    /// # Errors
    /// As [`Readable::new`].
    pub fn exclusive(fd: BorrowedFd<'_>) -> io::Result<Readable> {
        let readable = Readable::new(fd)?;
        // A refusal leaves the registration as it is.
        let _ = epoll::make_exclusive(readable.0.get_ref().as_fd());
        Ok(readable)
    }

    /// Waits until there may be something to read. The guard clears that state, or keeps it.
    pub async fn ready(&self) -> io::Result<AsyncFdReadyGuard<'_, OwnedFd>> {
        self.0.readable().await
    }

    /// As [`Readable::ready`], for a hand-written future.
    pub fn poll_ready(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyGuard<'_, OwnedFd>>> {
        self.0.poll_read_ready(context)
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
