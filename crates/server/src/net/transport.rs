//! Transports, which carry a protocol's bytes: TCP and Unix sockets here, TLS beside, memory in
//! tests.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};

use howdah_files::OpenFile;
use howdah_php::ScriptExchange;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::{TcpStream, UnixStream};

/// A byte stream to and from a client that never blocks.
pub(crate) trait Transport {
    /// Whether bytes that were taken may wait in the transport. Then [`poll_close`] must be called
    /// before the transport is dropped.
    ///
    /// [`poll_close`]: Transport::poll_close
    const KEEPS_BYTES: bool = false;

    /// Reads once. Reading 0 bytes is the end of the client's side.
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>>;

    /// Waits, without a buffer, until a read would return something.
    fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Waits until a write may take something.
    fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Writes as many bytes as can be taken at once. Returns their number.
    ///
    /// # Errors
    /// `WouldBlock` where nothing can be taken; any other error ends the connection.
    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Looks for the end of the client's side without taking bytes: `Ok(0)` is the end, an error is
    /// a broken connection.
    fn poll_peek(&self, context: &mut Context<'_>) -> Poll<io::Result<usize>>;

    /// Returns whether bytes of the client have arrived, even if the event loop does not know it
    /// yet. A connection that is closed while it has some takes a request with it.
    fn has_input(&self) -> bool {
        false
    }

    /// Returns whether a part of a record was read, whose rest has not arrived. No content has come
    /// of it, but a request may.
    fn is_receiving(&self) -> bool {
        false
    }

    /// Returns whether bytes that were taken wait in the transport. The next attempt to write sends
    /// them.
    #[inline]
    fn holds_bytes(&self) -> bool {
        false
    }

    /// Returns what the system has told of the connection so far, even of what comes after bytes
    /// that were not read.
    fn readiness(&self) -> Ready {
        Ready::EMPTY
    }

    /// Returns whether the content so far came in early data, and the handshake is not complete.
    #[inline]
    fn is_early(&self) -> bool {
        false
    }

    /// Ends our side.
    fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Sends what was taken and waits in the transport, and the protocol's own goodbye.
    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Makes the connection end with a reset when the transport is dropped, where the transport has
    /// one: the client sees that bytes are missing.
    fn break_off(&mut self) {}

    /// Returns whether bytes that were taken are still on the way to the client, where a reset
    /// would destroy them.
    fn has_undelivered(&mut self) -> bool {
        false
    }

    /// Writes as many bytes as can be taken at once of `before`, `piece` and `after`, in this
    /// order. Returns the number of bytes taken of the three together, at least 1.
    ///
    /// This default copies everything through memory, as an encrypting transport must.
    ///
    /// # Errors
    /// The errors of [`try_write`](Transport::try_write), and [`SHORT_FILE`] where a file has fewer
    /// bytes than its piece.
    fn try_send(
        &mut self,
        before: &[u8],
        piece: ContentPiece<'_>,
        after: &[u8],
    ) -> io::Result<usize> {
        if !before.is_empty() {
            return self.try_write(before);
        }
        if piece.length() == 0 {
            return self.try_write(after);
        }
        let mut copy = [0; COPY];
        let count = piece.read(&mut copy)?;
        self.try_write(&copy[..count])
    }
}

/// Bytes of content where they are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ContentPiece<'b> {
    Memory(&'b [u8]),
    /// `length` bytes of a document from `offset` on.
    Document {
        file: &'b OpenFile,
        offset: u64,
        length: u64,
    },
    /// The next bytes of a worker's response ring.
    Ring(&'b ScriptExchange, usize),
}

impl<'b> ContentPiece<'b> {
    /// Bytes of it.
    pub(crate) fn length(&self) -> u64 {
        match self {
            ContentPiece::Memory(bytes) => bytes.len() as u64,
            ContentPiece::Document { length, .. } => *length,
            ContentPiece::Ring(_, length) => *length as u64,
        }
    }

    /// Its first bytes, at most `most`.
    pub(crate) fn first(self, most: u64) -> ContentPiece<'b> {
        let most = most.min(self.length());
        match self {
            ContentPiece::Memory(bytes) => ContentPiece::Memory(&bytes[..most as usize]),
            ContentPiece::Document { file, offset, .. } => {
                ContentPiece::Document { file, offset, length: most }
            }
            ContentPiece::Ring(exchange, _) => ContentPiece::Ring(exchange, most as usize),
        }
    }

    /// Copies its first bytes to `into`, as many as fit. Returns their number, at least 1 unless
    /// either is empty.
    ///
    /// # Errors
    /// [`SHORT_FILE`] if the file has become shorter, and the errors of reading it.
    pub(crate) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        let count = usize::try_from(self.length()).map_or(into.len(), |all| all.min(into.len()));
        let into = &mut into[..count];
        let read = match self {
            ContentPiece::Memory(bytes) => {
                into.copy_from_slice(&bytes[..count]);
                count
            }
            ContentPiece::Document { file, offset, .. } => file.read_at(into, *offset)?,
            ContentPiece::Ring(exchange, _) => exchange.copy(into),
        };
        if read == 0 && count > 0 {
            return Err(SHORT_FILE.into());
        }
        Ok(read)
    }
}

/// The error of a file that has fewer bytes than its response's head promised.
pub(crate) const SHORT_FILE: io::ErrorKind = io::ErrorKind::UnexpectedEof;

/// Bytes that [`Transport::try_send`] copies through memory at once: one TLS record.
const COPY: usize = 16 * 1024;

/// Implements [`Transport`] for a stream socket.
macro_rules! stream_transport {
    ($AcceptedStream:ty, $peek:expr, $break_off:expr, $undelivered:expr) => {
        impl Transport for $AcceptedStream {
            fn poll_read(
                &mut self,
                context: &mut Context<'_>,
                room: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                AsyncRead::poll_read(Pin::new(self), context, room)
            }

            fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                <$AcceptedStream>::poll_read_ready(self, context)
            }

            fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                <$AcceptedStream>::poll_write_ready(self, context)
            }

            fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                <$AcceptedStream>::try_write(self, bytes)
            }

            fn poll_peek(&self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
                $peek(self, context)
            }

            fn has_input(&self) -> bool {
                has_input(self.as_fd())
            }

            fn readiness(&self) -> Ready {
                known(<$AcceptedStream>::ready(self, ANYTHING))
            }

            fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                AsyncWrite::poll_shutdown(Pin::new(self), context)
            }

            fn break_off(&mut self) {
                $break_off(self);
            }

            fn has_undelivered(&mut self) -> bool {
                $undelivered(self)
            }

            /// Files go by `sendfile(2)`, a ring and memory by `writev(2)`.
            fn try_send(
                &mut self,
                before: &[u8],
                piece: ContentPiece<'_>,
                after: &[u8],
            ) -> io::Result<usize> {
                let (file, offset, length) = match piece {
                    // A plain `write` is cheaper than gathering.
                    ContentPiece::Memory(b"") if after.is_empty() => return self.try_write(before),
                    ContentPiece::Memory(bytes) => {
                        let parts = [before, bytes, after].map(IoSlice::new);
                        return self.try_write_vectored(&parts);
                    }
                    ContentPiece::Ring(exchange, length) => {
                        return self.try_io(Interest::WRITABLE, || {
                            exchange.send(length, self.as_fd(), before, after)
                        });
                    }
                    ContentPiece::Document { file, offset, length } => {
                        (file.as_fd(), offset, length)
                    }
                };
                if length == 0 {
                    return self.try_write(if before.is_empty() { after } else { before });
                }
                let mut sent = 0;
                if !before.is_empty() {
                    // It waits in the socket for the first bytes of the file: one packet for both.
                    sent = self.try_io(Interest::WRITABLE, || {
                        howdah_sys::socket::send_more(self.as_fd(), before)
                    })?;
                    if sent < before.len() {
                        return Ok(sent);
                    }
                }
                match self
                    .try_io(Interest::WRITABLE, || send_file(self.as_fd(), file, offset, length))
                {
                    Ok(count) => Ok(sent + count),
                    // The bytes that were taken must be counted; the next attempt returns the
                    // error.
                    Err(_) if sent > 0 => Ok(sent),
                    Err(error) => Err(error),
                }
            }
        }
    };
}

stream_transport!(
    TcpStream,
    |stream: &TcpStream, context: &mut Context<'_>| {
        TcpStream::poll_peek(stream, context, &mut ReadBuf::new(&mut [0; 1]))
    },
    reset_when_dropped,
    |stream: &TcpStream| has_undelivered(stream)
);

stream_transport!(
    UnixStream,
    |stream: &UnixStream, context: &mut Context<'_>| {
        loop {
            ready!(stream.poll_read_ready(context))?;
            let peek = || howdah_sys::socket::peek(stream.as_fd());
            match stream.try_io(Interest::READABLE, peek) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    },
    // Unix sockets have no reset.
    |_: &UnixStream| {},
    |_: &UnixStream| false
);

/// Everything that the system tells of a socket.
const ANYTHING: Interest = Interest::READABLE.add(Interest::WRITABLE).add(Interest::ERROR);

/// Returns whether bytes wait in a socket.
pub(super) fn has_input(socket: BorrowedFd<'_>) -> bool {
    howdah_sys::socket::peek(socket).is_ok_and(|count| count > 0)
}

/// Returns what the system has told of a TCP connection so far.
pub(super) fn readiness(socket: &TcpStream) -> Ready {
    known(socket.ready(ANYTHING))
}

/// Returns what is known at once.
fn known(ready: impl Future<Output = io::Result<Ready>>) -> Ready {
    match pin!(ready).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(ready)) => ready,
        // The runtime ends.
        Poll::Ready(Err(_)) => Ready::ALL,
        Poll::Pending => Ready::EMPTY,
    }
}

/// Returns whether the client's system lacks bytes that were sent, and is still there.
pub(super) fn has_undelivered(socket: &TcpStream) -> bool {
    let ready = readiness(socket);
    !ready.is_error()
        && !ready.is_write_closed()
        && howdah_sys::socket::unacknowledged(socket.as_fd()).is_ok_and(|count| count > 0)
}

/// Makes the socket end with a reset.
pub(super) fn reset_when_dropped(socket: &TcpStream) {
    // It fails only where the connection is already gone.
    let _ = socket.set_zero_linger();
}

fn send_file(
    socket: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    offset: u64,
    length: u64,
) -> io::Result<usize> {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    match howdah_sys::sendfile::sendfile(socket, file, offset, length)? {
        0 => Err(SHORT_FILE.into()),
        count => Ok(count),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn bytes_that_the_event_loop_does_not_know_of_are_input() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (accepted, _) = listener.accept().unwrap();
            accepted.set_nonblocking(true).unwrap();
            let transport = TcpStream::from_std(accepted).unwrap();
            let is_ready = |transport: &TcpStream| {
                let mut context = Context::from_waker(Waker::noop());
                Transport::poll_read_ready(transport, &mut context).is_ready()
            };
            assert!(!is_ready(&transport) && !transport.has_input());
            client.write_all(b"GET").unwrap();
            // The event loop does not run meanwhile.
            let until = Instant::now() + Duration::from_secs(60);
            while !transport.has_input() {
                assert!(Instant::now() < until);
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(!is_ready(&transport));
        });
    }
}
