//! The way of a request to its upstream: the head, then the content.
//!
//! An upstream may answer before it has read everything (RFC 9110 §10.1.1, RFC 9112 §9.5). So a
//! request is sent while its response is read: each poll writes what the upstream takes, and no
//! write keeps a response waiting.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use super::response::ExpectedContent;
use crate::body::{Duplex, ReadBack, ReceivedContent, StorageCall};

/// A request as an upstream gets it.
pub(super) struct ForwardedRequest {
    pub(super) head: Vec<u8>,
    pub(super) content: ReceivedContent,
    /// Sending the request twice means the same as sending it once.
    pub(super) is_idempotent: bool,
    pub(super) expected: ExpectedContent,
}

/// A request that is being sent.
pub(super) struct Upload {
    request: Rc<ForwardedRequest>,
    /// Bytes of head and content that the connection has taken.
    sent: u64,
    /// Content from the file, and the place of its first byte in the content.
    piece: Vec<u8>,
    piece_start: u64,
    /// The next piece, while a thread of the storage reads it.
    reading: Option<StorageCall<ReadBack>>,
}

/// The reason why a request was not sent whole.
#[derive(Debug)]
pub(super) enum UploadError {
    /// The upstream takes no more. Its response may have come nevertheless.
    Connection,
    /// The content cannot be read from its file.
    Storage(io::Error),
}

/// Bytes of content that are read from a file at once.
const STEP: u64 = 64 * 1024;

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload").field("sent", &self.sent).finish_non_exhaustive()
    }
}

impl Upload {
    /// Returns an upload that has not begun.
    pub(super) fn new(request: Rc<ForwardedRequest>) -> Upload {
        Upload {
            request,
            sent: 0,
            piece: Vec::new(),
            piece_start: 0,
            reading: None,
        }
    }

    /// Bytes that the connection has taken.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns whether the disk, and not the upstream, is waited for.
    pub(super) fn waits_for_disk(&self) -> bool {
        self.reading.is_some()
    }

    /// Writes as much as the connection takes. Ready: everything was written.
    ///
    /// # Errors
    /// The rest cannot be sent.
    pub(super) fn poll(
        &mut self,
        stream: &mut dyn Duplex,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), UploadError>> {
        loop {
            ready!(self.poll_piece(context))?;
            let rest = self.rest();
            if rest.is_empty() {
                // A session of TLS may hold the last bytes.
                let flushed = ready!(Pin::new(stream).poll_flush(context));
                return Poll::Ready(flushed.map_err(|_| UploadError::Connection));
            }
            match ready!(Pin::new(&mut *stream).poll_write(context, rest)) {
                Ok(count) if count > 0 => self.sent += count as u64,
                Ok(_) | Err(_) => return Poll::Ready(Err(UploadError::Connection)),
            }
        }
    }

    /// Returns bytes that are to be sent next and are in memory; none at the end.
    fn rest(&self) -> &[u8] {
        // Bytes in memory have a length of usize.
        let Some(offset) = self.offset() else {
            return &self.request.head[self.sent as usize..];
        };
        match &self.request.content {
            ReceivedContent::Memory(bytes) => &bytes[offset as usize..],
            ReceivedContent::File(..) => &self.piece[(offset - self.piece_start) as usize..],
        }
    }

    /// The place of the next byte in the content. `None`: it is one of the head.
    fn offset(&self) -> Option<u64> {
        self.sent.checked_sub(self.request.head.len() as u64)
    }

    /// Reads the next bytes of a file into memory.
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Result<(), UploadError>> {
        let (Some(offset), ReceivedContent::File(file, length)) =
            (self.offset(), &self.request.content)
        else {
            return Poll::Ready(Ok(()));
        };
        let end = self.piece_start + self.piece.len() as u64;
        if offset < end || offset == *length {
            return Poll::Ready(Ok(()));
        }
        let reading = self.reading.get_or_insert_with(|| {
            let mut piece = std::mem::take(&mut self.piece);
            piece.resize(STEP.min(*length - offset) as usize, 0);
            self.piece_start = offset;
            file.read(offset, piece)
        });
        let read = ready!(Pin::new(reading).poll(context));
        self.reading = None;
        let piece = read.map_err(io::Error::other).and_then(|read| read);
        self.piece = piece.map_err(UploadError::Storage)?;
        Poll::Ready(Ok(()))
    }
}
