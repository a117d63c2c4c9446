//! Sums of the counters, over all threads and generations.

use std::collections::BTreeMap;

use howdah_php::counters::PoolTotals;

use super::super::histogram::Histogram;
use super::super::protocol_limits::LimitTotals;
use super::{
    BYTES, CODE_COUNT, CODES, CountedCode, DURATION, INCOMPLETE, POOL, REQUESTS, SITE_WORDS, STAFF,
    TUNNELS, UPSTREAM_ANSWERS, UPSTREAM_CONNECTIONS, UPSTREAM_REUSES, lane_key,
};

/// Sums of counters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Connections that were accepted.
    pub(crate) connections: u64,
    /// Limits of protocols that clients have met.
    pub(crate) limits: LimitTotals,
    pub(super) sites: BTreeMap<String, Vec<u64>>,
}

/// The sums of one site.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SiteTotals<'t>(pub(super) &'t [u64]);

impl Totals {
    /// The names of the sites and lanes that have counters, [`NO_SITE`](super::NO_SITE) among them.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.sites.keys().map(String::as_str)
    }

    /// Returns the sums of a site; zeros if nothing was counted.
    pub(crate) fn site(&self, name: &str) -> SiteTotals<'_> {
        SiteTotals(self.sites.get(name).map_or(&ZEROS, |words| words))
    }

    /// Returns the numbers of a site that are not 0, as `word:number`, separated by commas.
    pub(crate) fn encode(&self, name: &str) -> String {
        let words = self.sites.get(name).into_iter().flatten().enumerate();
        let counted = words.filter(|(_, number)| **number > 0);
        let texts: Vec<String> = counted.map(|(word, number)| format!("{word}:{number}")).collect();
        texts.join(",")
    }

    /// Returns the sums of a lane of a site's pool.
    pub(crate) fn lane(&self, site: &str, lane: &str) -> PoolTotals<'_> {
        self.site(&lane_key(site, lane)).pool()
    }

    /// Adds numbers of a site, as [`Totals::encode`] writes them. Malformed ones are left out.
    pub(crate) fn decode(&mut self, name: &str, text: &str) {
        let words = self.words_of(name);
        for (word, number) in text.split(',').filter_map(|part| part.split_once(':')) {
            if let (Ok(word), Ok(number)) = (word.parse::<usize>(), number.parse::<u64>())
                && let Some(sum) = words.get_mut(word)
            {
                *sum = sum.saturating_add(number);
            }
        }
    }

    pub(super) fn words_of(&mut self, name: &str) -> &mut Vec<u64> {
        // The name is copied at the first time only.
        if !self.sites.contains_key(name) {
            self.sites.insert(name.to_owned(), vec![0; SITE_WORDS]);
        }
        self.sites.get_mut(name).expect("it was just inserted")
    }
}

static ZEROS: [u64; SITE_WORDS] = [0; SITE_WORDS];

impl<'t> SiteTotals<'t> {
    /// Requests that have ended.
    pub(crate) fn requests(&self) -> u64 {
        self.0[REQUESTS]
    }

    /// Bytes of content that clients took.
    pub(crate) fn bytes(&self) -> u64 {
        self.0[BYTES]
    }

    /// Responses that broke off.
    pub(crate) fn incomplete(&self) -> u64 {
        self.0[INCOMPLETE]
    }

    /// Tunnels that have begun.
    pub(crate) fn tunnels(&self) -> u64 {
        self.0[TUNNELS]
    }

    /// Connections that were made to upstreams.
    pub(crate) fn upstream_connections(&self) -> u64 {
        self.0[UPSTREAM_CONNECTIONS]
    }

    /// Requests that went over a kept connection to an upstream.
    pub(crate) fn upstream_reuses(&self) -> u64 {
        self.0[UPSTREAM_REUSES]
    }

    /// Responses of upstreams that have begun.
    pub(crate) fn upstream_answers(&self) -> u64 {
        self.0[UPSTREAM_ANSWERS]
    }

    /// Statuses and the numbers of their responses, for those that were sent. Several may have the
    /// same name.
    pub(crate) fn codes(&self) -> impl Iterator<Item = (CountedCode, u64)> + use<'t> {
        let codes = self.0[CODES..CODES + CODE_COUNT].iter().copied().enumerate();
        let sent = codes.filter(|(_, count)| *count > 0);
        sent.map(|(place, count)| (CountedCode::at(place), count))
    }

    /// The time from head to end of response.
    pub(crate) fn duration(&self) -> Histogram {
        Histogram::of(&self.0[DURATION..POOL])
    }

    /// The counters of the site's pool.
    pub(crate) fn pool(&self) -> PoolTotals<'t> {
        PoolTotals::new(&self.0[POOL..CODES], &self.0[STAFF..])
    }
}
