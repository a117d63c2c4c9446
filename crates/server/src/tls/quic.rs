//! The handshakes of QUIC, whose sessions the `quinn` crate leads.
//!
//! One setting serves all sites of a listener: the site is found by the name in the client's first
//! message, when its certificate is chosen. Sites that ask for clients' certificates are left out,
//! because that demand would have to be known earlier; their clients use HTTP/1 and HTTP/2.

use std::any::Any;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::crypto::{
    self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session,
    UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, Side, TransportError};
use rustls::server::{ClientHello, ProducesTickets, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{CipherSuite, ServerConfig, version};

use super::established::Established;
use super::facts;
use super::handshake::site_for;
use super::policy::provider;
use super::tickets::SiteTickets;
use crate::front::Shared;

/// HTTP/3 in ALPN.
const HTTP3: &[u8] = b"h3";

/// Returns what begins the sessions of a listener's connections. `address` is the listener's own.
///
/// # Errors
/// The reason why there can be none.
pub(crate) fn quic_sessions(
    shared: &Arc<Shared>,
    listener: usize,
    address: IpAddr,
) -> Result<Arc<dyn crypto::ServerConfig>, String> {
    let tls = shared.tls.as_ref().ok_or("no site has a certificate")?;
    let tickets = SiteTickets {
        tickets: Arc::clone(&tls.tickets),
        demands: Vec::new(),
    };
    let notes = Arc::new(Notes::default());
    let site = SiteOfClient {
        shared: Arc::clone(shared),
        listener,
        address,
    };
    let site = Arc::new(site);
    let resolver = NotingResolver { site: Arc::clone(&site), notes };
    let mut settings = ServerConfig::builder_with_provider(Arc::clone(provider()))
        .with_protocol_versions(&[&version::TLS13])
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(resolver));
    settings.alpn_protocols = vec![HTTP3.to_vec()];
    let keys = QuicServerConfig::try_from(settings.clone()).map_err(|error| error.to_string())?;
    Ok(Arc::new(Sessions {
        keys: Arc::new(keys),
        settings,
        tickets: Arc::new(tickets),
        site,
    }))
}

/// Returns the facts about a connection whose handshake is over.
pub(crate) fn quic_established(connection: &quinn::Connection) -> Option<Established> {
    let notes = connection.handshake_data()?.downcast::<Arc<Notes>>().ok()?;
    let (cipher, cipher_bits) = facts::cipher(notes.cipher.get().copied());
    let facts = howdah_http::Tls {
        protocol: "TLSv1.3",
        cipher,
        cipher_bits,
        is_resumed: notes.is_resumed.load(Ordering::Relaxed),
        client: Default::default(),
        server_name: notes.name.get().cloned(),
    };
    Some(Established {
        facts,
        site: *notes.site.get()?,
        alternative: None,
    })
}

/// The facts that a handshake has shown.
#[derive(Debug, Default)]
struct Notes {
    name: OnceLock<Box<str>>,
    site: OnceLock<usize>,
    cipher: OnceLock<CipherSuite>,
    is_resumed: AtomicBool,
}

/// Begins sessions.
struct Sessions {
    /// For all that needs no session.
    keys: Arc<QuicServerConfig>,
    settings: ServerConfig,
    tickets: Arc<SiteTickets>,
    site: Arc<SiteOfClient>,
}

impl crypto::ServerConfig for Sessions {
    fn initial_keys(&self, version: u32, id: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.keys.initial_keys(version, id)
    }

    fn retry_tag(&self, version: u32, id: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.keys.retry_tag(version, id, packet)
    }

    fn start_session(
        self: Arc<Self>,
        version: u32,
        parameters: &TransportParameters,
    ) -> Box<dyn Session> {
        let notes = Arc::new(Notes::default());
        let mut settings = self.settings.clone();
        settings.cert_resolver = Arc::new(NotingResolver {
            site: Arc::clone(&self.site),
            notes: Arc::clone(&notes),
        });
        settings.ticketer = Arc::new(NotingTickets {
            tickets: Arc::clone(&self.tickets),
            notes: Arc::clone(&notes),
        });
        let settings = QuicServerConfig::try_from(settings);
        // The same ciphers were accepted before.
        let settings = settings.map_or_else(|_| Arc::clone(&self.keys), Arc::new);
        let session = settings.start_session(version, parameters);
        Box::new(NotedSession { session, notes })
    }
}

/// Finds the site of a client.
struct SiteOfClient {
    shared: Arc<Shared>,
    listener: usize,
    address: IpAddr,
}

/// Chooses the certificate of a connection.
struct NotingResolver {
    site: Arc<SiteOfClient>,
    notes: Arc<Notes>,
}

impl ResolvesServerCert for NotingResolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let SiteOfClient { shared, listener, address } = &*self.site;
        let name = hello.server_name();
        let tls = shared.tls.as_ref()?;
        let site = site_for(&shared.sites, tls, *listener, *address, name).ok()?;
        if shared.config.sites.get(site)?.tls.client_ca.is_some() {
            return None;
        }
        // Unless told otherwise the library takes the client's first choice.
        let known = |suite: &&CipherSuite| {
            let suites = &provider().cipher_suites;
            suites.iter().any(|own| own.tls13().is_some() && own.suite() == **suite)
        };
        let _ = hello
            .cipher_suites()
            .iter()
            .find(known)
            .map(|suite| self.notes.cipher.set(*suite));
        let _ = self.notes.site.set(site);
        let _ = name.map(|name| self.notes.name.set(name.into()));
        tls.certificates.choose(site, name, hello.signature_schemes())
    }
}

impl fmt::Debug for NotingResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.notes.fmt(f)
    }
}

/// The tickets of a connection.
#[derive(Debug)]
struct NotingTickets {
    tickets: Arc<SiteTickets>,
    notes: Arc<Notes>,
}

impl ProducesTickets for NotingTickets {
    fn enabled(&self) -> bool {
        self.tickets.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.tickets.lifetime()
    }

    fn encrypt(&self, state: &[u8]) -> Option<Vec<u8>> {
        self.tickets.encrypt(state)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let state = self.tickets.decrypt(ticket)?;
        self.notes.is_resumed.store(true, Ordering::Relaxed);
        Some(state)
    }
}

/// A session that knows what its handshake has shown.
struct NotedSession {
    session: Box<dyn Session>,
    notes: Arc<Notes>,
}

impl Session for NotedSession {
    fn initial_keys(&self, id: &ConnectionId, side: Side) -> Keys {
        self.session.initial_keys(id, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.session.handshake_data()?;
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
        self.session.read_handshake(bytes)
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
