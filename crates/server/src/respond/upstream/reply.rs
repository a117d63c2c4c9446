//! Reading an upstream's response: a head, and content as the head announces. The upstream is not
//! trusted.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use howdah_http::h1::ChunkedDecoder;
use howdah_http::{Fields, Limits, ResponseHead, Status, members};
use tokio::io::{AsyncRead, AsyncWriteExt};
use tokio::time::{Sleep, sleep};

use super::UpstreamError;
use super::kept::Home;
use crate::body::{Available, Duplex, ReceivedContent, Source, SourceError, Tunnel};
use crate::net::{Buffer, Piece};
use crate::streams::Trailers;

/// The most bytes of a response's head, and the most lines in it.
const MOST_HEAD: usize = 64 * 1024;
const MOST_LINES: usize = 200;
/// The most interim responses before the final one.
const MOST_INTERIM: usize = 16;
/// Bytes of a request's content that are written at once.
const STEP: usize = 64 * 1024;

/// The reasons why an upstream failed.
#[derive(Debug)]
pub(super) enum UpstreamFailure {
    /// The connection could not be made.
    Unreachable(io::Error),
    /// The connection was not made within `upstream_connect_timeout`.
    Unanswered,
    /// The connection could not be made a moment ago, and is not tried.
    Resting,
    /// TLS could not be begun. The text says why and what to do.
    Handshake(String),
    /// The connection broke.
    Broken(io::Error),
    /// The response ended too early.
    Short,
    /// Nothing was received or sent for `upstream_timeout`.
    Silent,
    /// The response is not valid HTTP/1.
    Malformed(&'static str),
    /// The request's content cannot be read from its file.
    Storage(io::Error),
}

impl UpstreamFailure {
    /// Returns the status for the client, which is mod_proxy's.
    pub(super) fn status(&self) -> Status {
        match self {
            UpstreamFailure::Unreachable(_)
            | UpstreamFailure::Unanswered
            | UpstreamFailure::Resting => Status::SERVICE_UNAVAILABLE,
            UpstreamFailure::Handshake(_)
            | UpstreamFailure::Broken(_)
            | UpstreamFailure::Short
            | UpstreamFailure::Malformed(_) => Status::BAD_GATEWAY,
            UpstreamFailure::Silent => Status::GATEWAY_TIMEOUT,
            UpstreamFailure::Storage(_) => Status::INTERNAL_SERVER_ERROR,
        }
    }
}

impl fmt::Display for UpstreamFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpstreamFailure::Unreachable(error) => write!(f, "it cannot be reached: {error}"),
            UpstreamFailure::Unanswered => {
                f.write_str("it has not taken the connection within upstream_connect_timeout")
            }
            UpstreamFailure::Resting => f.write_str(
                "it could not be reached a moment ago, and is tried again after upstream_retry",
            ),
            UpstreamFailure::Handshake(why) => f.write_str(why),
            UpstreamFailure::Broken(error) => write!(f, "its connection broke: {error}"),
            UpstreamFailure::Short => {
                f.write_str("it closed the connection before its response was complete")
            }
            UpstreamFailure::Silent => f.write_str("it has not gone on for upstream_timeout"),
            UpstreamFailure::Malformed(why) => write!(f, "its response is malformed: {why}"),
            UpstreamFailure::Storage(error) => {
                write!(f, "the request's content cannot be read again: {error}")
            }
        }
    }
}

/// The content that may follow the head of a response, by its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    Content,
    /// The request was a HEAD: the content's length is in the head alone.
    NoContent,
    /// Content, or after 101 (Switching Protocols) the bytes of a WebSocket.
    Switch,
}

/// A response that is being received.
pub(super) struct Reply {
    /// The upstream's name, for the log.
    name: String,
    /// `None` after the end of a response whose connection is kept.
    stream: Option<Box<dyn Duplex>>,
    /// The destination of the connection at the end of the response; `None`: it is closed.
    home: Option<Home>,
    input: Buffer,
    /// Something was received.
    has_begun: bool,
    /// Bytes of content at the beginning of `input`, and bytes of framing behind them.
    ready: (usize, usize),
    left: Left,
    /// The fields behind the content go here; `None` where nobody wants them.
    trailers: Option<Trailers>,
    /// The request was a HEAD: the content's length is in the head alone.
    is_head: bool,
    patience: Duration,
    /// Runs while nothing is received.
    silence: Option<Pin<Box<Sleep>>>,
}

/// The part of a response's content that was not received yet.
#[derive(Debug)]
enum Left {
    Length(u64),
    Chunks(Box<ChunkedDecoder>),
    /// Everything up to the connection's end.
    All,
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("name", &self.name)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl Reply {
    /// Returns a response that is to be read from `stream`, which `home` takes back.
    pub(super) fn new(
        name: String,
        stream: Box<dyn Duplex>,
        patience: Duration,
        home: Option<Home>,
    ) -> Reply {
        Reply {
            name,
            stream: Some(stream),
            home,
            input: Buffer::default(),
            has_begun: false,
            ready: (0, 0),
            left: Left::All,
            trailers: None,
            is_head: false,
            patience,
            silence: None,
        }
    }

    /// Whether any byte of the response was received.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Writes the request.
    ///
    /// # Errors
    /// The upstream may have answered nevertheless. Its connection is not kept.
    pub(super) async fn write(
        &mut self,
        head: &[u8],
        content: &ReceivedContent,
    ) -> Result<(), UpstreamFailure> {
        let written = self.write_parts(head, content).await;
        if written.is_err() {
            self.home = None;
        }
        written
    }

    async fn write_parts(
        &mut self,
        head: &[u8],
        content: &ReceivedContent,
    ) -> Result<(), UpstreamFailure> {
        self.write_all(head).await?;
        match content {
            ReceivedContent::Memory(bytes) => {
                for piece in bytes.chunks(STEP) {
                    self.write_all(piece).await?;
                }
            }
            ReceivedContent::File(file, length) => {
                let (mut piece, mut offset) = (Vec::new(), 0);
                while offset < *length {
                    piece.resize(STEP.min((*length - offset) as usize), 0);
                    let read = file.read(offset, piece).await.map_err(io::Error::other);
                    piece = read.and_then(|read| read).map_err(UpstreamFailure::Storage)?;
                    self.write_all(&piece).await?;
                    offset += piece.len() as u64;
                }
            }
        }
        // A session of TLS may hold the last bytes.
        self.write_all(b"").await
    }

    async fn write_all(&mut self, bytes: &[u8]) -> Result<(), UpstreamFailure> {
        let Some(stream) = &mut self.stream else {
            return Err(UpstreamFailure::Broken(io::ErrorKind::NotConnected.into()));
        };
        let write = async {
            stream.write_all(bytes).await?;
            stream.flush().await
        };
        match tokio::time::timeout(self.patience, write).await {
            Ok(written) => written.map_err(UpstreamFailure::Broken),
            Err(_) => Err(UpstreamFailure::Silent),
        }
    }

    /// Reads once; 0 bytes are the end.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<Result<usize, UpstreamFailure>> {
        let (input, Some(stream)) = (&mut self.input, &mut self.stream) else {
            return Poll::Ready(Ok(0));
        };
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

    /// Reads the final head, and notes which content follows it. Interim responses are skipped.
    pub(super) async fn read_head(
        &mut self,
        expected: Expected,
    ) -> Result<ResponseHead, UpstreamFailure> {
        self.is_head = expected == Expected::NoContent;
        let mut interim = 0;
        loop {
            match parse_head(self.input.bytes())? {
                Some(UpstreamHead { head, length, switches, persists }) => {
                    self.input.consume(length);
                    if switches && expected == Expected::Switch {
                        return Ok(head);
                    }
                    if !head.status.is_informational() {
                        let is_empty = self.is_head || head.status.forbids_content();
                        self.left = if is_empty {
                            Left::Length(0)
                        } else {
                            framing(&head.fields)?
                        };
                        if !persists {
                            self.home = None;
                        }
                        self.settle();
                        return Ok(head);
                    }
                    interim += 1;
                    if interim > MOST_INTERIM || head.status.code() == 101 {
                        return Err(UpstreamFailure::Malformed(
                            "an interim response that was not asked for",
                        ));
                    }
                }
                None if self.input.bytes().len() > MOST_HEAD => {
                    return Err(UpstreamFailure::Malformed("its head is too long"));
                }
                None if poll_fn(|context| self.poll_fill(context)).await? == 0 => {
                    return Err(UpstreamFailure::Short);
                }
                None => {}
            }
        }
    }

    /// Returns the place of the fields behind the content, which are kept from now on; `None` if
    /// the content has an end that no fields can follow.
    pub(super) fn keep_trailers(&mut self) -> Option<Trailers> {
        let Left::Chunks(decoder) = &mut self.left else {
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
        Some(Tunnel {
            received: self.input.bytes().to_vec(),
            stream: self.stream?,
            idle_timeout,
            name: self.name,
            place,
        })
    }

    /// Gives the connection back at the end of the response. Bytes behind the end are those of an
    /// upstream that cannot count: its connection is closed.
    fn settle(&mut self) {
        if !matches!(self.left, Left::Length(0)) || self.ready != (0, 0) {
            return;
        }
        let (stream, home) = (self.stream.take(), self.home.take());
        if let (Some(stream), Some(home), true) = (stream, home, self.input.is_empty()) {
            home.take_back(stream);
        }
    }

    /// Finds the next content. Afterwards `ready` is its length; 0 is the end.
    fn poll_content(&mut self, context: &mut Context<'_>) -> Poll<Result<(), UpstreamFailure>> {
        while self.ready.0 == 0 && !matches!(self.left, Left::Length(0)) {
            if self.input.is_empty() && ready!(self.poll_fill(context))? == 0 {
                if !matches!(self.left, Left::All) {
                    return Poll::Ready(Err(UpstreamFailure::Short));
                }
                self.left = Left::Length(0);
                break;
            }
            let there = self.input.bytes();
            match &mut self.left {
                Left::All => self.ready = (there.len(), 0),
                Left::Length(left) => {
                    let length = usize::try_from(*left).unwrap_or(usize::MAX).min(there.len());
                    *left -= length as u64;
                    self.ready = (length, 0);
                }
                Left::Chunks(decoder) => {
                    let decoded = decoder.decode(there);
                    let decoded =
                        decoded.map_err(|refusal| UpstreamFailure::Malformed(refusal.why))?;
                    if decoded.done {
                        if let (Some(place), Some(fields)) =
                            (&self.trailers, decoder.take_trailers())
                        {
                            place.set(fields);
                        }
                        self.left = Left::Length(0);
                    }
                    let (data, consumed) = (decoded.data, decoded.consumed);
                    if data.is_empty() {
                        self.input.consume(consumed);
                    } else {
                        self.input.consume(data.start);
                        self.ready = (data.len(), consumed - data.end);
                    }
                }
            }
        }
        self.settle();
        Poll::Ready(Ok(()))
    }
}

impl Source for Reply {
    fn poll_available(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Available, SourceError>> {
        if let Err(failure) = ready!(self.poll_content(context)) {
            let error = UpstreamError { upstream: self.name.clone(), failure };
            return Poll::Ready(Err(SourceError::Upstream(Box::new(error))));
        }
        Poll::Ready(Ok(Available {
            bytes: self.ready.0,
            is_last: matches!(self.left, Left::Length(0)),
            is_urgent: false,
        }))
    }

    fn piece(&self) -> Piece<'_> {
        Piece::Memory(&self.input.bytes()[..self.ready.0])
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
            Left::Length(length) if !self.is_head => Some(length + self.ready.0 as u64),
            Left::Length(_) | Left::Chunks(_) | Left::All => None,
        }
    }

    /// The output before an upstream's pause is sent on without a delay.
    fn pause(&self) -> Duration {
        Duration::ZERO
    }
}

/// A head that is complete.
struct UpstreamHead {
    head: ResponseHead,
    /// Length in bytes.
    length: usize,
    /// The head is a 101 that begins a WebSocket.
    switches: bool,
    /// The connection persists after the response (RFC 9112 §9.3).
    persists: bool,
}

/// Returns the head that `bytes` begin with, if the head is complete.
fn parse_head(bytes: &[u8]) -> Result<Option<UpstreamHead>, UpstreamFailure> {
    let mut lines = [httparse::EMPTY_HEADER; MOST_LINES];
    let mut parsed = httparse::Response::new(&mut lines);
    let length = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(UpstreamFailure::Malformed("its head is not one of HTTP/1")),
    };
    let status = parsed.code.and_then(Status::new);
    let mut head =
        ResponseHead::new(status.ok_or(UpstreamFailure::Malformed("there is no such status"))?);
    head.reason = parsed
        .reason
        .filter(|reason| !reason.is_empty())
        .map(|reason| reason.as_bytes().into());
    let mut fields = Fields::new();
    for line in parsed.headers.iter() {
        fields.push(line.name.as_bytes(), line.value);
    }
    let has = |name: &[u8], word: &[u8]| {
        fields
            .values(name)
            .flat_map(members)
            .any(|member| member.eq_ignore_ascii_case(word))
    };
    let switches = head.status == Status::SWITCHING_PROTOCOLS
        && has(b"connection", b"upgrade")
        && has(b"upgrade", b"websocket");
    let persists = parsed.version == Some(1) && !has(b"connection", b"close");
    for (name, value) in fields.iter() {
        let mut named = fields.values(b"connection").flat_map(members);
        if named.any(|named| named.eq_ignore_ascii_case(name))
            && !name.eq_ignore_ascii_case(b"content-length")
        {
            continue;
        }
        let pushed = head.push(name, value);
        pushed.map_err(|_| UpstreamFailure::Malformed("a field holds control bytes"))?;
    }
    // The field would be taken for one of our own connection.
    head.fields.remove(b"connection");
    Ok(Some(UpstreamHead { head, length, switches, persists }))
}

/// Returns how much content follows a head (RFC 9112 §6.3).
fn framing(fields: &Fields) -> Result<Left, UpstreamFailure> {
    let mut codings = fields.values(b"transfer-encoding").flat_map(members);
    match (codings.next(), codings.next()) {
        (None, _) => {}
        (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => {
            let limits = Limits { body: 0, ..Limits::default() };
            return Ok(Left::Chunks(Box::new(ChunkedDecoder::new(&limits))));
        }
        _ => return Err(UpstreamFailure::Malformed("a transfer coding other than chunked")),
    }
    let mut lengths = fields.values(b"content-length");
    let Some(first) = lengths.next() else {
        return Ok(Left::All);
    };
    let digits = std::str::from_utf8(first)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    match digits.and_then(|digits| digits.parse().ok()) {
        Some(length) if lengths.all(|other| other == first) => Ok(Left::Length(length)),
        _ => Err(UpstreamFailure::Malformed("its Content-Length is no length")),
    }
}

#[cfg(test)]
mod tests;
