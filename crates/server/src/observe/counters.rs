//! The counters of requests: plain numbers, which each thread of the front writes for itself.
//!
//! The numbers are in memory that the supervisor has made and shares with the front, therefore they
//! survive the front. Counting takes no lock, no atomic addition and no system call. The sums over
//! all threads and generations are made when somebody asks for them ([`Ledger`]).

mod clients;
mod codes;
mod ledger;
mod site_errors;
mod totals;

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use howdah_http::Status;
use howdah_php::counters::{COUNTER_WORDS, Counters, HISTOGRAM_WORDS, PoolCounters, STAFF_WORDS};
use howdah_sys::memory::SharedNumbers;

pub(crate) use self::clients::PLACES;
#[cfg(test)]
pub(crate) use self::clients::Tally;
use self::clients::{ClientCounters, ClientNumbers, PlaceNumbers};
use self::codes::{CODE_COUNT, CountedCode};
pub(crate) use self::ledger::Ledger;
#[cfg(test)]
pub(crate) use self::site_errors::ClientResponses;
pub(crate) use self::site_errors::{ErrorShare, SiteErrors};
pub(crate) use self::totals::{SiteTotals, Totals};
use super::access_log::RequestRecord;
use super::culprit::Excuse;
use super::protocol_limits::{self, ProtocolLimit};

/// Words of a site: see the constants below.
pub(crate) const SITE_WORDS: usize = 648;
const REQUESTS: usize = 0;
const BYTES: usize = 1;
const INCOMPLETE: usize = 2;
/// The histogram of the time from head to end of response.
const DURATION: usize = 3;
const POOL: usize = DURATION + HISTOGRAM_WORDS;
/// The requests of each status.
const CODES: usize = POOL + COUNTER_WORDS;
/// Tunnels that have begun.
const TUNNELS: usize = CODES + CODE_COUNT;
/// Connections that were made to upstreams, and requests that went over a kept one.
const UPSTREAM_CONNECTIONS: usize = TUNNELS + 1;
const UPSTREAM_REUSES: usize = TUNNELS + 2;
/// The sums over the workers of the pool. An older program counts something else in the word before
/// them, and in the two words after them.
const STAFF: usize = UPSTREAM_REUSES + 2;
/// Responses of upstreams that have begun.
const UPSTREAM_ANSWERS: usize = STAFF + STAFF_WORDS + 2;
const _: () = assert!(UPSTREAM_ANSWERS < SITE_WORDS);

/// The words of a thread before those of its sites.
const CONNECTIONS: usize = 0;
/// The limits of protocols that clients have met. They are the last ones.
const LIMITS: usize = CONNECTIONS + 1;
/// The words of a cache line. The words of a site begin with one.
const LINE: usize = 8;

/// The name of what belongs to no site, or to no lane.
pub(crate) const NO_SITE: &str = "-";

/// The counters of a generation's front.
#[derive(Debug)]
pub(crate) struct FrontCounters {
    numbers: Arc<SharedNumbers>,
    clients: ClientNumbers,
    threads: usize,
    /// The names of the sites, in the order of the configuration, then [`NO_SITE`], then those of
    /// the lanes of pools.
    names: Vec<String>,
    /// By name: its place among the names.
    places: HashMap<String, usize>,
    /// By site: the places of its lanes among the names.
    lanes: Vec<Range<usize>>,
    /// The limits of protocols that are counted.
    limits: Arc<[ProtocolLimit]>,
}

/// The counters of one thread of the front.
#[derive(Debug)]
pub(crate) struct ThreadCounters {
    server: Counters,
    /// The limits of protocols that are counted.
    limits: Arc<[ProtocolLimit]>,
    clients: ClientCounters,
    /// By site. The last ones are for requests of no site.
    sites: Box<[Counters]>,
    /// By site, those of its pool.
    pools: Box<[PoolCounters]>,
}

/// The figures of a request's record that counters add up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CountedFigures {
    pub(crate) status: Status,
    /// Bytes of content that the client took.
    pub(crate) bytes: u64,
    pub(crate) took: Duration,
    /// Whether the response was sent completely.
    pub(crate) is_complete: bool,
    /// Whether a script or an upstream was to make the response.
    pub(crate) is_made: bool,
    /// Why a status of 5xx is no error of the site's configuration; `None` where it is one.
    pub(crate) excuse: Option<Excuse>,
    /// The client's network, as limits see it.
    pub(crate) client: IpAddr,
}

impl CountedFigures {
    /// Returns the figures of a request of `client` that has ended.
    #[inline]
    pub(crate) fn of(record: &RequestRecord<'_>, client: IpAddr) -> CountedFigures {
        CountedFigures {
            status: record.response.head.status,
            bytes: record.sent,
            took: record.took,
            is_complete: record.complete,
            is_made: record.response.is_made,
            excuse: record.response.excuse,
            client,
        }
    }
}

impl FrontCounters {
    /// Makes the counters for that number of threads, these sites, each with the names of its
    /// lanes, and these limits of protocols.
    ///
    /// # Errors
    /// The error of a system call.
    pub(crate) fn new(
        threads: usize,
        sites: Vec<(String, Vec<&str>)>,
        limits: Vec<ProtocolLimit>,
    ) -> io::Result<FrontCounters> {
        let mut names: Vec<_> = sites.iter().map(|(name, _)| name.clone()).collect();
        names.push(NO_SITE.to_owned());
        let mut lanes = Vec::new();
        for (site, own) in &sites {
            let first = names.len();
            names.extend(own.iter().map(|lane| lane_key(site, lane)));
            lanes.push(first..names.len());
        }
        let words = own_words(&limits) + names.len() * SITE_WORDS;
        let numbers = Arc::new(SharedNumbers::new(threads * words)?);
        let clients = ClientNumbers::new(threads, sites.len())?;
        let places = names.iter().cloned().zip(0..).collect();
        let limits = limits.into();
        Ok(FrontCounters {
            numbers,
            clients,
            threads,
            names,
            places,
            lanes,
            limits,
        })
    }

    /// Returns the counters of a thread. Only that thread may count with them.
    pub(crate) fn thread(&self, thread: usize) -> ThreadCounters {
        let first = thread * self.thread_words();
        let at = |word| Counters::new(Arc::clone(&self.numbers), word);
        let word = |place| first + own_words(&self.limits) + place * SITE_WORDS;
        let pool = |place| at(word(place) + POOL);
        let pools = self.lanes.iter().enumerate().map(|(site, lanes)| PoolCounters {
            all: pool(site),
            staff: at(word(site) + STAFF),
            lanes: lanes.clone().map(pool).collect::<Rc<[_]>>(),
        });
        ThreadCounters {
            server: at(first),
            limits: Arc::clone(&self.limits),
            clients: self.clients.thread(thread),
            sites: (0..=self.lanes.len()).map(|site| at(word(site))).collect(),
            pools: pools.collect(),
        }
    }

    /// Returns the responses of each site that say something of its configuration.
    pub(crate) fn server_errors(&self) -> Vec<SiteErrors> {
        let mut totals = Totals::default();
        self.add_to(&mut totals);
        let sites = self.names[..self.lanes.len()].iter().enumerate();
        sites
            .map(|(site, name)| SiteErrors::of(name, totals.site(name), &self.clients_of(site)))
            .collect()
    }

    /// Returns the numbers of each place for the clients of a site. Reading takes no memory for a
    /// site without requests.
    fn clients_of(&self, site: usize) -> [PlaceNumbers; PLACES] {
        let mut sums = [PlaceNumbers::default(); PLACES];
        let requests = |thread| {
            let first = thread * self.thread_words() + own_words(&self.limits) + site * SITE_WORDS;
            self.numbers.load(first + REQUESTS)
        };
        (0..self.threads)
            .filter(|thread| requests(*thread) > 0)
            .for_each(|thread| self.clients.add_to(thread, site, &mut sums));
        sums
    }

    fn thread_words(&self) -> usize {
        own_words(&self.limits) + self.names.len() * SITE_WORDS
    }

    /// Adds all numbers to `totals`.
    fn add_to(&self, totals: &mut Totals) {
        for first in (0..self.threads).map(|thread| thread * self.thread_words()) {
            let connections = self.numbers.load(first + CONNECTIONS);
            totals.connections = totals.connections.saturating_add(connections);
            for (word, limit) in (first + LIMITS..).zip(self.limits.iter()) {
                totals.limits.add(*limit, self.numbers.load(word));
            }
        }
        for (place, name) in self.names.iter().enumerate() {
            self.add_place(place, totals.words_of(name));
        }
    }

    /// Adds the numbers of one site to `totals`.
    fn add_site_to(&self, name: &str, totals: &mut Totals) {
        if let Some(place) = self.places.get(name) {
            self.add_place(*place, totals.words_of(name));
        }
    }

    /// Adds the numbers at a place among the names to `sums`.
    fn add_place(&self, place: usize, sums: &mut [u64]) {
        for thread in 0..self.threads {
            let thread = thread * self.thread_words() + own_words(&self.limits);
            let first = thread + place * SITE_WORDS;
            for (word, sum) in sums.iter_mut().enumerate() {
                *sum = sum.saturating_add(self.numbers.load(first + word));
            }
        }
    }
}

impl ThreadCounters {
    /// Counts a request of the site with this number in the configuration; `None` for no site.
    #[inline]
    pub(crate) fn count(&self, site: Option<usize>, ended: CountedFigures) {
        let last = self.sites.len() - 1;
        let counters = &self.sites[site.map_or(last, |site| site.min(last))];
        counters.add(REQUESTS, 1);
        counters.add(BYTES, ended.bytes);
        if !ended.is_complete {
            counters.add(INCOMPLETE, 1);
        }
        let took = u64::try_from(ended.took.as_micros()).unwrap_or(u64::MAX);
        counters.observe(DURATION, took);
        counters.add(CODES + codes::place_of(ended.status), 1);
        if let Some(site) = site {
            self.clients.count(site, &ended);
        }
    }

    /// Counts a connection that was accepted.
    pub(crate) fn count_connection(&self) {
        self.server.add(CONNECTIONS, 1);
    }

    /// Counts that a client has met the limit with this key, one that the protocol has named.
    pub(crate) fn count_limit(&self, protocol: &str, key: &str) {
        let place = protocol_limits::place(&self.limits, (protocol, key));
        debug_assert!(place.is_some(), "{protocol} {key}");
        place.iter().for_each(|place| self.server.add(LIMITS + place, 1));
    }

    /// Counts a tunnel of the site with this number that has begun.
    pub(crate) fn count_tunnel(&self, site: usize) {
        self.sites[site.min(self.sites.len() - 1)].add(TUNNELS, 1);
    }

    /// Counts a request of the site with this number to an upstream. `is_kept`: over a connection
    /// that had one before.
    pub(crate) fn count_upstream(&self, site: usize, is_kept: bool) {
        let word = if is_kept { UPSTREAM_REUSES } else { UPSTREAM_CONNECTIONS };
        self.sites[site.min(self.sites.len() - 1)].add(word, 1);
    }

    /// Counts a response of an upstream of the site with this number that has begun.
    pub(crate) fn count_upstream_answer(&self, site: usize) {
        self.sites[site.min(self.sites.len() - 1)].add(UPSTREAM_ANSWERS, 1);
    }

    /// Returns the counters of a site's pool.
    pub(crate) fn pool(&self, site: usize) -> &PoolCounters {
        &self.pools[site]
    }
}

/// Returns the words of a thread before those of its sites.
fn own_words(limits: &[ProtocolLimit]) -> usize {
    (LIMITS + limits.len()).next_multiple_of(LINE)
}

/// The name under which the counters of a lane are kept. No site can have that name.
fn lane_key(site: &str, lane: &str) -> String {
    format!("{site}/{lane}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(status: Status, bytes: u64) -> CountedFigures {
        CountedFigures {
            status,
            bytes,
            took: Duration::from_millis(3),
            is_complete: true,
            is_made: false,
            excuse: None,
            client: [192, 0, 2, 1].into(),
        }
    }

    fn front(sites: &[&str]) -> Arc<FrontCounters> {
        let sites = sites.iter().map(|&site| (site.to_owned(), Vec::new())).collect();
        Arc::new(FrontCounters::new(2, sites, vec![("one", "pings"), ("two", "pings")]).unwrap())
    }

    #[test]
    fn sums_are_over_threads_and_fronts_by_name() {
        let (first, second) = (front(&["shop", "blog"]), front(&["blog"]));
        let mut ledger = Ledger::default();
        ledger.add(Arc::clone(&first));
        first.thread(0).count(Some(1), ended(Status::OK, 10));
        first.thread(1).count(Some(1), ended(Status::NOT_FOUND, 5));
        first.thread(1).count(None, ended(Status::BAD_REQUEST, 1));
        first.thread(1).count_connection();
        first.thread(0).count_limit("two", "pings");
        first.thread(1).count_limit("two", "pings");
        ledger.add(Arc::clone(&second));
        let before = ledger.totals();
        ledger.fold(|front| Arc::ptr_eq(front, &first));
        assert_eq!(ledger.totals(), before, "an end changes no sum");
        second.thread(0).count(Some(0), ended(Status::OK, 7));

        let totals = ledger.totals();
        let blog = totals.site("blog");
        assert_eq!((blog.requests(), blog.bytes(), totals.connections), (3, 22, 1));
        let limits = totals.limits.by_name();
        assert_eq!((limits["one"]["pings"], limits["two"]["pings"]), (0, 2));
        let codes = |site| -> Vec<(String, u64)> {
            let codes = totals.site(site).codes();
            codes.map(|(code, count)| (code.name(), count)).collect()
        };
        assert_eq!(codes("blog"), [("200".to_owned(), 2), ("404".to_owned(), 1)]);
        assert_eq!(codes(NO_SITE), [("400".to_owned(), 1)]);
        assert_eq!((totals.site("shop").requests(), totals.site("none").requests()), (0, 0));
        assert_eq!(totals.names().collect::<Vec<_>>(), [NO_SITE, "blog", "shop"]);

        let one = ledger.site("blog");
        assert_eq!(one.names().collect::<Vec<_>>(), ["blog"], "no other site is looked at");
        assert_eq!(one.site("blog").0, totals.site("blog").0);
        assert_eq!(ledger.site("none").site("none").requests(), 0);
    }

    #[test]
    fn sums_survive_their_encoding() {
        let front = front(&["shop"]);
        front.thread(0).count(Some(0), ended(Status::OK, 10));
        let mut ledger = Ledger::default();
        ledger.add(front);
        let totals = ledger.totals();
        let mut decoded = Totals::default();
        decoded.decode("shop", &totals.encode("shop"));
        decoded.decode(NO_SITE, "nonsense,1:x,999999:1,:");
        assert_eq!(decoded.sites, totals.sites);
    }

    #[test]
    fn a_histogram_counts_up_to_its_bounds() {
        let front = front(&["shop"]);
        for milliseconds in [1, 3, 3, 600_000] {
            let took = Duration::from_millis(milliseconds);
            front.thread(0).count(Some(0), CountedFigures { took, ..ended(Status::OK, 0) });
        }
        let mut ledger = Ledger::default();
        ledger.add(front);
        let duration = ledger.totals().site("shop").duration();
        assert_eq!(duration.count, 4);
        assert_eq!(duration.buckets[3], (0.001, 1));
        assert_eq!(duration.buckets.last(), Some(&(60.0, 3)));
        assert!((duration.sum - 600.007).abs() < 1e-9, "{}", duration.sum);
        assert_eq!((duration.quantile(0.5), duration.quantile(0.99)), (Some(0.005), None));
    }
}
