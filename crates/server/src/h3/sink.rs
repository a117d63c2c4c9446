//! A stream as the pump's sink: content in DATA frames, as far as QUIC takes it.
//!
//! QUIC takes what the client's windows allow, and at most `send_buffer` bytes of a connection. Of
//! the streams that have content it sends the one with the highest priority first.

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use ::h3::error::Code;
use ::h3::server::RequestStream;
use bytes::Bytes;

use super::outgoing::Outgoing;
use crate::body;
use crate::front::Thread;
use crate::net::{ConnectionError, Patience, Piece, SHORT_FILE, SendError, Watch};

/// Bytes of a DATA frame.
const CHUNK: usize = 32 * 1024;

/// A response that is being sent.
pub(super) struct Sink<'s> {
    thread: &'s Thread,
    stream: &'s RefCell<RequestStream<Outgoing, Bytes>>,
    outgoing: &'s Outgoing,
    /// How slowly the client may take the response.
    patience: Patience,
    /// Bytes handed over.
    taken: u64,
    /// How long the stream has waited for room.
    waited: Duration,
    /// The begin of the present wait.
    waits: Option<Instant>,
    watch: Option<Rc<Watch>>,
    has_ended: bool,
}

impl<'s> Sink<'s> {
    /// The sink of a response whose head was sent.
    pub(super) fn new(
        thread: &'s Thread,
        stream: &'s RefCell<RequestStream<Outgoing, Bytes>>,
        outgoing: &'s Outgoing,
    ) -> Sink<'s> {
        let limits = &thread.config().limits;
        Sink {
            thread,
            stream,
            outgoing,
            patience: Patience {
                silence: limits.send_timeout,
                rate: limits.send_rate,
            },
            taken: 0,
            waited: Duration::ZERO,
            waits: None,
            watch: None,
            has_ended: false,
        }
    }

    /// Breaks the response off.
    pub(super) fn reset(&self, code: Code) {
        self.outgoing.reset(code);
    }

    /// Waits until QUIC has taken what was handed over. `send_timeout` runs, and less time for a
    /// client that takes less than `send_rate`.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        match self.outgoing.poll_written(context) {
            Poll::Ready(written) => {
                if let Some(since) = self.waits.take() {
                    self.waited += since.elapsed();
                }
                Poll::Ready(written.map_err(|_| ConnectionError::Broken.into()))
            }
            Poll::Pending => {
                let watches = self.thread.watches();
                let watch = self.watch.get_or_insert_with(|| watches.add(context.waker().clone()));
                if self.waits.is_none() {
                    let now = Instant::now();
                    let left = self.patience.left(self.patience.silence, self.taken, self.waited);
                    watch.arm(now, left);
                    self.waits = Some(now);
                }
                match watch.is_expired() {
                    true => Poll::Ready(Err(ConnectionError::TimedOut.into())),
                    false => Poll::Pending,
                }
            }
        }
    }

    /// Hands a frame over. What QUIC does not take of it at once waits in `outgoing`.
    fn hand_over(&mut self, bytes: Vec<u8>, context: &mut Context<'_>) -> Result<(), SendError> {
        let mut stream = self.stream.borrow_mut();
        match pin!(stream.send_data(Bytes::from(bytes))).poll(context) {
            Poll::Ready(Err(_)) => Err(ConnectionError::Broken.into()),
            Poll::Ready(Ok(())) | Poll::Pending => Ok(()),
        }
    }
}

impl body::Sink for Sink<'_> {
    fn poll_send(
        &mut self,
        piece: Piece<'_>,
        _: bool,
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, SendError>> {
        let all = piece.length();
        if all == 0 {
            return Poll::Ready(Ok(0));
        }
        ready!(self.poll_room(context))?;
        let room = usize::try_from(all).map_or(CHUNK, |all| all.min(CHUNK));
        let mut bytes = vec![0; room];
        let count = piece.read(&mut bytes).map_err(|error| match error.kind() {
            SHORT_FILE => SendError::ShortFile,
            _ => ConnectionError::Broken.into(),
        })?;
        bytes.truncate(count);
        self.taken += count as u64;
        self.hand_over(bytes, context)?;
        Poll::Ready(Ok(count))
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.poll_room(context)
    }

    fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        ready!(self.poll_room(context))?;
        if !std::mem::replace(&mut self.has_ended, true) {
            let finished = pin!(self.stream.borrow_mut().finish()).poll(context);
            ready!(finished).map_err(|_| ConnectionError::Broken)?;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_broken(&self, context: &mut Context<'_>) -> bool {
        self.outgoing.poll_confirmed(context).is_ready()
    }
}
