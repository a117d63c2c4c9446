//! Checks over the whole file: sites must not contradict each other.

mod limits;
mod pools;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diagnostic::{MistakeCollector, Position};
use crate::listener::ListenerSettings;
use crate::settings::{Config, FRONT_USER, POOL_USER, SiteSettings};
use crate::values::{AcmeChallenge, CertificateSource, ForwardedField, HostPattern, RootTemplate};

/// Reports the mistakes of `config` as a whole. `documents` are the files that `config` was read
/// from.
pub(crate) fn cross_check(
    config: &Config,
    documents: &[Spanned<DeTable<'_>>],
    report: &mut MistakeCollector<'_>,
) {
    if config.sites.is_empty() {
        report.add_without_place(
            "there is no site",
            "add one: `[[site]]`, then `root = \"/path/to/its/public/folder\"` on the next line",
        );
        return;
    }
    let places = SettingPositions::new(documents);
    names(config, &places, report);
    users(config, &places, report);
    hosts(config, &places, report);
    listeners_of_sites(config, &places, report);
    admin(config, &places, report);
    certificates(config, &places, report);
    listeners(config, &places, report);
    forwarded(config, &places, report);
    acme(config, &places, report);
    limits::bursts(config, &places, report);
    for (number, site) in config.sites.iter().enumerate() {
        root(site, number, &places, report);
        pools::sandbox(site, number, &places, report);
        pools::workers(site, number, &places, report);
        pools::chroot(site, number, &places, report);
    }
}

fn names(config: &Config, places: &SettingPositions<'_, '_>, report: &mut MistakeCollector<'_>) {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for (number, site) in config.sites.iter().enumerate() {
        match seen.entry(&site.name) {
            Entry::Vacant(entry) => {
                entry.insert(number);
            }
            Entry::Occupied(first)
                if places.has(number, "name") || !same_first_host(config, *first.get(), number) =>
            {
                let place = places.key(number, "name");
                let line = report.line_of(&places.site(*first.get()), place.file);
                report.add_at(
                    place,
                    format!("two sites are called `{}`; the first is at {line}", site.name),
                    Some(
                        "give each site a `name` of its own: logs and the PHP pool are called by it"
                            .to_owned(),
                    ),
                );
            }
            // The same host twice in one site is reported once, as that mistake.
            Entry::Occupied(_) => {}
        }
    }
}

fn same_first_host(config: &Config, first: usize, second: usize) -> bool {
    let (first, second) = (&config.sites[first], &config.sites[second]);
    first.hosts.first() == second.hosts.first() && share_a_listener(first, second)
}

/// Returns whether there is a listener on which both sites answer.
fn share_a_listener(first: &SiteSettings, second: &SiteSettings) -> bool {
    first.listen.is_empty()
        || second.listen.is_empty()
        || first.listen.iter().any(|address| second.listen.contains(address))
}

/// Refuses a pool with the front's user. Two names of one user are found when the users are looked
/// up.
fn users(config: &Config, places: &SettingPositions<'_, '_>, report: &mut MistakeCollector<'_>) {
    let front = config.user.as_deref().unwrap_or(FRONT_USER);
    for (number, site) in config.sites.iter().enumerate() {
        let Some(php) = &site.php else { continue };
        if php.user.as_deref().unwrap_or(POOL_USER) != front {
            continue;
        }
        let (place, help) = match places.pool_user(number) {
            Some(place) => (place, "name another user"),
            None => (places.top("user"), "leave `user` out, or set `user` in [site.php]"),
        };
        report.add_at(
            place,
            format!("the pool of site {} would run as {front}, the front's user", site.name),
            Some(format!("{help}: a script could stop a front of its own user")),
        );
    }
}

fn hosts(config: &Config, places: &SettingPositions<'_, '_>, report: &mut MistakeCollector<'_>) {
    let mut seen: HashMap<&HostPattern, Vec<(usize, usize)>> = HashMap::new();
    for (number, site) in config.sites.iter().enumerate() {
        for (position, pattern) in site.hosts.iter().enumerate() {
            let earlier = seen.entry(pattern).or_default();
            let same = |(other, _): &&(usize, usize)| {
                *other == number || share_a_listener(&config.sites[*other], site)
            };
            if let Some((first_number, first_position)) = earlier.iter().find(same) {
                let place = places.host(number, position);
                let first = places.host(*first_number, *first_position);
                let line = report.line_of(&first, place.file);
                let (message, help) = match pattern {
                    HostPattern::Default => (
                        format!(
                            "two sites answer for every other host (`*`); the first is at {line}"
                        ),
                        "name the hosts of one of them: `hosts = [\"example.org\"]`",
                    ),
                    _ => (
                        format!("the host `{pattern}` is listed twice; first at {line}"),
                        "a host belongs to one site, or to one on each listener with `listen`",
                    ),
                };
                report.add_at(place, message, Some(help.to_owned()));
            }
            earlier.push((number, position));
        }
    }
}

fn listeners_of_sites(
    config: &Config,
    places: &SettingPositions<'_, '_>,
    report: &mut MistakeCollector<'_>,
) {
    for (number, site) in config.sites.iter().enumerate() {
        let mut strange = site
            .listen
            .iter()
            .filter(|address| !config.listen.iter().any(|listener| listener.address == **address));
        if let Some(address) = strange.next() {
            report.add_at(
                places.key(number, "listen"),
                format!("no listener has the address {address}"),
                Some("add it to `listen` at the top of the file".to_owned()),
            );
        }
    }
}

fn admin(config: &Config, places: &SettingPositions<'_, '_>, report: &mut MistakeCollector<'_>) {
    for address in &config.admin {
        if config.listen.iter().any(|listener| listener.address.conflicts_with(address)) {
            report.add_at(
                places.top("admin"),
                format!("{address} is in `listen` as well"),
                Some("give `admin` a port of its own: its pages are not for visitors".to_owned()),
            );
        }
    }
}

fn certificates(
    config: &Config,
    places: &SettingPositions<'_, '_>,
    report: &mut MistakeCollector<'_>,
) {
    for (number, site) in config.sites.iter().enumerate() {
        let is_encrypted = |listener: &&ListenerSettings| listener.tls && site.answers_on(listener);
        if site.tls.is_on() && !config.listen.iter().any(|listener| is_encrypted(&listener)) {
            report.add_at(
                places.key(number, "tls"),
                format!(
                    "the site {} has a certificate, and answers on no listener with TLS",
                    site.name
                ),
                Some("add `\":443\"` or `{ address = \"…\", tls = true }` to `listen`".to_owned()),
            );
        }
    }
}

fn listeners(
    config: &Config,
    places: &SettingPositions<'_, '_>,
    report: &mut MistakeCollector<'_>,
) {
    for listener in &config.listen {
        let address = &listener.address;
        let answers = |site: &SiteSettings| site.answers_on(listener);
        if !config.sites.iter().any(answers) {
            report.add_at(
                places.top("listen"),
                format!("no site answers on {address}"),
                Some("add the address to the `listen` of a site, or leave it out".to_owned()),
            );
        }
        if listener.tls && !config.sites.iter().any(|site| answers(site) && site.tls.is_on()) {
            report.add_at(
                places.top("listen"),
                format!("{address} is for TLS, and no site that answers there has a certificate"),
                Some(
                    "set `terms_agreed = true` in [acme] to have certificates ordered for the \
                     names in `hosts`, give a site `tls = { cert = \"FILE\", key = \"FILE\" }`, or \
                     write `{ address = \"…\", tls = false }`"
                        .to_owned(),
                ),
            );
        }
        if listener.proxy_protocol && config.trusted_on(listener).is_empty() {
            report.add_at(
                places.top("listen"),
                format!("no peer is trusted to send the PROXY protocol on {address}"),
                Some(
                    "name the proxies: `trusted = [\"10.1.2.3\"]` in the listener's table, or \
                     `trusted = true` where only proxies can reach the address"
                        .to_owned(),
                ),
            );
        }
    }
}

fn forwarded(
    config: &Config,
    places: &SettingPositions<'_, '_>,
    report: &mut MistakeCollector<'_>,
) {
    let fields = &config.forwarded_fields;
    if fields.contains(&ForwardedField::Forwarded) && fields.len() > 1 {
        report.add_at(
            places.top("forwarded_fields"),
            "Forwarded beside other fields",
            Some(
                "name one or the other: a proxy that sets only one of them passes on what its \
                 client claims in the other"
                    .to_owned(),
            ),
        );
    }
}

fn acme(config: &Config, places: &SettingPositions<'_, '_>, report: &mut MistakeCollector<'_>) {
    let acme = &config.acme;
    for (number, site) in config.sites.iter().enumerate() {
        if site.tls.source == CertificateSource::Auto && !acme.terms_agreed {
            report.add_at(
                places.key(number, "tls"),
                "certificates can be ordered only if you agree to the authority's terms of service",
                Some(
                    "read them (Let's Encrypt: https://letsencrypt.org/repository/), and write \
                     `terms_agreed = true` in [acme]"
                        .to_owned(),
                ),
            );
        }
    }
    if places.top_value("acme").is_none() {
        return;
    }
    if !acme.terms_agreed {
        report.add_at(
            places.acme_key("terms_agreed"),
            "certificates can be ordered only if you agree to the authority's terms of service",
            Some(
                "read them (Let's Encrypt: https://letsencrypt.org/repository/), and write \
                 `terms_agreed = true`"
                    .to_owned(),
            ),
        );
    }
    if acme.eab_kid.is_some() != acme.eab_hmac.is_some() {
        let (given, missing) = match acme.eab_kid {
            Some(_) => ("eab_kid", "eab_hmac"),
            None => ("eab_hmac", "eab_kid"),
        };
        report.add_at(
            places.acme_key(given),
            format!("`{given}` without `{missing}`"),
            Some(format!("give `{missing}` as well; the authority shows both")),
        );
    }
    if acme.directory.is_empty() {
        let help = "give a URL, or leave the key out for Let's Encrypt";
        report.add_at(places.acme_key("directory"), "there is no authority", Some(help.to_owned()));
    }
    if acme.challenges.is_empty() {
        let help = "give one, or leave the key out";
        report.add_at(
            places.acme_key("challenges"),
            "there is no challenge",
            Some(help.to_owned()),
        );
    }
    if acme.challenges.contains(&AcmeChallenge::Dns01) && acme.dns_hook.is_empty() {
        report.add_at(
            places.acme_key("challenges"),
            "`dns-01` without a program that changes the DNS",
            Some("set `dns_hook`, or leave `dns-01` out".to_owned()),
        );
    }
}

fn root(
    site: &SiteSettings,
    number: usize,
    places: &SettingPositions<'_, '_>,
    report: &mut MistakeCollector<'_>,
) {
    let only_exact = site.hosts.iter().all(|pattern| matches!(pattern, HostPattern::Exact(_)));
    if matches!(site.root, RootTemplate::PerHost { .. }) && only_exact && site.hosts.len() == 1 {
        report.add_at(
            places.key(number, "root"),
            "`{host}` in the root of a site with a single host",
            Some(
                "write the folder's name, or give a host such as `\"*.example.org\"` or `\"*\"`"
                    .to_owned(),
            ),
        );
    }
}

/// Finds the positions of settings in the files.
struct SettingPositions<'d, 'i> {
    documents: &'d [Spanned<DeTable<'i>>],
    /// For each site: the number of its file, and of the site in the file.
    sites: Vec<(usize, usize)>,
}

impl<'d, 'i> SettingPositions<'d, 'i> {
    fn new(documents: &'d [Spanned<DeTable<'i>>]) -> SettingPositions<'d, 'i> {
        let count = |document: &Spanned<DeTable<'_>>| {
            let sites = document.get_ref().get("site").and_then(|sites| sites.get_ref().as_array());
            sites.map_or(0, |sites| sites.len())
        };
        let files = documents.iter().enumerate();
        SettingPositions {
            documents,
            sites: files
                .flat_map(|(file, document)| (0..count(document)).map(move |at| (file, at)))
                .collect(),
        }
    }

    /// The value of a top-level key of the first file, which alone has such keys.
    fn top_value(&self, key: &str) -> Option<&'d Spanned<DeValue<'i>>> {
        self.documents.first()?.get_ref().get(key)
    }

    /// The position of the value of a top-level key.
    fn top(&self, key: &str) -> Position {
        Position {
            file: 0,
            span: self.top_value(key).map_or(0..0, Spanned::span),
        }
    }

    /// The position of the value of a key in `[acme]`, or of the table if the key is missing.
    fn acme_key(&self, key: &str) -> Position {
        let table = self.top_value("acme");
        let value = table.and_then(|table| table.get_ref().get(key));
        Position {
            file: 0,
            span: value.or(table).map_or(0..0, Spanned::span),
        }
    }

    /// The position of the value of a key in `[limits]`; `None` if the key is missing.
    fn limit(&self, key: &str) -> Option<Position> {
        let value = self.top_value("limits")?.get_ref().get(key)?;
        Some(Position { file: 0, span: value.span() })
    }

    fn value(&self, number: usize) -> Option<&'d Spanned<DeValue<'i>>> {
        let (file, at) = self.sites.get(number)?;
        self.documents.get(*file)?.get_ref().get("site")?.get_ref().as_array()?.get(*at)
    }

    /// Returns a position in the file of a site.
    fn at(&self, number: usize, span: Range<usize>) -> Position {
        let file = self.sites.get(number).map_or(0, |(file, _)| *file);
        Position { file, span }
    }

    /// The position of the site's `[[site]]` line.
    fn site(&self, number: usize) -> Position {
        self.at(number, self.value(number).map_or(0..0, Spanned::span))
    }

    fn has(&self, number: usize, key: &str) -> bool {
        self.value(number).is_some_and(|site| site.get_ref().get(key).is_some())
    }

    /// The position of the value of a site's key, or of its `[[site]]` line if the key is missing.
    fn key(&self, number: usize, key: &str) -> Position {
        let value = self.value(number).and_then(|site| site.get_ref().get(key));
        value.map_or_else(|| self.site(number), |value| self.at(number, value.span()))
    }

    /// The position of the value of a key in `[site.php]`.
    fn php_key(&self, number: usize, key: &str) -> Position {
        let php = self.value(number).and_then(|site| site.get_ref().get("php"));
        let value = php.and_then(|php| php.get_ref().get(key));
        value.map_or_else(|| self.key(number, "php"), |value| self.at(number, value.span()))
    }

    /// Returns whether a key is in `[site.php]`.
    fn has_php(&self, number: usize, key: &str) -> bool {
        let php = self.value(number).and_then(|site| site.get_ref().get("php"));
        php.is_some_and(|php| php.get_ref().get(key).is_some())
    }

    /// The position of the `user` of a site's pool; `None` if the key is missing.
    fn pool_user(&self, number: usize) -> Option<Position> {
        let user = self.value(number)?.get_ref().get("php")?.get_ref().get("user")?;
        Some(self.at(number, user.span()))
    }

    /// The position of one of the site's hosts.
    fn host(&self, number: usize, position: usize) -> Position {
        let hosts = self.value(number).and_then(|site| site.get_ref().get("hosts"));
        let item = hosts
            .and_then(|hosts| hosts.get_ref().as_array())
            .and_then(|items| items.get(position));
        item.map_or_else(|| self.key(number, "hosts"), |item| self.at(number, item.span()))
    }
}
