//! An in-memory transport.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::ReadBuf;

use crate::net::Transport;

/// The server's end of a connection whose client has sent everything already.
pub(super) struct MemoryTransport {
    input: Vec<u8>,
    read: usize,
    /// Bytes taken by one write, and given by one read.
    step: usize,
    /// Every second attempt to write finds no room.
    is_full: Cell<bool>,
    shared: Rc<Shared>,
}

/// The client's end.
pub(super) struct Client(Rc<Shared>);

#[derive(Default)]
struct Shared {
    received: RefCell<Vec<u8>>,
    /// The connection breaks when the client has this many bytes.
    most: Cell<Option<usize>>,
}

impl MemoryTransport {
    /// A connection whose client has sent `input`. It moves at most `step` bytes at a time.
    pub(super) fn new(input: &[u8], step: usize) -> (MemoryTransport, Client) {
        let shared = Rc::<Shared>::default();
        let transport = MemoryTransport {
            input: input.to_vec(),
            read: 0,
            step,
            is_full: Cell::new(false),
            shared: Rc::clone(&shared),
        };
        (transport, Client(shared))
    }
}

impl Client {
    /// Breaks the connection once the client has this many bytes.
    pub(super) fn close_after(&self, bytes: usize) {
        self.0.most.set(Some(bytes));
    }

    /// Returns the bytes that the client has received.
    pub(super) fn received(&self) -> Vec<u8> {
        self.0.received.borrow().clone()
    }
}

impl Transport for MemoryTransport {
    fn poll_read(&mut self, _: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let rest = &self.input[self.read..];
        let count = rest.len().min(room.remaining()).min(self.step);
        room.put_slice(&rest[..count]);
        self.read += count;
        Poll::Ready(Ok(()))
    }

    fn poll_read_ready(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_full.get() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut received = self.shared.received.borrow_mut();
        if self.shared.most.get().is_some_and(|most| received.len() >= most) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if !self.is_full.replace(!self.is_full.get()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = bytes.len().min(self.step);
        received.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn poll_peek(&self, _: &mut Context<'_>) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(usize::from(self.read < self.input.len())))
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
