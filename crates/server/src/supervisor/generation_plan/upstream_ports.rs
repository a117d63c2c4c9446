//! Ports of upstreams that scripts of other sites could take.

use std::net::IpAddr;

use howdah_config::{Config, Sandbox, SiteSettings, Upstream};

use super::PlanFinder;

impl PlanFinder<'_> {
    /// Names an upstream on this machine in whose place another site's scripts could answer: while
    /// it is down, they may listen on its port.
    pub(super) fn tell_of_upstream_ports(&mut self, config: &Config) {
        let may_listen = |site: &&SiteSettings| {
            site.php.as_ref().is_some_and(|php| php.sandbox != Sandbox::Strict)
        };
        let found = config.sites.iter().find_map(|site| {
            let upstream = site.upstreams.iter().find(|upstream| can_be_taken(upstream))?;
            let other = config.sites.iter().filter(may_listen).find(|it| it.name != site.name)?;
            Some((site, upstream, other))
        });
        if let Some((site, upstream, other)) = found {
            self.notices.push(format!(
                "site {}: while its upstream {upstream} is down, scripts of other sites such as {} \
                 may listen there and get its requests; have it listen on a Unix socket, or set \
                 `sandbox = \"strict\"` in [site.php] of the others, see docs/upstreams.md",
                site.name, other.name
            ));
        }
    }
}

/// Returns whether a program without rights may listen where the upstream does.
fn can_be_taken(upstream: &Upstream) -> bool {
    let host = upstream.host.trim_start_matches('[').trim_end_matches(']');
    let is_here = match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || address.is_unspecified(),
        Err(_) => host == "localhost",
    };
    is_here && upstream.socket.is_none() && upstream.port >= FIRST_OPEN
}

/// The first port that needs no rights (`net.ipv4.ip_unprivileged_port_start`).
const FIRST_OPEN: u16 = 1024;
