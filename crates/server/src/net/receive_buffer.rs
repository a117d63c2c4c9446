//! A connection's input buffer: bytes that were received and not used yet.

use std::io;
use std::ops::Range;
use std::task::{Poll, ready};

use tokio::io::ReadBuf;

/// Bytes read at once. A usual head is a tenth of it; an upload goes through in pieces of this
/// size.
const ROOM: usize = 16 * 1024;

/// A byte buffer that fills at its end and empties at its front.
#[derive(Debug, Default)]
pub(crate) struct ReceiveBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl ReceiveBuffer {
    /// Returns the unused bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Removes the first `count` bytes.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end);
        if self.start == self.end {
            self.clear();
        }
    }

    /// Moves unused bytes to an earlier place among them.
    pub(crate) fn bring_forward(&mut self, bytes: Range<usize>, to: usize) {
        debug_assert!(to <= bytes.start);
        let start = self.start;
        self.bytes.copy_within(start + bytes.start..start + bytes.end, start + to);
    }

    /// Removes all bytes and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.start = 0;
        self.end = 0;
    }

    /// Calls `read` once to append bytes. Returns their number; 0 is the end of the input.
    ///
    /// # Errors
    /// The error of `read`.
    pub(crate) fn poll_fill(
        &mut self,
        read: impl FnOnce(&mut ReadBuf<'_>) -> Poll<io::Result<()>>,
    ) -> Poll<io::Result<usize>> {
        if self.bytes.len() - self.end < ROOM / 4 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            self.bytes.resize(self.bytes.len().max(self.end + ROOM), 0);
        }
        let mut room = ReadBuf::new(&mut self.bytes[self.end..]);
        ready!(read(&mut room))?;
        let count = room.filled().len();
        self.end += count;
        Poll::Ready(Ok(count))
    }

    /// Releases memory that one large head took.
    pub(crate) fn shrink(&mut self) {
        if self.bytes.len() > 4 * ROOM && self.is_empty() {
            self.bytes = Vec::new();
            self.clear();
        }
    }
}
