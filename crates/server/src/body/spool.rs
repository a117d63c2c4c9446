//! The spool: content that a slow client has not taken yet, in memory first, then in an unlinked
//! file. It frees the worker.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::net::Piece;

/// Bytes on their way to a client, in order.
#[derive(Debug)]
pub(super) struct Spool {
    memory: Vec<u8>,
    /// Bytes of `memory` that were sent.
    sent: usize,
    file: Option<Tail>,
    limits: SpoolLimits,
}

/// The part of a spool that did not fit into memory. It follows the part in memory.
#[derive(Debug)]
struct Tail {
    file: File,
    sent: u64,
    length: u64,
}

/// The bounds of a spool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpoolLimits {
    /// Bytes in memory.
    pub(crate) memory: usize,
    /// Bytes in the file; 0: no file.
    pub(crate) file: u64,
}

impl Spool {
    pub(super) fn new(limits: SpoolLimits) -> Spool {
        Spool {
            memory: Vec::new(),
            sent: 0,
            file: None,
            limits,
        }
    }

    /// Returns whether more may be appended.
    pub(super) fn has_room(&self) -> bool {
        match &self.file {
            None if self.limits.file == 0 => self.memory.len() - self.sent < self.limits.memory,
            None => true,
            Some(tail) => tail.length < self.limits.file,
        }
    }

    /// Returns whether the next piece is the last one.
    pub(super) fn is_one_piece(&self) -> bool {
        self.file.is_none() || self.sent == self.memory.len()
    }

    /// Appends `bytes`, in memory or in the file. The caller has checked the limits with
    /// [`Spool::has_room`].
    pub(super) fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.file.is_none() && self.sent == self.memory.len() {
            self.memory.clear();
            self.sent = 0;
        }
        let fits = self.memory.len() - self.sent + bytes.len() <= self.limits.memory;
        if self.file.is_none() && (fits || self.limits.file == 0) {
            self.memory.extend_from_slice(bytes);
            return Ok(());
        }
        let tail = match &mut self.file {
            Some(tail) => tail,
            none => none.insert(Tail {
                file: tempfile::tempfile()?,
                sent: 0,
                length: 0,
            }),
        };
        tail.file.write_all_at(bytes, tail.length)?;
        tail.length += bytes.len() as u64;
        Ok(())
    }

    /// Returns the next piece; `None` if the spool is empty.
    pub(super) fn next(&self) -> Option<Piece<'_>> {
        if self.sent < self.memory.len() {
            return Some(Piece::Memory(&self.memory[self.sent..]));
        }
        let tail = self.file.as_ref()?;
        Some(Piece::Spooled {
            file: &tail.file,
            offset: tail.sent,
            length: tail.length - tail.sent,
        })
    }

    /// Removes `count` bytes from the front.
    pub(super) fn advance(&mut self, count: usize) {
        if self.sent < self.memory.len() {
            self.sent += count;
        } else if let Some(tail) = &mut self.file {
            tail.sent += count as u64;
            if tail.sent >= tail.length {
                self.file = None;
            }
        }
        if self.sent == self.memory.len() {
            self.memory.clear();
            self.sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(spool: &mut Spool, step: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(next) = spool.next() {
            let mut piece = vec![0; step];
            let count = next.read(&mut piece).unwrap();
            piece.truncate(count);
            spool.advance(piece.len());
            all.extend(piece);
        }
        all
    }

    #[test]
    fn keeps_the_order_over_memory_and_file() {
        let mut spool = Spool::new(SpoolLimits { memory: 10, file: 1000 });
        let text: Vec<u8> = (0..200).collect();
        for piece in text.chunks(7) {
            assert!(spool.has_room());
            spool.push(piece).unwrap();
        }
        assert_eq!(drain(&mut spool, 3), text);
        assert!(spool.next().is_none());
        spool.push(b"again").unwrap();
        assert_eq!(drain(&mut spool, 100), b"again");
    }

    #[test]
    fn is_full_at_its_limits() {
        let mut spool = Spool::new(SpoolLimits { memory: 4, file: 6 });
        spool.push(b"abcd").unwrap();
        assert!(spool.has_room());
        spool.push(b"efghij").unwrap();
        assert!(!spool.has_room());
        let mut small = Spool::new(SpoolLimits { memory: 4, file: 0 });
        small.push(b"abcd").unwrap();
        assert!(!small.has_room());
    }
}
