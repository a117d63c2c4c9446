//! The responses of each site by client: a probation counts each client once, however many requests
//! it sends.
//!
//! Each site has [`PLACES`] places, and a client's network and a secret decide which of them is the
//! client's. Clients that share a place count as one. The numbers have memory of their own, 1.5 KiB
//! for each site and thread. The kernel gives it in pages when a request of the site is counted.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use howdah_php::counters::Counters;
use howdah_sys::memory::SharedNumbers;

use super::super::culprit::Excuse;
use super::CountedFigures;

/// Places for the clients of a site, a power of two. A few clients mostly have one each. Of many
/// clients, a place has some, and counts with their average.
pub(crate) const PLACES: usize = 64;

/// Words of a site. A place has two [`Tally`]s side by side, of all responses and of those that
/// scripts and upstreams have made. The excused responses of all places follow.
const WORDS: usize = EXCUSED + PLACES;
const EXCUSED: usize = 2 * PLACES;

/// The secret that decides about places. The fronts of all generations have the same one, therefore
/// a client keeps its place.
static SECRET: LazyLock<[u64; 2]> = LazyLock::new(|| {
    let random = RandomState::new();
    [random.hash_one(0), random.hash_one(1)]
});

/// The numbers of all threads and sites.
#[derive(Debug)]
pub(super) struct ClientNumbers {
    numbers: Arc<SharedNumbers>,
    sites: usize,
    secret: [u64; 2],
}

/// The numbers of one thread.
#[derive(Debug)]
pub(super) struct ClientCounters {
    numbers: Counters,
    sites: usize,
    secret: [u64; 2],
}

/// The numbers of one place. Each of them begins again with 0 after 2^32.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PlaceNumbers {
    /// All responses but those with an excuse.
    pub(super) all: Tally,
    /// Those that scripts and upstreams have made.
    pub(super) made: Tally,
    /// Responses of 5xx with [`Excuse::ScriptsEnd`], and with [`Excuse::UpstreamsAnswer`].
    pub(super) excused: (u32, u32),
}

/// Responses, and those of 5xx among them. Both are in one word, which is read at once: there are
/// never more errors than responses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) responses: u32,
    pub(crate) errors: u32,
}

impl ClientNumbers {
    /// Makes the numbers of `threads` threads for `sites` sites, all 0.
    ///
    /// # Errors
    /// The error of a system call.
    pub(super) fn new(threads: usize, sites: usize) -> io::Result<ClientNumbers> {
        let numbers = Arc::new(SharedNumbers::new(threads * sites * WORDS)?);
        Ok(ClientNumbers { numbers, sites, secret: *SECRET })
    }

    /// Returns the counters of a thread. Only that thread may count with them.
    pub(super) fn thread(&self, thread: usize) -> ClientCounters {
        let (sites, secret) = (self.sites, self.secret);
        let numbers = Counters::new(Arc::clone(&self.numbers), thread * sites * WORDS);
        ClientCounters { numbers, sites, secret }
    }

    /// Adds the numbers that a thread has for the places of a site.
    pub(super) fn add_to(&self, thread: usize, site: usize, sums: &mut [PlaceNumbers; PLACES]) {
        let first = (thread * self.sites + site) * WORDS;
        for (place, sum) in sums.iter_mut().enumerate() {
            let tally = |word| Tally::of(self.numbers.load(first + word));
            sum.all.add(tally(2 * place));
            sum.made.add(tally(2 * place + 1));
            let excused = self.numbers.load(first + EXCUSED + place);
            let (by_scripts, by_upstreams) = (excused as u32, (excused >> 32) as u32);
            sum.excused.0 = sum.excused.0.wrapping_add(by_scripts);
            sum.excused.1 = sum.excused.1.wrapping_add(by_upstreams);
        }
    }
}

impl ClientCounters {
    /// Counts a response of the site with this number. A site that does not exist has none.
    #[inline]
    pub(super) fn count(&self, site: usize, ended: &CountedFigures) {
        if site >= self.sites {
            return;
        }
        let (first, place) = (site * WORDS, place(self.secret, ended.client));
        match ended.excuse {
            None => {
                let one = 1 | u64::from(ended.status.is_server_error()) << 32;
                self.numbers.add(first + 2 * place, one);
                if ended.is_made {
                    self.numbers.add(first + 2 * place + 1, one);
                }
            }
            Some(Excuse::Always) => {}
            Some(Excuse::ScriptsEnd) => self.numbers.add(first + EXCUSED + place, 1),
            Some(Excuse::UpstreamsAnswer) => self.numbers.add(first + EXCUSED + place, 1 << 32),
        }
    }
}

impl Tally {
    fn of(word: u64) -> Tally {
        Tally {
            responses: word as u32,
            errors: (word >> 32) as u32,
        }
    }

    pub(super) fn add(&mut self, other: Tally) {
        self.responses = self.responses.wrapping_add(other.responses);
        self.errors = self.errors.wrapping_add(other.errors);
    }

    /// Returns what was counted after `former`.
    pub(super) fn since(self, former: Tally) -> Tally {
        Tally {
            responses: self.responses.wrapping_sub(former.responses),
            errors: self.errors.wrapping_sub(former.errors),
        }
    }
}

/// Returns the place of a client network. A few multiplications suffice: nobody outside sees a
/// place, thus nobody can find out the secret.
#[inline]
fn place(secret: [u64; 2], network: IpAddr) -> usize {
    let bits = match network {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    };
    let [high, low] = [(bits >> 64) as u64 ^ secret[0], bits as u64 ^ secret[1]];
    let product = u128::from(high) * u128::from(low);
    ((product >> 64) as u64 ^ product as u64) as usize % PLACES
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    /// Of 64 clients in 64 places, 40 have one of their own or are the first there, on average.
    #[test]
    fn clients_are_spread_over_the_places() {
        let v4 = |client: u32| Ipv4Addr::from_bits(0xC000_0200 + client).into();
        let v6 = |client: u32| {
            let network = 0x2001_0DB8_u128 << 32 | u128::from(client);
            Ipv6Addr::from_bits(network << 64).into()
        };
        for networks in [v4, v6] as [fn(u32) -> IpAddr; 2] {
            for step in [1, 64, 256, 0x0100_0000] {
                let places = |round: u64| {
                    let random = RandomState::new();
                    let secret = [random.hash_one(round), random.hash_one(round + 1)];
                    let clients = (0..64_u32).map(|client| client.wrapping_mul(step));
                    clients.map(|it| place(secret, networks(it))).collect::<HashSet<_>>().len()
                };
                let all: usize = (0..100).map(places).sum();
                assert!((3200..=4800).contains(&all), "{step}: {all}");
            }
        }
    }
}
