//! The order of the sites.

use std::cmp::Ordering;

use crate::rates::Rates;
use crate::state::{ShownServer, ShownSite};

/// The figure that the sites are sorted by. The highest one is the first, names are from A to Z.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum SiteOrder {
    /// Requests per second, and where these are equal, all requests.
    #[default]
    Requests,
    Queue,
    Memory,
    Cpu,
    Name,
}

impl SiteOrder {
    /// Returns the order of a key; `None` if it sorts nothing.
    pub(crate) fn of_key(key: char) -> Option<SiteOrder> {
        match key.to_ascii_lowercase() {
            'r' => Some(SiteOrder::Requests),
            'u' => Some(SiteOrder::Queue),
            'm' => Some(SiteOrder::Memory),
            'c' => Some(SiteOrder::Cpu),
            'n' => Some(SiteOrder::Name),
            _ => None,
        }
    }

    /// The figure in a word.
    pub(crate) fn name(self) -> &'static str {
        match self {
            SiteOrder::Requests => "req/s",
            SiteOrder::Queue => "queue",
            SiteOrder::Memory => "memory",
            SiteOrder::Cpu => "cpu",
            SiteOrder::Name => "name",
        }
    }

    /// The heading of the column.
    pub(crate) fn column(self) -> &'static str {
        match self {
            SiteOrder::Name => "site",
            figure => figure.name(),
        }
    }

    /// Returns the sites in this order. Equal ones are in the order of the configuration.
    pub(crate) fn sorted<'s>(
        self,
        status: &'s ShownServer,
        rates: &Rates,
        is_reversed: bool,
    ) -> Vec<&'s ShownSite> {
        let mut sites: Vec<&ShownSite> = status.sites.iter().collect();
        sites.sort_by(|one, other| match is_reversed {
            true => self.compare(other, one, rates),
            false => self.compare(one, other, rates),
        });
        sites
    }

    fn compare(self, one: &ShownSite, other: &ShownSite, rates: &Rates) -> Ordering {
        let rate = |site: &ShownSite| rates.site(&site.name).unwrap_or(0.0);
        let share = |site: &ShownSite| rates.pool(&site.name).unwrap_or(0.0);
        let queue = |site: &ShownSite| site.pool.as_ref().map(|pool| pool.queue);
        let memory = |site: &ShownSite| site.pool.as_ref().map(|pool| pool.memory);
        match self {
            SiteOrder::Requests => {
                let all = || other.requests.cmp(&one.requests);
                rate(other).total_cmp(&rate(one)).then_with(all)
            }
            SiteOrder::Queue => queue(other).cmp(&queue(one)),
            SiteOrder::Memory => memory(other).cmp(&memory(one)),
            SiteOrder::Cpu => share(other).total_cmp(&share(one)),
            SiteOrder::Name => one.name.cmp(&other.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(time: f64, pass: u64) -> ShownServer {
        let site = |name: &str, requests: u64, queue: u64, memory: u64, cpu: f64| {
            format!(
                r#"{{"name": "{name}", "requests": {}, "pool": {{"queue": {queue},
                    "memory": {memory}, "cpu": {}}}}}"#,
                requests * pass,
                cpu * pass as f64
            )
        };
        let text = format!(
            r#"{{"time": {time}, "sites": [{}, {}, {}, {{"name": "plain", "requests": 9}}]}}"#,
            site("c", 1, 3, 10, 0.5),
            site("a", 2, 1, 30, 0.1),
            site("b", 3, 2, 20, 0.9),
        );
        ShownServer::parse(&text).unwrap()
    }

    #[test]
    fn the_highest_figure_is_the_first_and_names_are_from_a_to_z() {
        let (before, now) = (status(1.0, 1), status(2.0, 5));
        let rates = Rates::of(&before, &now);
        for (key, expected) in [
            ('r', ["b", "a", "c", "plain"]),
            ('U', ["c", "b", "a", "plain"]),
            ('m', ["a", "b", "c", "plain"]),
            ('c', ["b", "c", "a", "plain"]),
            ('n', ["a", "b", "c", "plain"]),
        ] {
            let order = SiteOrder::of_key(key).unwrap();
            let names = |is_reversed| {
                let sites = order.sorted(&now, &rates, is_reversed);
                sites.iter().map(|site| site.name.clone()).collect::<Vec<_>>()
            };
            assert_eq!(names(false), expected, "{key}");
            let mut reversed = expected;
            reversed.reverse();
            assert_eq!(names(true), reversed, "{key}");
        }
    }

    #[test]
    fn without_rates_all_requests_count_and_equal_sites_keep_their_order() {
        let now = status(1.0, 1);
        let rates = Rates::of(&now, &now);
        let names = |order: SiteOrder| {
            let sites = order.sorted(&now, &rates, false);
            sites.iter().map(|site| site.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(SiteOrder::Requests), ["plain", "b", "a", "c"]);
        assert_eq!(names(SiteOrder::Cpu), ["c", "a", "b", "plain"]);
    }
}
