//! One request on its way through a worker.

use std::future::poll_fn;
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::task::{Context, Poll};

use howdah_ipc::response::{self, Head, Kind};
use howdah_ipc::{Corrupt, Phase};

use crate::desk::{Counter, Overdue};
use crate::link::Lease;

/// A request that was handed to a pool, and its response as it comes.
///
/// Dropping it takes the request back if no worker has begun it, and otherwise tells the worker
/// that nobody listens.
#[derive(Debug)]
pub struct Exchange {
    counter: Rc<Counter>,
    lease: Option<Lease>,
    /// The response is complete, or nobody wants the rest: the script may go on undisturbed.
    complete: bool,
    /// No worker began the request, and none will.
    cancelled: bool,
    kill: bool,
}

/// Why there will be no (more) response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The worker died; its `wait(2)` status.
    WorkerDied(u32),
    /// The pool's zygote died, or a worker wrote nonsense: all of the pool's workers are being
    /// replaced.
    PoolDied,
    /// The pool died as with [`Failure::PoolDied`], but no worker had begun the request: it can be
    /// handed over again.
    NotTaken,
    /// The pool's `queue_timeout` is over, and no worker has begun the request.
    NotBegun,
    /// The pool's `request_timeout` is over; the worker is being killed.
    TimedOut,
    /// What the worker sent is no response.
    Malformed(Corrupt),
}

/// How far the response is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct News {
    /// Bytes that wait to be taken.
    pub available: usize,
    /// No more will come than these.
    pub complete: bool,
    /// The worker may be waiting for room.
    pub full: bool,
}

impl Exchange {
    pub(crate) fn new(counter: Rc<Counter>, lease: Lease) -> Exchange {
        Exchange {
            counter,
            lease: Some(lease),
            complete: false,
            cancelled: false,
            kill: false,
        }
    }

    /// Looks how far the response is, and has `context` woken when there is more.
    pub fn poll_news(&mut self, context: &mut Context<'_>) -> Result<News, Failure> {
        if self.cancelled {
            return Err(Failure::NotBegun);
        }
        let lease = self.lease.as_mut().expect("held until dropped");
        // First the waker, then the look: news in between wakes us.
        let overdue = self.counter.wait(lease.index(), context.waker());
        let link = lease.link.clone();
        let look = match link.front.look(lease.slot()) {
            Ok(look) => look,
            Err(corrupt) => {
                link.condemn();
                return Err(Failure::Malformed(corrupt));
            }
        };
        self.complete = look.ended;
        if let Some(took) = look.took {
            link.note_service(took, look.share);
        }
        if !look.ended {
            if let Some(status) = link.lost(lease.index()) {
                return Err(Failure::WorkerDied(status));
            }
            if link.is_dead() {
                let untouched = look.phase == Phase::Queued && link.front.cancel(lease.slot_ref());
                return Err(if untouched {
                    Failure::NotTaken
                } else {
                    Failure::PoolDied
                });
            }
            match (overdue, look.phase) {
                (Some(Overdue::Waiting), Phase::Queued) if link.front.cancel(lease.slot_ref()) => {
                    self.cancelled = true;
                    return Err(Failure::NotBegun);
                }
                (Some(Overdue::Running), Phase::Taken) => {
                    self.kill = true;
                    return Err(Failure::TimedOut);
                }
                _ => {}
            }
        }
        let slot = lease.slot();
        let available = (slot.written() - slot.consumed()) as usize;
        let full = available * 2 > link.front.geometry().ring_bytes;
        Ok(News { available, complete: self.complete, full })
    }

    /// Waits for the next head and copies it, taken apart by [`Head::decode`], to `into`.
    pub async fn head(&mut self, into: &mut Vec<u8>) -> Result<Kind, Failure> {
        let (kind, length) = poll_fn(|context| self.poll_head(context)).await?;
        into.clear();
        into.resize(length, 0);
        let lease = self.lease.as_mut().expect("held until dropped");
        lease.link.front.copy(lease.slot_ref(), response::PREFIX as u64, into);
        self.consume(response::PREFIX + length);
        Ok(kind)
    }

    /// Copies the next bytes out, without consuming them. Says how many.
    pub fn copy(&self, into: &mut [u8]) -> usize {
        let lease = self.lease.as_ref().expect("held until dropped");
        lease.link.front.copy(lease.slot_ref(), 0, into)
    }

    /// Sends `before`, the next `length` bytes and `after` with one system call, straight from the
    /// shared memory. Answers with the bytes taken of all three together; consumes nothing.
    pub fn send(
        &self,
        length: usize,
        to: BorrowedFd<'_>,
        before: &[u8],
        after: &[u8],
    ) -> io::Result<usize> {
        let lease = self.lease.as_ref().expect("held until dropped");
        lease.link.front.send(lease.slot_ref(), length, to, before, after)
    }

    /// Gives room back to the worker.
    pub fn consume(&mut self, length: usize) {
        let lease = self.lease.as_mut().expect("held until dropped");
        let link = lease.link.clone();
        link.front.consume(lease.slot(), length as u64);
    }

    /// Lets the script run to its end without a reader: what it still writes is thrown away, and
    /// nobody tells it.
    pub fn detach(mut self) {
        self.complete = true;
    }

    fn poll_head(&mut self, context: &mut Context<'_>) -> Poll<Result<(Kind, usize), Failure>> {
        let news = match self.poll_news(context) {
            Ok(news) => news,
            Err(failure) => return Poll::Ready(Err(failure)),
        };
        let mut prefix = [0; response::PREFIX];
        if self.copy(&mut prefix) == response::PREFIX {
            match response::decode_prefix(prefix) {
                Ok((kind, length)) if news.available >= response::PREFIX + length => {
                    return Poll::Ready(Ok((kind, length)));
                }
                Ok(_) => {}
                Err(corrupt) => return Poll::Ready(Err(Failure::Malformed(corrupt))),
            }
        }
        if news.complete {
            return Poll::Ready(Err(Failure::Malformed(Corrupt(
                "a worker finished without a response head",
            ))));
        }
        Poll::Pending
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            if self.cancelled {
                self.counter.leave_cancelled(lease);
            } else if self.complete {
                self.counter.leave_running(lease);
            } else {
                self.counter.leave(lease, self.kill);
            }
        }
    }
}

/// Takes a head apart that [`Exchange::head`] copied.
pub fn decode_head(bytes: &[u8]) -> Result<Head<'_>, Failure> {
    Head::decode(bytes).map_err(Failure::Malformed)
}
