//! A listening socket of the front, and the connections that it accepts.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};

use howdah_config::{Config, ListenAddress};

use super::Peer;

/// A listening socket. Each thread has its own descriptor of the socket.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: ListenerSocket,
    /// The actual address.
    pub(crate) address: ListenAddress,
    /// The listener's place in the configuration.
    pub(crate) number: usize,
}

/// The socket of a listener.
#[derive(Debug)]
pub(crate) enum ListenerSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connection that was accepted.
#[derive(Debug)]
pub(crate) struct AcceptedConnection {
    pub(crate) stream: AcceptedStream,
    pub(crate) peer: Peer,
}

/// The socket of a connection.
#[derive(Debug)]
pub(crate) enum AcceptedStream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    /// Returns the same listener with another descriptor.
    ///
    /// # Errors
    /// The process has no more descriptors.
    pub(crate) fn try_clone(&self) -> io::Result<Listener> {
        let socket = match &self.socket {
            ListenerSocket::Tcp(socket) => ListenerSocket::Tcp(socket.try_clone()?),
            ListenerSocket::Unix(socket) => ListenerSocket::Unix(socket.try_clone()?),
        };
        Ok(Listener {
            socket,
            address: self.address.clone(),
            number: self.number,
        })
    }

    /// Accepts a connection.
    ///
    /// # Errors
    /// `WouldBlock` where none waits, and the errors of `accept(2)`.
    pub(crate) fn accept(&self, config: &Config) -> io::Result<AcceptedConnection> {
        let (stream, remote, local) = match (&self.socket, &self.address) {
            (ListenerSocket::Tcp(socket), ListenAddress::Tcp(address)) => {
                let (stream, remote) = socket.accept()?;
                let local = local_address(&stream, *address);
                (AcceptedStream::Tcp(stream), remote, local)
            }
            (ListenerSocket::Tcp(socket), ListenAddress::Unix(_)) => {
                let (stream, remote) = socket.accept()?;
                (AcceptedStream::Tcp(stream), remote, UNIX_END)
            }
            (ListenerSocket::Unix(socket), _) => {
                (AcceptedStream::Unix(socket.accept()?.0), UNIX_END, UNIX_END)
            }
        };
        let settings = config.listen.get(self.number);
        let trusted = settings.map_or(&config.trusted_proxies, |own| config.trusted_on(own));
        let address = match stream {
            AcceptedStream::Tcp(_) => Some(remote.ip()),
            AcceptedStream::Unix(_) => None,
        };
        let peer = Peer {
            listener: self.number,
            is_on_tls: settings.is_some_and(|own| own.tls),
            has_proxy_header: settings.is_some_and(|own| own.proxy_protocol),
            is_proxy: trusted.trusts(address),
            ..Peer::new(remote, local)
        };
        Ok(AcceptedConnection { stream, peer })
    }
}

/// The address of both ends of a connection over a Unix socket, which has none: whoever is there is
/// on this machine.
const UNIX_END: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The address that a client has connected to.
fn local_address(stream: &TcpStream, listener: SocketAddr) -> SocketAddr {
    if listener.ip().is_unspecified() {
        stream.local_addr().unwrap_or(listener)
    } else {
        listener
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            ListenerSocket::Tcp(socket) => socket.as_fd(),
            ListenerSocket::Unix(socket) => socket.as_fd(),
        }
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}
