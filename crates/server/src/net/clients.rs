//! Limits of each client's network: connections at once, and requests in a time.
//!
//! A client is an IPv4 address or an IPv6 network; all loopback addresses are one. The tables are
//! divided into shards with a lock each; a lock is held for one look-up. Where no rate is
//! configured, a request touches none.

mod held_memory;
mod open_streams;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use howdah_config::{Config, Count, Rate};

pub(crate) use self::held_memory::{ArrivingHead, FilterMemory, HeldMemory, NO_MEMORY_FOR_HEAD};
pub(crate) use self::open_streams::ClientStreams;
use self::open_streams::StreamAccount;
use super::deadline::ClientTag;

/// Connections that no client is refused because of `"auto"`, where the server may have many more.
const FEW: usize = 256;
/// Shards of the tables. Threads seldom need the same one.
const SHARDS: usize = 64;
/// Clients of a shard whose requests are counted at once. Further ones are served without being
/// counted, so that many addresses cannot take memory without end, or drop what is known of
/// others. An entry expires as soon as its client has its whole burst again.
const MOST_COUNTED: usize = 4096;
/// The shortest time between two searches of a full shard for entries that have expired.
const SEARCH: Duration = Duration::from_millis(100);

/// The accounts of all clients.
#[derive(Debug)]
pub(crate) struct Clients {
    prefixes: (u64, u64),
    connections: Count,
    /// By site; the last one is for requests of no site.
    rates: Box<[RateAccount]>,
    /// By site.
    tunnels: Box<[SiteTunnels]>,
    state: RandomState,
    shards: Box<[Mutex<ClientShard>]>,
    /// Bytes of `client_memory` that are in use, by the hash of the client's network.
    held: Box<[AtomicUsize]>,
    most_held: usize,
    began: Instant,
}

/// The rate of requests that a site allows, and whose account they are counted in.
#[derive(Debug, Clone, Copy)]
struct RateAccount {
    /// Nanoseconds between two requests in the long run; 0: no limit.
    interval: u64,
    /// Nanoseconds that a burst is ahead of that.
    ahead: u64,
    /// The number of the site that has a rate of its own, plus 1; 0 for the server's rate.
    owner: u32,
}

/// The tunnels of a site.
#[derive(Debug)]
struct SiteTunnels {
    open: AtomicUsize,
    most: usize,
    most_of_client: usize,
}

/// The limit that refuses a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TooManyTunnels {
    /// `tunnels`.
    Site,
    /// `client_tunnels`.
    Client,
}

#[derive(Debug, Default)]
struct ClientShard {
    connections: HashMap<NetworkKey, ClientConnections>,
    /// Nanoseconds after `began` at which the client has its whole burst again (the generic cell
    /// rate algorithm's theoretical arrival time).
    requests: HashMap<(NetworkKey, u32), u64>,
    /// Tunnels by client and site.
    tunnels: HashMap<(NetworkKey, usize), usize>,
    /// The time when a full shard was last searched.
    searched: u64,
}

/// The connections of a client.
#[derive(Debug, Default)]
struct ClientConnections {
    count: usize,
    /// The requests that the client has open, and the memory of the connections that may have
    /// several. `None` until there is such a connection.
    streams: Option<Arc<StreamAccount>>,
}

/// The network of a client: its address with zeros behind the prefix.
type NetworkKey = IpAddr;

/// A connection in its client's account, until dropped.
#[derive(Debug)]
pub(crate) struct CountedConnection<'c> {
    clients: &'c Clients,
    network: NetworkKey,
    number: usize,
}

impl CountedConnection<'_> {
    /// The number of connections that the client had when this one began, with this one.
    pub(crate) fn number(&self) -> usize {
        self.number
    }
}

impl Clients {
    pub(crate) fn new(config: &Config) -> Clients {
        let limits = &config.limits;
        let account = |rate: Rate, burst: u32, owner: usize| {
            let interval = rate.interval();
            RateAccount {
                interval,
                ahead: interval.saturating_mul(u64::from(burst)),
                owner: owner as u32,
            }
        };
        let server = account(limits.client_requests, limits.client_burst, 0);
        let sites = config.sites.iter().enumerate().map(|(number, site)| {
            match (site.client_requests, site.client_burst) {
                (None, None) => server,
                (rate, burst) => account(
                    rate.unwrap_or(limits.client_requests),
                    burst.unwrap_or(limits.client_burst),
                    number + 1,
                ),
            }
        });
        let tunnels = config.sites.iter().map(|site| SiteTunnels {
            open: AtomicUsize::new(0),
            most: site.tunnels,
            most_of_client: site.client_tunnels,
        });
        Clients {
            tunnels: tunnels.collect(),
            prefixes: (limits.client_prefix_v4, limits.client_prefix_v6),
            connections: limits.client_connections,
            rates: sites.chain([server]).collect(),
            state: RandomState::new(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            held: (0..Clients::ACCOUNTS).map(|_| AtomicUsize::new(0)).collect(),
            // With one byte, those that count as a whole account come one after the other.
            most_held: limits.client_memory.max(1),
            began: Instant::now(),
        }
    }

    /// Counts a connection of `client`; `open` is the number of connections that the server has,
    /// and `most` the number that it may have. `None`: the client has as many as it may have.
    pub(crate) fn connect(
        &self,
        client: IpAddr,
        open: usize,
        most: usize,
    ) -> Option<CountedConnection<'_>> {
        let allowed = match self.connections {
            Count::Exactly(number) => number,
            // The last quarter is for clients that have few.
            Count::Auto if open > most - most / 4 => (most / 16).max(FEW.min(most - most / 4)),
            Count::Auto => usize::MAX,
        };
        let network = self.network(client);
        let mut shard = self.shard(network);
        let count = &mut shard.connections.entry(network).or_default().count;
        if *count >= allowed {
            return None;
        }
        *count += 1;
        Some(CountedConnection { clients: self, network, number: *count })
    }

    /// Counts a connection of a client that has as many as it may have, in place of another one of
    /// its own that is about to end.
    pub(crate) fn connect_instead(&self, client: IpAddr) -> CountedConnection<'_> {
        let network = self.network(client);
        let mut shard = self.shard(network);
        let count = &mut shard.connections.entry(network).or_default().count;
        *count += 1;
        CountedConnection { clients: self, network, number: *count }
    }

    /// Returns the number that all connections of the client have in the watches of deadlines.
    pub(crate) fn tag(&self, client: IpAddr) -> ClientTag {
        self.state.hash_one(self.network(client)) as ClientTag
    }

    /// Counts a tunnel of `client` at the site with this number. [`Clients::end_tunnel`] must
    /// follow.
    ///
    /// # Errors
    /// The site or the client has as many tunnels as it may have.
    pub(crate) fn begin_tunnel(&self, client: IpAddr, site: usize) -> Result<(), TooManyTunnels> {
        let tunnels = &self.tunnels[site];
        let network = self.network(client);
        let mut shard = self.shard(network);
        let of_client = shard.tunnels.get(&(network, site)).copied().unwrap_or(0);
        if of_client >= tunnels.most_of_client {
            return Err(TooManyTunnels::Client);
        }
        if tunnels.open.fetch_add(1, Ordering::Relaxed) >= tunnels.most {
            tunnels.open.fetch_sub(1, Ordering::Relaxed);
            return Err(TooManyTunnels::Site);
        }
        shard.tunnels.insert((network, site), of_client + 1);
        Ok(())
    }

    /// The number of tunnels that the site with this number has.
    pub(crate) fn open_tunnels(&self, site: usize) -> usize {
        self.tunnels.get(site).map_or(0, |tunnels| tunnels.open.load(Ordering::Relaxed))
    }

    /// Ends a tunnel that [`Clients::begin_tunnel`] has allowed.
    pub(crate) fn end_tunnel(&self, client: IpAddr, site: usize) {
        self.tunnels[site].open.fetch_sub(1, Ordering::Relaxed);
        let network = self.network(client);
        let mut shard = self.shard(network);
        if let Some(count) = shard.tunnels.get_mut(&(network, site)) {
            *count -= 1;
            if *count == 0 {
                shard.tunnels.remove(&(network, site));
            }
        }
    }

    /// Counts a request of `client` to the site with this number.
    ///
    /// # Errors
    /// The client has sent too many; the time after which the next one is served.
    #[inline]
    pub(crate) fn request(&self, client: IpAddr, site: usize) -> Result<(), Duration> {
        let account = self.rates[site.min(self.rates.len() - 1)];
        if account.interval == 0 {
            return Ok(());
        }
        let now = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.count(client, account, now)
    }

    fn count(&self, client: IpAddr, account: RateAccount, now: u64) -> Result<(), Duration> {
        let network = self.network(client);
        let mut shard = self.shard(network);
        let key = (network, account.owner);
        let due = shard.requests.get(&key).copied().unwrap_or(0).max(now) + account.interval;
        if due - now > account.ahead {
            return Err(Duration::from_nanos(due - now - account.ahead));
        }
        if shard.requests.len() < MOST_COUNTED || shard.requests.contains_key(&key) {
            shard.requests.insert(key, due);
        } else if now >= shard.searched + SEARCH.as_nanos() as u64 {
            shard.searched = now;
            shard.requests.retain(|_, due| *due > now);
        }
        Ok(())
    }

    /// Returns the network of a client: its address with zeros behind the prefix. All loopback
    /// addresses are one.
    #[inline]
    pub(crate) fn network(&self, client: IpAddr) -> IpAddr {
        let (v4, v6) = self.prefixes;
        match client_address(client) {
            IpAddr::V4(address) => {
                let host = 32 - v4;
                Ipv4Addr::from_bits(address.to_bits() >> host << host).into()
            }
            IpAddr::V6(address) => {
                let host = 128 - v6;
                Ipv6Addr::from_bits(address.to_bits() >> host << host).into()
            }
        }
    }

    fn shard(&self, network: NetworkKey) -> MutexGuard<'_, ClientShard> {
        let number = self.state.hash_one(network) as usize % SHARDS;
        self.shards[number].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the address that identifies a client in every limit. Any program on this machine can
/// connect from each of the 16 million loopback addresses: they are all one client, 127.0.0.1.
pub(crate) fn client_address(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        address if address.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        address => address,
    }
}

impl Drop for CountedConnection<'_> {
    fn drop(&mut self) {
        let mut shard = self.clients.shard(self.network);
        if let Some(connections) = shard.connections.get_mut(&self.network) {
            connections.count -= 1;
            if connections.count == 0 {
                shard.connections.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients(limits: &str, site: &str) -> Clients {
        let text = format!("[limits]\n{limits}\n[[site]]\nroot = \"/srv\"\nphp = false\n{site}");
        Clients::new(&Config::parse(&text, "test.toml").expect("the configuration is right"))
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_burst_passes_at_once_and_then_the_rate_holds() {
        let clients = clients("client_requests = \"5/s\"\nclient_burst = 10", "");
        let (one, other) = (address("192.0.2.1"), address("192.0.2.2"));
        let account = clients.rates[0];
        let passed =
            |client, now| (0..100).filter(|_| clients.count(client, account, now).is_ok()).count();
        assert_eq!(passed(one, SECOND), 10);
        assert_eq!(passed(other, SECOND), 10);
        assert_eq!(passed(one, 2 * SECOND), 5);
        assert_eq!(clients.count(one, account, 2 * SECOND), Err(Duration::from_millis(200)));
        assert_eq!(passed(one, 100 * SECOND), 10);
    }

    #[test]
    fn a_site_may_have_a_rate_of_its_own_or_none() {
        let strict = clients("", "client_requests = \"1/m\"\nclient_burst = 1");
        let client = address("192.0.2.1");
        assert!(strict.request(client, 0).is_ok());
        assert!(strict.request(client, 0).unwrap_err() > Duration::from_secs(50));
        assert!((0..100).all(|_| strict.request(client, 1).is_ok()), "the server has none");
        let lax = clients("client_requests = \"1/h\"", "client_requests = \"off\"");
        assert!((0..1000).all(|_| lax.request(client, 0).is_ok()));
        assert!(lax.shards.iter().all(|shard| shard.lock().unwrap().requests.is_empty()));
    }

    #[test]
    fn an_ipv6_network_is_one_client() {
        let clients = clients("client_connections = 1", "");
        let first = clients.connect(address("2001:db8::1"), 0, 100);
        assert!(first.is_some());
        assert!(clients.connect(address("2001:db8::ffff:2"), 0, 100).is_none());
        assert!(clients.connect(address("2001:db8:0:1::1"), 0, 100).is_some());
        let mapped = clients.connect(address("::ffff:192.0.2.1"), 0, 100);
        assert!(mapped.is_some() && clients.connect(address("192.0.2.1"), 0, 100).is_none());
        assert!(clients.connect(address("192.0.2.2"), 0, 100).is_some());
        drop(first);
        assert!(clients.connect(address("2001:db8::1"), 0, 100).is_some());
    }

    #[test]
    fn all_loopback_addresses_are_one_client_in_every_limit() {
        for loopback in ["127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1", "::ffff:127.1.2.3"] {
            assert_eq!(client_address(address(loopback)), address("127.0.0.1"), "{loopback}");
        }
        for other in ["126.255.255.255", "128.0.0.1", "192.0.2.1", "10.0.0.1", "::2", "fe80::1"] {
            assert_eq!(client_address(address(other)), address(other));
        }
        assert_eq!(client_address(address("::ffff:192.0.2.1")), address("192.0.2.1"));
        let clients = clients(
            "client_connections = 1\nclient_requests = \"1/m\"\nclient_burst = 1",
            "client_tunnels = 1",
        );
        let _one = clients.connect(address("127.0.0.1"), 0, 100).expect("there is room");
        assert!(clients.begin_tunnel(address("::1"), 0).is_ok());
        assert!(clients.request(address("127.0.0.2"), 0).is_ok());
        for loopback in ["127.255.255.254", "::ffff:127.0.0.3", "::1"] {
            assert!(clients.connect(address(loopback), 0, 100).is_none(), "{loopback}");
            assert!(clients.begin_tunnel(address(loopback), 0).is_err(), "{loopback}");
            assert!(clients.request(address(loopback), 0).is_err(), "{loopback}");
        }
    }

    #[test]
    fn one_client_takes_at_most_three_quarters_of_all_connections() {
        let clients = clients("", "");
        let mut open = Vec::new();
        let greedy = address("192.0.2.1");
        while let Some(connection) = clients.connect(greedy, open.len() + 1, 16_000) {
            open.push(connection);
        }
        assert_eq!(open.len(), 12_000);
        let other = address("192.0.2.2");
        let others: Vec<_> = (0..1000)
            .map_while(|number| clients.connect(other, open.len() + number, 16_000))
            .collect();
        assert_eq!(others.len(), 1000);
        assert!(clients.connect(other, 13_001, 16_000).is_none());
        drop((open, others));
        assert!(clients.shards.iter().all(|shard| shard.lock().unwrap().connections.is_empty()));
    }

    #[test]
    fn one_client_takes_no_more_of_few_connections() {
        let clients = clients("", "");
        for most in [8, 16, 100, 256, 300, 400] {
            let mut open = Vec::new();
            let greedy = address("127.0.0.1");
            while let Some(connection) = clients.connect(greedy, open.len() + 1, most) {
                open.push(connection);
            }
            assert_eq!(open.len(), most - most / 4);
            assert!(clients.connect(address("127.0.0.2"), open.len() + 1, most).is_none());
            assert!(clients.connect(address("192.0.2.1"), open.len() + 1, most).is_some());
        }
    }

    #[test]
    fn tunnels_are_limited_by_site_and_by_client() {
        let clients = clients("", "tunnels = 3\nclient_tunnels = 2");
        let (one, other) = (address("192.0.2.1"), address("192.0.2.2"));
        assert!((0..2).all(|_| clients.begin_tunnel(one, 0).is_ok()));
        assert_eq!(clients.begin_tunnel(one, 0), Err(TooManyTunnels::Client));
        assert_eq!(clients.begin_tunnel(other, 0), Ok(()));
        assert_eq!(clients.begin_tunnel(other, 0), Err(TooManyTunnels::Site));
        assert_eq!(clients.open_tunnels(0), 3);
        clients.end_tunnel(one, 0);
        assert_eq!(clients.begin_tunnel(other, 0), Ok(()));
        [one, other, other].into_iter().for_each(|client| clients.end_tunnel(client, 0));
        assert_eq!(clients.open_tunnels(0), 0);
        assert!(clients.shards.iter().all(|shard| shard.lock().unwrap().tunnels.is_empty()));
    }

    #[test]
    fn a_crowd_of_addresses_takes_no_memory_without_end_and_drops_no_account() {
        let clients = clients("client_requests = \"1/m\"\nclient_burst = 1", "");
        let account = clients.rates[0];
        let honest = address("198.51.100.1");
        assert!(clients.count(honest, account, 0).is_ok());
        for number in 0..2 * (SHARDS * MOST_COUNTED) as u32 {
            assert!(clients.count(IpAddr::V4(number.into()), account, 0).is_ok());
        }
        let counted = || -> usize {
            clients.shards.iter().map(|shard| shard.lock().unwrap().requests.len()).sum()
        };
        assert!(counted() <= SHARDS * MOST_COUNTED);
        assert!(clients.count(honest, account, SECOND).is_err());
        // Entries expire; those of new clients are counted again.
        let later = 100 * SECOND;
        for number in 0..10_000_u32 {
            let _ = clients.count(IpAddr::V4((number | 1 << 31).into()), account, later);
        }
        assert!(counted() < 20_000 + SHARDS, "{}", counted());
    }
}
