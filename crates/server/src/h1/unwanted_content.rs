//! Content of a request that its response does not need, such as that of a PUT which is answered
//! with 405. The next request can follow on the connection if the content is short.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Instant;

use super::connection::{AfterResponse, H1Connection};
use super::request_body::UnreadContent;
use crate::front::Workspace;
use crate::net::{LINGER, LINGER_BYTES, Transport};

impl<T: Transport> H1Connection<T> {
    /// Discards the content that has arrived and that nobody reads. Returns whether the next
    /// request can follow: the content has ended, or little of it is missing, which
    /// [`discard_rest`](H1Connection::discard_rest) reads after the response.
    pub(super) async fn discard_arrived(&mut self, work: &mut Workspace) -> bool {
        let mut taken = 0;
        while self.discard_input(work) {
            if self.remaining.is_done() {
                return true;
            }
            if taken >= MOST_AT_ONCE {
                break;
            }
            let filled = poll_fn(|context| {
                Poll::Ready(self.wire.poll_fill(&mut work.input, &mut None, context))
            });
            match filled.await {
                Poll::Ready(Ok(count)) if count > 0 => taken += count,
                Poll::Ready(_) => return false,
                Poll::Pending => break,
            }
        }
        match self.remaining {
            // A client that waits for leave to send (Expect) may leave the content out.
            UnreadContent::Length(left) => {
                left <= LINGER_BYTES as u64 && !work.request.fields.contains(b"expect")
            }
            UnreadContent::Chunks(_) => false,
        }
    }

    /// Reads and discards the rest of the content, behind the response.
    pub(super) async fn discard_rest(&mut self, work: &mut Workspace) -> AfterResponse {
        let end = Instant::now() + LINGER;
        while self.discard_input(work) {
            if self.remaining.is_done() {
                return AfterResponse::Next;
            }
            let patience = end.saturating_duration_since(Instant::now());
            match self.wire.fill(&mut work.input, patience).await {
                Ok(count) if count > 0 && !patience.is_zero() => {}
                _ => break,
            }
        }
        AfterResponse::Close
    }

    /// Discards the content in the buffer. Returns `false` if its chunks are malformed.
    fn discard_input(&mut self, work: &mut Workspace) -> bool {
        while !self.remaining.is_done() {
            let (input, received) = (&mut work.input, &mut self.received);
            match self.remaining.decode(input, received, &mut |_| Ok(())) {
                Ok(Some(_)) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
        true
    }
}

/// Bytes that are read before a response is sent. Beyond them, the response goes first.
const MOST_AT_ONCE: usize = 64 * 1024;
