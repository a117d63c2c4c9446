//! Waiting for a descriptor in the event loop.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::task::{Context, Poll};

use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

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
    use std::os::fd::AsFd;

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
}
