//! A session of QUIC: the library's own, with notes of its handshake. The settings may depend on
//! the client's first message.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use quinn_proto::crypto::{
    ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::server::Acceptor;

use super::{HandshakeNotes, SessionFactory, UNRECOGNIZED_NAME, own_number};
use crate::tls::policy::QuicSite;

/// A session that knows what its handshake has shown.
pub(super) struct NotedSession {
    pub(super) session: Box<dyn Session>,
    pub(super) notes: Arc<HandshakeNotes>,
    /// The choice of the settings, until the client's first message is complete; `None` also where
    /// no site has demands of its own.
    pub(super) awaited: Option<AwaitedHello>,
}

/// A session whose first message is not complete.
pub(super) struct AwaitedHello {
    pub(super) sessions: Arc<SessionFactory>,
    pub(super) version: u32,
    pub(super) parameters: TransportParameters,
    /// The message so far, which QUIC bounds.
    pub(super) message: Vec<u8>,
}

impl AwaitedHello {
    /// Takes bytes of the first message. Returns whether the message is complete.
    fn take(&mut self, bytes: &[u8]) -> bool {
        self.message.extend_from_slice(bytes);
        match self.message.first_chunk() {
            Some(&[_, high, middle, low]) => {
                let length = u32::from_be_bytes([0, high, middle, low]) as usize;
                self.message.len() >= 4 + length
            }
            None => false,
        }
    }

    /// Returns the site that the client asks for, if that site has demands of its own, with them.
    fn own_site(&self) -> Option<(usize, QuicSite)> {
        let mut acceptor = Acceptor::default();
        for part in self.message.chunks(LONGEST_RECORD) {
            let length = u16::try_from(part.len()).ok()?.to_be_bytes();
            let record = [&[HANDSHAKE, 3, 1], &length[..], part].concat();
            acceptor.read_tls(&mut &record[..]).ok()?;
        }
        // The session itself answers a message that cannot be read.
        let accepted = acceptor.accept().ok()??;
        let (tls, site) = self.sessions.site.find(accepted.client_hello().server_name()).ok()?;
        let demands = tls.of_quic(site)?;
        own_number(site, &demands).map(|number| (number, demands))
    }
}

/// The type of a record with handshake messages. In QUIC they come without records.
const HANDSHAKE: u8 = 22;
/// The most bytes of a record (RFC 8446 §5.1).
const LONGEST_RECORD: usize = 1 << 14;

impl NotedSession {
    /// Gives the session bytes of the handshake, once its settings are known.
    fn read(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        let Some(mut awaited) = self.awaited.take() else {
            return self.session.read_handshake(bytes);
        };
        if !awaited.take(bytes) {
            self.awaited = Some(awaited);
            return Ok(false);
        }
        if let Some(site) = awaited.own_site() {
            let AwaitedHello { sessions, version, parameters, .. } = &awaited;
            (self.session, self.notes) = sessions.begin(Some(site), *version, parameters);
        }
        self.session.read_handshake(&awaited.message)
    }
}

impl Session for NotedSession {
    fn initial_keys(&self, id: &ConnectionId, side: Side) -> Keys {
        self.session.initial_keys(id, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.session.handshake_data()?;
        let takes_early_data = self.session.early_crypto().is_some();
        self.notes.takes_early_data.store(takes_early_data, Ordering::Relaxed);
        Some(Box::new(Arc::clone(&self.notes)))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.session.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.session.early_crypto()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.session.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        let read = self.read(bytes);
        match self.notes.missing.get().filter(|_| read.is_err()) {
            // The library has another alert for this, which says nothing of names.
            Some(missing) => Err(TransportError {
                code: TransportErrorCode::crypto(UNRECOGNIZED_NAME),
                frame: None,
                reason: missing.to_string(),
            }),
            None => read,
        }
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.session.transport_parameters()
    }

    fn write_handshake(&mut self, bytes: &mut Vec<u8>) -> Option<Keys> {
        self.session.write_handshake(bytes)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        self.session.next_1rtt_keys()
    }

    fn is_valid_retry(&self, id: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.session.is_valid_retry(id, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.session.export_keying_material(output, label, context)
    }
}
