//! The part of encryption in an answer: redirects to https, and names without a certificate.

use howdah_config::{CertificateSource, Config, ListenAddress, ListenerSettings};
use howdah_http::{Request, ResponseHead};
use howdah_site::Site;

use super::{ExplainedOutcome, Explanation};
use crate::tls::{self, Certificates, HttpsPorts, PairText};

/// Returns whether a certificate of the site is for `host`, which is in lower case; `None` if that
/// cannot be known from the files that the configuration names.
fn is_covered(site: &Site, host: &str) -> Option<bool> {
    let settings = site.config();
    if !settings.tls.is_on() {
        return Some(false);
    }
    if settings.tls.source != CertificateSource::Files {
        // One is ordered or made for each name that the site lists.
        return settings.hosts.iter().any(|pattern| pattern.lists(host)).then_some(true);
    }
    let pairs = settings.tls.pairs().map(|(certificate, key)| PairText::read(certificate, key));
    let pairs: Vec<PairText> = pairs.collect::<Result<_, _>>().ok()?;
    Some(Certificates::parse(&vec![pairs]).ok()?.covers(0, host))
}

/// Checks that a handshake for `host` succeeds.
///
/// # Errors
/// The site shows no certificate for the host: there is no answer.
pub(super) fn check_handshake(config: &Config, site: &Site, host: &str) -> Result<(), String> {
    let host = host.to_ascii_lowercase();
    let has_listener = config.listen.iter().any(|listener| listener.tls);
    let is_listed =
        site.config().tls.is_on() && site.config().hosts.iter().any(|pattern| pattern.lists(&host));
    if !has_listener || is_listed || is_covered(site, &host) != Some(false) {
        return Ok(());
    }
    Err(format!(
        "there is no certificate for the host {host}: the handshake would be refused with the \
         alert unrecognized_name; add the host to a site with `tls`, or ask for http://"
    ))
}

/// Replaces the explained answer by the redirect to https, where the server redirects the request.
/// Returns a note where that depends on a certificate that is not known. `None`: there is nothing
/// to note.
pub(super) fn redirect(
    config: &Config,
    site: &Site,
    request: &Request,
    explanation: &mut Explanation,
) -> Option<&'static str> {
    if !tls::may_redirect(site, request) {
        return None;
    }
    let ports: Vec<Option<u16>> = config.listen.iter().map(port).collect();
    let listener = config.listen.iter().position(|listener| !listener.tls).unwrap_or(0);
    let host = String::from_utf8_lossy(request.host()).to_ascii_lowercase();
    let url = HttpsPorts::of(config, &ports).url(site.number(), &host, request, listener)?;
    match is_covered(site, &host) {
        Some(false) => return None,
        None => return Some(TO_HTTPS),
        Some(true) => {}
    }
    explanation.head = ResponseHead::new(tls::redirect_status(&request.method));
    explanation.head.fields.push(b"Location", &url);
    explanation.outcome = ExplainedOutcome::Page;
    explanation.events.clear();
    explanation.filters.clear();
    explanation.complaints.clear();
    explanation.lane = None;
    (explanation.work.request, explanation.work.response) = (0, 0);
    Some(IS_REDIRECTED)
}

fn port(listener: &ListenerSettings) -> Option<u16> {
    match &listener.address {
        ListenAddress::Tcp(address) => Some(address.port()),
        ListenAddress::Unix(_) => None,
    }
}

/// The note for a redirect.
const IS_REDIRECTED: &str = "`redirect` of [site.tls] sends requests over http to https, before \
    any directive acts; ask for the URL with https:// to see the directives. A name whose \
    certificate is not there yet is answered over http";
/// The note for a request over http to a site whose certificates are not known.
const TO_HTTPS: &str = "over http the server redirects this request to https, as `redirect` of \
    [site.tls] says, if a certificate is for its host; ask for the URL with https://";
