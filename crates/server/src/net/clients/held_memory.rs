//! Memory that responses take while they wait for their clients (`client_memory`).

use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use howdah_http::{Refusal, Status};

use super::Clients;

/// Accounts of all clients together. Clients share one by chance, which nobody can bring about: the
/// hash has a secret key. They have less memory together then: more of their content is in files,
/// or not compressed, and requests with large heads are given up earlier. They lose nothing else.
const ACCOUNTS: usize = 4096;

/// Bytes of a head, or of a handshake's certificates, that are not counted. Nearly all have fewer.
const FEW: usize = 4096;
/// Bytes of an account in which these count.
const LEAST_ACCOUNT: usize = 1 << 20;

/// A request whose head has no room in its client's account.
pub(crate) const NO_MEMORY_FOR_HEAD: Refusal = Refusal {
    status: Status::SERVICE_UNAVAILABLE,
    why: "the client's requests and responses take as much memory as `client_memory` allows",
};

/// Bytes in a client's account, until dropped.
#[derive(Debug)]
pub(crate) struct HeldMemory<'c> {
    clients: &'c Clients,
    client: IpAddr,
    bytes: usize,
}

impl<'c> HeldMemory<'c> {
    /// No bytes in the account of `client`.
    pub(crate) fn of(clients: &'c Clients, client: IpAddr) -> HeldMemory<'c> {
        HeldMemory { clients, client, bytes: 0 }
    }

    /// The bytes that are counted.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts `bytes` in place of those before. Returns `false`, and counts as before, where they
    /// are more and the account has no room for them.
    pub(crate) fn hold(&mut self, bytes: usize) -> bool {
        let is_counted = self.clients.hold(self.client, self.bytes, bytes);
        if is_counted {
            self.bytes = bytes;
        }
        is_counted
    }

    /// Counts the bytes of a head, or of certificates, as [`hold`](HeldMemory::hold) does, if they
    /// are many. None are counted where accounts are so small that one head could fill them.
    pub(crate) fn hold_many(&mut self, bytes: usize) -> bool {
        !self.clients.are_many(bytes) || self.hold(bytes)
    }
}

impl Drop for HeldMemory<'_> {
    fn drop(&mut self) {
        self.hold(0);
    }
}

/// The memory of a response's filters in its client's account, until dropped. Filters that a crew
/// works with may outlive their response: the job shares the count.
#[derive(Debug)]
pub(crate) struct FilterMemory {
    clients: Arc<Clients>,
    client: IpAddr,
    /// Changed by the response alone.
    bytes: AtomicUsize,
}

impl FilterMemory {
    /// No bytes in the account of `client`.
    pub(crate) fn of(clients: &Arc<Clients>, client: IpAddr) -> FilterMemory {
        FilterMemory {
            clients: Arc::clone(clients),
            client,
            bytes: AtomicUsize::new(0),
        }
    }

    /// The bytes that are counted.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Counts `bytes` instead of the bytes so far, like [`HeldMemory::hold`].
    pub(crate) fn hold(&self, bytes: usize) -> bool {
        let is_counted = self.clients.hold(self.client, self.bytes(), bytes);
        if is_counted {
            self.bytes.store(bytes, Ordering::Relaxed);
        }
        is_counted
    }

    /// Counts `most` bytes, or as many as the account has room for.
    pub(crate) fn hold_at_most(&self, most: usize) {
        self.hold(0);
        let account = self.clients.account(self.client);
        let free = |held: usize| most.min(self.clients.most_held.saturating_sub(held));
        let held = account
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| Some(held + free(held)));
        self.bytes.store(held.map_or(0, free), Ordering::Relaxed);
    }

    /// Returns whether the bytes that are counted are all of an account.
    pub(crate) fn is_whole_account(&self) -> bool {
        self.bytes() == self.clients.most_held
    }

    /// Counts `bytes` like [`hold`](FilterMemory::hold). More than a whole account counts as all of
    /// it.
    pub(crate) fn hold_of_account(&self, bytes: usize) -> bool {
        self.hold(bytes.min(self.clients.most_held))
    }
}

impl Drop for FilterMemory {
    fn drop(&mut self) {
        self.hold(0);
    }
}

/// The memory of a request's head that is being received, in its client's account, until dropped.
#[derive(Debug)]
pub(crate) struct ArrivingHead {
    clients: Arc<Clients>,
    client: IpAddr,
    bytes: usize,
}

impl ArrivingHead {
    /// No bytes in the account of `client`.
    pub(crate) fn of(clients: &Arc<Clients>, client: IpAddr) -> ArrivingHead {
        ArrivingHead {
            clients: Arc::clone(clients),
            client,
            bytes: 0,
        }
    }

    /// Counts `bytes` like [`HeldMemory::hold_many`]. A head that is small again is not counted any
    /// more.
    pub(crate) fn hold(&mut self, bytes: usize) -> bool {
        let counted = if self.clients.are_many(bytes) { bytes } else { 0 };
        let is_counted = self.clients.hold(self.client, self.bytes, counted);
        if is_counted {
            self.bytes = counted;
        }
        is_counted
    }
}

impl Drop for ArrivingHead {
    fn drop(&mut self) {
        self.hold(0);
    }
}

impl Clients {
    /// The number of accounts.
    pub(crate) const ACCOUNTS: usize = ACCOUNTS;

    /// Returns whether the bytes of a head, or of certificates, are counted.
    fn are_many(&self, bytes: usize) -> bool {
        bytes > FEW && self.most_held >= LEAST_ACCOUNT
    }

    /// Counts `bytes` like [`HeldMemory::hold`], for a holder that keeps its count, `former`, by
    /// itself.
    pub(crate) fn hold(&self, client: IpAddr, former: usize, bytes: usize) -> bool {
        if bytes == former {
            return true;
        }
        let account = self.account(client);
        if bytes < former {
            account.fetch_sub(former - bytes, Ordering::Relaxed);
            return true;
        }
        let more = bytes - former;
        let with = |held: usize| Some(held + more).filter(|held| *held <= self.most_held);
        account.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with).is_ok()
    }

    fn account(&self, client: IpAddr) -> &AtomicUsize {
        &self.held[self.account_number(client)]
    }

    /// Returns the number of the account that a client has, below [`Clients::ACCOUNTS`].
    pub(crate) fn account_number(&self, client: IpAddr) -> usize {
        self.state.hash_one(self.network(client)) as usize % ACCOUNTS
    }
}

#[cfg(test)]
mod tests {
    use howdah_config::Config;

    use super::*;

    #[test]
    fn a_client_holds_no_more_than_it_may_and_another_has_its_own_account() {
        let text = "[limits]\nclient_memory = \"1K\"\n[[site]]\nroot = \"/srv\"\nphp = false\n";
        let config = Config::parse(text, "test.toml").expect("the configuration is right");
        let clients = Clients::new(&config);
        let of = |address: &str| HeldMemory::of(&clients, address.parse().expect("an address"));
        let (mut one, mut two) = (of("2001:db8::1"), of("2001:db8::2"));
        assert!(one.hold(1000) && !two.hold(100) && two.hold(24));
        assert!(!two.hold(25) && one.hold(900) && two.hold(124));
        drop(one);
        assert!(two.hold(1024) && !two.hold(1025));
        // One of them has another account: all that share this one would be a strange chance.
        assert!((0..50).any(|number| of(&format!("192.0.2.{number}")).hold(1)));
        drop(two);
        // Filters that need more than an account count as all of it.
        let clients = Arc::new(clients);
        let filters = || FilterMemory::of(&clients, "192.0.2.1".parse().expect("an address"));
        let (first, second) = (filters(), filters());
        assert!(first.hold_of_account(5000) && !first.hold(1025) && !second.hold_of_account(1));
        drop(first);
        assert!(second.hold_of_account(1000) && second.hold(1024));
        second.hold(1000);
        let (rest, none) = (filters(), filters());
        rest.hold_at_most(100);
        none.hold_at_most(100);
        assert_eq!((rest.bytes(), none.bytes(), none.is_whole_account()), (24, 0, false));
        drop((rest, none));
        drop(second);
        assert!(clients.held.iter().all(|held| held.load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn large_heads_count_where_accounts_are_large() {
        for (memory, is_counted) in [("1M", true), ("1023K", false)] {
            let text =
                format!("[limits]\nclient_memory = \"{memory}\"\n[[site]]\nroot = \"/srv\"\n");
            let clients = Clients::new(&Config::parse(&text, "test.toml").expect("it is right"));
            let head = || HeldMemory::of(&clients, "192.0.2.1".parse().expect("an address"));
            let (mut one, mut two) = (head(), head());
            assert!(one.hold_many(600 << 10), "{memory}");
            assert_eq!(two.hold_many(600 << 10), !is_counted, "{memory}");
            assert!(two.hold_many(FEW), "{memory}");
            drop(one);
            assert!(two.hold_many(600 << 10), "{memory}");
        }
    }
}
