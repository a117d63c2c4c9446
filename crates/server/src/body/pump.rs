//! The pump: moves the content of a response from its source to its client.
//!
//! Content goes from its source directly to the sink as long as the client takes it. Content that a
//! slow client has not taken stays at its source, unless the source holds something scarce: then it
//! goes into the [`Spool`], and a worker is free as soon as its script has ended. Memory is scarce
//! where the client's responses hold `client_memory` already.

mod filtered;

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use howdah_htaccess::modules::filter::TransformError;

use self::filtered::Filtered;
use super::file_residence::FileResidence;
use super::filtering::{FilterPlace, rest};
use super::source::{AvailableContent, BodySource, ResponseBody, SourceError};
use super::spool::{Spool, SpoolLimits};
use crate::net::{ConnectionError, ContentPiece, HeldMemory, SHORT_FILE, SendError};
use crate::pipeline::Response;

/// The destination of a response's content: the protocol's end of the pump.
pub(crate) trait Sink {
    /// Takes all of the content, to be sent by [`poll_finish`](Sink::poll_finish) together with the
    /// head, before any other content. `false`: nothing was taken.
    fn take_whole(&mut self, _content: &[u8]) -> bool {
        false
    }

    /// Sends as much of `piece`, the next content, as the client takes. Returns the number of bytes
    /// taken, at least 1 unless the piece is empty. With `is_last`, no content follows the piece.
    ///
    /// # Errors
    /// The response cannot be continued.
    fn poll_send(
        &mut self,
        piece: ContentPiece<'_>,
        is_last: bool,
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, SendError>>;

    /// Sends the protocol's own waiting bytes, such as the head.
    ///
    /// # Errors
    /// The errors of [`poll_send`](Sink::poll_send).
    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SendError>>;

    /// Ends the content, and flushes.
    ///
    /// # Errors
    /// The errors of [`poll_send`](Sink::poll_send).
    fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SendError>>;

    /// Returns whether the client is certainly gone. Wakes `context` when that changes.
    fn poll_broken(&self, context: &mut Context<'_>) -> bool;
}

/// The reason why content was not sent completely.
#[derive(Debug)]
pub(crate) enum PumpError {
    Client(ConnectionError),
    Source(SourceError),
    /// The spool's file cannot be read.
    Spool(io::Error),
    Filter(TransformError),
    /// Too many responses wait for the threads that their filters work on.
    Busy,
    /// The client's responses hold `client_memory` already, and a long line needs more.
    Memory,
    /// A file has fewer bytes than the head promised.
    ShortFile,
    /// A file cannot be read.
    File(io::Error),
    /// A script ended before it had sent as many bytes as its Content-Length says.
    Short,
}

impl From<SendError> for PumpError {
    fn from(error: SendError) -> PumpError {
        match error {
            SendError::Connection(error) => PumpError::Client(error),
            SendError::ShortFile => PumpError::ShortFile,
        }
    }
}

impl From<TransformError> for PumpError {
    fn from(broken: TransformError) -> PumpError {
        PumpError::Filter(broken)
    }
}

/// Sends the content of a settled response through its filters to `sink`. `promised` is the length
/// that the head states, if it states one; never more bytes are sent. `held` counts the memory of
/// content that waits for the client; `place` is where the filters work. Returns the number of
/// bytes that the client took, and how sending ended.
pub(crate) async fn send(
    response: &mut Response,
    promised: Option<u64>,
    limits: &SpoolLimits,
    held: HeldMemory<'_>,
    place: FilterPlace<'_>,
    sink: &mut impl Sink,
) -> (u64, Result<(), PumpError>) {
    let Response { body, filters, filter_memory, .. } = response;
    // Short content of which nothing was sent goes with its head in one write.
    if filters.is_empty()
        && promised.is_some()
        && let Some(content) = body.in_memory()
        && sink.take_whole(content)
    {
        let length = content.len() as u64;
        return match poll_fn(|context| sink.poll_finish(context)).await {
            Ok(()) => (length, Ok(())),
            Err(error) => (0, Err(error.into())),
        };
    }
    let mut pump = Pump {
        body,
        has_ended: false,
        left: promised.unwrap_or(u64::MAX),
        sent: 0,
        filtering: (!filters.is_empty()).then(|| {
            let memory = filter_memory.take().unwrap_or_else(|| place.memory());
            Box::new(Filtered::new(filters, place, memory))
        }),
        spool: Spool::new(limits, held),
        residence: FileResidence::new(limits),
        turn: 0,
        failure: None,
    };
    let result = poll_fn(|context| pump.poll(sink, context)).await;
    (pump.sent, result)
}

/// The state of one response's content while it is sent.
struct Pump<'b> {
    body: &'b mut ResponseBody,
    /// The source has ended.
    has_ended: bool,
    /// Bytes that the head promised and that the client has not taken yet; `u64::MAX` if the head
    /// states no length.
    left: u64,
    sent: u64,
    spool: Spool<'b>,
    residence: FileResidence<'b>,
    filtering: Option<Box<Filtered<'b>>>,
    /// Bytes that the client has taken since other connections had their turn.
    turn: usize,
    /// The reason why the content has ended before its end.
    failure: Option<PumpError>,
}

/// The pump's next step.
enum PumpStep {
    /// Begin another round at once.
    Again,
    /// Wait until something wakes the pump.
    Wait,
}

impl Pump<'_> {
    fn poll(
        &mut self,
        sink: &mut impl Sink,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), PumpError>> {
        self.turn = 0;
        loop {
            let is_clear = self.send_spooled(sink, context)?;
            if self.has_ended {
                if !is_clear {
                    return Poll::Pending;
                }
                if self.failure.is_none() {
                    return sink.poll_finish(context).map_err(PumpError::from);
                }
                ready!(sink.poll_flush(context))?;
                return Poll::Ready(self.failure.take().map_or(Ok(()), Err));
            }
            let step = match self.step(sink, is_clear, context) {
                Ok(step) => step,
                Err(error @ (PumpError::Source(_) | PumpError::Short)) => {
                    self.fail(error);
                    PumpStep::Again
                }
                Err(error) => return Poll::Ready(Err(error)),
            };
            if matches!(step, PumpStep::Wait) {
                // Filters may work for long before there is something to send.
                let may_stay_silent = !self.body.is_stored() || self.filtering.is_some();
                let is_lost = may_stay_silent && sink.poll_broken(context);
                return if is_lost {
                    Poll::Ready(Err(PumpError::Client(ConnectionError::Broken)))
                } else {
                    Poll::Pending
                };
            }
        }
    }

    /// Sends what is spooled. Returns whether all of it went, so that content may follow directly.
    fn send_spooled(
        &mut self,
        sink: &mut impl Sink,
        context: &mut Context<'_>,
    ) -> Result<bool, PumpError> {
        loop {
            let Poll::Ready(next) = self.spool.poll_next(context).map_err(PumpError::Spool)? else {
                return Ok(false);
            };
            let Some((piece, is_one_piece)) = next else {
                return Ok(true);
            };
            let is_last = self.has_ended && self.failure.is_none() && is_one_piece;
            let Poll::Ready(count) = sink.poll_send(piece, is_last, context) else {
                return Ok(false);
            };
            let count = count?;
            self.spool.advance(count);
            self.sent += count as u64;
        }
    }

    fn step(
        &mut self,
        sink: &mut impl Sink,
        is_clear: bool,
        context: &mut Context<'_>,
    ) -> Result<PumpStep, PumpError> {
        let Some(mut filtering) = self.filtering.take() else {
            return self.step_plainly(sink, is_clear, context);
        };
        if self.failure.is_some() {
            return Ok(self.step_broken(filtering, sink, is_clear, context));
        }
        let step = self.step_filtered(&mut filtering, sink, is_clear, context);
        self.filtering = Some(filtering);
        step
    }

    /// The content breaks off. The client gets what has come so far, and then no end.
    fn fail(&mut self, error: PumpError) {
        self.failure = Some(error);
        self.body.release();
        let flushed = self.filtering.as_mut().map(|filtering| filtering.filters.flush());
        if !matches!(flushed, Some(Ok(()))) {
            self.end_broken();
        }
    }

    /// The client has got all that it can get of content that has broken off.
    fn end_broken(&mut self) {
        self.filtering = None;
        self.has_ended = true;
        self.spool.complete();
    }

    /// One step of content that passes no filter.
    #[inline]
    fn step_plainly(
        &mut self,
        sink: &mut impl Sink,
        is_clear: bool,
        context: &mut Context<'_>,
    ) -> Result<PumpStep, PumpError> {
        let Some(available) = self.available(context)? else {
            return flush(sink, context);
        };
        if available.bytes == 0 {
            return self.end_of(available, context);
        }
        if is_clear {
            if self.turn >= MOST_AT_A_TIME {
                rest(context);
                return Ok(PumpStep::Wait);
            }
            let Poll::Ready(in_memory) = self.residence.poll(self.body.piece(), context) else {
                return flush(sink, context);
            };
            let most = usize::try_from(in_memory).unwrap_or(usize::MAX);
            let most = most.min(available.bytes).min(MOST_AT_A_TIME);
            let is_last = available.is_last && most == available.bytes;
            let piece = self.body.piece().first(most as u64);
            if let Poll::Ready(count) = sink.poll_send(piece, is_last, context) {
                let count = count?;
                self.take(count);
                self.sent += count as u64;
                self.turn += count.max(LEAST_COUNTED);
                if available.is_last && count == available.bytes {
                    self.end()?;
                }
                return Ok(PumpStep::Again);
            }
        }
        let own = self.body.own_memory();
        let is_excess = own > 0 && !self.spool.holds_beside(own);
        if !((available.is_urgent || is_excess) && self.has_room(context)?) {
            return Ok(PumpStep::Wait);
        }
        let (piece, most) = (self.body.piece(), available.bytes.min(STEP));
        let count = self.spool.fill(most, |buffer| piece.read(buffer)).map_err(of_file)?;
        self.take(count);
        if available.is_last && count == available.bytes {
            self.end()?;
            if is_excess {
                *self.body = ResponseBody::none();
            }
        }
        Ok(PumpStep::Again)
    }

    fn has_room(&mut self, context: &mut Context<'_>) -> Result<bool, PumpError> {
        self.spool.poll_room(context).map_err(PumpError::Spool)
    }

    /// Returns the available content, up to the promised length; `None` where there is none yet.
    #[inline]
    fn available(
        &mut self,
        context: &mut Context<'_>,
    ) -> Result<Option<AvailableContent>, PumpError> {
        let Poll::Ready(available) = self.body.poll_available(context) else {
            return Ok(None);
        };
        let available = available.map_err(PumpError::Source)?;
        let promised = usize::try_from(self.left).unwrap_or(usize::MAX);
        if available.bytes > promised {
            return Ok(Some(self.without_excess(available, promised)));
        }
        Ok(Some(available))
    }

    /// Discards content beyond the promised length, once the client has taken that length.
    #[cold]
    fn without_excess(&mut self, available: AvailableContent, promised: usize) -> AvailableContent {
        if promised == 0 {
            self.body.consume(available.bytes);
            return AvailableContent { bytes: 0, ..available };
        }
        AvailableContent {
            bytes: promised,
            is_last: false,
            ..available
        }
    }

    fn take(&mut self, count: usize) {
        self.body.consume(count);
        if self.left != u64::MAX {
            self.left -= count as u64;
        }
    }

    fn end_of(
        &mut self,
        available: AvailableContent,
        context: &mut Context<'_>,
    ) -> Result<PumpStep, PumpError> {
        if available.is_last {
            self.end()?;
            return Ok(PumpStep::Again);
        }
        // A script that writes as fast as its excess is discarded does not keep the thread.
        rest(context);
        Ok(PumpStep::Wait)
    }

    /// Releases the source, which has ended: its worker goes on to the next request before a slow
    /// client has taken the rest.
    fn end(&mut self) -> Result<(), PumpError> {
        if self.left != u64::MAX && self.left > 0 {
            return Err(PumpError::Short);
        }
        self.has_ended = true;
        self.spool.complete();
        self.body.release();
        Ok(())
    }
}

/// The head is not held back by a source that has no content yet.
fn flush(sink: &mut impl Sink, context: &mut Context<'_>) -> Result<PumpStep, PumpError> {
    match sink.poll_flush(context) {
        Poll::Ready(flushed) => flushed.map_err(PumpError::from)?,
        Poll::Pending => {}
    }
    Ok(PumpStep::Wait)
}

pub(super) fn of_file(error: io::Error) -> PumpError {
    match error.kind() {
        SHORT_FILE => PumpError::ShortFile,
        _ => PumpError::File(error),
    }
}

/// Bytes that are copied into the spool at a time.
const STEP: usize = 64 * 1024;
/// Bytes of one response that a client takes before other connections have their turn.
const MOST_AT_A_TIME: usize = 1 << 20;
/// Bytes that a piece counts at least in [`MOST_AT_A_TIME`]: sending a byte takes as long.
const LEAST_COUNTED: usize = 4096;

#[cfg(test)]
mod tests;
