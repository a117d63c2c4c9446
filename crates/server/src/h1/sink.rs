//! The connection as the pump's sink: content in HTTP/1's framing.

use std::task::{Context, Poll, ready};

use howdah_http::h1::{Framing, LAST_CHUNK, encode_chunk_size};

use crate::body;
use crate::net::{ContentPiece, SendError, TimedTransport, Transport};

/// Content in memory up to this length is copied behind its head: one plain `write` is cheaper than
/// gathering.
const COPIED: usize = 4096;

/// A response that is being sent.
pub(super) struct H1Sink<'c, T> {
    wire: &'c mut TimedTransport<T>,
    /// Bytes that go before the next content: the head, a chunk's size, the end of a chunk.
    before: &'c mut Vec<u8>,
    /// Bytes of `before` that were sent.
    sent: usize,
    is_chunked: bool,
    /// Bytes of content that the present chunk still needs; `u64::MAX` where content has no chunks.
    chunk: u64,
    has_ended: bool,
}

impl<'c, T: Transport> H1Sink<'c, T> {
    /// Sends what is in `before`, the head, ahead of content in that framing.
    pub(super) fn new(
        wire: &'c mut TimedTransport<T>,
        before: &'c mut Vec<u8>,
        framing: Framing,
    ) -> H1Sink<'c, T> {
        let is_chunked = framing == Framing::Chunked;
        let chunk = if is_chunked { 0 } else { u64::MAX };
        H1Sink {
            wire,
            before,
            sent: 0,
            is_chunked,
            chunk,
            has_ended: false,
        }
    }

    /// Begins a chunk of `length` bytes if the present one has ended.
    fn frame(&mut self, length: u64) {
        if self.is_chunked && self.chunk == 0 {
            encode_chunk_size(self.before, length as usize);
            self.chunk = length;
        }
    }

    /// Returns the framing that follows `length` bytes of content.
    fn tail(&self, length: u64, is_last: bool) -> &'static [u8] {
        match (self.is_chunked && length == self.chunk, is_last) {
            (false, _) => b"",
            (true, false) => b"\r\n",
            (true, true) => b"\r\n0\r\n\r\n",
        }
    }

    /// Accounts for the bytes sent of `before`, `length` bytes of content and `tail` together.
    /// Returns the number of bytes of content among them.
    fn note(&mut self, sent: usize, length: usize, tail: &'static [u8]) -> usize {
        let head = sent.min(self.before.len() - self.sent);
        self.sent += head;
        if self.sent < self.before.len() {
            return 0;
        }
        self.before.clear();
        self.sent = 0;
        let content = (sent - head).min(length);
        if self.is_chunked {
            self.chunk -= content as u64;
        }
        if content == length {
            self.has_ended = tail.len() > 2;
            self.before.extend_from_slice(&tail[sent - head - content..]);
        }
        content
    }
}

impl<T: Transport> body::Sink for H1Sink<'_, T> {
    #[inline]
    fn take_whole(&mut self, content: &[u8]) -> bool {
        let is_short = !self.is_chunked && content.len() <= COPIED;
        if is_short {
            self.before.extend_from_slice(content);
        }
        is_short
    }

    #[inline]
    fn poll_send(
        &mut self,
        piece: ContentPiece<'_>,
        is_last: bool,
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, SendError>> {
        self.frame(piece.length());
        let all = piece.length();
        let piece = piece.first(self.chunk);
        let length = piece.length();
        if let ContentPiece::Memory(bytes) = piece
            && bytes.len() <= COPIED
        {
            // Copied content is sent with the head, with the next content, or by `poll_finish`.
            if self.before.len() > 2 * COPIED {
                ready!(self.poll_flush(context))?;
            }
            let tail = self.tail(length, is_last && length == all);
            self.before.extend_from_slice(bytes);
            self.before.extend_from_slice(tail);
            self.has_ended = tail.len() > 2;
            if self.is_chunked {
                self.chunk -= length;
            }
            if !is_last && let Poll::Ready(flushed) = self.poll_flush(context) {
                flushed?;
            }
            return Poll::Ready(Ok(bytes.len()));
        }
        let tail = self.tail(length, is_last && length == all);
        loop {
            let before = &self.before[self.sent..];
            let sent = ready!(self.wire.poll_send(before, piece, tail, context))?;
            let content = self.note(sent, length as usize, tail);
            if content > 0 {
                return Poll::Ready(Ok(content));
            }
        }
    }

    #[inline]
    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        while self.sent < self.before.len() {
            let before = &self.before[self.sent..];
            self.sent +=
                ready!(self.wire.poll_send(before, ContentPiece::Memory(b""), b"", context))?;
        }
        self.before.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        if self.is_chunked && !self.has_ended {
            self.before.extend_from_slice(LAST_CHUNK);
            self.has_ended = true;
        }
        self.poll_flush(context)
    }

    fn poll_broken(&self, context: &mut Context<'_>) -> bool {
        self.wire.poll_broken(context)
    }
}
