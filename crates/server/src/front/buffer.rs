//! A connection's input: bytes that came and were not used yet.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// Bytes read at once. A usual head is a tenth of it; an upload goes through in pieces of this
/// size.
const ROOM: usize = 16 * 1024;

/// A byte buffer that fills at its end and empties at its front.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffer {
    /// What is there.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Forgets the first `count` bytes.
    pub(super) fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end);
        if self.start == self.end {
            self.clear();
        }
    }

    /// Forgets everything, keeps the memory.
    pub(super) fn clear(&mut self) {
        self.start = 0;
        self.end = 0;
    }

    /// Reads once from `stream`; 0 bytes are its end.
    pub(super) fn poll_fill(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if self.bytes.len() - self.end < ROOM / 4 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            self.bytes.resize(self.bytes.len().max(self.end + ROOM), 0);
        }
        let mut room = ReadBuf::new(&mut self.bytes[self.end..]);
        ready!(Pin::new(stream).poll_read(context, &mut room))?;
        let count = room.filled().len();
        self.end += count;
        Poll::Ready(Ok(count))
    }

    /// Gives memory back that one large head made it take.
    pub(super) fn shrink(&mut self) {
        if self.bytes.len() > 4 * ROOM && self.is_empty() {
            self.bytes = Vec::new();
            self.clear();
        }
    }
}
