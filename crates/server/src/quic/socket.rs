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
use super::packet_turn::PacketTurn;
use super::route::Route;

/// The socket that an endpoint sees.
#[derive(Debug)]
pub(super) struct EndpointSocket {
    /// The first one sends. Empty never.
    sockets: Vec<Arc<dyn AsyncUdpSocket>>,
    /// The number of sockets that this endpoint reads; the others belong to other threads.
    own: usize,
    /// The socket that is read first, so that none waits for another.
    first: AtomicUsize,
    packets: PacketTurn,
    route: Route,
    exchange: Arc<PacketExchange>,
}

impl EndpointSocket {
    /// The socket of the endpoint at `route`, which reads the first `own` of `sockets`. While
    /// packets keep the thread from sleeping, `between` is called before each turn of its event
    /// loop.
    pub(super) fn new(
        sockets: Vec<Arc<dyn AsyncUdpSocket>>,
        own: usize,
        route: Route,
        exchange: Arc<PacketExchange>,
        between: fn(),
    ) -> EndpointSocket {
        EndpointSocket {
            sockets,
            own,
            first: AtomicUsize::new(0),
            packets: PacketTurn::new(between),
            route,
            exchange,
        }
    }

    /// Keeps the packets in `buffer` that are this endpoint's or belong to no connection yet, and
    /// gives the others to theirs. Returns the number of those that belong to none.
    fn keep_own(&self, buffer: &mut [u8], meta: &mut RecvMeta) -> usize {
        let (all, mut kept, mut start, mut strangers) = (meta.len, 0, 0, 0);
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
                route => {
                    strangers += usize::from(route.is_none());
                    buffer.copy_within(start..end, kept);
                    kept += end - start;
                }
            }
            start = end;
        }
        meta.len = kept;
        strangers
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
        ready!(self.packets.poll_more(context));
        let forwarded = self.take_forwarded(context, buffers, metas);
        if forwarded > 0 {
            self.packets.count(forwarded, 0);
            return Poll::Ready(Ok(forwarded));
        }
        if self.own == 0 || !self.exchange.is_reading() {
            return Poll::Pending;
        }
        let room = self.packets.room(buffers.len());
        let first = self.first.fetch_add(1, Ordering::Relaxed);
        for number in first..first.saturating_add(self.own) {
            let socket = &self.sockets[number % self.own];
            let received = socket.poll_recv(context, &mut buffers[..room], metas);
            if received.is_pending() {
                continue;
            }
            let count = ready!(received)?;
            let messages = buffers.iter_mut().zip(&mut *metas).take(count);
            let strangers = messages.map(|(buffer, meta)| self.keep_own(buffer, meta)).sum();
            self.packets.count(count, strangers);
            return Poll::Ready(Ok(count));
        }
        self.packets.found_none();
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::net::UdpSocket;

    use quinn::udp::{UdpSockRef, UdpSocketState};
    use quinn_proto::ConnectionIdGenerator;

    use super::super::datagram_socket::DatagramSocket;
    use super::super::packet_turn::STRANGERS;
    use super::super::route::ConnectionIds;
    use super::super::start::{QuicListener, QuicSecret, QuicStart};
    use super::*;

    /// Bytes of each packet.
    const PACKET: usize = 1200;

    /// A packet with a short header for the connection with this id.
    fn packet(id: &[u8], content: u8) -> Vec<u8> {
        let mut packet = [&[0x40], id].concat();
        packet.resize(PACKET, content);
        packet
    }

    fn exchange(address: SocketAddr) -> Arc<PacketExchange> {
        let start = QuicStart {
            listeners: vec![QuicListener { number: 0, address, sockets: Vec::new() }],
            mailboxes: Vec::new(),
            secret: QuicSecret::generate().unwrap(),
            generation: 1,
        };
        let exchange = PacketExchange::new(start, 2).unwrap();
        exchange.set_reading(true);
        Arc::new(exchange)
    }

    /// Sends and receives packets in one bundle. Returns whether the system knows bundles.
    async fn bundled() -> bool {
        let bind = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let (socket, sender) = (bind(), bind());
        let state = UdpSocketState::new(UdpSockRef::from(&sender)).unwrap();
        if state.max_gso_segments() < 2 || state.gro_segments() < 2 {
            return false;
        }
        let address = socket.local_addr().unwrap();
        let exchange = exchange(address);
        let (own, other) = (exchange.route(0, 0), exchange.route(1, 0));
        let sockets = vec![DatagramSocket::new(socket).unwrap().awaited().unwrap()];
        let endpoint = EndpointSocket::new(sockets, 1, own, Arc::clone(&exchange), || ());
        assert!(endpoint.max_receive_segments() > 1 && endpoint.max_transmit_segments() > 1);
        let id = |own| ConnectionIds { routes: exchange.routes().clone(), own }.generate_cid();
        let packets = [packet(&id(own), 1), packet(&id(other), 2), packet(&id(own), 3)];
        let transmit = Transmit {
            destination: address,
            ecn: None,
            contents: &packets.concat(),
            segment_size: Some(PACKET),
            src_ip: None,
        };
        state.send(UdpSockRef::from(&sender), &transmit).unwrap();
        let (mut room, mut metas) = (vec![0; 1 << 16], [RecvMeta::default()]);
        let received = poll_fn(|context| {
            endpoint.poll_recv(context, &mut [IoSliceMut::new(&mut room)], &mut metas)
        })
        .await;
        let [RecvMeta { len, stride, .. }] = metas;
        assert_eq!((received.unwrap(), len, stride), (1, 2 * PACKET, PACKET));
        assert!(room[..len] == [&packets[0][..], &packets[2]].concat());
        let given = poll_fn(|context| exchange.poll_forwarded(other, context)).await;
        assert!(given.packet == packets[1]);
        true
    }

    thread_local! {
        static LOOKS: Cell<usize> = const { Cell::new(0) };
    }

    /// Takes packets until there are no more for now, as the library does, and counts them.
    async fn taken_at_once(endpoint: &EndpointSocket) -> usize {
        let mut rooms = vec![[0; 2 * PACKET]; 32];
        let mut count = 0;
        poll_fn(|context| {
            loop {
                let mut buffers: Vec<_> = rooms.iter_mut().map(|r| IoSliceMut::new(r)).collect();
                let mut metas = [RecvMeta::default(); 32];
                match endpoint.poll_recv(context, &mut buffers, &mut metas) {
                    Poll::Ready(received) => count += received.unwrap(),
                    Poll::Pending => return Poll::Ready(count),
                }
            }
        })
        .await
    }

    /// Returns how many of `count` packets are taken in each turn of the event loop.
    async fn taken_in_turns(
        count: usize,
        packet: impl Fn(&PacketExchange) -> Vec<u8>,
    ) -> Vec<usize> {
        let bind = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let (socket, sender) = (bind(), bind());
        let address = socket.local_addr().unwrap();
        let exchange = exchange(address);
        let sockets = vec![DatagramSocket::new(socket).unwrap().awaited().unwrap()];
        let route = exchange.route(0, 0);
        let between = || LOOKS.set(LOOKS.get() + 1);
        let endpoint = EndpointSocket::new(sockets, 1, route, Arc::clone(&exchange), between);
        for _ in 0..count {
            sender.send_to(&packet(&exchange), address).unwrap();
        }
        let mut turns = Vec::new();
        while turns.iter().sum::<usize>() < count {
            match taken_at_once(&endpoint).await {
                0 => {}
                taken => turns.push(taken),
            }
            tokio::task::yield_now().await;
        }
        turns
    }

    #[test]
    fn a_flood_of_first_packets_leaves_the_event_loop_time_for_others() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let first = |_: &PacketExchange| [&[0xc0, 0, 0, 0, 1, 8], &[7; 8][..], &[0; 30]].concat();
        let turns = runtime.block_on(taken_in_turns(60, first));
        assert!(turns[0] <= 32, "{turns:?}");
        assert!(turns[1..].iter().all(|taken| *taken <= STRANGERS), "{turns:?}");
        assert!(LOOKS.get() >= turns.len() - 1, "a thread that never sleeps looks for responses");
        let own = |exchange: &PacketExchange| {
            let own = exchange.route(0, 0);
            let id = ConnectionIds { routes: exchange.routes().clone(), own }.generate_cid();
            [&[0x40], &*id, &[0; 30]].concat()
        };
        let turns = runtime.block_on(taken_in_turns(60, own));
        assert_eq!(turns, [60], "packets of connections are cheap");
    }

    #[test]
    fn a_bundle_is_received_at_once_and_each_packet_goes_to_its_endpoint() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        if !runtime.block_on(bundled()) {
            howdah_skip::skip!("the kernel here has no bundles of UDP packets");
        }
    }
}
