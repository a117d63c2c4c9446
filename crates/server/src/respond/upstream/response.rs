//! Reading an upstream's response: a head, and content as the head announces. The upstream is not
//! trusted.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use howdah_http::h1::{ChunkedDecoder, Framing, ParsedResponse, parse_response, worth_parsing};
use howdah_http::{Method, ResponseHead, Status, members};
use tokio::io::AsyncRead;
use tokio::time::{Sleep, sleep};

use super::UpstreamError;
use super::connection::UpstreamConnection;
use super::failure::{HEAD_LIMITS, UpstreamFailure, refused};
use super::kept::ConnectionHome;
use super::upload::{Upload, UploadError};
use crate::body::{AvailableContent, BodySource, SourceError, Trailers, Tunnel};
use crate::net::{ContentPiece, DecodedChunks, ReceiveBuffer};

/// The most interim responses before the final one. A response with more is malformed, and the
/// client gets 502.
const MOST_INTERIM: usize = 16;

/// The content that may follow the head of a response, by its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpectedContent {
    Content,
    /// The request was a HEAD: the content's length is in the head alone.
    NoContent,
    /// Content, or after 101 (Switching Protocols) the bytes of a WebSocket.
    Switch,
}

/// A response that is being received.
pub(super) struct UpstreamResponse {
    /// The upstream's name, for the log.
    name: String,
    /// `None` after the end of a response whose connection is kept.
    connection: Option<UpstreamConnection>,
    /// The part of the request that was not sent yet; `None`: nothing is sent any more.
    upload: Option<Upload>,
    /// The destination of the connection at the end of the response; `None`: it is closed.
    home: Option<ConnectionHome>,
    input: ReceiveBuffer,
    /// Something was received.
    has_begun: bool,
    /// Interim responses so far.
    interim: usize,
    /// Bytes of content at the beginning of `input`, and bytes of framing behind them.
    ready: (usize, usize),
    left: UnreceivedContent,
    chunks: DecodedChunks,
    /// The reason why nothing follows the content in `ready`.
    failure: Option<UpstreamFailure>,
    /// The fields behind the content go here; `None` where nobody wants them.
    trailers: Option<Trailers>,
    /// The request was a HEAD: the content's length is in the head alone.
    is_head: bool,
    patience: Duration,
    /// Runs while nothing is received or sent.
    silence: Option<Pin<Box<Sleep>>>,
}

/// The part of a response's content that was not received yet.
#[derive(Debug)]
enum UnreceivedContent {
    Length(u64),
    Chunks(Box<ChunkedDecoder>),
    /// Everything up to the connection's end.
    All,
}

impl UnreceivedContent {
    /// The content that a head announces (RFC 9112 §6.3).
    fn of(framing: Framing) -> UnreceivedContent {
        match framing {
            Framing::None | Framing::Head(_) => UnreceivedContent::Length(0),
            Framing::Length(length) => UnreceivedContent::Length(length),
            Framing::Chunked => {
                UnreceivedContent::Chunks(Box::new(ChunkedDecoder::new(&HEAD_LIMITS)))
            }
            Framing::Close => UnreceivedContent::All,
        }
    }
}

impl fmt::Debug for UpstreamResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamResponse")
            .field("name", &self.name)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl UpstreamResponse {
    /// Returns the response to what `upload` sends over `connection`, which `home` takes back.
    pub(super) fn new(
        name: String,
        connection: UpstreamConnection,
        upload: Upload,
        patience: Duration,
        home: Option<ConnectionHome>,
    ) -> UpstreamResponse {
        UpstreamResponse {
            name,
            connection: Some(connection),
            upload: Some(upload),
            home,
            input: ReceiveBuffer::default(),
            has_begun: false,
            interim: 0,
            ready: (0, 0),
            left: UnreceivedContent::All,
            chunks: DecodedChunks::default(),
            failure: None,
            trailers: None,
            is_head: false,
            patience,
            silence: None,
        }
    }

    /// Returns whether any byte of the response was received.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Sends as much of the request as the upstream takes. An upstream that takes no more may have
    /// answered nevertheless.
    ///
    /// # Errors
    /// The request's content cannot be read.
    fn send_more(&mut self, context: &mut Context<'_>) -> Result<(), UpstreamFailure> {
        let (Some(upload), Some(connection)) = (&mut self.upload, &mut self.connection) else {
            return Ok(());
        };
        let before = upload.sent();
        let polled = upload.poll(&mut *connection.stream, context);
        if upload.sent() > before || upload.waits_for_disk() {
            self.silence = None;
        }
        match polled {
            Poll::Pending => Ok(()),
            Poll::Ready(Ok(())) => {
                self.upload = None;
                Ok(())
            }
            Poll::Ready(Err(UploadError::Connection)) => {
                (self.upload, self.home) = (None, None);
                Ok(())
            }
            Poll::Ready(Err(UploadError::Storage(error))) => Err(UpstreamFailure::Storage(error)),
        }
    }

    /// Reads once; 0 bytes are the end. Meanwhile the rest of the request is sent.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<Result<usize, UpstreamFailure>> {
        self.send_more(context)?;
        let (input, Some(connection)) = (&mut self.input, &mut self.connection) else {
            return Poll::Ready(Ok(0));
        };
        let stream = &mut connection.stream;
        let filled = input.poll_fill(|room| Pin::new(stream).poll_read(context, room));
        if let Poll::Ready(filled) = filled {
            self.silence = None;
            self.has_begun |= filled.as_ref().is_ok_and(|count| *count > 0);
            return Poll::Ready(filled.map_err(UpstreamFailure::Broken));
        }
        let patience = self.patience;
        let silence = self.silence.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(silence.as_mut().poll(context));
        Poll::Ready(Err(UpstreamFailure::Silent))
    }

    /// Sends the request and reads the next head: that of an interim response for the client, or
    /// the final one, after which the content follows. A 100 (Continue) is skipped: no upstream is
    /// asked for one.
    ///
    /// # Errors
    /// The upstream closes the connection, is silent for too long, or sends a malformed head or too
    /// many interim ones.
    pub(super) async fn read_head(
        &mut self,
        expected: ExpectedContent,
    ) -> Result<ResponseHead, UpstreamFailure> {
        self.is_head = expected == ExpectedContent::NoContent;
        let method = match self.is_head {
            true => Method::Head,
            false => Method::Get,
        };
        let mut seen = 0;
        loop {
            let there = self.input.bytes();
            let parsed = match worth_parsing(there, seen, &HEAD_LIMITS) {
                true => parse_response(there, &method, &HEAD_LIMITS),
                false => Ok(None),
            };
            let parsed = parsed.map_err(refused)?;
            let Some(ParsedResponse {
                head,
                head_length,
                framing,
                persistent,
                upgrade,
            }) = parsed
            else {
                seen = there.len();
                if poll_fn(|context| self.poll_fill(context)).await? == 0 {
                    return Err(UpstreamFailure::Short);
                }
                continue;
            };
            self.input.consume(head_length);
            seen = 0;
            if head.status == Status::SWITCHING_PROTOCOLS
                && expected == ExpectedContent::Switch
                && upgrade.is_some_and(|protocols| names_websocket(&protocols))
            {
                return Ok(head);
            }
            if !head.status.is_informational() {
                self.left = UnreceivedContent::of(framing);
                if !persistent {
                    self.home = None;
                }
                self.settle();
                return Ok(head);
            }
            self.interim += 1;
            if self.interim > MOST_INTERIM || head.status == Status::SWITCHING_PROTOCOLS {
                return Err(UpstreamFailure::Malformed(
                    "an interim response that was not asked for",
                ));
            }
            if head.status != Status::CONTINUE {
                return Ok(head);
            }
        }
    }

    /// Returns the place of the fields behind the content, which are kept from now on; `None` if
    /// the content has an end that no fields can follow.
    pub(super) fn keep_trailers(&mut self) -> Option<Trailers> {
        let UnreceivedContent::Chunks(decoder) = &mut self.left else {
            return None;
        };
        decoder.keep_trailers();
        Some(self.trailers.insert(Trailers::default()).clone())
    }

    /// Makes a tunnel of the connection, whose head was 101.
    /// `None`: there is no connection.
    pub(super) fn into_tunnel(
        self,
        idle_timeout: Duration,
        place: Box<dyn fmt::Debug>,
    ) -> Option<Tunnel> {
        let connection = self.connection?;
        Some(Tunnel {
            received: self.input.bytes().to_vec(),
            stream: connection.stream,
            idle_timeout,
            name: self.name,
            place: Box::new((place, connection.place)),
        })
    }

    /// Gives the connection back at the end of the response. Bytes behind the end are those of an
    /// upstream that cannot count: its connection is closed. So is the connection of one that has
    /// answered without the whole request.
    fn settle(&mut self) {
        if !matches!(self.left, UnreceivedContent::Length(0)) || self.ready != (0, 0) {
            return;
        }
        let (home, upload) = (self.home.take(), self.upload.take());
        if let (Some(connection), Some(home), None, true) =
            (self.connection.take(), home, upload, self.input.is_empty())
        {
            home.take_back(connection);
        }
    }

    /// Finds the next content. Afterwards `ready` is its length; 0 is the end.
    fn poll_content(&mut self, context: &mut Context<'_>) -> Poll<Result<(), UpstreamFailure>> {
        while self.ready.0 == 0 && !matches!(self.left, UnreceivedContent::Length(0)) {
            if self.chunks.is_turn_over(context) {
                return Poll::Pending;
            }
            if let Some(failure) = self.failure.take() {
                return Poll::Ready(Err(failure));
            }
            if self.input.is_empty() && ready!(self.poll_fill(context))? == 0 {
                if !matches!(self.left, UnreceivedContent::All) {
                    return Poll::Ready(Err(UpstreamFailure::Short));
                }
                self.left = UnreceivedContent::Length(0);
                break;
            }
            let there = self.input.bytes();
            match &mut self.left {
                UnreceivedContent::All => self.ready = (there.len(), 0),
                UnreceivedContent::Length(left) => {
                    let length = usize::try_from(*left).unwrap_or(usize::MAX).min(there.len());
                    *left -= length as u64;
                    self.ready = (length, 0);
                }
                UnreceivedContent::Chunks(_) => self.gather(),
            }
        }
        self.settle();
        Poll::Ready(Ok(()))
    }

    /// Finds the content of all chunks that have come, and puts it together: an upstream that
    /// divides its content into single bytes causes no more writes than any other.
    fn gather(&mut self) {
        let UnreceivedContent::Chunks(decoder) = &mut self.left else {
            return;
        };
        let (mut length, mut passed) = (0, 0);
        let mut is_done = false;
        while !is_done && passed < self.input.bytes().len() {
            self.chunks.add(1);
            let decoded = match decoder.decode(&self.input.bytes()[passed..]) {
                Ok(decoded) => decoded,
                Err(refusal) => {
                    self.failure = Some(refused(refusal));
                    break;
                }
            };
            let data = decoded.data;
            is_done = decoded.done;
            if length == 0 {
                // The first content stays where it is.
                self.input.consume(data.start);
                passed = decoded.consumed - data.start;
            } else {
                self.input.bring_forward(passed + data.start..passed + data.end, length);
                passed += decoded.consumed;
            }
            length += data.len();
        }
        self.ready = (length, passed - length);
        if is_done {
            if let (Some(place), Some(fields)) = (&self.trailers, decoder.take_trailers()) {
                place.set(fields);
            }
            self.left = UnreceivedContent::Length(0);
        }
    }
}

impl BodySource for UpstreamResponse {
    fn poll_available(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<AvailableContent, SourceError>> {
        if let Err(failure) = ready!(self.poll_content(context)) {
            let error = UpstreamError { upstream: self.name.clone(), failure };
            return Poll::Ready(Err(SourceError::Upstream(Box::new(error))));
        }
        Poll::Ready(Ok(AvailableContent {
            bytes: self.ready.0,
            is_last: matches!(self.left, UnreceivedContent::Length(0)),
            is_urgent: false,
        }))
    }

    fn piece(&self) -> ContentPiece<'_> {
        ContentPiece::Memory(&self.input.bytes()[..self.ready.0])
    }

    fn consume(&mut self, count: usize) {
        self.input.consume(count);
        self.ready.0 -= count;
        if self.ready.0 == 0 {
            self.input.consume(std::mem::take(&mut self.ready.1));
            self.settle();
        }
    }

    fn length(&self) -> Option<u64> {
        match self.left {
            UnreceivedContent::Length(length) if !self.is_head => {
                Some(length + self.ready.0 as u64)
            }
            UnreceivedContent::Length(_)
            | UnreceivedContent::Chunks(_)
            | UnreceivedContent::All => None,
        }
    }

    /// The output before an upstream's pause is sent on without a delay.
    fn pause(&self) -> Duration {
        Duration::ZERO
    }
}

/// Returns whether the value of Upgrade names the protocol of a WebSocket.
fn names_websocket(protocols: &[u8]) -> bool {
    members(protocols).any(|protocol| protocol.eq_ignore_ascii_case(b"websocket"))
}

#[cfg(test)]
mod tests;
