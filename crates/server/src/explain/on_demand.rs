//! Explains whether the host of a request gets a certificate on demand.

use howdah_acme::names;
use howdah_config::{Config, HostPattern, RootTemplate};
use howdah_site::Site;

/// Returns a note about the certificate of `host`; `None` if the site's names get none on demand.
pub(super) fn note(config: &Config, site: &Site, host: &str) -> Option<String> {
    let settings = site.config();
    let host = host.to_ascii_lowercase();
    let is_exact = settings.hosts.contains(&HostPattern::Exact(host.clone()));
    if is_exact || !config.acme.is_on_demand(settings) {
        return None;
    }
    if let Err(reason) = names::check_for(&host, config.acme.ca_file.is_some()) {
        return Some(format!("no certificate is ordered on demand: {host} {reason}"));
    }
    let folder = match &settings.root {
        RootTemplate::PerHost { .. } => Some(settings.root.expand(&host)),
        RootTemplate::Fixed(_) => None,
    };
    let exists = folder.as_ref().is_some_and(|folder| folder.is_dir());
    let found = folder.map_or_else(String::new, |folder| {
        let verb = if exists { "exists" } else { "does not exist" };
        format!("{} {verb}, ", folder.display())
    });
    Some(match &config.acme.ask {
        _ if exists => format!("{found}so the first visit of {host} orders its certificate"),
        Some(url) => format!("{found}so {url} decides whether {host} gets a certificate on demand"),
        None => format!("{found}so {host} gets no certificate on demand"),
    })
}
