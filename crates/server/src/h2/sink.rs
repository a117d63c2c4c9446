//! A stream as the pump's sink: content in DATA frames, as far as the client's windows allow.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use ::h2::{Reason, SendStream};

use super::outbox::{CHUNK, Chunk, Outbox, Place};
use crate::body;
use crate::front::Thread;
use crate::net::{ConnectionError, Patience, Piece, SHORT_FILE, SendError, Watch};

/// A response that is being sent.
pub(super) struct Sink<'s> {
    thread: &'s Thread,
    outbox: &'s Rc<Outbox>,
    stream: RefCell<SendStream<Chunk>>,
    place: Place,
    /// How slowly the client may open its window.
    patience: Patience,
    /// Bytes handed over.
    taken: u64,
    /// How long the stream has waited for a window.
    waited: Duration,
    /// The present wait for a window or for a turn.
    waits: Option<Wait>,
    watch: Option<Rc<Watch>>,
    has_ended: bool,
}

/// A wait that a time limit bounds.
#[derive(Clone, Copy)]
enum Wait {
    /// For the client to open its window, since then.
    Window(Instant),
    /// For the streams that go first, while so many chunks have left the crate. A client that
    /// closes its window over content that was handed over already stops them all.
    Turn(u64),
}

impl<'s> Sink<'s> {
    /// The sink of a response whose head was sent.
    pub(super) fn new(
        thread: &'s Thread,
        outbox: &'s Rc<Outbox>,
        stream: SendStream<Chunk>,
        place: Place,
    ) -> Sink<'s> {
        let limits = &thread.config().limits;
        Sink {
            thread,
            outbox,
            stream: RefCell::new(stream),
            place,
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
    pub(super) fn reset(&mut self, reason: Reason) {
        self.stream.get_mut().send_reset(reason);
    }

    /// Waits until there is a window. Returns how many of `wanted` bytes it takes.
    fn poll_window(
        &mut self,
        wanted: usize,
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, SendError>> {
        let stream = self.stream.get_mut();
        stream.reserve_capacity(wanted);
        let mut capacity = stream.capacity();
        while capacity == 0 {
            capacity = match stream.poll_capacity(context) {
                Poll::Ready(Some(Ok(capacity))) => capacity,
                Poll::Ready(Some(Err(_)) | None) => {
                    return Poll::Ready(Err(ConnectionError::Broken.into()));
                }
                Poll::Pending => {
                    self.outbox.leave(&self.place);
                    return self.wait_for_window(context);
                }
            };
        }
        if let Some(Wait::Window(since)) = self.waits.take() {
            self.waited += since.elapsed();
        }
        Poll::Ready(Ok(capacity.min(wanted)))
    }

    /// Waits for a window. `send_timeout` runs, and less time for a client that takes less than
    /// `send_rate`.
    fn wait_for_window(&mut self, context: &mut Context<'_>) -> Poll<Result<usize, SendError>> {
        if !matches!(self.waits, Some(Wait::Window(_))) {
            let now = Instant::now();
            let left = self.patience.left(self.patience.silence, self.taken, self.waited);
            self.arm(now, left, context);
            self.waits = Some(Wait::Window(now));
        }
        self.give_up_when_expired()
    }

    /// Waits for a turn, for `send_timeout` after the last chunk of any stream has moved. While the
    /// transport takes nothing, the wire has its own time limit.
    fn wait_for_turn(&mut self, context: &mut Context<'_>) -> Poll<Result<usize, SendError>> {
        let moved = self.outbox.moved();
        let is_expired = self.watch.as_ref().is_none_or(|watch| watch.is_expired());
        match self.waits {
            Some(Wait::Turn(since)) if !is_expired || since == moved => {}
            _ => {
                self.arm(Instant::now(), self.patience.silence, context);
                self.waits = Some(Wait::Turn(moved));
            }
        }
        self.give_up_when_expired()
    }

    fn arm(&mut self, now: Instant, after: Duration, context: &mut Context<'_>) {
        let watches = self.thread.watches();
        let watch = self.watch.get_or_insert_with(|| watches.add(context.waker().clone()));
        watch.arm(now, after);
    }

    fn give_up_when_expired(&self) -> Poll<Result<usize, SendError>> {
        match self.watch.as_ref().is_some_and(|watch| watch.is_expired()) {
            true => Poll::Ready(Err(ConnectionError::TimedOut.into())),
            false => Poll::Pending,
        }
    }

    fn hand_over(&mut self, bytes: Vec<u8>, is_last: bool) -> Result<(), SendError> {
        let chunk = self.outbox.chunk(bytes);
        let sent = self.stream.get_mut().send_data(chunk, is_last);
        self.has_ended |= is_last;
        sent.map_err(|_| ConnectionError::Broken.into())
    }
}

impl body::Sink for Sink<'_> {
    fn poll_send(
        &mut self,
        piece: Piece<'_>,
        is_last: bool,
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, SendError>> {
        let all = piece.length();
        if all == 0 {
            return Poll::Ready(Ok(0));
        }
        if self.outbox.poll_turn(&mut self.place, context).is_pending() {
            return self.wait_for_turn(context);
        }
        let wanted = usize::try_from(all).map_or(CHUNK, |all| all.min(CHUNK));
        let room = ready!(self.poll_window(wanted, context))?;
        let mut bytes = self.outbox.buffer(room);
        let count = piece.read(&mut bytes).map_err(|error| match error.kind() {
            SHORT_FILE => SendError::ShortFile,
            _ => ConnectionError::Broken.into(),
        })?;
        bytes.truncate(count);
        self.taken += count as u64;
        self.hand_over(bytes, is_last && count as u64 == all)?;
        self.outbox.call_next();
        Poll::Ready(Ok(count))
    }

    /// The crate has got the head already.
    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        Poll::Ready(Ok(()))
    }

    fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        if !self.has_ended {
            self.hand_over(Vec::new(), true)?;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_broken(&self, context: &mut Context<'_>) -> bool {
        self.stream.borrow_mut().poll_reset(context).is_ready()
    }
}

impl Drop for Sink<'_> {
    fn drop(&mut self) {
        self.outbox.leave(&self.place);
    }
}
