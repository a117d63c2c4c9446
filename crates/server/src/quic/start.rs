//! The things that a front needs for QUIC, made by the supervisor.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};

use howdah_sys::seqpacket::SeqPacket;

use super::datagram_socket::DatagramSocket;
use crate::tls;

/// The mailboxes: as many generations can have connections at once. Further ones share the mailbox
/// of a former generation, whose connections they end.
pub(crate) const SLOTS: usize = 16;

/// Returns the mailbox of the generation with that number.
pub(crate) fn slot(generation: u64) -> u8 {
    (generation % SLOTS as u64) as u8
}

/// Bytes of the secret.
const SECRET: usize = 16 + 32 + 32;

/// The sockets, mailboxes and keys that a front starts with.
#[derive(Debug)]
pub(crate) struct QuicStart {
    pub(crate) listeners: Vec<QuicListener>,
    /// By slot.
    pub(crate) mailboxes: Vec<Mailbox>,
    pub(crate) secret: QuicSecret,
    /// The number of the front's generation.
    pub(crate) generation: u64,
}

/// The sockets of a listener.
#[derive(Debug)]
pub(crate) struct QuicListener {
    /// The listener's place in the configuration.
    pub(crate) number: usize,
    pub(crate) address: SocketAddr,
    pub(crate) sockets: Vec<DatagramSocket>,
}

/// The mailbox where other generations leave packets for one.
#[derive(Debug)]
pub(crate) struct Mailbox {
    pub(crate) reader: SeqPacket,
    pub(crate) writer: SeqPacket,
}

/// The keys of connection ids, of Retry and of stateless resets. All generations have the same.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct QuicSecret([u8; SECRET]);

impl QuicStart {
    /// Every descriptor.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        let sockets = self.listeners.iter().flat_map(|listener| &listener.sockets);
        let ends = |mailbox: &Mailbox| [mailbox.reader.as_raw_fd(), mailbox.writer.as_raw_fd()];
        sockets.map(AsRawFd::as_raw_fd).chain(self.mailboxes.iter().flat_map(ends))
    }
}

impl QuicSecret {
    /// Makes a new secret.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn generate() -> Result<QuicSecret, String> {
        let mut bytes = [0; SECRET];
        tls::fill_random(&mut bytes)?;
        Ok(QuicSecret(bytes))
    }

    /// The secret for another program.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Reads what [`as_bytes`](QuicSecret::as_bytes) has returned; `None` for anything else.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<QuicSecret> {
        bytes.try_into().ok().map(QuicSecret)
    }

    /// The key that hides what a connection id says.
    pub(super) fn route_key(&self) -> &[u8] {
        &self.0[..16]
    }

    /// The key of the tokens that Retry gives.
    pub(super) fn token_key(&self) -> &[u8] {
        &self.0[16..48]
    }

    /// The key of stateless resets.
    pub(super) fn reset_key(&self) -> &[u8] {
        &self.0[48..]
    }
}

/// The secret is not shown.
impl fmt::Debug for QuicSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the secret of QUIC")
    }
}
