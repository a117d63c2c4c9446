//! QUIC (RFC 9000): packets of UDP to connections. The `quinn` crate keeps the protocol's state.
//!
//! ```text
//! datagram_socket   a socket of UDP, with bundles of packets where the system has them
//! start             sockets, keys and mailboxes that the supervisor makes for every front
//! route             connection ids, which name the endpoint that a packet is for
//! exchange          the endpoints of a front, and packets that one gives to another
//! forwarded_packet  a packet on its way to the front of another generation
//! packet_turn       the packets that an endpoint takes in one turn of its event loop
//! socket            an endpoint's packets: its own sockets and what others give it
//! endpoint          one for each thread and listener: handshakes, Retry
//! ```
//! Each thread reads sockets of its own (`SO_REUSEPORT`). The kernel chooses the socket by the
//! client's address, which changes when the client moves; a connection stays where it began. An
//! endpoint that reads a packet of another one gives it to that one. During a reload the sockets
//! are read by the new generation, and packets for connections of a former one go to its mailbox.

mod datagram_socket;
mod endpoint;
mod exchange;
mod forwarded_packet;
mod offer;
mod packet_turn;
mod route;
mod socket;
mod start;

pub(crate) use self::datagram_socket::DatagramSocket;
pub(crate) use self::exchange::PacketExchange;
pub(crate) use self::offer::Offer;
pub(crate) use self::start::{Mailbox, QuicListener, QuicSecret, QuicStart, SLOTS, slot};
