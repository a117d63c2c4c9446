//! The settings of TLS by site, and the sites that have no sessions.

use std::sync::{Arc, PoisonError, RwLock};

use howdah_config::{CertificateSource, ClientVerify, Config, SiteTls};
use howdah_site::Site;
use rustls::ServerConfig;
use rustls::server::{ServerSessionMemoryCache, StoresServerSessions};

use super::certificates::Certificates;
use super::client_authorities::{ValidAuthorities, clients};
use super::client_sessions;
use super::established::HttpsPorts;
use super::pair::SitePairs;
use super::settings::{accept_early_data, settings};
use super::site_certificates::SiteCertificates;
use super::tickets::{SiteTickets, TicketKeys, Tickets};
use super::upstreams::UpstreamSettings;
use crate::front::Demands;
use crate::protocols;

/// Certificates, keys and ticket keys that a front starts with.
#[derive(Debug, Clone, Default)]
pub(crate) struct TlsStart {
    /// The certificates and keys of the sites.
    pub(crate) pairs: SitePairs,
    /// By site, why its files cannot be used; `None` where they can be.
    pub(crate) closed: Vec<Option<String>>,
    /// By site, the authorities of clients in PEM; `None` where clients are asked for nothing.
    pub(crate) client_authorities: Vec<Option<Vec<u8>>>,
    pub(crate) ticket_keys: TicketKeys,
    pub(crate) upstreams: UpstreamSettings,
}

/// All that a front needs for encrypted connections.
#[derive(Debug)]
pub(crate) struct TlsPolicy {
    pub(crate) certificates: Arc<Certificates>,
    pub(crate) tickets: Arc<Tickets>,
    pub(crate) https_ports: HttpsPorts,
    /// The destination of names that visitors ask for; `None`: no certificate is ordered on demand.
    pub(crate) demands: Option<Demands>,
    /// By site, why its files cannot be used; `None` where they can be.
    closed: RwLock<Vec<Option<String>>>,
    /// By site; `None` for a site without certificates, and while the authorities of its clients
    /// cannot be used.
    sessions: RwLock<Vec<Option<SiteSessions>>>,
}

/// The settings of a site's sessions.
#[derive(Debug)]
struct SiteSessions {
    tcp: TcpSite,
    quic: QuicSite,
}

/// The settings of a site's sessions over TCP.
#[derive(Debug)]
enum TcpSite {
    /// The same for all connections.
    Shared(Arc<ServerConfig>),
    /// Each connection has its own, which know when the client's certificate ends.
    Own(Box<OwnSettings>),
}

/// Makes the settings of each connection.
#[derive(Debug)]
struct OwnSettings {
    tls: SiteTls,
    certificates: Arc<SiteCertificates>,
    check: Arc<ValidAuthorities>,
    tickets: Arc<SiteTickets>,
    /// The protocols to choose between (ALPN).
    protocols: Vec<Vec<u8>>,
}

impl OwnSettings {
    fn make(&self) -> Result<Arc<ServerConfig>, String> {
        let (verifier, tickets) = client_sessions::of_connection(&self.check, &self.tickets);
        let certificates = Arc::clone(&self.certificates);
        let protocols = self.protocols.clone();
        let mut made = settings(&self.tls, certificates, Some(verifier), protocols)?;
        made.ticketer = tickets;
        Ok(Arc::new(made))
    }
}

/// The demands of a site on its sessions of QUIC.
#[derive(Debug, Clone)]
pub(super) enum QuicSite {
    /// None besides those that all sites make.
    Usual,
    /// Certificates of clients.
    Certificates {
        check: Arc<ValidAuthorities>,
        /// The demands as tickets name them.
        demands: Arc<[u8]>,
    },
    /// Early data, for which the sessions are kept.
    EarlyData(Arc<dyn StoresServerSessions>),
}

/// Sessions that a site with early data keeps. Further ones take the place of the oldest.
const EARLY_SESSIONS: usize = 16_384;
/// Bytes of early data that a client may send over TCP: a few requests. At more, the connection
/// ends.
const MOST_EARLY_DATA: u32 = 16 * 1024;

impl TlsPolicy {
    /// Makes the settings of every site. `None` if no site has a certificate. `ports` are the
    /// actual ports of the listeners.
    ///
    /// # Errors
    /// The first mistake in the certificates.
    pub(crate) fn of(
        config: &Config,
        start: &TlsStart,
        ports: &[Option<u16>],
    ) -> Result<Option<TlsPolicy>, String> {
        let TlsStart {
            pairs,
            closed,
            client_authorities,
            ticket_keys,
            ..
        } = start;
        if !config.sites.iter().any(|site| site.tls.is_on()) {
            return Ok(None);
        }
        let certificates = Arc::new(Certificates::parse(pairs)?);
        let tickets = Arc::new(Tickets::default());
        tickets.replace(ticket_keys);
        let mut closed = closed.clone();
        closed.resize(config.sites.len(), None);
        let mut sessions = Vec::new();
        for (number, closed) in closed.iter_mut().enumerate() {
            let authorities = client_authorities.get(number).and_then(Option::as_deref);
            let made = SiteSessions::of(config, number, authorities, (&certificates, &tickets));
            sessions.push(match made {
                Ok(made) => made,
                // Authorities can expire after they were read. The other sites are served.
                Err(why) if authorities.is_some() => {
                    closed.get_or_insert(why);
                    None
                }
                Err(why) => return Err(why),
            });
        }
        Ok(Some(TlsPolicy {
            certificates,
            tickets,
            https_ports: HttpsPorts::of(config, ports),
            demands: None,
            closed: RwLock::new(closed),
            sessions: RwLock::new(sessions),
        }))
    }

    /// Uses other authorities of a site's clients for the handshakes to come, which are in PEM.
    ///
    /// # Errors
    /// The mistake in them. The former ones stay in use.
    pub(crate) fn replace_authorities(
        &self,
        config: &Config,
        site: usize,
        authorities: &[u8],
    ) -> Result<(), String> {
        let shared = (&self.certificates, &self.tickets);
        let made = SiteSessions::of(config, site, Some(authorities), shared)?;
        let mut all = self.sessions.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = all.get_mut(site) {
            *place = made;
        }
        Ok(())
    }

    /// Returns the demands of a site on its sessions of QUIC; `None`: it can have no sessions.
    pub(super) fn of_quic(&self, site: usize) -> Option<QuicSite> {
        let all = self.sessions.read().unwrap_or_else(PoisonError::into_inner);
        Some(all.get(site)?.as_ref()?.quic.clone())
    }

    /// Returns whether one of the site's certificates is for `host`, which is in lower case. If its
    /// names have certificates on demand, notes that a visitor asks for `host`.
    pub(crate) fn is_for(&self, site: &Site, host: &str) -> bool {
        let number = site.number();
        let is_covered = self.certificates.covers(number, host);
        if let Some(demands) = self.demands.as_ref().filter(|demands| demands.has(number)) {
            demands.note(site, host, is_covered);
        }
        is_covered
    }

    /// Returns whether a client that asks for `host`, which is in lower case, is shown a
    /// certificate of the site: one for the host, or one for other names where the configuration
    /// names the site's certificates and the site lists the host. The operator has chosen that one,
    /// and Apache and nginx show it, too.
    pub(super) fn answers(&self, site: &Site, host: &str) -> bool {
        let lists = || site.config().hosts.iter().any(|pattern| pattern.lists(host));
        self.is_for(site, host)
            || (shows_others(&site.config().tls)
                && self.certificates.count(site.number()) > 0
                && lists())
    }

    /// Returns why the files of a site cannot be used; `None` if they can be, or if it has none.
    pub(crate) fn closed(&self, site: usize) -> Option<String> {
        let all = self.closed.read().unwrap_or_else(PoisonError::into_inner);
        all.get(site)?.clone()
    }

    /// Notes why the files of a site cannot be used; `None`: they can be.
    pub(crate) fn set_closed(&self, site: usize, why: Option<String>) {
        let mut all = self.closed.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = all.get_mut(site) {
            *place = why;
        }
    }

    /// Whether a site has files that cannot be used. Nobody gets a session with it.
    pub(crate) fn is_closed(&self, site: usize) -> bool {
        let all = self.closed.read().unwrap_or_else(PoisonError::into_inner);
        all.get(site).is_some_and(Option::is_some)
    }

    /// Whether the configuration names certificates of the site that cannot be used.
    pub(super) fn lacks_pairs(&self, site: &Site) -> bool {
        self.certificates.count(site.number()) < site.config().tls.cert.len()
    }

    /// Returns the settings of a site; `None` if it can have no sessions.
    pub(crate) fn settings(&self, site: usize) -> Option<Arc<ServerConfig>> {
        let all = self.sessions.read().unwrap_or_else(PoisonError::into_inner);
        match &all.get(site)?.as_ref()?.tcp {
            TcpSite::Shared(settings) => Some(Arc::clone(settings)),
            TcpSite::Own(own) => own.make().ok(),
        }
    }
}

impl SiteSessions {
    /// Makes the settings of the site with this number. `None` if it has no certificates, or if
    /// the authorities of its clients cannot be used.
    fn of(
        config: &Config,
        number: usize,
        authorities: Option<&[u8]>,
        (certificates, tickets): (&Arc<Certificates>, &Arc<Tickets>),
    ) -> Result<Option<SiteSessions>, String> {
        let site = &config.sites[number];
        if !site.tls.is_on() || (site.tls.client_ca.is_some() && authorities.is_none()) {
            return Ok(None);
        }
        let resolver = Arc::new(SiteCertificates {
            certificates: Arc::clone(certificates),
            site: number,
            shows_others: shows_others(&site.tls),
        });
        let check = |text| clients(text, site.tls.client_verify).map(|check| check.verifier);
        let check = authorities.map(check).transpose()?;
        let demands = authorities.map(|text| demands(site.tls.client_verify, text));
        let site_tickets = Arc::new(SiteTickets {
            tickets: Arc::clone(tickets),
            demands: demands.clone().unwrap_or_default(),
        });
        let protocols = protocols::on_tls(config);
        if let (Some(check), Some(demands)) = (check, demands) {
            let own = OwnSettings {
                tls: site.tls.clone(),
                certificates: resolver,
                check: Arc::clone(&check),
                tickets: site_tickets,
                protocols,
            };
            own.make()?;
            let quic = QuicSite::Certificates { check, demands: demands.into() };
            return Ok(Some(SiteSessions { tcp: TcpSite::Own(Box::new(own)), quic }));
        }
        let mut tcp = settings(&site.tls, resolver, None, protocols)?;
        tcp.ticketer = site_tickets;
        let quic = match site.tls.early_data {
            true => {
                // A session is taken out with its first use: early data is answered once
                // (RFC 8446 §8.1).
                let sessions = ServerSessionMemoryCache::new(EARLY_SESSIONS);
                accept_early_data(&mut tcp, sessions.clone(), MOST_EARLY_DATA);
                QuicSite::EarlyData(sessions)
            }
            false => QuicSite::Usual,
        };
        Ok(Some(SiteSessions {
            tcp: TcpSite::Shared(Arc::new(tcp)),
            quic,
        }))
    }
}

/// Whether a site shows its certificates also for names that they are not for. Of ordered ones each
/// is for one name, and a name without one has none yet.
pub(super) fn shows_others(tls: &SiteTls) -> bool {
    tls.source != CertificateSource::Auto
}

/// Returns the demands of a site on its clients, to which its tickets are bound: a session that
/// began without a certificate must not go on where one is required. Former programs made tickets
/// without ends.
fn demands(verify: ClientVerify, authorities: &[u8]) -> Vec<u8> {
    let verify = match verify {
        ClientVerify::Require => &b"require, with ends\n"[..],
        ClientVerify::Optional => b"optional, with ends\n",
    };
    [verify, authorities].concat()
}
