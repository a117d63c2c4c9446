//! The content of a request as it arrives.

use std::task::{Context, Poll, ready};

use ::h3::error::Code;
use bytes::Bytes;
use howdah_http::h3::has_pseudo_field;

use super::outgoing::OutgoingStream;
use super::stream_frames::{StreamFrames, StreamPart};
use crate::streams::{StreamContent, StreamGone};

/// The client's side of a stream, from the end of the request's head on.
pub(super) struct ReceivedStream {
    frames: StreamFrames,
    outgoing: OutgoingStream,
    /// The content that came with the head, or how the content has ended.
    next: Option<Result<Option<Bytes>, StreamGone>>,
}

impl ReceivedStream {
    pub(super) fn new(frames: StreamFrames, outgoing: OutgoingStream) -> ReceivedStream {
        ReceivedStream { frames, outgoing, next: None }
    }

    /// Takes what has come with the head.
    pub(super) fn look(&mut self, context: &mut Context<'_>) {
        if let Poll::Ready(first) = self.poll_stream(context) {
            self.next = Some(first);
        }
    }

    /// Returns whether it is known that no content follows.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.next, Some(Ok(None)))
    }

    fn poll_stream(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamGone>> {
        loop {
            match ready!(self.frames.poll_part(context)).map_err(|_| StreamGone)? {
                Some(StreamPart::Content(content)) => return Poll::Ready(Ok(Some(content))),
                Some(StreamPart::Trailers(section)) if has_pseudo_field(&section) => {
                    // Malformed (RFC 9114 §4.1.2, §4.3).
                    self.frames.stop(Code::H3_MESSAGE_ERROR);
                    self.outgoing.reset(Code::H3_MESSAGE_ERROR);
                    return Poll::Ready(Err(StreamGone));
                }
                // Trailers are read and forgotten.
                Some(StreamPart::Trailers(_) | StreamPart::Head(_)) => {}
                None => return Poll::Ready(Ok(None)),
            }
        }
    }
}

impl StreamContent for ReceivedStream {
    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamGone>> {
        let data = match self.next.take() {
            Some(next) => next,
            None => ready!(self.poll_stream(context)),
        };
        if !matches!(data, Ok(Some(_))) {
            self.next = Some(data.clone());
        }
        Poll::Ready(data)
    }

    /// QUIC's window opens when the stream is read.
    fn release(&mut self, _: usize) {}
}
