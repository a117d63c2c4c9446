//! An established connection, as the pipeline sees it.

use std::borrow::Cow;

use howdah_config::{CipherPolicy, RootTemplate, SiteTls, TlsVersion};
use howdah_http::{Method, Request, Scheme, Status};
use howdah_site::Site;
use http::HeaderValue;

use super::TlsPolicy;
use crate::front::FrontThread;
use crate::quic::Offer;

/// An encrypted connection after its handshake.
#[derive(Debug)]
pub(crate) struct EstablishedTls {
    /// The facts for rules and scripts.
    pub(crate) facts: howdah_http::Tls,
    /// The site whose certificate the client has seen.
    pub(crate) site: usize,
    /// HTTP/3 on the listener's port; `None`: nothing else serves the same.
    pub(crate) alternative: Option<Offer>,
}

impl EstablishedTls {
    /// Returns the value of Alt-Svc in the response to `request`; `None` for no such field.
    pub(crate) fn alternative(&self, request: &Request) -> Option<Cow<'_, HeaderValue>> {
        let offer = self.alternative.as_ref()?;
        Some(match request.authority.is_empty() {
            true => offer.own(),
            false => offer.of_port(request.port().unwrap_or(howdah_config::HTTPS_PORT)),
        })
    }

    /// Whether a request for `host` of `site` must not be answered on this connection: the client
    /// has seen a certificate of another site, which is not for that host (RFC 9110 §7.4).
    pub(crate) fn is_misdirected(
        &self,
        thread: &FrontThread,
        site: &Site,
        host: &[u8],
        is_proxy: bool,
    ) -> bool {
        let own = &thread.config().sites[self.site].tls;
        let wanted = &site.config().tls;
        if (&own.client_ca, own.client_verify) != (&wanted.client_ca, wanted.client_verify) {
            // Another site asks its clients for other certificates.
            return true;
        }
        if !is_proxy && !meets(&self.facts, wanted) {
            return true;
        }
        let Some(name) = self.facts.server_name.as_deref().filter(|_| !is_proxy) else {
            // The client did not say which certificate it expects, or is a proxy, whose connection
            // carries requests for many sites.
            return false;
        };
        let is_same_site = site.number() == self.site;
        let has_own_root = matches!(site.config().root, RootTemplate::PerHost { .. });
        if host.eq_ignore_ascii_case(name.as_bytes()) || (is_same_site && !has_own_root) {
            return false;
        }
        !self.is_for(thread, host)
    }

    /// Whether a certificate of the site that the client has seen is for `host`.
    pub(crate) fn is_for(&self, thread: &FrontThread, host: &[u8]) -> bool {
        let host = String::from_utf8_lossy(host).to_ascii_lowercase();
        let tls = thread.shared.tls.as_ref();
        tls.is_some_and(|tls| tls.certificates.covers(self.site, &host))
    }
}

/// Whether a connection has the version and the cipher suite that a site wants. Another site, whose
/// certificate is for the host as well, may want less.
fn meets(facts: &howdah_http::Tls, wanted: &SiteTls) -> bool {
    let has_tls13 = facts.protocol == "TLSv1.3";
    let is_modern = has_tls13 || facts.cipher.starts_with("ECDHE-ECDSA-");
    (wanted.min_version == TlsVersion::Tls12 || has_tls13)
        && (wanted.ciphers == CipherPolicy::Intermediate || is_modern)
}

/// The destination of redirects of requests in the clear: the port for https of each site.
#[derive(Debug, Default)]
pub(crate) struct HttpsPorts {
    /// By site.
    sites: Vec<HttpsPort>,
    /// By listener, its actual port.
    listeners: Vec<Option<u16>>,
}

/// The port for https of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HttpsPort {
    /// The site redirects nobody.
    None,
    /// The listeners that the site has for TLS are missing.
    Missing,
    Is(u16),
}

/// The answer to a request in the clear for a site with https.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum InTheClear {
    /// The client is redirected to this URL.
    Redirected(Vec<u8>),
    /// The client would be redirected, but there is no https at this time. The request is not
    /// answered in the clear.
    Refused,
}

impl HttpsPorts {
    /// Finds the port of each site that redirects to https: 443, if the site answers there, else
    /// the first of its listeners with TLS. `ports` are the actual ports of the listeners.
    pub(crate) fn of(config: &howdah_config::Config, ports: &[Option<u16>]) -> HttpsPorts {
        let of_site = |site: &howdah_config::SiteSettings| {
            let listeners = config.listen.iter().zip(ports);
            let encrypted: Vec<Option<u16>> = listeners
                .filter(|(listener, _)| listener.tls && site.answers_on(listener))
                .map(|(_, port)| *port)
                .collect();
            if encrypted.is_empty() || !site.tls.is_on() || !site.tls.redirect {
                return HttpsPort::None;
            }
            let mut there = encrypted.iter().flatten();
            let usual = there.clone().find(|port| **port == howdah_config::HTTPS_PORT);
            usual.or(there.next()).map_or(HttpsPort::Missing, |port| HttpsPort::Is(*port))
        };
        HttpsPorts {
            sites: config.sites.iter().map(of_site).collect(),
            listeners: ports.to_vec(),
        }
    }

    /// Decides what becomes of a request in the clear, which came to that listener; `None`: the
    /// request is answered as it is. Which names the certificates of a closed site are for, or one
    /// that was left out, is unknown, so names without another one are refused.
    pub(crate) fn settle(
        &self,
        tls: &TlsPolicy,
        site: &Site,
        request: &Request,
        listener: usize,
    ) -> Option<InTheClear> {
        self.sites.get(site.number()).filter(|port| **port != HttpsPort::None)?;
        let host = std::str::from_utf8(request.host()).ok()?.to_ascii_lowercase();
        if host.is_empty() || !may_redirect(site, request) {
            return None;
        }
        if tls.is_closed(site.number()) {
            return Some(InTheClear::Refused);
        }
        if !tls.is_for(site, &host) {
            return tls.lacks_pairs(site).then_some(InTheClear::Refused);
        }
        Some(match self.url(site.number(), &host, request, listener) {
            Some(url) => InTheClear::Redirected(url),
            None => InTheClear::Refused,
        })
    }

    /// Returns the URL that a request for `host` of the site with this number is redirected to;
    /// `None`: the site has no https.
    pub(crate) fn url(
        &self,
        site: usize,
        host: &str,
        request: &Request,
        listener: usize,
    ) -> Option<Vec<u8>> {
        let HttpsPort::Is(port) = *self.sites.get(site)? else {
            return None;
        };
        let mut url = format!("https://{host}");
        if port != howdah_config::HTTPS_PORT && !self.is_mapped(request, listener) {
            url.push_str(&format!(":{port}"));
        }
        Some([url.as_bytes(), &request.target].concat())
    }

    /// Whether the client has used the usual port of http, and something before this server leads
    /// it to the listener's port: a container's ports, a firewall or a proxy. The usual port of
    /// https is mapped as well then.
    fn is_mapped(&self, request: &Request, listener: usize) -> bool {
        let own = self.listeners.get(listener).copied().flatten();
        request.port().is_none() && own != Some(Scheme::Http.default_port())
    }
}

/// The status of a redirect to https: the method stays.
pub(crate) fn redirect_status(method: &Method) -> Status {
    match method {
        Method::Get | Method::Head => Status::MOVED_PERMANENTLY,
        _ => Status::PERMANENT_REDIRECT,
    }
}

/// Whether a request in the clear is redirected to https, if the site has a certificate for its
/// host.
pub(crate) fn may_redirect(site: &Site, request: &Request) -> bool {
    let (tls, target) = (&site.config().tls, &request.target);
    let is_in_the_clear = request.scheme == Scheme::Http;
    let is_exempt = !target.starts_with(b"/") || is_challenge(target);
    tls.is_on() && tls.redirect && is_in_the_clear && !is_exempt
}

/// Whether a target is that of a challenge: a token and nothing else. Segments such as `..` and
/// escapes would lead to other pages of the site.
fn is_challenge(target: &[u8]) -> bool {
    let Some(rest) = target.strip_prefix(CHALLENGES) else {
        return false;
    };
    let token = rest.split(|byte| *byte == b'?').next().unwrap_or_default();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    token.iter().all(is_plain) && token.iter().any(|byte| *byte != b'.')
}

/// The URLs of ACME's HTTP-01 challenges (RFC 8555 §8.3), which are asked for over http.
const CHALLENGES: &[u8] = b"/.well-known/acme-challenge/";
