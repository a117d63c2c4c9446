//! The packets of one endpoint: those that its own sockets receive, and those that others give it.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use quinn::udp::{EcnCodepoint, RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};

use super::exchange::PacketExchange;
use super::forwarded_packet::ForwardedPacket;
use super::route::Route;

/// The socket that an endpoint sees.
#[derive(Debug)]
pub(super) struct EndpointSocket {
    /// The first one sends. Empty never.
    sockets: Vec<Arc<dyn AsyncUdpSocket>>,
    /// Those that this endpoint reads; the others belong to other threads.
    own: usize,
    /// The socket that is read first, so that none waits for another.
    turn: AtomicUsize,
    route: Route,
    exchange: Arc<PacketExchange>,
}

impl EndpointSocket {
    /// The socket of the endpoint at `route`, which reads the first `own` of `sockets`.
    pub(super) fn new(
        sockets: Vec<Arc<dyn AsyncUdpSocket>>,
        own: usize,
        route: Route,
        exchange: Arc<PacketExchange>,
    ) -> EndpointSocket {
        let turn = AtomicUsize::new(0);
        EndpointSocket { sockets, own, turn, route, exchange }
    }

    /// Keeps the packets in `buffer` that are this endpoint's or belong to no connection yet, and
    /// gives the others to theirs.
    fn keep_own(&self, buffer: &mut [u8], meta: &mut RecvMeta) {
        let (all, mut kept, mut start) = (meta.len, 0, 0);
        while start < all {
            let end = all.min(start + meta.stride.max(1));
            match self.exchange.routes().of_packet(&buffer[start..end]) {
                Some(route) if route != self.route => {
                    let forwarded = ForwardedPacket {
                        remote: meta.addr,
                        local: meta.dst_ip,
                        congestion: meta.ecn.map_or(0, |congestion| congestion as u8),
                        packet: buffer[start..end].to_vec(),
                    };
                    self.exchange.deliver(route, forwarded);
                }
                _ => {
                    buffer.copy_within(start..end, kept);
                    kept += end - start;
                }
            }
            start = end;
        }
        meta.len = kept;
    }

    /// Takes packets that others gave, as many as there are buffers.
    fn take_forwarded(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> usize {
        let mut count = 0;
        for (buffer, meta) in buffers.iter_mut().zip(metas) {
            let Poll::Ready(forwarded) = self.exchange.poll_forwarded(self.route, context) else {
                break;
            };
            let length = forwarded.packet.len().min(buffer.len());
            buffer[..length].copy_from_slice(&forwarded.packet[..length]);
            *meta = RecvMeta {
                addr: forwarded.remote,
                len: length,
                stride: length,
                ecn: EcnCodepoint::from_bits(forwarded.congestion),
                dst_ip: forwarded.local,
            };
            count += 1;
        }
        count
    }
}

impl AsyncUdpSocket for EndpointSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.sockets[0]).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.sockets[0].try_send(transmit)
    }

    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let forwarded = self.take_forwarded(context, buffers, metas);
        if forwarded > 0 {
            return Poll::Ready(Ok(forwarded));
        }
        if self.own == 0 || !self.exchange.is_reading() {
            return Poll::Pending;
        }
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        for number in first..first.saturating_add(self.own) {
            let socket = &self.sockets[number % self.own];
            let received = socket.poll_recv(context, buffers, metas);
            if received.is_pending() {
                continue;
            }
            let count = ready!(received)?;
            for (buffer, meta) in buffers.iter_mut().zip(&mut *metas).take(count) {
                self.keep_own(buffer, meta);
            }
            return Poll::Ready(Ok(count));
        }
        Poll::Pending
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.sockets[0].local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.sockets[0].max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.sockets[0].max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.sockets[0].may_fragment()
    }
}
