//! TLS as a transport: a socket, and the session that encrypts what passes it.
//!
//! Content is encrypted in memory: a file is read, a ring is copied, and rustls makes records of
//! the bytes. The session holds records that the socket has not taken. It takes further content
//! only when there are none, so that a slow client costs at most [`MOST_TAKEN`] bytes here. Every
//! wait for the client sends what is left; [`Transport::poll_close`] does so at the end.

use std::cell::RefCell;
use std::io::{self, BufRead, IoSlice, Read, Write};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustls::ServerConnection;
use tokio::io::{AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::TcpStream;

use super::records::RecordMeter;
use super::transport::{
    ContentPiece, Transport, has_input, has_undelivered, readiness, reset_when_dropped,
};

/// An encrypted connection.
pub(crate) struct EncryptedTransport {
    socket: TcpStream,
    /// The borrow ends within each call. On the heap: the connection's task moves it.
    session: Box<RefCell<Session>>,
}

struct Session {
    tls: ServerConnection,
    /// The place of what was received among the client's records.
    received: RecordMeter,
    /// The client has closed its side of the socket.
    is_over: bool,
    /// Early data that nobody has taken; `None`: none comes any more.
    early: Option<Vec<u8>>,
}

impl EncryptedTransport {
    /// The connection over `socket`, whose handshake `tls` has begun. `received` has followed the
    /// bytes that `tls` got.
    pub(crate) fn new(
        socket: TcpStream,
        tls: ServerConnection,
        received: RecordMeter,
    ) -> EncryptedTransport {
        let session = Session {
            tls,
            received,
            is_over: false,
            early: None,
        };
        EncryptedTransport {
            socket,
            session: Box::new(RefCell::new(session)),
        }
    }

    /// Performs the handshake as far as bytes of the client are there. A handshake with early data
    /// goes on while the connection is used.
    ///
    /// # Errors
    /// The client speaks no TLS that is accepted here, or the connection broke. The client was sent
    /// an alert.
    pub(crate) fn poll_handshake(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let session = self.session.get_mut();
        while session.tls.is_handshaking() {
            ready!(session.poll_flush(&self.socket, context))?;
            if session.is_over {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            if session.tls.early_data().is_some() {
                session.early = Some(Vec::new());
                return Poll::Ready(Ok(()));
            }
            if session.tls.is_handshaking() {
                ready!(session.poll_receive(&self.socket, context))?;
            }
        }
        // The last bytes of the handshake go with the response where the socket is full.
        session.flush(&self.socket)?;
        Poll::Ready(Ok(()))
    }

    /// The session's properties, such as its cipher.
    pub(crate) fn facts<R>(&self, read: impl FnOnce(&ServerConnection) -> R) -> R {
        read(&self.session.borrow().tls)
    }

    /// Waits until there is content, the end of the client's side, or an error. Returns the number
    /// of bytes at hand.
    fn poll_content(&self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let session = &mut *self.session.borrow_mut();
        if !session.flush(&self.socket)? {
            // The rest goes when the socket takes it. Meanwhile the client may send.
            while let Poll::Ready(ready) = self.socket.poll_write_ready(context) {
                ready?;
                if session.flush(&self.socket)? {
                    break;
                }
            }
        }
        loop {
            match session.early_content()? {
                0 => {}
                count => return Poll::Ready(Ok(count)),
            }
            match session.tls.reader().fill_buf() {
                Ok(content) => return Poll::Ready(Ok(content.len())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Without a goodbye: HTTP knows from its own framing whether bytes are missing.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Poll::Ready(Ok(0));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
            ready!(session.poll_receive(&self.socket, context))?;
            if session.early.is_some() {
                // The end of a handshake has tickets for the client.
                session.flush(&self.socket)?;
            }
        }
    }

    /// Takes `parts` in this order, as far as the session has room, and sends what the socket
    /// takes.
    fn take(&mut self, parts: &[&[u8]]) -> io::Result<usize> {
        let session = self.session.get_mut();
        if !session.flush(&self.socket)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut taken = 0;
        let mut writer = session.tls.writer();
        let parts = [0, 1, 2].map(|number| IoSlice::new(parts.get(number).unwrap_or(&&b""[..])));
        taken += writer.write_vectored(&parts)?;
        // An error of the socket is told by the next call: the bytes were taken.
        let _ = session.flush(&self.socket);
        Ok(taken)
    }
}

impl Session {
    /// Returns the number of bytes of early data that are at hand.
    fn early_content(&mut self) -> io::Result<usize> {
        let Some(kept) = &mut self.early else {
            return Ok(0);
        };
        if let Some(mut early) = self.tls.early_data() {
            early.read_to_end(kept)?;
        }
        let count = kept.len();
        if count == 0 && !self.tls.is_handshaking() {
            self.early = None;
        }
        Ok(count)
    }

    /// Sends records until there are none or the socket takes no more. Returns whether there are
    /// none.
    fn flush(&mut self, socket: &TcpStream) -> io::Result<bool> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Socket(socket)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Sends all records.
    fn poll_flush(
        &mut self,
        socket: &TcpStream,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.flush(socket)? {
            ready!(socket.poll_write_ready(context))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Receives and decrypts once.
    fn poll_receive(
        &mut self,
        socket: &TcpStream,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_over {
            return Poll::Ready(Ok(()));
        }
        loop {
            let mut source = MeteredSocket(socket, &mut self.received);
            match self.tls.read_tls(&mut source) {
                Ok(0) => self.is_over = true,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(socket.poll_read_ready(context))?;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Poll::Ready(Err(error)),
            }
            if let Err(error) = self.tls.process_new_packets() {
                // The alert that says why. The connection ends in any case.
                let _ = self.flush(socket);
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
            }
            return Poll::Ready(Ok(()));
        }
    }
}

impl Transport for EncryptedTransport {
    const KEEPS_BYTES: bool = true;

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if ready!(self.poll_content(context))? > 0 {
            let session = self.session.get_mut();
            if let Some(early) = session.early.as_mut().filter(|early| !early.is_empty()) {
                let count = early.len().min(room.remaining());
                room.put_slice(&early[..count]);
                early.drain(..count);
                return Poll::Ready(Ok(()));
            }
            // `Reader::read` would need memory with values: the room would be filled with zeros.
            let mut reader = session.tls.reader();
            while room.remaining() > 0
                && let Ok(content) = reader.fill_buf()
                && !content.is_empty()
            {
                let count = content.len().min(room.remaining());
                room.put_slice(&content[..count]);
                reader.consume(count);
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_content(context).map_ok(drop)
    }

    fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_write_ready(context)
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.take(&[bytes])
    }

    fn poll_peek(&self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.poll_content(context)
    }

    fn has_input(&self) -> bool {
        has_input(self.socket.as_fd())
    }

    fn is_receiving(&self) -> bool {
        let session = self.session.borrow();
        session.received.is_within() && !session.is_over
    }

    fn holds_bytes(&self) -> bool {
        self.session.borrow().tls.wants_write()
    }

    fn readiness(&self) -> Ready {
        readiness(&self.socket)
    }

    fn is_early(&self) -> bool {
        let session = self.session.borrow();
        session.early.is_some() && session.tls.is_handshaking()
    }

    fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_close(context))?;
        Pin::new(&mut self.socket).poll_shutdown(context)
    }

    fn poll_close(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let session = self.session.get_mut();
        session.tls.send_close_notify();
        session.poll_flush(&self.socket, context)
    }

    /// Without the goodbye, which would say that nothing is missing.
    fn break_off(&mut self) {
        reset_when_dropped(&self.socket);
    }

    fn has_undelivered(&mut self) -> bool {
        let flushed = self.session.get_mut().flush(&self.socket);
        flushed.is_ok_and(|is_flushed| !is_flushed || has_undelivered(&self.socket))
    }

    /// Files and rings are read into memory first.
    fn try_send(
        &mut self,
        before: &[u8],
        piece: ContentPiece<'_>,
        after: &[u8],
    ) -> io::Result<usize> {
        if let ContentPiece::Memory(bytes) = piece {
            return self.take(&[before, bytes, after]);
        }
        // Nothing is read that cannot be taken.
        if !self.session.get_mut().flush(&self.socket)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        COPY.with_borrow_mut(|copy| {
            copy.resize(MOST_TAKEN, 0);
            let count = piece.read(copy)?;
            let is_whole = count as u64 == piece.length();
            self.take(&[before, &copy[..count], if is_whole { after } else { b"" }])
        })
    }
}

impl std::fmt::Debug for EncryptedTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encrypted")
            .field("socket", &self.socket)
            .finish_non_exhaustive()
    }
}

/// Bytes that a session takes at once: four records.
pub(crate) const MOST_TAKEN: usize = 64 * 1024;

thread_local! {
    /// The content that is about to be encrypted.
    static COPY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The socket as rustls reads it: calls that do not block. The meter gets what was read.
///
/// Where less was read than there was room for, nothing is left. Later bytes cause an event of
/// their own, so the next read needs no system call to say that it has to wait.
struct MeteredSocket<'s>(&'s TcpStream, &'s mut RecordMeter);

impl Read for MeteredSocket<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let count = self.0.try_read(room)?;
        self.1.read(&room[..count]);
        if 0 < count && count < room.len() {
            let nothing_left = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
            let _ = self.0.try_io(Interest::READABLE, nothing_left);
        }
        Ok(count)
    }
}

/// The socket as rustls writes it: calls that do not block.
struct Socket<'s>(&'s TcpStream);

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
