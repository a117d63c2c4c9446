//! A tunnel: after its head a response is bytes in both directions, until both sides have ended
//! (RFC 9110 §7.8, RFC 8441).
//!
//! ```text
//! client (a protocol's TunnelEnd) ──▶ TunnelDirection ──▶ upstream
//!                                 ◀── TunnelDirection ◀──
//! ```
//! [`carry`] is the only loop that moves a tunnel's bytes. Each direction holds at most what one
//! read returned: a side that takes nothing stops the other side's reading. An idle tunnel has no
//! buffers.

mod time_limits;

use std::cell::RefCell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use self::time_limits::{TimeLimits, TunnelLimit};
use super::pump::PumpError;
use super::source::SourceError;
use crate::front::FrontThread;
use crate::net::ConnectionError;
use crate::respond::UpstreamError;

/// A byte stream in both directions.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Unpin {
    /// Returns whether the other side has neither sent anything nor closed the stream.
    fn is_silent(&mut self) -> bool {
        true
    }

    /// Returns whether the stream is certainly broken in both directions, without a read.
    fn is_broken(&self) -> bool {
        false
    }
}

/// The client's end of a tunnel, which a protocol provides. Its head was sent, or is sent before
/// the first bytes.
pub(crate) trait TunnelEnd {
    /// Reads once. Reading 0 bytes is the end of the client's side.
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<Result<(), ConnectionError>>;

    /// Sends as many of `bytes`, which are not empty, as the client takes. Returns their number.
    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize, ConnectionError>>;

    /// Sends what was taken and waits in the protocol.
    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectionError>>;

    /// Ends the server's side. All bytes were taken before.
    fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectionError>>;

    /// Returns whether the client is certainly gone, without a read. Wakes `context` when that
    /// changes.
    fn poll_broken(&mut self, context: &mut Context<'_>) -> bool;
}

/// The upstream's end of a tunnel.
pub(crate) struct Tunnel {
    pub(crate) stream: Box<dyn Duplex>,
    /// Bytes that the upstream sent behind its head.
    pub(crate) received: Vec<u8>,
    /// The time without a byte in either direction after which the tunnel ends.
    pub(crate) idle_timeout: Duration,
    /// The upstream's name, for errors.
    pub(crate) name: String,
    /// The places of the tunnel and of its connection among those that the site and the client may
    /// have.
    pub(crate) place: Box<dyn fmt::Debug>,
}

/// The bytes that passed a tunnel, and the way in which the tunnel ended.
#[derive(Debug)]
pub(crate) struct CarriedTunnel {
    /// Bytes from the client to the upstream.
    pub(crate) received: u64,
    /// Bytes from the upstream to the client.
    pub(crate) sent: u64,
    /// The client may still send bytes, which nobody reads.
    pub(crate) is_client_open: bool,
    pub(crate) result: Result<(), PumpError>,
}

/// Moves the bytes of a tunnel until both sides have ended, the idle time is over, or the front
/// ends.
pub(crate) async fn carry(
    thread: &Rc<FrontThread>,
    tunnel: Box<Tunnel>,
    client: &mut impl TunnelEnd,
) -> CarriedTunnel {
    let Tunnel {
        stream,
        received,
        idle_timeout,
        name,
        place,
    } = *tunnel;
    let mut carrier = TunnelCarrier::new(client, stream, received);
    let mut limits = TimeLimits::new(thread, idle_timeout);
    let mut drains = pin!(thread.drains());
    let result = poll_fn(|context| {
        if drains.as_mut().poll(context).is_ready() {
            drains.set(thread.drains());
            // The wait begins with the first poll.
            let _ = drains.as_mut().poll(context);
        }
        carrier.poll_within(&mut limits, context)
    })
    .await;
    let TunnelCarrier { upstream, up, down, is_closing, .. } = carrier;
    // The descriptor is closed before its place is free.
    drop(upstream);
    drop(place);
    CarriedTunnel {
        received: up.moved,
        sent: down.moved,
        is_client_open: !up.has_ended || is_closing,
        result: result.map_err(|side| side.into_error(name)),
    }
}

/// The side whose connection broke.
#[derive(Debug)]
enum BrokenSide {
    Client(ConnectionError),
    Upstream(io::Error),
}

impl BrokenSide {
    /// The error that the request ends with. `name`: the upstream's.
    fn into_error(self, name: String) -> PumpError {
        match self {
            BrokenSide::Client(error) => PumpError::Client(error),
            BrokenSide::Upstream(error) => {
                let error = UpstreamError::broken(name, error);
                PumpError::Source(SourceError::Upstream(Box::new(error)))
            }
        }
    }
}

/// Both directions of a tunnel.
struct TunnelCarrier<'c, E> {
    client: &'c mut E,
    upstream: Box<dyn Duplex>,
    /// From the client to the upstream.
    up: TunnelDirection,
    /// From the upstream to the client.
    down: TunnelDirection,
    /// Nothing more is read: both sides are ended once they have taken what was read.
    is_closing: bool,
}

/// One direction.
#[derive(Default)]
struct TunnelDirection {
    /// Bytes that were read and not taken.
    pending: Vec<u8>,
    /// Bytes of `pending` that were taken.
    taken: usize,
    /// Bytes taken of the whole direction.
    moved: u64,
    /// The source has ended.
    has_ended: bool,
    /// The sink was told so.
    is_finished: bool,
    /// The sink may hold bytes that wait.
    is_dirty: bool,
}

impl<'c, E: TunnelEnd> TunnelCarrier<'c, E> {
    /// `received`: bytes that the upstream sent behind its head.
    fn new(client: &'c mut E, upstream: Box<dyn Duplex>, received: Vec<u8>) -> Self {
        TunnelCarrier {
            client,
            upstream,
            up: TunnelDirection::default(),
            down: TunnelDirection {
                pending: received,
                ..TunnelDirection::default()
            },
            is_closing: false,
        }
    }

    /// Moves bytes, as [`TunnelCarrier::poll`] does, until a time limit ends the tunnel: at once
    /// that of an idle one, and that of a front that ends once both sides were told.
    fn poll_within(
        &mut self,
        limits: &mut TimeLimits<'_>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), BrokenSide>> {
        let before = self.moved();
        if let Poll::Ready(ended) = self.poll(context) {
            return Poll::Ready(ended);
        }
        match limits.poll(self.moved() > before, context) {
            None => {
                if self.is_upstream_unread() {
                    limits.look_again();
                }
                Poll::Pending
            }
            Some(_) if self.is_closing => Poll::Ready(Ok(())),
            // Recorded as the end by a client that leaves, which is no error.
            Some(TunnelLimit::Idle) => {
                Poll::Ready(Err(BrokenSide::Client(ConnectionError::Broken)))
            }
            Some(TunnelLimit::Draining) => {
                self.is_closing = true;
                limits.close();
                // Both sides are told that this was the last byte.
                self.poll(context)
            }
        }
    }

    fn moved(&self) -> u64 {
        self.up.moved + self.down.moved
    }

    /// Returns whether the upstream has ended its side, and the client has not. Nobody reads from
    /// the upstream then, and no event tells that it is gone.
    fn is_upstream_unread(&self) -> bool {
        self.down.is_finished && !self.up.has_ended
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BrokenSide>> {
        if self.is_closing {
            self.up.has_ended = true;
            self.down.has_ended = true;
        }
        let mut client = ClientSide(self.client);
        let mut upstream = UpstreamSide(&mut self.upstream);
        let up = self.up.poll(&mut client, &mut upstream, context)?;
        let down = self.down.poll(&mut upstream, &mut client, context)?;
        // Nobody reads from the client then: an upstream that does nothing would keep it for long.
        let is_unread = self.up.has_ended || !self.up.pending.is_empty();
        match (up, down) {
            (Poll::Ready(()), Poll::Ready(())) => Poll::Ready(Ok(())),
            (_, Poll::Pending) if is_unread && self.client.poll_broken(context) => {
                Poll::Ready(Err(BrokenSide::Client(ConnectionError::Broken)))
            }
            _ if self.is_upstream_unread() && self.upstream.is_broken() => {
                Poll::Ready(Err(BrokenSide::Upstream(io::ErrorKind::ConnectionReset.into())))
            }
            _ => Poll::Pending,
        }
    }
}

impl TunnelDirection {
    /// Moves bytes until one of the sides has to be waited for. Ready: the direction has ended.
    fn poll(
        &mut self,
        source: &mut impl TunnelSide,
        sink: &mut impl TunnelSide,
        context: &mut Context<'_>,
    ) -> Result<Poll<()>, BrokenSide> {
        for _ in 0..MOST_ROUNDS {
            if self.is_finished {
                return Ok(Poll::Ready(()));
            }
            let step = if self.taken < self.pending.len() {
                self.poll_pending(sink, context)
            } else if self.has_ended {
                sink.poll_finish(context).map(|ended| ended.map(|()| self.is_finished = true))
            } else {
                self.poll_next(source, sink, context)
            };
            if let Poll::Ready(result) = step {
                result?;
                continue;
            }
            if self.is_dirty
                && let Poll::Ready(flushed) = sink.poll_flush(context)
            {
                flushed?;
                self.is_dirty = false;
            }
            return Ok(Poll::Pending);
        }
        // Other connections get their turn.
        context.waker().wake_by_ref();
        Ok(Poll::Pending)
    }

    /// Sends what was read before.
    fn poll_pending(
        &mut self,
        sink: &mut impl TunnelSide,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), BrokenSide>> {
        sink.poll_write(context, &self.pending[self.taken..]).map(|written| {
            self.note(written?);
            if self.taken == self.pending.len() {
                self.pending = Vec::new();
                self.taken = 0;
            }
            Ok(())
        })
    }

    /// Reads once, and sends what was read as far as it is taken.
    fn poll_next(
        &mut self,
        source: &mut impl TunnelSide,
        sink: &mut impl TunnelSide,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), BrokenSide>> {
        ROOM.with_borrow_mut(|room| {
            room.resize(READ_AT_ONCE, 0);
            let mut room = ReadBuf::new(room);
            std::task::ready!(source.poll_read(context, &mut room))?;
            let read = room.filled();
            if read.is_empty() {
                self.has_ended = true;
                return Poll::Ready(Ok(()));
            }
            let written = match sink.poll_write(context, read) {
                Poll::Ready(written) => written?,
                Poll::Pending => 0,
            };
            self.note(written);
            self.taken = 0;
            self.pending.extend_from_slice(&read[written..]);
            Poll::Ready(Ok(()))
        })
    }

    fn note(&mut self, written: usize) {
        self.taken += written;
        self.moved += written as u64;
        self.is_dirty |= written > 0;
    }
}

/// A side of a tunnel, as the other direction's source and sink.
trait TunnelSide {
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<Result<(), BrokenSide>>;
    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize, BrokenSide>>;
    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BrokenSide>>;
    fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BrokenSide>>;
}

struct ClientSide<'c, E>(&'c mut E);

impl<E: TunnelEnd> TunnelSide for ClientSide<'_, E> {
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<Result<(), BrokenSide>> {
        self.0.poll_read(context, room).map_err(BrokenSide::Client)
    }

    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize, BrokenSide>> {
        self.0.poll_write(context, bytes).map_err(BrokenSide::Client)
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BrokenSide>> {
        self.0.poll_flush(context).map_err(BrokenSide::Client)
    }

    fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BrokenSide>> {
        self.0.poll_finish(context).map_err(BrokenSide::Client)
    }
}

struct UpstreamSide<'c>(&'c mut Box<dyn Duplex>);

impl TunnelSide for UpstreamSide<'_> {
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<Result<(), BrokenSide>> {
        match Pin::new(&mut self.0).poll_read(context, room) {
            // An upstream over TLS that closes without a goodbye: the bytes' own framing tells.
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Poll::Ready(Ok(()))
            }
            other => other.map_err(BrokenSide::Upstream),
        }
    }

    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize, BrokenSide>> {
        match Pin::new(&mut self.0).poll_write(context, bytes) {
            Poll::Ready(Ok(0)) => {
                Poll::Ready(Err(BrokenSide::Upstream(io::ErrorKind::WriteZero.into())))
            }
            other => other.map_err(BrokenSide::Upstream),
        }
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BrokenSide>> {
        Pin::new(&mut self.0).poll_flush(context).map_err(BrokenSide::Upstream)
    }

    /// An upstream that has closed its side already needs no end of ours.
    fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BrokenSide>> {
        match Pin::new(&mut self.0).poll_shutdown(context) {
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::NotConnected => {
                Poll::Ready(Ok(()))
            }
            other => other.map_err(BrokenSide::Upstream),
        }
    }
}

/// Bytes that are read at once.
const READ_AT_ONCE: usize = 32 * 1024;
/// Reads and writes of one direction before other connections of the thread get their turn.
const MOST_ROUNDS: usize = 32;

thread_local! {
    /// The bytes that are on their way through a tunnel.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tunnel").field("name", &self.name).finish_non_exhaustive()
    }
}
