//! Parts of content that comes from its beginning to its end.

use std::task::{Context, Poll, ready};

use howdah_http::range::Span;

use super::filtering::rest;
use super::source::{AvailableContent, BodySource, ResponseBody, SourceError};
use crate::net::ContentPiece;

/// The content of a response to a Range request, cut out of other content as that passes. Bytes
/// before and between the ranges are discarded; after the last range the content is given up.
#[derive(Debug)]
pub(crate) struct Ranged {
    content: ResponseBody,
    /// Bytes of `content` that have passed.
    position: u64,
    /// The segments that are left, the next one last.
    segments: Vec<Segment>,
    /// Bytes of all segments together.
    length: u64,
}

/// A segment of the response.
#[derive(Debug)]
pub(crate) enum Segment {
    /// These bytes, without the first ones, which were sent.
    Text(Vec<u8>, usize),
    /// These bytes of the content.
    Span(Span),
}

impl Ranged {
    /// Returns a source of these segments. The spans are in ascending order and do not overlap.
    pub(crate) fn new(content: ResponseBody, mut segments: Vec<Segment>) -> Ranged {
        let length = segments.iter().map(Segment::length).sum();
        segments.reverse();
        Ranged { content, position: 0, segments, length }
    }

    /// Discards content up to `first`, or up to its end. Pending: not all of it has come.
    fn poll_skip(
        &mut self,
        first: u64,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), SourceError>> {
        while self.position < first {
            let available = ready!(self.content.poll_available(context))?;
            if available.bytes == 0 {
                break;
            }
            let missing = usize::try_from(first - self.position).unwrap_or(usize::MAX);
            let count = available.bytes.min(missing);
            self.content.consume(count);
            self.position += count as u64;
            // A script that writes as fast as its output is discarded does not keep the thread:
            // other connections get their turn.
            if self.position < first && !available.is_last {
                rest(context);
                return Poll::Pending;
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl Segment {
    fn length(&self) -> u64 {
        match self {
            Segment::Text(bytes, sent) => (bytes.len() - sent) as u64,
            Segment::Span(span) => span.length(),
        }
    }

    fn memory(&self) -> usize {
        let text = match self {
            Segment::Text(bytes, _) => bytes.len(),
            Segment::Span(_) => 0,
        };
        size_of::<Segment>() + text
    }
}

impl BodySource for Ranged {
    fn poll_available(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<AvailableContent, SourceError>> {
        let is_last = self.segments.len() <= 1;
        let span = match self.segments.last() {
            Some(Segment::Span(span)) => *span,
            text => {
                let bytes = text.map_or(0, Segment::length) as usize;
                return Poll::Ready(Ok(AvailableContent { bytes, is_last, is_urgent: false }));
            }
        };
        ready!(self.poll_skip(span.first, context))?;
        let available = ready!(self.content.poll_available(context))?;
        let wanted = usize::try_from(span.last + 1 - self.position).unwrap_or(usize::MAX);
        Poll::Ready(Ok(AvailableContent {
            bytes: available.bytes.min(wanted),
            // Content that ends early is noticed by the pump: the head has promised more.
            is_last: match available.bytes {
                0 => available.is_last,
                bytes => is_last && bytes >= wanted,
            },
            is_urgent: available.is_urgent,
        }))
    }

    fn piece(&self) -> ContentPiece<'_> {
        match self.segments.last() {
            Some(Segment::Text(bytes, sent)) => ContentPiece::Memory(&bytes[*sent..]),
            Some(Segment::Span(span)) => self.content.piece().first(span.last + 1 - self.position),
            None => ContentPiece::Memory(b""),
        }
    }

    fn consume(&mut self, count: usize) {
        let has_ended = match self.segments.last_mut() {
            Some(Segment::Text(bytes, sent)) => {
                *sent += count;
                *sent == bytes.len()
            }
            Some(Segment::Span(span)) => {
                self.content.consume(count);
                self.position += count as u64;
                self.position > span.last
            }
            None => false,
        };
        if has_ended {
            self.segments.pop();
            if !self.segments.iter().any(|segment| matches!(segment, Segment::Span(_))) {
                // The worker goes on to the next request before the client has the rest.
                self.content.discard();
            }
        }
    }

    fn length(&self) -> Option<u64> {
        Some(self.length)
    }

    fn own_memory(&self) -> usize {
        self.segments.iter().map(Segment::memory).sum::<usize>() + self.content.own_memory()
    }

    fn discard(&mut self) {
        self.content.discard();
    }

    fn release(&mut self) {
        self.content.release();
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Returns what comes out, taken in steps of at most `step` bytes.
    fn taken(mut ranged: Ranged, step: usize) -> (Vec<u8>, bool) {
        let mut context = Context::from_waker(Waker::noop());
        let mut all = Vec::new();
        loop {
            let available = match ranged.poll_available(&mut context) {
                Poll::Pending => continue,
                Poll::Ready(available) => available.unwrap(),
            };
            let ContentPiece::Memory(bytes) = ranged.piece() else {
                panic!("the content is in memory")
            };
            let count = available.bytes.min(step);
            all.extend_from_slice(&bytes[..count]);
            ranged.consume(count);
            if available.is_last && available.bytes == count {
                return (all, ranged.segments.is_empty());
            }
        }
    }

    fn ranged(content: &str, segments: Vec<Segment>) -> Ranged {
        Ranged::new(ResponseBody::whole(content.as_bytes().into()), segments)
    }

    fn span(first: u64, last: u64) -> Segment {
        Segment::Span(Span { first, last })
    }

    fn text(text: &str) -> Segment {
        Segment::Text(text.as_bytes().to_vec(), 0)
    }

    #[test]
    fn ranges_are_cut_out_of_content_as_it_passes() {
        for step in [1, 3, 100] {
            let one = ranged("0123456789", vec![span(3, 5)]);
            assert_eq!(one.length(), Some(3));
            assert_eq!(taken(one, step), (b"345".to_vec(), true));
            let many = vec![text("<"), span(0, 1), text("|"), span(8, 9), text(">")];
            let many = ranged("0123456789", many);
            assert_eq!(many.length(), Some(7));
            assert_eq!(taken(many, step), (b"<01|89>".to_vec(), true));
        }
    }

    #[test]
    fn content_that_ends_early_does_not_end_the_ranges() {
        for content in ["", "01", "0123"] {
            let (bytes, is_complete) = taken(ranged(content, vec![span(3, 5)]), 100);
            assert_eq!(bytes, content.as_bytes().get(3..).unwrap_or_default());
            assert!(!is_complete, "{content}");
        }
    }
}
