//! The listeners on which a request arrives.

use howdah_config::{Config, ListenAddress, ListenerSettings};
use howdah_http::{Request, Scheme};
use howdah_site::Sites;

use super::ExplainRequest;

/// The listeners that clients reach with a URL.
#[derive(Debug)]
pub(crate) struct Arrival {
    /// The place of the listener, in the configuration, on which the request is explained. `None`:
    /// the URL names no port, or no listener has it.
    pub(super) listener: Option<usize>,
    /// The addresses of all that the request may arrive on. Empty if no listener has the port and
    /// the scheme of the URL.
    pub(crate) listeners: Vec<String>,
    /// The reason why there is none, and what to do.
    pub(crate) note: Option<String>,
}

/// Returns the listeners on which the request arrives: those with the port and the scheme of its
/// URL, or all on which its site answers where the URL is only a path. `None` for a request of a
/// trusted proxy, whose client reaches another server first.
pub(super) fn find(
    config: &Config,
    sites: &Sites,
    question: &ExplainRequest,
    request: &Request,
) -> Option<Arrival> {
    let is_trusted = |own: &ListenerSettings| config.trusted_on(own).trusts(Some(question.from));
    if config.listen.iter().any(is_trusted) {
        return None;
    }
    let site_on = |listener| sites.find_on(listener, request.host()).map(|site| site.number());
    let own = sites.find_anywhere(request.host()).map(|site| site.number());
    let numbered = || config.listen.iter().enumerate();
    let of_site: Vec<_> = numbered().filter(|(number, _)| site_on(*number) == own).collect();
    if question.url.starts_with(['/', '*']) {
        let listeners = of_site.iter().map(|(_, one)| shown(one)).collect();
        return Some(Arrival { listener: None, listeners, note: None });
    }
    let is_https = request.scheme == Scheme::Https;
    let port = request.port().unwrap_or(if is_https { 443 } else { 80 });
    let fits = |one: &ListenerSettings| one.tls == is_https && may_have_port(one, port);
    let fitting: Vec<_> = numbered().filter(|(_, one)| fits(one)).collect();
    let first = fitting.iter().find(|(number, _)| site_on(*number) == own).or(fitting.first());
    let listener = first.map(|(number, _)| *number);
    let site = listener.map_or(own, site_on);
    let same = fitting.iter().filter(|(number, _)| site_on(*number) == site);
    let listeners: Vec<String> = same.map(|(_, one)| shown(one)).collect();
    let note = listeners.is_empty().then(|| {
        let of_site: Vec<String> = of_site.iter().map(|(_, one)| shown(one)).collect();
        format!(
            "no listener has port {port} for {}, so the request arrives on none; the site answers \
             on {}. Unless a proxy or a port mapping in front of the server takes the request, \
             correct the URL or add the port to `listen`",
            request.scheme.as_str(),
            of_site.join(", ")
        )
    });
    Some(Arrival { listener, listeners, note })
}

/// Returns whether a listener has the port, as far as the configuration tells.
fn may_have_port(listener: &ListenerSettings, port: u16) -> bool {
    match &listener.address {
        ListenAddress::Tcp(address) => [0, port].contains(&address.port()),
        ListenAddress::Unix(_) => false,
    }
}

fn shown(listener: &ListenerSettings) -> String {
    let scheme = if listener.tls { "https" } else { "http" };
    format!("{} ({scheme})", listener.address)
}
