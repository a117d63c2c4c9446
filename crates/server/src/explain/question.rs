//! The request to explain.

use std::net::{IpAddr, SocketAddr};

use howdah_config::{Config, HostPattern, ListenAddress};
use howdah_http::h1::{self, HeadProgress};
use howdah_http::{Request, Scheme};

use crate::net::{Peer, forwarded};

/// The request to explain.
#[derive(Debug)]
pub(crate) struct ExplainRequest {
    pub(crate) method: String,
    /// A whole URL, its path, or `*`.
    pub(crate) url: String,
    /// Lines of the request's head.
    pub(crate) fields: Vec<String>,
    /// The client's address.
    pub(crate) from: IpAddr,
}

/// Returns the request, parsed as the server parses it.
///
/// # Errors
/// The server would refuse the request. Says with which status, and why.
pub(super) fn request(config: &Config, question: &ExplainRequest) -> Result<Request, String> {
    let (scheme, url) = match question.url.strip_prefix("https://") {
        Some(rest) => (Scheme::Https, rest),
        None => (Scheme::Http, question.url.strip_prefix("http://").unwrap_or(&question.url)),
    };
    let (host, target) = match url.find(['/', '?']) {
        _ if url == "*" => (usual_host(config), "*".to_owned()),
        Some(0) if url.starts_with('/') => (usual_host(config), url.to_owned()),
        Some(at) if url[at..].starts_with('/') => (url[..at].to_owned(), url[at..].to_owned()),
        Some(at) => (url[..at].to_owned(), format!("/{}", &url[at..])),
        None => (url.to_owned(), "/".to_owned()),
    };
    let mut head = format!("{} {target} HTTP/1.1\r\n", question.method);
    if !question.fields.iter().any(|field| is_host(field)) {
        head.push_str(&format!("Host: {host}\r\n"));
    }
    for field in &question.fields {
        head.push_str(&format!("{field}\r\n"));
    }
    head.push_str("\r\n");
    let mut request = Request::new();
    request.scheme = scheme;
    match h1::parse_request(head.as_bytes(), &howdah_http::Limits::default(), &mut request) {
        Ok(HeadProgress::Complete(parsed)) if parsed.head_length == head.len() => Ok(request),
        Ok(_) => {
            Err("the request does not end where it should; is there a line break in it?".to_owned())
        }
        Err(refusal) => {
            Err(format!("it would be refused with {}: {}", refusal.status, refusal.why))
        }
    }
}

fn is_host(field: &str) -> bool {
    field.split(':').next().is_some_and(|name| name.eq_ignore_ascii_case("host"))
}

/// Returns a host name of the first site.
fn usual_host(config: &Config) -> String {
    let hosts = config.sites.iter().flat_map(|site| &site.hosts);
    let mut exact = hosts.filter_map(|host| match host {
        HostPattern::Exact(name) => Some(name.clone()),
        HostPattern::Wildcard(_) | HostPattern::Default => None,
    });
    exact.next().unwrap_or_else(|| "localhost".to_owned())
}

/// Returns the sender of the request, who is on the listener with that number, or on the first one
/// where the number is not known. A trusted proxy may name
/// another client in the request's fields.
///
/// # Errors
/// The server would refuse what the proxy says. Says with which status, and why.
pub(super) fn peer(
    config: &Config,
    question: &ExplainRequest,
    (request, listener): (&mut Request, Option<usize>),
) -> Result<Peer, String> {
    let number = listener.unwrap_or_default();
    let local = config.listen.iter().skip(number).find_map(|listener| match &listener.address {
        ListenAddress::Tcp(address) => Some(*address),
        ListenAddress::Unix(_) => None,
    });
    let local = local.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 80)));
    let mut peer = Peer::new(SocketAddr::new(question.from, 50_000), local);
    peer.scheme = request.scheme;
    peer.listener = number;
    let trusted = config
        .listen
        .get(number)
        .map_or(&config.trusted_proxies, |own| config.trusted_on(own));
    if trusted.trusts(Some(question.from)) {
        peer = forwarded::sender(&peer, request, config)
            .map_err(|refusal| format!("refused with {}: {}", refusal.status, refusal.why))?;
    }
    Ok(peer)
}
