//! The handshakes of QUIC, whose sessions the `quinn` crate leads.
//!
//! One setting serves the sites of a listener: the site is found by the name in the client's first
//! message, when its certificate is chosen. A site that asks its clients for certificates, or
//! accepts early data, has a setting of its own, which must be known earlier. Where there is such a
//! site, the first message is kept until it is complete, and read before the session gets it.

mod session;

use std::any::Any;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use howdah_config::SiteTls;
use howdah_http::CertificateVariables;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::crypto::{self, Keys, ServerConfig as _, Session, UnsupportedVersion};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, TransportError, TransportErrorCode};
use rustls::pki_types::CertificateDer;
use rustls::server::{ClientHello, ProducesTickets, ResolvesServerCert, StoresServerSessions};
use rustls::sign::CertifiedKey;
use rustls::{CipherSuite, ServerConfig, version};

use self::session::{AwaitedHello, NotedSession};
use super::certificates::NoCertificate;
use super::established::EstablishedTls;
use super::handshake::site_for;
use super::policy::{QuicSite, TlsPolicy, shows_others};
use super::settings::{accept_early_data, provider};
use super::tickets::{SiteTickets, Tickets};
use super::{certificate_variables, client_sessions, facts};
use crate::front::FrontShared;
use crate::protocols;

/// The alert for a name without a certificate (RFC 6066 §3).
const UNRECOGNIZED_NAME: u8 = 112;

/// Returns what begins the sessions of a listener's connections. `address` is the listener's own.
///
/// # Errors
/// The reason why there can be none.
pub(crate) fn quic_sessions(
    shared: &Arc<FrontShared>,
    listener: usize,
    address: IpAddr,
) -> Result<Arc<dyn crypto::ServerConfig>, String> {
    let tickets = &shared.tls.as_ref().ok_or("no site has a certificate")?.tickets;
    let usual = SessionSettings::of(&QuicSite::Usual, tickets)?;
    let keys = QuicServerConfig::try_from(usual.tls.clone()).map_err(|error| error.to_string())?;
    let site = SiteOfClient {
        shared: Arc::clone(shared),
        listener,
        address,
    };
    let differs = |tls: &SiteTls| tls.client_ca.is_some() || tls.early_data;
    Ok(Arc::new(SessionFactory {
        keys: Arc::new(keys),
        usual,
        differ: shared.config.sites.iter().any(|site| differs(&site.tls)),
        tickets: Arc::clone(tickets),
        site: Arc::new(site),
    }))
}

/// Returns why a handshake failed. A client without a certificate for its name is told of as over
/// TCP.
pub(crate) fn quic_failure(error: quinn::ConnectionError) -> String {
    match error {
        quinn::ConnectionError::TransportError(TransportError { code, reason, .. })
            if code == TransportErrorCode::crypto(UNRECOGNIZED_NAME) =>
        {
            reason
        }
        other => other.to_string(),
    }
}

/// Returns the facts about a connection whose handshake is over. `None` while it is not over.
pub(crate) fn quic_established(connection: &quinn::Connection) -> Option<EstablishedTls> {
    let notes = connection.handshake_data()?.downcast::<Arc<HandshakeNotes>>().ok()?;
    let (cipher, cipher_bits) = facts::cipher(notes.cipher.get().copied());
    let facts = howdah_http::Tls {
        protocol: "TLSv1.3",
        cipher,
        cipher_bits,
        is_resumed: notes.is_resumed.load(Ordering::Relaxed),
        session: facts::session_id(),
        library: facts::LIBRARY,
        server_name: notes.name.get().cloned(),
        server: notes.server.get().cloned(),
        client: client_of(connection),
    };
    Some(EstablishedTls {
        facts,
        site: *notes.site.get()?,
        alternative: None,
    })
}

/// Returns whether early data of a client is accepted, whose handshake has shown `facts`.
pub(crate) fn quic_takes_early_data(facts: Box<dyn Any>) -> bool {
    let notes = facts.downcast::<Arc<HandshakeNotes>>();
    notes.is_ok_and(|notes| notes.takes_early_data.load(Ordering::Relaxed))
}

/// Returns the variables of the certificate that the client has shown.
fn client_of(connection: &quinn::Connection) -> Option<Box<CertificateVariables>> {
    let chain = connection.peer_identity()?.downcast::<Vec<CertificateDer>>().ok()?;
    certificate_variables::of_client(&chain).map(Box::new)
}

/// The facts that a handshake has shown.
#[derive(Debug, Default)]
struct HandshakeNotes {
    name: OnceLock<Box<str>>,
    site: OnceLock<usize>,
    /// The certificate that was chosen.
    server: OnceLock<Arc<CertificateVariables>>,
    cipher: OnceLock<CipherSuite>,
    is_resumed: AtomicBool,
    /// The client may send early data.
    takes_early_data: AtomicBool,
    /// There is no certificate for the client.
    missing: OnceLock<NoCertificate>,
}

/// The settings of sessions, without what each session has for itself.
struct SessionSettings {
    tls: ServerConfig,
    /// `None`: the sessions are kept.
    tickets: Option<Arc<dyn ProducesTickets>>,
}

impl SessionSettings {
    fn of(site: &QuicSite, tickets: &Arc<Tickets>) -> Result<SessionSettings, String> {
        let builder = ServerConfig::builder_with_provider(Arc::clone(provider()))
            .with_protocol_versions(&[&version::TLS13])
            .map_err(|error| error.to_string())?;
        let of_site = |demands| {
            let tickets = Arc::clone(tickets);
            Arc::new(SiteTickets { tickets, demands })
        };
        let (builder, own_tickets) = match site {
            QuicSite::Certificates { check, demands } => {
                let (verifier, tickets) =
                    client_sessions::of_connection(check, &of_site(demands.to_vec()));
                (builder.with_client_cert_verifier(verifier), tickets)
            }
            _ => (builder.with_no_client_auth(), of_site(Vec::new()) as _),
        };
        // Each session has a resolver of its own.
        let mut tls = builder.with_cert_resolver(Arc::new(NoCertificates));
        tls.alpn_protocols = vec![protocols::ON_QUIC.into()];
        let tickets = match site {
            QuicSite::EarlyData(sessions) => {
                // QUIC bounds early data by its own windows (RFC 9001 §4.6.1).
                accept_early_data(&mut tls, Arc::clone(sessions), u32::MAX);
                None
            }
            _ => Some(own_tickets),
        };
        Ok(SessionSettings { tls, tickets })
    }
}

/// Begins sessions.
struct SessionFactory {
    /// For all that needs no session.
    keys: Arc<QuicServerConfig>,
    /// For sites without demands of their own.
    usual: SessionSettings,
    /// Whether there is a site with demands of its own.
    differ: bool,
    tickets: Arc<Tickets>,
    site: Arc<SiteOfClient>,
}

impl SessionFactory {
    /// Begins a session with a site that has demands of its own; `None`: with another one.
    fn begin(
        &self,
        site: Option<(usize, QuicSite)>,
        version: u32,
        parameters: &TransportParameters,
    ) -> (Box<dyn Session>, Arc<HandshakeNotes>) {
        let own = site.and_then(|(number, demands)| {
            Some((number, SessionSettings::of(&demands, &self.tickets).ok()?))
        });
        // A site whose demands cannot be made gets no session: the resolver has no certificate.
        let site = own.as_ref().map(|(number, _)| *number);
        let own = own.as_ref().map_or(&self.usual, |(_, own)| own);
        let notes = Arc::new(HandshakeNotes::default());
        let mut tls = own.tls.clone();
        tls.cert_resolver = Arc::new(NotingResolver {
            site: Arc::clone(&self.site),
            own: site,
            notes: Arc::clone(&notes),
        });
        match &own.tickets {
            Some(tickets) => {
                tls.ticketer = Arc::new(NotingTickets {
                    tickets: Arc::clone(tickets),
                    notes: Arc::clone(&notes),
                });
            }
            None => {
                tls.session_storage = Arc::new(NotingSessions {
                    sessions: Arc::clone(&tls.session_storage),
                    notes: Arc::clone(&notes),
                });
            }
        }
        let tls = QuicServerConfig::try_from(tls);
        // The same ciphers were accepted before.
        let tls = tls.map_or_else(|_| Arc::clone(&self.keys), Arc::new);
        (tls.start_session(version, parameters), notes)
    }
}

impl crypto::ServerConfig for SessionFactory {
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
        let (session, notes) = self.begin(None, version, parameters);
        let awaited = self.differ.then(|| AwaitedHello {
            sessions: Arc::clone(&self),
            version,
            parameters: *parameters,
            message: Vec::new(),
        });
        Box::new(NotedSession { session, notes, awaited })
    }
}

/// Finds the site of a client.
struct SiteOfClient {
    shared: Arc<FrontShared>,
    listener: usize,
    address: IpAddr,
}

impl SiteOfClient {
    /// Returns the site for a client that asks for `name`.
    fn find(&self, name: Option<&str>) -> Result<(&TlsPolicy, usize), NoCertificate> {
        let SiteOfClient { shared, listener, address } = self;
        let tls = shared.tls.as_ref().ok_or(NoCertificate::NoName)?;
        let site = site_for(&shared.sites, tls, *listener, *address, name)?;
        Ok((tls, site))
    }
}

/// The resolver of settings that no session uses as they are.
#[derive(Debug)]
struct NoCertificates;

impl ResolvesServerCert for NoCertificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        None
    }
}

/// Returns the number of a site that makes demands of its own.
fn own_number(site: usize, demands: &QuicSite) -> Option<usize> {
    (!matches!(demands, QuicSite::Usual)).then_some(site)
}

/// Chooses the certificate of a connection.
struct NotingResolver {
    site: Arc<SiteOfClient>,
    /// The site whose demands the session makes; `None`: those of all other sites.
    own: Option<usize>,
    notes: Arc<HandshakeNotes>,
}

impl ResolvesServerCert for NotingResolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name();
        let found = self.site.find(name);
        let (tls, site) = found.map_err(|why| self.notes.missing.set(why)).ok()?;
        // No session of another site shows a certificate whose site makes demands.
        if own_number(site, &tls.of_quic(site)?) != self.own {
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
        let shows_others = shows_others(&self.site.shared.config.sites.get(site)?.tls);
        let asked = (name, shows_others);
        let pair = tls.certificates.choose(site, asked, hello.signature_schemes())?;
        let _ = self.notes.server.set(Arc::clone(&pair.variables));
        Some(Arc::clone(&pair.certified))
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
    tickets: Arc<dyn ProducesTickets>,
    notes: Arc<HandshakeNotes>,
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

/// The kept sessions of a site with early data, for one connection.
#[derive(Debug)]
struct NotingSessions {
    sessions: Arc<dyn StoresServerSessions>,
    notes: Arc<HandshakeNotes>,
}

impl StoresServerSessions for NotingSessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.sessions.put(key, value)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.sessions.get(key)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let state = self.sessions.take(key)?;
        self.notes.is_resumed.store(true, Ordering::Relaxed);
        Some(state)
    }

    fn can_cache(&self) -> bool {
        self.sessions.can_cache()
    }
}
