//! The queue of a crew: which job is next. Sites take turns, and within a site the clients do.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};

use crate::net::client_address;

/// The bounds of a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueBounds {
    /// Jobs of one site that wait. Further ones are refused.
    pub(crate) site: usize,
    /// Jobs of one client network that wait at one site. Further ones are refused.
    pub(crate) client: usize,
    /// Jobs of one site that are done at a time.
    pub(crate) at_a_time: usize,
}

/// The origin of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobOrigin {
    /// The number of the site.
    pub(crate) site: usize,
    pub(crate) network: ClientNetwork,
}

/// The network of a client: an IPv4 address, or the /64 of an IPv6 address, which one subscriber
/// has. All loopback addresses are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientNetwork(u128);

/// Jobs that wait.
#[derive(Debug)]
pub(super) struct JobQueue<J> {
    bounds: QueueBounds,
    sites: HashMap<usize, SiteJobs<J>>,
    /// The sites with jobs that wait, the next one first.
    order: VecDeque<usize>,
}

/// The jobs of one site.
#[derive(Debug)]
struct SiteJobs<J> {
    clients: HashMap<ClientNetwork, VecDeque<J>>,
    /// The clients with jobs that wait, the next one first.
    order: VecDeque<ClientNetwork>,
    waiting: usize,
    /// Jobs that are being done.
    running: usize,
}

/// A job that was refused: too many wait already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CrewFull;

impl ClientNetwork {
    pub(crate) fn of(address: IpAddr) -> ClientNetwork {
        match client_address(address) {
            IpAddr::V4(address) => ClientNetwork(address.to_ipv6_mapped().to_bits()),
            IpAddr::V6(address) => {
                ClientNetwork(Ipv6Addr::to_bits(address) & !u128::from(u64::MAX))
            }
        }
    }

    /// A number that no other network has.
    pub(crate) fn number(self) -> u128 {
        self.0
    }
}

impl<J> JobQueue<J> {
    pub(super) fn new(bounds: QueueBounds) -> JobQueue<J> {
        JobQueue {
            bounds,
            sites: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Returns whether a job of that origin can be added.
    pub(super) fn has_room(&self, origin: JobOrigin) -> bool {
        let known = self.sites.get(&origin.site);
        let of_site = known.map_or(0, |site| site.waiting);
        let of_client = known.and_then(|site| site.clients.get(&origin.network));
        of_site < self.bounds.site && of_client.map_or(0, VecDeque::len) < self.bounds.client
    }

    /// Adds a job.
    ///
    /// # Errors
    /// Where too many jobs of the site or of the client wait already.
    pub(super) fn push(&mut self, origin: JobOrigin, job: J) -> Result<(), CrewFull> {
        if !self.has_room(origin) {
            return Err(CrewFull);
        }
        let site = self.sites.entry(origin.site).or_default();
        let jobs = site.clients.entry(origin.network).or_default();
        if jobs.is_empty() {
            site.order.push_back(origin.network);
        }
        jobs.push_back(job);
        if site.waiting == 0 {
            self.order.push_back(origin.site);
        }
        site.waiting += 1;
        Ok(())
    }

    /// Takes the next job, and the number of its site, for which [`done`](JobQueue::done) has to be
    /// called. `None`: no job may be begun.
    pub(super) fn pop(&mut self) -> Option<(usize, J)> {
        let place = self.order.iter().position(|site| self.may_begin(*site))?;
        let number = self.order.remove(place)?;
        let site = self.sites.get_mut(&number)?;
        let client = site.order.pop_front()?;
        let jobs = site.clients.get_mut(&client)?;
        let job = jobs.pop_front()?;
        if jobs.is_empty() {
            site.clients.remove(&client);
        } else {
            site.order.push_back(client);
        }
        site.waiting -= 1;
        site.running += 1;
        if site.waiting > 0 {
            self.order.push_back(number);
        }
        Some((number, job))
    }

    /// Returns whether a job of the site may be begun: not too many of its jobs are being done.
    pub(super) fn may_begin(&self, number: usize) -> bool {
        self.sites.get(&number).is_some_and(|site| site.running < self.bounds.at_a_time)
    }

    /// Notes that a job of the site has been done.
    pub(super) fn done(&mut self, number: usize) {
        if let Some(site) = self.sites.get_mut(&number) {
            site.running -= 1;
            if site.running == 0 && site.waiting == 0 {
                self.sites.remove(&number);
            }
        }
    }
}

impl<J> Default for SiteJobs<J> {
    fn default() -> SiteJobs<J> {
        SiteJobs {
            clients: HashMap::new(),
            order: VecDeque::new(),
            waiting: 0,
            running: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: QueueBounds = QueueBounds { site: 6, client: 4, at_a_time: 2 };

    fn origin(site: usize, client: u8) -> JobOrigin {
        let network = ClientNetwork::of(IpAddr::from([192, 0, 2, client]));
        JobOrigin { site, network }
    }

    /// Takes every job, one after the other.
    fn drain(queue: &mut JobQueue<&'static str>) -> String {
        let mut taken = Vec::new();
        while let Some((site, job)) = queue.pop() {
            taken.push(job);
            queue.done(site);
        }
        taken.join(" ")
    }

    #[test]
    fn sites_take_turns_and_so_do_their_clients() {
        let mut queue = JobQueue::new(BOUNDS);
        for (site, client, job) in [
            (1, 1, "a1"),
            (1, 1, "a2"),
            (1, 1, "a3"),
            (1, 2, "b1"),
            (2, 1, "c1"),
            (3, 1, "d1"),
            (3, 1, "d2"),
        ] {
            queue.push(origin(site, client), job).unwrap();
        }
        assert_eq!(drain(&mut queue), "a1 c1 d1 b1 d2 a2 a3");
        assert!(queue.sites.is_empty() && queue.order.is_empty());
    }

    #[test]
    fn a_site_runs_only_some_at_a_time() {
        let mut queue = JobQueue::new(BOUNDS);
        for job in ["a", "b", "c"] {
            queue.push(origin(1, 1), job).unwrap();
        }
        queue.push(origin(2, 1), "x").unwrap();
        let mut taken = || queue.pop().map(|(_, job)| job);
        assert_eq!([taken(), taken(), taken(), taken()], [Some("a"), Some("x"), Some("b"), None]);
        queue.done(2);
        assert_eq!(queue.pop(), None);
        queue.done(1);
        assert_eq!(queue.pop(), Some((1, "c")));
    }

    #[test]
    fn the_queue_is_bounded_by_site_and_by_client() {
        let mut queue = JobQueue::new(BOUNDS);
        for _ in 0..BOUNDS.client {
            assert_eq!(queue.push(origin(1, 1), "a"), Ok(()));
        }
        assert_eq!(queue.push(origin(1, 1), "a"), Err(CrewFull));
        assert_eq!(queue.push(origin(1, 2), "b"), Ok(()));
        assert_eq!(queue.push(origin(1, 3), "c"), Ok(()));
        assert_eq!(queue.push(origin(1, 4), "d"), Err(CrewFull), "the site has its share");
        assert_eq!(queue.push(origin(2, 1), "e"), Ok(()), "another site has its own");
        assert_eq!(drain(&mut queue), "a e b c a a a");
    }

    #[test]
    fn one_subscriber_is_one_network() {
        let network = |text: &str| ClientNetwork::of(text.parse().unwrap());
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff"));
        assert_ne!(network("2001:db8:0:1::1"), network("2001:db8::1"));
        assert_eq!(network("::ffff:192.0.2.1"), network("192.0.2.1"));
        assert_ne!(network("192.0.2.2"), network("192.0.2.1"));
        assert_eq!(network("127.9.8.7"), network("::1"));
    }
}
