//! Buffers that the connections of a thread share: an idle connection has none, and a busy one
//! needs no new memory for each of its turns.

use std::cell::RefCell;

use super::outbox::CHUNK;

/// Unused buffers, which keep their memory.
#[derive(Debug)]
pub(super) struct SpareBuffers {
    buffers: Vec<Vec<u8>>,
    /// Bytes of memory of `buffers`.
    bytes: usize,
}

/// Buffers of a kind that a thread keeps: as many as short responses that are sent together may
/// take, or some for long ones. Further ones are freed.
const MOST: usize = 64;
/// Bytes of memory that they have together.
const MOST_BYTES: usize = 16 * CHUNK;

thread_local! {
    /// For chunks of content.
    pub(super) static CHUNKS: RefCell<SpareBuffers> = const { RefCell::new(SpareBuffers::new()) };
    /// For frames that wait for the transport.
    pub(super) static FRAMES: RefCell<SpareBuffers> = const { RefCell::new(SpareBuffers::new()) };
}

impl SpareBuffers {
    const fn new() -> SpareBuffers {
        SpareBuffers { buffers: Vec::new(), bytes: 0 }
    }

    /// Returns an empty buffer, which may have some memory.
    pub(super) fn take(&mut self) -> Vec<u8> {
        let mut buffer = self.buffers.pop().unwrap_or_default();
        self.bytes -= buffer.capacity();
        buffer.clear();
        buffer
    }

    /// Keeps the memory of a buffer, if there is room.
    pub(super) fn keep(&mut self, buffer: Vec<u8>) {
        let bytes = self.bytes + buffer.capacity();
        if self.buffers.len() < MOST && bytes <= MOST_BYTES && buffer.capacity() > 0 {
            self.bytes = bytes;
            self.buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_kept_up_to_a_limit() {
        let mut spare = SpareBuffers::new();
        let kept = |spare: &SpareBuffers| {
            assert_eq!(spare.buffers.iter().map(Vec::capacity).sum::<usize>(), spare.bytes);
            (spare.buffers.len(), spare.bytes)
        };
        (0..MOST + 1).for_each(|_| spare.keep(vec![7; 20]));
        assert_eq!(kept(&spare), (MOST, MOST * 20));
        let buffer = spare.take();
        assert!(buffer.is_empty() && buffer.capacity() == 20);
        assert_eq!(kept(&spare), (MOST - 1, (MOST - 1) * 20));
        (0..MOST).for_each(|_| drop(spare.take()));
        assert_eq!(kept(&spare), (0, 0));
        (0..MOST).for_each(|_| spare.keep(vec![7; CHUNK]));
        assert_eq!(kept(&spare), (MOST_BYTES / CHUNK, MOST_BYTES));
    }
}
