//! A connection of an attacker: it says what it likes, and looks at nothing that the server says.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustls::ClientConnection;

use super::attackers::Target;

/// Time for which an attacker waits for a server that neither takes nor says anything.
const WAIT: Duration = Duration::from_secs(2);
/// Time between two looks at a connection that takes nothing.
const LOOK: Duration = Duration::from_micros(200);

/// An encrypted connection.
pub struct Channel {
    tls: ClientConnection,
    socket: TcpStream,
}

impl Channel {
    /// Makes a handshake for this protocol and this name. `None`: the server has refused it.
    pub fn open(target: &Target, protocol: &str, name: &str) -> Option<Channel> {
        let mut tls = target.session(protocol, name);
        let mut socket = connect(target)?;
        while tls.is_handshaking() {
            tls.complete_io(&mut socket).ok()?;
        }
        socket.set_nonblocking(true).ok()?;
        Some(Channel { tls, socket })
    }

    /// Opens a channel like [`open`](Channel::open), and begins HTTP/2 with these windows for
    /// streams.
    pub fn http2(target: &Target, window: u32, over: &AtomicBool) -> Option<Channel> {
        let mut channel = Channel::open(target, "h2", "a.example")?;
        let [a, b, c, d] = window.to_be_bytes();
        let settings = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, a, b, c, d];
        let begin = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings].concat();
        channel.send(&begin, over).then_some(channel)
    }

    /// Sends bytes, and throws away what has come. Returns whether the connection goes on.
    pub fn send(&mut self, bytes: &[u8], over: &AtomicBool) -> bool {
        let mut until = Instant::now() + WAIT;
        let mut rest = bytes;
        loop {
            // The library buffers so much and no more.
            let taken = self.tls.writer().write(rest).unwrap_or(0);
            rest = &rest[taken..];
            if rest.is_empty() && !self.tls.wants_write() {
                return true;
            }
            match self.tls.write_tls(&mut self.socket) {
                Ok(1..) => until = Instant::now() + WAIT,
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(LOOK),
                _ => return false,
            }
            if !discard(&mut self.socket) || over.load(Ordering::Relaxed) || Instant::now() > until
            {
                return false;
            }
        }
    }

    /// Waits until the server has said something. Returns whether it has.
    pub fn hear(&mut self, over: &AtomicBool) -> bool {
        let until = Instant::now() + WAIT;
        let mut room = [0; 4096];
        while !over.load(Ordering::Relaxed) && Instant::now() < until {
            match self.socket.read(&mut room) {
                Ok(count) => return count > 0,
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(LOOK),
                Err(_) => return false,
            }
        }
        false
    }
}

/// Connects without encryption. `None`: the server has refused it.
pub fn connect(target: &Target) -> Option<TcpStream> {
    let socket = TcpStream::connect_timeout(&target.address, WAIT).ok()?;
    socket.set_nodelay(true).ok()?;
    socket.set_read_timeout(Some(WAIT)).ok()?;
    socket.set_write_timeout(Some(WAIT)).ok()?;
    Some(socket)
}

/// Throws away what has come. Returns whether the connection goes on.
fn discard(socket: &mut TcpStream) -> bool {
    let mut room = [0; 16_384];
    loop {
        match socket.read(&mut room) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}
