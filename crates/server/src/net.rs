//! The network: listeners, transports, time limits, and the peer at the other end.
//!
//! A protocol reads and writes through a [`TimedTransport`] and never names a socket. TLS is
//! another [`Transport`], chosen by listener when a connection is accepted.

mod accept;
mod clients;
mod deadline;
mod encrypted;
pub(crate) mod forwarded;
mod listener;
mod peer;
mod proxy_header;
mod receive_buffer;
mod records;
mod timed;
mod transport;
mod turn;

pub(crate) use self::accept::{AcceptErrors, AcceptTurn, ThreadConnection};
pub(crate) use self::clients::{
    ArrivingHead, ClientStreams, Clients, CountedConnection, FilterMemory, HeldMemory,
    NO_MEMORY_FOR_HEAD, TooManyTunnels, client_address,
};
pub(crate) use self::deadline::{ClientTag, DeadlineWatch, DeadlineWatches, SWEEP, task_waker};
pub(crate) use self::encrypted::EncryptedTransport;
pub(crate) use self::listener::{AcceptedConnection, AcceptedStream, Listener, ListenerSocket};
pub(crate) use self::peer::Peer;
pub(crate) use self::receive_buffer::ReceiveBuffer;
pub(crate) use self::records::RecordMeter;
pub(crate) use self::timed::{
    ConnectionError, LINGER, LINGER_BYTES, PaceLimit, SendError, TimedTransport,
};
pub(crate) use self::transport::{ContentPiece, SHORT_FILE, Transport};
pub(crate) use self::turn::{DecodedChunks, HANDSHAKE_STEPS, TurnSteps, wake_at_next_turn};
