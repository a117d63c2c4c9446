//! Checks over the whole file: sites must not contradict each other.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diagnostic::MistakeCollector;
use crate::settings::{Config, Site};
use crate::values::{HostPattern, RootTemplate};

/// Reports the mistakes of `config` as a whole. `document` is the text that `config` was read from.
pub(crate) fn cross_check(
    config: &Config,
    document: &Spanned<DeTable<'_>>,
    report: &mut MistakeCollector<'_>,
) {
    if config.sites.is_empty() {
        report.add_without_place(
            "there is no site",
            "add one: `[[site]]`, then `root = \"/path/to/its/public/folder\"` on the next line",
        );
        return;
    }
    let places = SettingPositions { document: document.get_ref() };
    names(config, &places, report);
    hosts(config, &places, report);
    for (number, site) in config.sites.iter().enumerate() {
        root(site, number, &places, report);
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
                let line = report.line_of(places.site(*first.get()).start);
                report.add(
                    places.key(number, "name"),
                    format!(
                        "two sites are called `{}`; the first is at line {line}",
                        site.name
                    ),
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
    config.sites[first].hosts.first() == config.sites[second].hosts.first()
}

fn hosts(config: &Config, places: &SettingPositions<'_, '_>, report: &mut MistakeCollector<'_>) {
    let mut seen: HashMap<&HostPattern, (usize, usize)> = HashMap::new();
    for (number, site) in config.sites.iter().enumerate() {
        for (position, pattern) in site.hosts.iter().enumerate() {
            match seen.entry(pattern) {
                Entry::Vacant(entry) => {
                    entry.insert((number, position));
                }
                Entry::Occupied(first) => {
                    let (first_number, first_position) = *first.get();
                    let line = report.line_of(places.host(first_number, first_position).start);
                    let (message, help) = match pattern {
                        HostPattern::Default => (
                            format!(
                                "two sites answer for every other host (`*`); the first is at line {line}"
                            ),
                            "name the hosts of one of them: `hosts = [\"example.org\"]`",
                        ),
                        _ => (
                            format!("the host `{pattern}` is listed twice; first at line {line}"),
                            "a host belongs to one site",
                        ),
                    };
                    report.add(places.host(number, position), message, Some(help.to_owned()));
                }
            }
        }
    }
}

fn root(
    site: &Site,
    number: usize,
    places: &SettingPositions<'_, '_>,
    report: &mut MistakeCollector<'_>,
) {
    let only_exact = site.hosts.iter().all(|pattern| matches!(pattern, HostPattern::Exact(_)));
    if matches!(site.root, RootTemplate::PerHost { .. }) && only_exact && site.hosts.len() == 1 {
        report.add(
            places.key(number, "root"),
            "`{host}` in the root of a site with a single host",
            Some(
                "write the folder's name, or give a host such as `\"*.example.org\"` or `\"*\"`"
                    .to_owned(),
            ),
        );
    }
}

/// Finds the positions of a site's settings in the text.
struct SettingPositions<'d, 'i> {
    document: &'d DeTable<'i>,
}

impl SettingPositions<'_, '_> {
    fn value(&self, number: usize) -> Option<&Spanned<DeValue<'_>>> {
        self.document.get("site")?.get_ref().as_array()?.get(number)
    }

    /// The position of the site's `[[site]]` line.
    fn site(&self, number: usize) -> Range<usize> {
        self.value(number).map_or(0..0, Spanned::span)
    }

    fn has(&self, number: usize, key: &str) -> bool {
        self.value(number).is_some_and(|site| site.get_ref().get(key).is_some())
    }

    /// The position of the value of a site's key, or of its `[[site]]` line if the key is missing.
    fn key(&self, number: usize, key: &str) -> Range<usize> {
        let value = self.value(number).and_then(|site| site.get_ref().get(key));
        value.map_or_else(|| self.site(number), Spanned::span)
    }

    /// The position of one of the site's hosts.
    fn host(&self, number: usize, position: usize) -> Range<usize> {
        let hosts = self.value(number).and_then(|site| site.get_ref().get("hosts"));
        let item = hosts
            .and_then(|hosts| hosts.get_ref().as_array())
            .and_then(|items| items.get(position));
        item.map_or_else(|| self.key(number, "hosts"), Spanned::span)
    }
}
