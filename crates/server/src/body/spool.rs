//! The spool: content that a slow client has not taken yet, in memory first, then in an unlinked
//! file. It frees the worker.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::storage::{ReadBack, Storage, StorageCall, StorageRefusal, StoredFile, WriteResult};
use crate::net::{ContentPiece, HeldMemory};

/// Bytes on their way to a client, in order: `memory`, then those of the tail.
#[derive(Debug)]
pub(super) struct Spool<'s> {
    memory: Vec<u8>,
    /// Bytes of `memory` that were sent.
    sent: usize,
    tail: Option<Box<SpoolTail>>,
    limits: &'s SpoolLimits,
    /// The bytes in memory, in the client's account.
    held: HeldMemory<'s>,
    /// Nothing more is appended.
    is_complete: bool,
    /// A refusal was reported.
    is_reported: bool,
}

/// The part of a spool that did not fit into memory: the bytes of a file, then those that will be
/// written next.
#[derive(Debug)]
struct SpoolTail {
    file: StoredFile,
    /// Bytes of the file that were read back.
    read: u64,
    /// Bytes in the file.
    written: u64,
    /// Bytes that are being written.
    writing: u64,
    /// Bytes that follow those of the file.
    pending: Vec<u8>,
    /// The call that a thread of the storage makes for the file; at most one.
    job: Option<FileJob>,
    /// The file takes no more bytes at present.
    is_refused: bool,
}

#[derive(Debug)]
enum FileJob {
    Write(StorageCall<WriteResult>),
    Read(StorageCall<ReadBack>),
}

/// The bounds of a spool, and the place of its file.
#[derive(Debug, Clone)]
pub(crate) struct SpoolLimits {
    /// Bytes in memory before there is a file. With a file, [`PIECE`] more are in memory while they
    /// wait to be written, and as many while they are written.
    pub(crate) memory: usize,
    /// Bytes in the file; 0: no file.
    pub(crate) file: u64,
    pub(crate) storage: Arc<Storage>,
    /// The number of the site whose budget the file is counted in.
    pub(crate) site: usize,
}

/// Bytes that are written to the file, or read back, at a time.
const PIECE: usize = 64 * 1024;
/// Bytes that are read back at a time for a client whose account is full. They are not counted.
const SMALL_PIECE: usize = 4 * 1024;

impl<'s> Spool<'s> {
    /// An empty spool, whose memory is counted as `held`.
    pub(super) fn new(limits: &'s SpoolLimits, held: HeldMemory<'s>) -> Spool<'s> {
        Spool {
            memory: Vec::new(),
            sent: 0,
            tail: None,
            limits,
            held,
            is_complete: false,
            is_reported: false,
        }
    }

    /// Returns whether more may be appended. Wakes `context` when a write makes room.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn poll_room(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        self.poll_job(context)?;
        let limits = self.limits;
        if self.tail.is_none() {
            return Ok(limits.file > 0 || self.memory.len() - self.sent < limits.memory);
        }
        loop {
            self.hand_over();
            // A write that was begun just now has no waker yet, and may have ended already. Then
            // the bytes that have come meanwhile can be written: nobody would wake us for them.
            self.poll_job(context)?;
            let is_idle = |tail: &SpoolTail| tail.job.is_none() && !tail.is_refused;
            if !self.tail.as_ref().is_some_and(|it| is_idle(it) && it.pending.len() >= PIECE) {
                break;
            }
        }
        Ok(self.tail.as_ref().is_none_or(|tail| {
            let length = tail.written + tail.writing + tail.pending.len() as u64;
            tail.pending.len() < PIECE && length < limits.file
        }))
    }

    /// Appends `bytes`, for which [`Spool::poll_room`] has found room.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.destination(bytes.len()).extend_from_slice(bytes);
        self.hand_over();
    }

    /// Appends as [`Spool::push`] does, up to `most` bytes that `read` puts into its argument.
    /// Returns their number.
    ///
    /// # Errors
    /// The error of `read`; nothing was appended.
    pub(super) fn fill(
        &mut self,
        most: usize,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let buffer = self.destination(most);
        let start = buffer.len();
        buffer.resize(start + most, 0);
        let result = read(&mut buffer[start..]);
        buffer.truncate(start + result.as_ref().map_or(0, |count| *count));
        self.hand_over();
        result
    }

    /// Returns whether the client's account has room for `bytes` that the response holds beside
    /// the spool. Without a file they have no other place.
    pub(super) fn holds_beside(&mut self, bytes: usize) -> bool {
        self.limits.file == 0 || self.held.hold(bytes + self.memory.len() - self.sent)
    }

    /// Returns the bytes that are in memory, also on their way to the file.
    #[cfg(test)]
    pub(super) fn in_memory(&self) -> usize {
        let tail = self.tail.as_ref();
        let tail = tail.map_or(0, |tail| tail.pending.capacity() + tail.writing as usize);
        self.memory.capacity() + tail
    }

    /// Notes that nothing more is appended. Content that waits for more to be written with it is
    /// written now, unless the client's account has room for it.
    pub(super) fn complete(&mut self) {
        self.is_complete = true;
        self.hand_over();
    }

    /// Returns the buffer that takes the next `count` bytes.
    fn destination(&mut self, count: usize) -> &mut Vec<u8> {
        let SpoolLimits { memory, file, storage, site } = self.limits;
        if self.tail.is_none() {
            if self.sent > self.memory.len() / 2 {
                self.memory.drain(..self.sent);
                self.sent = 0;
            }
            let length = self.memory.len() - self.sent + count;
            if *file == 0 || (length <= *memory && self.held.hold(length)) {
                return &mut self.memory;
            }
        }
        let tail = self.tail.get_or_insert_with(|| {
            Box::new(SpoolTail {
                file: storage.file(*site),
                read: 0,
                written: 0,
                writing: 0,
                pending: Vec::new(),
                job: None,
                is_refused: false,
            })
        });
        &mut tail.pending
    }

    /// Returns the next piece, and whether it is the last one; `None` if the spool is empty.
    /// Pending: the piece is being read back.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Option<(ContentPiece<'_>, bool)>>> {
        self.poll_job(context)?;
        if self.is_complete {
            self.hand_over();
            // As in `poll_room`.
            self.poll_job(context)?;
        }
        while self.sent == self.memory.len() {
            self.memory.clear();
            self.sent = 0;
            let Some(tail) = &mut self.tail else {
                return Poll::Ready(Ok(None));
            };
            if tail.job.is_some() {
                return Poll::Pending;
            }
            if tail.read < tail.written {
                let most = match self.held.hold(PIECE) {
                    true => PIECE,
                    false => SMALL_PIECE,
                };
                let mut buffer = std::mem::take(&mut self.memory);
                buffer.resize(most.min((tail.written - tail.read) as usize), 0);
                buffer.shrink_to(most);
                tail.job = Some(FileJob::Read(tail.file.read(tail.read, buffer)));
            } else {
                self.memory = std::mem::take(&mut tail.pending);
                self.tail = None;
            }
            self.poll_job(context)?;
        }
        let piece = ContentPiece::Memory(&self.memory[self.sent..]);
        Poll::Ready(Ok(Some((piece, self.tail.is_none()))))
    }

    /// Removes `count` bytes from the front.
    pub(super) fn advance(&mut self, count: usize) {
        self.sent += count;
        if let Some(tail) = &mut self.tail {
            tail.is_refused = false;
        }
    }

    /// Notes the result of the call for the file, if the call has ended.
    fn poll_job(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let Some(tail) = &mut self.tail else {
            return Ok(());
        };
        match &mut tail.job {
            Some(FileJob::Write(job)) => {
                let Poll::Ready(written) = Pin::new(job).poll(context) else {
                    return Ok(());
                };
                tail.job = None;
                tail.writing = 0;
                let written = written.map_err(io::Error::other)?;
                tail.written += written.count as u64;
                let mut bytes = written.bytes;
                bytes.drain(..written.count);
                if let Some(error) = written.error {
                    bytes.append(&mut tail.pending);
                    tail.pending = bytes;
                    tail.is_refused = true;
                    self.report(&StorageRefusal::Disk(error));
                } else if tail.pending.is_empty() && !self.is_complete {
                    tail.pending = bytes;
                }
            }
            Some(FileJob::Read(job)) => {
                let Poll::Ready(read) = Pin::new(job).poll(context) else {
                    return Ok(());
                };
                tail.job = None;
                debug_assert_eq!(self.sent, self.memory.len(), "the piece before was sent");
                self.memory = read.map_err(io::Error::other)??;
                self.sent = 0;
                tail.read += self.memory.len() as u64;
                if tail.read == tail.written && tail.pending.is_empty() {
                    self.tail = None;
                }
            }
            None => {}
        }
        Ok(())
    }

    /// Writes the pending bytes, if there are enough of them, or no others come and the
    /// client's account has no room for them.
    fn hand_over(&mut self) {
        let Some(tail) = &mut self.tail else {
            return;
        };
        if tail.pending.is_empty() || tail.job.is_some() || tail.is_refused {
            return;
        }
        let in_memory = self.memory.len() - self.sent + tail.pending.len();
        if tail.pending.len() < PIECE && (!self.is_complete || self.held.hold(in_memory)) {
            return;
        }
        tail.writing = tail.pending.len() as u64;
        match tail.file.write(tail.written, std::mem::take(&mut tail.pending)) {
            Ok(job) => tail.job = Some(FileJob::Write(job)),
            Err((bytes, no_room)) => {
                tail.writing = 0;
                tail.pending = bytes;
                tail.is_refused = true;
                self.report(&StorageRefusal::Budget(no_room));
            }
        }
    }

    /// Reports once that the source has to wait for the client.
    fn report(&mut self, refusal: &StorageRefusal) {
        if !std::mem::replace(&mut self.is_reported, true) {
            self.limits.storage.report(self.limits.site, refusal);
        }
    }
}

#[cfg(test)]
mod tests;
