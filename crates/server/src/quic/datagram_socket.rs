//! A socket of UDP, with bundles of packets where the system has them.
//!
//! The library finds out whether the system sends bundles (GSO) with a socket that it binds. A
//! front that is confined may bind none: there the library would send each packet by itself.
//! Therefore the supervisor has it find out.

use std::fmt;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use quinn::udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use quinn::{AsyncUdpSocket, UdpPoller};
use tokio::io::Interest;

/// A socket, and what the system can do for it.
#[derive(Debug)]
pub(crate) struct DatagramSocket {
    socket: UdpSocket,
    abilities: Arc<UdpSocketState>,
}

/// A socket that an event loop waits for.
#[derive(Debug)]
struct AwaitedSocket {
    socket: tokio::net::UdpSocket,
    abilities: Arc<UdpSocketState>,
}

/// The wait for room to send.
struct RoomToSend {
    socket: Arc<AwaitedSocket>,
    wait: Option<WaitForRoom>,
}

type WaitForRoom = Pin<Box<dyn Future<Output = io::Result<()>> + Send + Sync>>;

impl DatagramSocket {
    /// Prepares the socket, and finds out what the system can do. The process must be able to bind
    /// another one.
    ///
    /// # Errors
    /// The system refuses what the library needs.
    pub(crate) fn new(socket: UdpSocket) -> io::Result<DatagramSocket> {
        let abilities = Arc::new(UdpSocketState::new(UdpSockRef::from(&socket))?);
        Ok(DatagramSocket { socket, abilities })
    }

    /// The socket for the event loop of this thread.
    ///
    /// # Errors
    /// The process has no more descriptors.
    pub(super) fn awaited(&self) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        Ok(Arc::new(AwaitedSocket {
            socket: tokio::net::UdpSocket::from_std(self.socket.try_clone()?)?,
            abilities: Arc::clone(&self.abilities),
        }))
    }
}

impl AsRawFd for DatagramSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl AsyncUdpSocket for AwaitedSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(RoomToSend { socket: self, wait: None })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let send = || self.abilities.send(UdpSockRef::from(&self.socket), transmit);
        self.socket.try_io(Interest::WRITABLE, send)
    }

    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.socket.poll_recv_ready(context))?;
            let receive = || self.abilities.recv(UdpSockRef::from(&self.socket), buffers, metas);
            // An error belongs to a packet that was sent before, which is repeated.
            if let Ok(count) = self.socket.try_io(Interest::READABLE, receive) {
                return Poll::Ready(Ok(count));
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.abilities.max_gso_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.abilities.gro_segments()
    }

    fn may_fragment(&self) -> bool {
        self.abilities.may_fragment()
    }
}

impl fmt::Debug for RoomToSend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoomToSend")
            .field("socket", &self.socket)
            .finish_non_exhaustive()
    }
}

impl UdpPoller for RoomToSend {
    fn poll_writable(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let RoomToSend { socket, wait } = self.get_mut();
        let present = wait.get_or_insert_with(|| {
            let socket = Arc::clone(socket);
            Box::pin(async move { socket.socket.writable().await })
        });
        let waited = ready!(present.as_mut().poll(context));
        *wait = None;
        Poll::Ready(waited)
    }
}
