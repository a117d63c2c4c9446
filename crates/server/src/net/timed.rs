//! A transport with the time limits of its connection.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use howdah_config::ClientLimits;
use tokio::io::Ready;

use super::deadline::{DeadlineWatch, DeadlineWatches};
use super::receive_buffer::ReceiveBuffer;
use super::transport::{ContentPiece, SHORT_FILE, Transport};

/// A transport, and the watch that bounds how long the client may keep it waiting.
#[derive(Debug)]
pub(crate) struct TimedTransport<T> {
    pub(crate) transport: T,
    pub(crate) watch: Rc<DeadlineWatch>,
    /// The slowest pace at which the client may take a response.
    patience: PaceLimit,
    /// Bytes of the present response that the client has taken.
    taken: u64,
    /// The time that the present response has waited for the client.
    waited: Duration,
    /// The time since which it waits; `None` while it does not.
    waits_since: Option<Instant>,
    /// The client has taken too little of a response, and does not get the rest.
    is_given_up: bool,
}

/// The slowest pace at which a client may send or take content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PaceLimit {
    /// The longest time without a byte.
    pub(crate) silence: Duration,
    /// Bytes per second on average, after a first time that is free; 0: no limit.
    pub(crate) rate: u64,
}

impl PaceLimit {
    /// Returns how long the next byte may take, after `bytes` in the time `spent`, of which the
    /// time `free` is not counted.
    pub(crate) fn left(self, free: Duration, bytes: u64, spent: Duration) -> Duration {
        let Some(earned) = bytes.checked_div(self.rate) else {
            return self.silence;
        };
        let allowed = free.saturating_add(Duration::from_secs(earned));
        self.silence.min(allowed.saturating_sub(spent))
    }
}

/// The client's side of a connection ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionError {
    /// The deadline passed.
    TimedOut,
    /// The client closed or reset the connection.
    Broken,
}

/// Content could not be sent.
#[derive(Debug)]
pub(crate) enum SendError {
    Connection(ConnectionError),
    /// The file has fewer bytes than its response's head promised.
    ShortFile,
}

impl SendError {
    /// The failure to read content that is to be sent.
    pub(crate) fn of_reading(error: io::Error) -> SendError {
        match error.kind() {
            SHORT_FILE => SendError::ShortFile,
            _ => ConnectionError::Broken.into(),
        }
    }
}

impl From<ConnectionError> for SendError {
    fn from(error: ConnectionError) -> SendError {
        SendError::Connection(error)
    }
}

impl<T: Transport> TimedTransport<T> {
    /// Bounds the time of a client's connection, which is served by the task of `waker`, as
    /// `limits` says.
    pub(crate) fn new(
        transport: T,
        waker: Waker,
        watches: &DeadlineWatches,
        limits: &ClientLimits,
    ) -> TimedTransport<T> {
        TimedTransport {
            transport,
            watch: watches.add(waker),
            patience: PaceLimit {
                silence: limits.send_timeout,
                rate: limits.send_rate,
            },
            taken: 0,
            waited: Duration::ZERO,
            waits_since: None,
            is_given_up: false,
        }
    }

    /// Begins another response: the client's pace is measured anew.
    pub(crate) fn begin_response(&mut self) {
        self.taken = 0;
        self.waited = Duration::ZERO;
        self.waits_since = None;
    }

    /// Returns the bytes of the present response that the client has taken.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Reads once into `input`; 0 bytes are the end. The time limit starts now.
    ///
    /// # Errors
    /// [`ConnectionError`], where the client took too long or the connection broke.
    pub(crate) async fn fill(
        &mut self,
        input: &mut ReceiveBuffer,
        patience: Duration,
    ) -> Result<usize, ConnectionError> {
        let mut patience = Some(patience);
        let result = poll_fn(|context| self.poll_fill(input, &mut patience, context)).await;
        self.watch.disarm();
        result
    }

    /// Reads once into `input`. `patience` is taken, and the watch armed with it, when there is
    /// something to wait for; without one the watch keeps its present deadline.
    ///
    /// # Errors
    /// The connection is broken, or nothing came for as long as the watch was armed for.
    pub(crate) fn poll_fill(
        &mut self,
        input: &mut ReceiveBuffer,
        patience: &mut Option<Duration>,
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, ConnectionError>> {
        match input.poll_fill(|room| self.transport.poll_read(context, room)) {
            Poll::Ready(Ok(count)) => Poll::Ready(Ok(count)),
            Poll::Ready(Err(_)) => Poll::Ready(Err(ConnectionError::Broken)),
            Poll::Pending if self.watch.is_expired() => Poll::Ready(Err(ConnectionError::TimedOut)),
            Poll::Pending => {
                // The clock is only read when there is something to wait for.
                if let Some(patience) = patience.take() {
                    self.watch.arm(patience);
                }
                Poll::Pending
            }
        }
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// [`ConnectionError`], where the client took nothing for too long or the connection broke.
    #[inline]
    pub(crate) async fn write_all(&mut self, mut bytes: &[u8]) -> Result<(), ConnectionError> {
        poll_fn(|context| {
            while !bytes.is_empty() {
                match self.poll_send(bytes, ContentPiece::Memory(b""), b"", context) {
                    Poll::Ready(Ok(count)) => bytes = &bytes[count..],
                    Poll::Ready(Err(SendError::Connection(error))) => {
                        return Poll::Ready(Err(error));
                    }
                    Poll::Ready(Err(SendError::ShortFile)) => {
                        return Poll::Ready(Err(ConnectionError::Broken));
                    }
                    Poll::Pending => return Poll::Pending,
                }
            }
            Poll::Ready(Ok(()))
        })
        .await
    }

    /// Sends as many bytes as the client takes of `before`, `piece` and `after`, in this order.
    /// Returns the number of bytes taken of the three together. While the client takes nothing,
    /// `send_timeout` runs, and less time for a client that takes less than `send_rate`.
    ///
    /// # Errors
    /// The connection is broken, the client takes too little for too long, or the file of `piece`
    /// is shorter than it was.
    pub(crate) fn poll_send(
        &mut self,
        before: &[u8],
        piece: ContentPiece<'_>,
        after: &[u8],
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, SendError>> {
        loop {
            match self.transport.try_send(before, piece, after) {
                Ok(count) => {
                    self.taken += count as u64;
                    if let Some(since) = self.waits_since.take() {
                        self.waited += since.elapsed();
                    }
                    self.watch.disarm();
                    return Poll::Ready(Ok(count));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    match self.transport.poll_write_ready(context) {
                        Poll::Ready(Ok(())) => continue,
                        Poll::Ready(Err(_)) => {
                            return Poll::Ready(Err(ConnectionError::Broken.into()));
                        }
                        Poll::Pending => {}
                    }
                    if self.watch.is_expired() {
                        self.is_given_up = true;
                        return Poll::Ready(Err(ConnectionError::TimedOut.into()));
                    }
                    if self.watch.is_disarmed() {
                        let PaceLimit { silence, .. } = self.patience;
                        let left = self.patience.left(silence, self.taken, self.waited);
                        self.waits_since = Some(Instant::now());
                        self.watch.arm(left);
                    }
                    return Poll::Pending;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == SHORT_FILE => {
                    return Poll::Ready(Err(SendError::ShortFile));
                }
                Err(_) => return Poll::Ready(Err(ConnectionError::Broken.into())),
            }
        }
    }

    /// Returns whether the client has closed its side. Wakes `context` when that changes.
    pub(crate) fn poll_closed(&self, context: &mut Context<'_>) -> bool {
        match self.transport.poll_peek(context) {
            Poll::Ready(Ok(0) | Err(_)) => true,
            Poll::Ready(Ok(_)) => self.look_behind(Ready::is_read_closed),
            Poll::Pending => false,
        }
    }

    /// Returns whether the connection is broken. A client that closed only its own side still
    /// reads.
    pub(crate) fn poll_broken(&self, context: &mut Context<'_>) -> bool {
        match self.transport.poll_peek(context) {
            Poll::Pending => false,
            // Neither bytes nor the end of its side hide a client that is gone.
            Poll::Ready(Ok(_)) => {
                self.look_behind(|ready| ready.is_error() || ready.is_write_closed())
            }
            Poll::Ready(Err(_)) => true,
        }
    }

    /// Returns whether `is_over` holds for a client that has sent bytes which nobody reads yet, or
    /// has ended its side. From then on no change wakes the task: the next sweep does.
    #[cold]
    fn look_behind(&self, is_over: impl Fn(Ready) -> bool) -> bool {
        self.watch.look_again();
        is_over(self.transport.readiness())
    }

    /// Sends what was taken and waits in the transport. A client that takes too long does not get
    /// the rest. One that has taken too long before is not waited for again.
    pub(crate) async fn close(&mut self) {
        if self.is_given_up {
            return;
        }
        self.watch.arm(self.patience.silence);
        let closed = poll_fn(|context| match self.transport.poll_close(context) {
            Poll::Pending if self.watch.is_expired() => Poll::Ready(()),
            other => other.map(drop),
        });
        closed.await;
    }

    /// Ends our side, with what was taken and waits in the transport. `send_timeout` runs from the
    /// first call on, which sets `has_begun`.
    ///
    /// # Errors
    /// [`ConnectionError`], where the client took too long or the connection broke.
    pub(crate) fn poll_shutdown(
        &mut self,
        has_begun: &mut bool,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), ConnectionError>> {
        if !std::mem::replace(has_begun, true) {
            self.watch.arm(self.patience.silence);
        }
        match self.transport.poll_shutdown(context) {
            Poll::Pending if self.watch.is_expired() => Poll::Ready(Err(ConnectionError::TimedOut)),
            other => other.map_err(|_| ConnectionError::Broken),
        }
    }

    /// Waits until the client's system has all that was sent, which a reset would destroy. A client
    /// that takes longer than `send_timeout` does not get the rest.
    pub(crate) async fn deliver(&mut self) {
        let end = Instant::now() + self.patience.silence;
        let mut pause = FIRST_PAUSE;
        while self.transport.has_undelivered() && Instant::now() < end {
            tokio::time::sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    /// Reads and discards further bytes of the client. Without this, closing the connection could
    /// destroy the response that is still in transit (RFC 9112 §9.6).
    pub(crate) async fn linger(&mut self) {
        let mut has_begun = false;
        if poll_fn(|context| self.poll_shutdown(&mut has_begun, context)).await.is_err() {
            return;
        }
        let mut input = ReceiveBuffer::default();
        let mut left = LINGER_BYTES;
        let end = Instant::now() + LINGER;
        while left > 0 {
            let patience = end.saturating_duration_since(Instant::now());
            match self.fill(&mut input, patience).await {
                Ok(count) if count > 0 && !patience.is_zero() => {
                    left = left.saturating_sub(count);
                    input.clear();
                }
                _ => return,
            }
        }
    }
}

/// The first pause between looks at the bytes that the client's system has received, of which no
/// event tells. It doubles with each look.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// The pause stops growing here.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// The time that the rest of an unread request is read and discarded.
pub(crate) const LINGER: Duration = Duration::from_secs(2);
/// The most bytes of it that are read. The connection is closed after them.
pub(crate) const LINGER_BYTES: usize = 1 << 20;
