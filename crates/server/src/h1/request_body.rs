//! The content of a request in HTTP/1's framing (RFC 9112 §6, §7).

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use howdah_http::h1::{CONTINUE, ChunkedDecoder, Framing, HopFields, encode_head};
use howdah_http::{Content, Limits, Method, Request, ResponseHead, Version};

use crate::body::{BodyError, RequestStream};
use crate::net::{DecodedChunks, ReceiveBuffer, TimedTransport, Transport};

/// The unread part of a request's content.
#[derive(Debug)]
pub(super) enum UnreadContent {
    Length(u64),
    Chunks(Box<ChunkedDecoder>),
}

impl UnreadContent {
    /// All of the content that a request's head announced. CONNECT has none (RFC 9110 §9.3.6):
    /// there is no tunnel here, and what follows the head is no request.
    pub(super) fn of(request: &mut Request, limits: &Limits) -> UnreadContent {
        if request.method == Method::Connect {
            request.content = Content::None;
            return UnreadContent::Length(u64::MAX);
        }
        match request.content {
            Content::None => UnreadContent::Length(0),
            Content::Length(length) => UnreadContent::Length(length),
            Content::Unknown => UnreadContent::Chunks(Box::new(ChunkedDecoder::new(limits))),
        }
    }

    /// Returns whether the next request begins at the next byte.
    pub(super) fn is_done(&self) -> bool {
        matches!(self, UnreadContent::Length(0))
    }

    /// Decodes the content at the beginning of `input`, and counts its bytes in `received`. Returns
    /// whether more of it follows; `None` if `input` is empty.
    ///
    /// # Errors
    /// The chunks are malformed, or the error of `take`.
    pub(super) fn decode(
        &mut self,
        input: &mut ReceiveBuffer,
        received: &mut u64,
        take: &mut dyn FnMut(&[u8]) -> Result<(), BodyError>,
    ) -> Result<Option<bool>, BodyError> {
        let bytes = input.bytes();
        if bytes.is_empty() {
            return Ok(None);
        }
        let consumed = match self {
            UnreadContent::Length(left) => {
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                take(&bytes[..count])?;
                *left -= count as u64;
                count
            }
            UnreadContent::Chunks(decoder) => {
                let decoded = decoder.decode(bytes).map_err(BodyError::Refused)?;
                take(&bytes[decoded.data])?;
                if decoded.done {
                    *self = UnreadContent::Length(0);
                }
                decoded.consumed
            }
        };
        input.consume(consumed);
        *received += consumed as u64;
        Ok(Some(!self.is_done()))
    }
}

/// The request's end of a connection.
pub(super) struct H1RequestBody<'c, T> {
    pub(super) wire: &'c mut TimedTransport<T>,
    pub(super) input: &'c mut ReceiveBuffer,
    pub(super) remaining: &'c mut UnreadContent,
    /// Bytes of the request that were received, with its head.
    pub(super) received: &'c mut u64,
    pub(super) version: Version,
    /// Whether the client waits for a 100 (Continue) before it sends its content.
    pub(super) expects_continue: bool,
    /// Whether the watch runs for the read that is under way.
    pub(super) is_waiting: bool,
    /// Bytes of an interim response that were not sent yet.
    pub(super) interim: Vec<u8>,
    /// An interim response could not be sent: no byte may follow.
    pub(super) is_cut: bool,
    pub(super) chunks: DecodedChunks,
    /// The content could not be received, such as one that is too long or late. No further request
    /// follows.
    pub(super) has_failed: bool,
}

impl<T: Transport> RequestStream for H1RequestBody<'_, T> {
    fn poll_content(
        &mut self,
        patience: Duration,
        take: &mut dyn FnMut(&[u8]) -> Result<(), BodyError>,
        context: &mut Context<'_>,
    ) -> Poll<Result<bool, BodyError>> {
        let polled = self.poll_decoded(patience, take, context);
        self.has_failed |= matches!(polled, Poll::Ready(Err(_)));
        polled
    }

    /// HTTP/1.0 has no interim responses (RFC 9110 §15.2).
    fn send_interim<'s>(
        &'s mut self,
        head: &'s ResponseHead,
    ) -> Pin<Box<dyn Future<Output = ()> + 's>> {
        Box::pin(async move {
            if self.version != Version::Http10 && !self.is_cut {
                // An interim head has no fields of the connection.
                let hop = HopFields {
                    version: self.version,
                    is_persistent: true,
                    date: b"",
                    alternative: None,
                };
                encode_head(&mut self.interim, head, Framing::None, &hop);
                // Whether it was cut is told by `poll_closed` and `poll_broken`.
                let _ = std::future::poll_fn(|context| self.poll_interim(context)).await;
            }
        })
    }

    fn poll_closed(&self, context: &mut Context<'_>) -> bool {
        self.is_cut || self.wire.poll_closed(context)
    }

    fn poll_broken(&self, context: &mut Context<'_>) -> bool {
        self.is_cut || self.wire.poll_broken(context)
    }
}

impl<T: Transport> H1RequestBody<'_, T> {
    /// Decodes content that has arrived, or waits for some. Returns whether more follows.
    ///
    /// # Errors
    /// The content cannot be received.
    fn poll_decoded(
        &mut self,
        patience: Duration,
        take: &mut dyn FnMut(&[u8]) -> Result<(), BodyError>,
        context: &mut Context<'_>,
    ) -> Poll<Result<bool, BodyError>> {
        if self.remaining.is_done() {
            return Poll::Ready(Ok(false));
        }
        if std::mem::take(&mut self.expects_continue) && self.input.is_empty() {
            self.interim.extend_from_slice(CONTINUE);
        }
        ready!(self.poll_interim(context))?;
        if self.chunks.is_turn_over(context) {
            return Poll::Pending;
        }
        loop {
            self.chunks.add(usize::from(matches!(self.remaining, UnreadContent::Chunks(_))));
            if let Some(goes_on) = self.remaining.decode(self.input, self.received, take)? {
                return Poll::Ready(Ok(goes_on));
            }
            let mut patience = (!self.is_waiting).then_some(patience);
            self.is_waiting = true;
            let filled = ready!(self.wire.poll_fill(self.input, &mut patience, context));
            self.is_waiting = false;
            self.wire.watch.disarm();
            match filled {
                Ok(0) => return Poll::Ready(Err(BodyError::Closed)),
                Ok(_) => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }
}

impl<T: Transport> H1RequestBody<'_, T> {
    /// Returns whether the final response may follow. Behind a part of an interim response its head
    /// would be taken for fields of that one.
    pub(super) fn may_respond(&self) -> bool {
        !self.is_cut && self.interim.is_empty()
    }

    /// Sends what is left of the interim responses.
    fn poll_interim(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        if self.is_cut {
            return Poll::Ready(Err(BodyError::Closed));
        }
        while !self.interim.is_empty() {
            let nothing = crate::net::ContentPiece::Memory(b"");
            match ready!(self.wire.poll_send(&self.interim, nothing, b"", context)) {
                Ok(count) => drop(self.interim.drain(..count)),
                Err(_) => {
                    self.is_cut = true;
                    return Poll::Ready(Err(BodyError::Closed));
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}
