//! The endpoints of a thread: one for each listener that has QUIC.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use aws_lc_rs::{hkdf, hmac};
use howdah_config::{Config, Http3};
use howdah_http::Scheme;
use quinn::{
    BloomTokenLog, Connecting, ConnectionError, Endpoint, EndpointConfig, IdleTimeout, Incoming,
    ServerConfig, TokioRuntime, TransportConfig, ValidationTokenConfig, VarInt,
};

use super::exchange::PacketExchange;
use super::route::ConnectionIds;
use super::socket::EndpointSocket;
use crate::front::{self, FrontThread};
use crate::log::Level;
use crate::net::{AcceptTurn, Peer, ThreadConnection, task_waker};
use crate::{protocols, tls};

/// Unidirectional streams that a client may have open: its control stream, two of QPACK, and some
/// of kinds that nobody knows.
const CONTROL_STREAMS: u32 = 8;
/// Clients that wait for the endpoint to accept, refuse or ignore them. Packets of further ones are
/// dropped before keys are derived for them, and the clients send them again.
const WAITING: usize = 1000;
/// The least time without a packet after which a client counts as gone. A connection without a
/// request is ended earlier, with a word.
const LEAST_IDLE: Duration = Duration::from_secs(30);
/// Packets that keep a connection open while a script runs, in the time in which it would end.
const KEEP_ALIVES: u32 = 3;
/// Connections of one client that may hold `send_buffer` bytes each. Browsers have one for a site.
const FULL_BUFFERS: usize = 32;
/// Bytes that each further connection may hold.
const SMALL_BUFFER: u64 = 64 * 1024;
/// Tokens that clients prove their addresses with in two weeks, and the bytes that remember those
/// which were used. Beyond, some good tokens are taken for used ones: that costs a round trip.
const USED_TOKENS: u64 = 50_000;
const USED_TOKENS_MEMORY: usize = 256 * 1024;

impl FrontThread {
    /// Serves QUIC on every listener that has it.
    pub(crate) fn serve_quic(self: &Rc<Self>) {
        let Some(exchange) = &self.shared.quic else {
            return;
        };
        let handshakes = Rc::default();
        for place in 0..exchange.listeners().len() {
            match self.endpoint(exchange, place) {
                Ok(endpoint) => {
                    let greeting = self.clone().greet(endpoint, place, Rc::clone(&handshakes));
                    tokio::task::spawn_local(greeting);
                }
                Err(why) => {
                    let address = exchange.listeners()[place].address;
                    let what = format!("no HTTP/3 on {address}: {why}");
                    self.shared.log.say(Level::Error, None, &what);
                }
            }
        }
        if self.number == 0 {
            tokio::task::spawn_local(Arc::clone(exchange).take_mail());
        }
    }

    fn endpoint(&self, exchange: &Arc<PacketExchange>, place: usize) -> Result<Endpoint, String> {
        let said = |error: io::Error| error.to_string();
        let listener = &exchange.listeners()[place];
        let threads = self.shared.loads.len();
        let count = listener.sockets.len();
        // With fewer sockets than threads some only send.
        let read = (self.number..count).step_by(threads);
        let own = read.clone().count();
        let sent = (own == 0).then_some(self.number % count.max(1));
        let awaited = |number: usize| listener.sockets[number].awaited();
        let sockets: io::Result<Vec<_>> = read.chain(sent).map(awaited).collect();
        let route = exchange.route(self.number, place);
        let (sockets, exchange) = (sockets.map_err(said)?, Arc::clone(exchange));
        let look = front::look_for_responses;
        let socket = EndpointSocket::new(sockets, own, route, Arc::clone(&exchange), look);
        let secret = exchange.secret();
        let reset = hmac::Key::new(hmac::HMAC_SHA256, secret.reset_key());
        let mut settings = EndpointConfig::new(Arc::new(reset));
        let routes = exchange.routes().clone();
        settings
            .cid_generator(move || Box::new(ConnectionIds { routes: routes.clone(), own: route }));
        let sessions = tls::quic_sessions(&self.shared, listener.number, listener.address.ip())?;
        let tokens = hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, secret.token_key());
        let mut server = ServerConfig::new(sessions, Arc::new(tokens));
        server.transport_config(Arc::new(transport(self.config())));
        server.max_incoming(WAITING);
        let mut proofs = ValidationTokenConfig::default();
        proofs.log(Arc::new(BloomTokenLog::new_expected_items(USED_TOKENS_MEMORY, USED_TOKENS)));
        server.validation_token_config(proofs);
        let runtime = Arc::new(TokioRuntime);
        Endpoint::new_with_abstract_socket(settings, Some(server), Arc::new(socket), runtime)
            .map_err(said)
    }

    /// Accepts the connections of an endpoint.
    async fn greet(self: Rc<Self>, endpoint: Endpoint, place: usize, handshakes: Rc<Cell<u64>>) {
        let mut turn = AcceptTurn::default();
        while let Some(incoming) = endpoint.accept().await {
            let limits = &self.config().http3;
            let is_validated = incoming.remote_address_validated();
            if self.closes_idle() || self.refuses_requests() {
                incoming.refuse();
            } else if self.is_draining() && !is_validated {
                // The client sends the packet again, and the new generation gets it.
                incoming.ignore();
            } else if self.connections() >= self.shared.most_connections && !self.make_room() {
                self.complain_of_limit();
                incoming.refuse();
            } else if handshakes.get() >= limits.handshakes {
                self.counters().count_limit("http3", "handshakes");
                incoming.ignore();
            } else if handshakes.get() >= limits.retry_from && !is_validated {
                self.counters().count_limit("http3", "retry_from");
                // It fails for validated addresses alone.
                let _ = incoming.retry();
            } else {
                self.welcome(incoming, place, &handshakes);
            }
            turn.take().await;
        }
    }

    fn welcome(self: &Rc<Self>, incoming: Incoming, place: usize, handshakes: &Rc<Cell<u64>>) {
        self.load().fetch_add(1, Ordering::Relaxed);
        self.counters().count_connection();
        let counted = ThreadConnection(self.clone());
        let handshake = Handshake::new(handshakes);
        // Later the address may be one that another has written into a packet.
        let (remote, is_proven) = (incoming.remote_address(), incoming.remote_address_validated());
        tokio::task::spawn_local(async move {
            let thread = &counted.0;
            thread.handshake_turns().take().await;
            let connection = match incoming.accept() {
                Ok(connecting) => finish(thread, connecting, is_proven).await,
                Err(error) => Err(error.to_string()),
            };
            drop(handshake);
            let connection = match connection {
                Ok(connection) => connection,
                Err(why) => {
                    let what = format!("the QUIC handshake failed: {why}");
                    return thread.shared.log.say_of_client(Level::Info, None, remote, &what);
                }
            };
            let Some(peer) = peer(thread, &connection, remote, place) else {
                return;
            };
            let Ok(admitted) = thread.admit_connection(&peer) else {
                return;
            };
            if admitted.as_ref().is_some_and(|counted| counted.number() > FULL_BUFFERS) {
                connection.set_send_window(SMALL_BUFFER);
            }
            Box::pin(protocols::serve_quic(thread.clone(), connection, peer)).await;
        });
    }
}

/// Waits for the end of a handshake, or with early data for the client's first message. As one over
/// TCP, it may be given up to make room.
async fn finish(
    thread: &FrontThread,
    connecting: Connecting,
    is_proven: bool,
) -> Result<quinn::Connection, String> {
    let waker = task_waker().await;
    let watch = thread.watches().add(waker);
    watch.arm(thread.config().limits.handshake_timeout);
    watch.set_idle(true);
    let mut connected = pin!(connected(connecting, is_proven));
    poll_fn(|context| match connected.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(result.map_err(tls::quic_failure)),
        Poll::Pending if watch.is_expired() => {
            Poll::Ready(Err("it took longer than `handshake_timeout`".to_owned()))
        }
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// `is_proven`: the client has shown that it gets what is sent to its address. Otherwise early data
/// waits for the handshake, which shows that, too.
async fn connected(
    mut connecting: Connecting,
    is_proven: bool,
) -> Result<quinn::Connection, ConnectionError> {
    let facts = connecting.handshake_data().await?;
    if is_proven && tls::quic_takes_early_data(facts) {
        match connecting.into_0rtt() {
            Ok((connection, _)) => return Ok(connection),
            Err(unchanged) => connecting = unchanged,
        }
    }
    connecting.await
}

/// Returns the client of a connection that began at `remote`, with the facts about its encryption.
fn peer(
    thread: &FrontThread,
    connection: &quinn::Connection,
    remote: SocketAddr,
    place: usize,
) -> Option<Peer> {
    let listener = thread.shared.quic.as_ref()?.listeners().get(place)?;
    let config = thread.config();
    let settings = config.listen.get(listener.number)?;
    let ip = connection.local_ip().unwrap_or(listener.address.ip());
    let local = SocketAddr::new(ip.to_canonical(), listener.address.port());
    Some(Peer {
        listener: listener.number,
        is_on_tls: true,
        is_proxy: config.trusted_on(settings).trusts(Some(remote.ip())),
        scheme: Scheme::Https,
        tls: Some(Arc::new(tls::quic_established(connection)?)),
        ..Peer::new(remote, local)
    })
}

fn transport(config: &Config) -> TransportConfig {
    let number = |value: u64| VarInt::from_u64(value).unwrap_or(VarInt::MAX);
    let Http3 {
        streams,
        stream_window,
        connection_window,
        send_buffer,
        ..
    } = config.http3;
    let idle = config.limits.keep_alive_timeout.max(LEAST_IDLE);
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(number(streams))
        .max_concurrent_uni_streams(CONTROL_STREAMS.into())
        .stream_receive_window(number(stream_window))
        .receive_window(number(connection_window))
        .send_window(send_buffer)
        .max_idle_timeout(Some(IdleTimeout::try_from(idle).unwrap_or(VarInt::MAX.into())))
        .keep_alive_interval(Some(idle / KEEP_ALIVES))
        .datagram_receive_buffer_size(None);
    transport
}

/// A handshake in the count of its thread.
struct Handshake(Rc<Cell<u64>>);

impl Handshake {
    fn new(count: &Rc<Cell<u64>>) -> Handshake {
        count.set(count.get() + 1);
        Handshake(Rc::clone(count))
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
