//! Content of files that is on the disk only. A thread of the storage brings it into memory, so
//! that the event loop does not wait for the disk while it sends.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::spool::SpoolLimits;
use super::storage::StorageCall;
use crate::net::ContentPiece;

/// The known place of a response's content.
pub(super) struct FileResidence<'l> {
    limits: &'l SpoolLimits,
    /// The bytes of the file that are in memory, or will be when `fetch` has ended.
    known: Range<u64>,
    fetch: Option<StorageCall<()>>,
}

impl<'l> FileResidence<'l> {
    pub(super) fn new(limits: &'l SpoolLimits) -> FileResidence<'l> {
        FileResidence { limits, known: 0..0, fetch: None }
    }

    /// Returns the number of the piece's first bytes that can be taken without waiting for the
    /// disk, at least 1 unless the piece is empty. Pending: they are being read.
    #[inline]
    pub(super) fn poll(&mut self, piece: ContentPiece<'_>, context: &mut Context<'_>) -> Poll<u64> {
        let length = piece.length();
        match piece {
            ContentPiece::Document { offset, .. } if length > 0 => {
                if self.fetch.is_some() || !self.known.contains(&offset) {
                    ready!(self.poll_cold(piece, context));
                }
                Poll::Ready(length.min(self.known.end - offset))
            }
            _ => Poll::Ready(length),
        }
    }

    fn poll_cold(&mut self, piece: ContentPiece<'_>, context: &mut Context<'_>) -> Poll<()> {
        let ContentPiece::Document { file, offset, length } = piece else {
            return Poll::Ready(());
        };
        if self.fetch.is_none() {
            self.known = offset..offset.saturating_add(length.min(WINDOW));
            if file.is_cold(&self.known) {
                let fetch = self.limits.storage.fetch(self.limits.site, file, &self.known);
                self.fetch = Some(fetch);
            }
        }
        if let Some(fetch) = &mut self.fetch {
            // Without a result the event loop meets the error when it reads.
            let _done = ready!(Pin::new(fetch).poll(context));
            self.fetch = None;
        }
        Poll::Ready(())
    }
}

/// Bytes that are asked about, and brought into memory, at a time.
const WINDOW: u64 = 1 << 20;
