//! The transport as the `h2` crate reads and writes it.
//!
//! The crate would write each frame by itself. The wire collects the frames of all streams that had
//! something to say, and the connection writes them together.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use howdah_http::h2::{ExceededLimit, FrameLimits, FrameMeter, RefusalMeter, Refusals};
use howdah_http::priority::PriorityUpdate;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::spare_buffers::{FRAMES, SpareBuffers};
use crate::net::{ConnectionError, ContentPiece, SendError, TimedTransport, Transport};

/// Bytes of frames that wait for the transport before further ones wait in the crate.
const ROOM: usize = 64 * 1024;
/// The time that a connection that ends waits for the client to close it, so that the last frames
/// are not lost (RFC 9113 §6.8).
pub(super) const LINGER: Duration = Duration::from_secs(2);
/// The most bytes that are read and discarded meanwhile.
const LINGER_BYTES: usize = 1 << 20;

/// A connection's transport with its buffers.
pub(super) struct H2Wire<T> {
    timed: TimedTransport<T>,
    /// Bytes that were received before the connection was one of HTTP/2.
    received: Vec<u8>,
    output: Vec<u8>,
    /// Bytes of `output` that the transport has taken.
    taken: usize,
    /// Bytes that the transport has taken of the whole connection.
    sent: u64,
    meter: FrameMeter,
    refusals: RefusalMeter,
    started: Instant,
    excess: Option<ExceededLimit>,
    /// The client had nothing to read in the present turn of the connection's task. The crate asks
    /// again after each request that was taken from it.
    is_dry: bool,
    /// The crate waits until more bytes may be collected.
    is_full: bool,
    /// The client took nothing for too long.
    has_timed_out: bool,
    /// Our side is about to end: the wire bounds by itself how long the client may take.
    is_ending: bool,
    /// Bytes that may still be read and discarded; `None` until our side has ended.
    lingering: Option<usize>,
}

/// The crate's end of a wire.
pub(super) struct H2WireEnd<T>(pub(super) Rc<RefCell<H2Wire<T>>>);

impl<T: Transport> H2Wire<T> {
    /// The wire of a connection that has sent `received` so far.
    pub(super) fn new(
        timed: TimedTransport<T>,
        received: Vec<u8>,
        limits: FrameLimits,
    ) -> H2Wire<T> {
        H2Wire {
            timed,
            received,
            output: Vec::new(),
            taken: 0,
            sent: 0,
            meter: FrameMeter::new(limits),
            refusals: RefusalMeter::default(),
            started: Instant::now(),
            excess: None,
            is_dry: false,
            is_full: false,
            has_timed_out: false,
            is_ending: false,
            lingering: None,
        }
    }

    /// Notes that the connection's task runs again: the client may have sent something.
    pub(super) fn begin_turn(&mut self) {
        self.is_dry = false;
    }

    /// Returns whether the content so far came in early data, and the handshake is not complete.
    pub(super) fn is_early(&self) -> bool {
        self.timed.transport.is_early()
    }

    /// Returns the limit that the client has exceeded. From then on nothing is read. `None`: it has
    /// exceeded none.
    pub(super) fn excess(&self) -> Option<ExceededLimit> {
        self.excess
    }

    /// Returns the priorities that have come since the last call.
    pub(super) fn take_updates(&mut self) -> Vec<PriorityUpdate> {
        self.meter.take_updates()
    }

    /// Returns whether the client has sent a frame for which the connection must end with
    /// PROTOCOL_ERROR, and which the crate does not know.
    pub(super) fn has_mistake(&self) -> bool {
        self.meter.has_mistake()
    }

    /// Notes that the request of `stream` was taken from the crate.
    pub(super) fn take_request(&mut self, stream: u32) {
        self.refusals.take_request(stream);
    }

    /// Returns the requests that were refused since the last call.
    pub(super) fn take_refusals(&mut self) -> Refusals {
        self.refusals.take()
    }

    /// Returns the number of streams that the crate has ended since the last call.
    pub(super) fn take_ended(&mut self) -> u64 {
        self.refusals.take_ended()
    }

    /// Returns the reason that the crate gave the client for the end of the connection.
    pub(super) fn farewell(&self) -> &[u8] {
        self.refusals.farewell()
    }

    /// Returns whether the connection is over because the client took nothing for too long.
    pub(super) fn has_timed_out(&self) -> bool {
        self.has_timed_out
    }

    /// Returns whether all output was written.
    pub(super) fn is_drained(&self) -> bool {
        self.taken == self.output.len()
    }

    /// Returns whether all output was written, and the crate has nothing more that it may send.
    pub(super) fn is_at_rest(&self) -> bool {
        self.is_drained() && !self.is_full
    }

    /// Returns whether our side ends or has ended, and the client is waited for. The wire bounds
    /// that by itself.
    pub(super) fn lingers(&self) -> bool {
        self.is_ending
    }

    /// Writes the output that waits, and what the transport holds of it: nothing else need wake the
    /// connection for the end of a response.
    ///
    /// # Errors
    /// The connection is broken, or the client took nothing for too long.
    pub(super) fn poll_drain(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), ConnectionError>> {
        while !self.is_drained() || self.timed.transport.holds_bytes() {
            ready!(self.poll_write_once(context))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Releases the memory of an idle connection.
    pub(super) fn release(&mut self) {
        debug_assert!(self.is_drained());
        let output = std::mem::take(&mut self.output);
        FRAMES.with_borrow_mut(|spare| spare.keep(output));
        self.taken = 0;
    }

    fn poll_write_once(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        let waiting = &self.output[self.taken..];
        let nothing = ContentPiece::Memory(b"");
        let count = match ready!(self.timed.poll_send(waiting, nothing, b"", context)) {
            Ok(count) => count,
            Err(SendError::Connection(error)) => {
                self.has_timed_out |= error == ConnectionError::TimedOut;
                return Poll::Ready(Err(error));
            }
            Err(SendError::ShortFile) => return Poll::Ready(Err(ConnectionError::Broken)),
        };
        self.taken += count;
        self.sent += count as u64;
        if self.is_drained() {
            self.output.clear();
            self.taken = 0;
            self.timed.begin_response();
        }
        Poll::Ready(Ok(()))
    }

    /// Waits until `count` more bytes may be collected.
    fn poll_room(
        &mut self,
        count: usize,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), ConnectionError>> {
        self.is_full = true;
        while !self.is_drained() && self.output.len() - self.taken + count > ROOM {
            ready!(self.poll_write_once(context))?;
        }
        self.is_full = false;
        if self.taken > ROOM {
            self.output.drain(..self.taken);
            self.taken = 0;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.excess.is_some() || self.is_dry {
            return Poll::Pending;
        }
        let start = room.filled().len();
        if self.received.is_empty() {
            let read = self.timed.transport.poll_read(context, room);
            self.is_dry = read.is_pending();
            ready!(read)?;
        } else {
            let count = room.remaining().min(self.received.len());
            room.put_slice(&self.received[..count]);
            self.received.drain(..count);
            if self.received.is_empty() {
                self.received = Vec::new();
            }
        }
        let read = self.meter.read(&room.filled()[start..], self.started.elapsed(), self.sent);
        self.excess = read.err();
        Poll::Ready(Ok(()))
    }

    /// Ends our side, and waits for a while until the client has ended its own.
    fn poll_close(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        if self.lingering.is_none() {
            ready!(self.poll_drain(context))?;
            ready!(self.timed.poll_shutdown(&mut self.is_ending, context))?;
            self.timed.watch.arm(LINGER);
        }
        let left = self.lingering.get_or_insert(LINGER_BYTES);
        let mut discarded = [0; 2048];
        while *left > 0 {
            let mut room = ReadBuf::new(&mut discarded);
            match self.timed.transport.poll_read(context, &mut room) {
                Poll::Ready(Ok(())) if !room.filled().is_empty() => {
                    *left = left.saturating_sub(room.filled().len());
                }
                Poll::Ready(_) => break,
                Poll::Pending if self.timed.watch.is_expired() => break,
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: Transport> AsyncRead for H2WireEnd<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_read(context, room)
    }
}

impl<T: Transport> AsyncWrite for H2WireEnd<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut wire = self.0.borrow_mut();
        let count = parts.iter().map(|part| part.len()).sum();
        ready!(wire.poll_room(count, context)).map_err(broken)?;
        if wire.output.capacity() == 0 {
            wire.output = FRAMES.with_borrow_mut(SpareBuffers::take);
        }
        for part in parts {
            wire.refusals.read(part);
            wire.output.extend_from_slice(part);
        }
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// The connection writes what was collected, once the crate has nothing more to say.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_close(context).map_err(broken)
    }
}

fn broken(error: ConnectionError) -> io::Error {
    match error {
        ConnectionError::TimedOut => io::ErrorKind::TimedOut.into(),
        ConnectionError::Broken => io::ErrorKind::BrokenPipe.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::task::Waker;

    use howdah_config::Config;

    use super::*;
    use crate::net::DeadlineWatches;

    /// A transport that takes everything, and holds what its client has no room for.
    #[derive(Default)]
    struct HoldingTransport {
        held: usize,
        room: Rc<Cell<usize>>,
    }

    impl HoldingTransport {
        fn flush(&mut self) {
            let sent = self.held.min(self.room.get());
            self.held -= sent;
            self.room.set(self.room.get() - sent);
        }
    }

    impl Transport for HoldingTransport {
        const KEEPS_BYTES: bool = true;

        fn poll_read(&mut self, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_read_ready(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_write_ready(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            match self.room.get() {
                0 => Poll::Pending,
                _ => Poll::Ready(Ok(())),
            }
        }

        fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.flush();
            if self.held > 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.held = bytes.len();
            self.flush();
            Ok(bytes.len())
        }

        fn poll_peek(&self, _: &mut Context<'_>) -> Poll<io::Result<usize>> {
            Poll::Pending
        }

        fn holds_bytes(&self) -> bool {
            self.held > 0
        }

        fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn output_is_written_once_the_transport_holds_nothing_of_it() {
        let (watches, config) = (DeadlineWatches::new(), Config::default());
        let transport = HoldingTransport::default();
        let room = Rc::clone(&transport.room);
        let waker = Waker::noop().clone();
        let timed = TimedTransport::new(transport, waker, &watches, &config.limits);
        let watch = Rc::clone(&timed.watch);
        let limits = super::super::settings::limits(&config.http2);
        let mut wire = H2Wire::new(timed, Vec::new(), limits);
        let mut context = Context::from_waker(Waker::noop());
        room.set(300);
        wire.output.resize(1000, 7);
        assert!(wire.poll_drain(&mut context).is_pending());
        assert!(!watch.is_disarmed(), "the client may take `send_timeout` for it");
        room.set(699);
        assert!(wire.poll_drain(&mut context).is_pending());
        room.set(1);
        assert!(wire.poll_drain(&mut context).is_ready());
        assert_eq!((wire.timed.transport.held, room.get()), (0, 0));
    }
}
