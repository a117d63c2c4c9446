//! The requests that a client has open at a time, over all its connections of HTTP/2 and HTTP/3,
//! and the memory of the connections themselves.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Clients;
use crate::net::ClientTag;

/// Bytes of memory that an open request takes: 8 to 10 KB for its task and its stream, and twice
/// the length of a head of up to 4 KB, which nothing else counts. A connection's first one is like
/// a request of HTTP/1, and is not counted.
const STREAM: usize = 16 << 10;
/// The least `client_memory` that says how many may be open. With less memory, content waits in
/// files, and a client has no fewer requests.
const LEAST: usize = 16 << 20;
/// Connections of a client may take as many times the memory that its open requests may take.
/// Beyond it, the ones that were idle for longest end.
const CONNECTIONS: usize = 4;
/// The memory of a connection, in the measure of open requests, so 48 KB. An idle one was measured
/// to take 23 KB after its first request over HTTP/2, 31 KB with TLS, and 52 KB over HTTP/3.
const CONNECTION: usize = 3;
/// Requests at a time for which a connection has another 16 KB. The library keeps 1.5 KB for each
/// that it has ever had at the same time.
const AT_A_TIME: usize = 10;

/// The account of one client. It belongs to a connection that is in the client's account as well.
#[derive(Debug)]
pub(crate) struct ClientStreams {
    account: Arc<StreamAccount>,
    most: usize,
    tag: ClientTag,
}

/// Sums over the connections of a client.
#[derive(Debug, Default)]
pub(super) struct StreamAccount {
    /// Open requests.
    open: AtomicUsize,
    /// The memory of connections, in the measure of open requests.
    connections: AtomicUsize,
    /// Connections that may begin because as many are about to end.
    expected: AtomicUsize,
}

impl ClientStreams {
    /// The number of requests in the account.
    #[cfg(test)]
    pub(crate) fn open(&self) -> usize {
        self.account.open.load(Ordering::Relaxed)
    }

    /// The memory of connections in the account, in the measure of open requests.
    #[cfg(test)]
    pub(crate) fn connections(&self) -> usize {
        self.account.connections.load(Ordering::Relaxed)
    }

    /// The number that the client's connections have in the watches of deadlines.
    pub(crate) fn tag(&self) -> ClientTag {
        self.tag
    }

    /// The connections of the client that end at once to make room for another one.
    pub(crate) fn recycled(&self) -> usize {
        (self.most * CONNECTIONS / CONNECTION / RECYCLED).max(1)
    }

    /// Returns the memory of a connection that has had `most` requests at a time.
    pub(crate) fn connection(most: u64) -> usize {
        CONNECTION + usize::try_from(most).unwrap_or(usize::MAX) / AT_A_TIME
    }

    /// Counts `number` requests in place of `former`. Returns `false`, and counts as before, where
    /// they are more and the client would have more than it may have.
    pub(crate) fn hold(&self, former: usize, number: usize) -> bool {
        change(&self.account.open, former, number, self.most)
    }

    /// Counts the memory `number` of a connection in place of `former`, as
    /// [`hold`](ClientStreams::hold) does.
    pub(crate) fn hold_connection(&self, former: usize, number: usize) -> bool {
        change(&self.account.connections, former, number, CONNECTIONS * self.most)
    }

    /// Counts the memory `number` of a further connection, whatever the client has, in place of one
    /// that is about to end. `end_some` has some end and returns their number, where none is about
    /// to end. Returns `false`, and counts nothing, where there are none.
    pub(crate) fn replace_connection(
        &self,
        number: usize,
        end_some: impl FnOnce() -> usize,
    ) -> bool {
        let expected = &self.account.expected;
        let one_less = |number: usize| number.checked_sub(1);
        if expected.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_err() {
            let Some(others) = end_some().checked_sub(1) else {
                return false;
            };
            expected.fetch_add(others, Ordering::Relaxed);
        }
        self.account.connections.fetch_add(number, Ordering::Relaxed);
        true
    }
}

/// Changes a part of a sum. Returns `false`, and changes nothing, where the sum would become larger
/// than `most`.
fn change(sum: &AtomicUsize, former: usize, number: usize, most: usize) -> bool {
    if number <= former {
        sum.fetch_sub(former - number, Ordering::Relaxed);
        return true;
    }
    let more = number - former;
    let with = |sum: usize| Some(sum + more).filter(|sum| *sum <= most);
    sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with).is_ok()
}

/// The part of a client's connections that end at once. Finding those that were idle for longest is
/// a look at all connections of a thread.
const RECYCLED: usize = 64;

impl Clients {
    /// Returns the account of a client. `None`: none of its connections is counted.
    pub(crate) fn streams(&self, client: IpAddr) -> Option<ClientStreams> {
        let network = self.network(client);
        let mut shard = self.shard(network);
        let streams = &mut shard.connections.get_mut(&network)?.streams;
        Some(ClientStreams {
            account: Arc::clone(streams.get_or_insert_default()),
            most: self.most_held.max(LEAST) / STREAM,
            tag: self.tag(client),
        })
    }
}

#[cfg(test)]
mod tests {
    use howdah_config::Config;

    use super::*;

    #[test]
    fn the_connections_of_a_client_share_its_account_and_no_other_client_does() {
        let text = "[limits]\nclient_memory = \"16M\"\n[[site]]\nroot = \"/srv\"\nphp = false\n";
        let clients = Clients::new(&Config::parse(text, "test.toml").expect("it is right"));
        let address = |text: &str| text.parse().expect("an address");
        let (one, other) = (address("192.0.2.1"), address("192.0.2.2"));
        assert!(clients.streams(one).is_none());
        let connect = |client| clients.connect(client, 0, 100).expect("there is room");
        let connections = [connect(one), connect(one), connect(other)];
        let [first, second, third] =
            [one, one, other].map(|client| clients.streams(client).expect("it is counted"));
        assert!(first.hold(0, 1000) && second.hold(0, 24));
        assert!(!second.hold(24, 25) && !first.hold(1000, 1001) && third.hold(0, 1024));
        assert!(first.hold(1000, 999) && second.hold(24, 25));
        assert!(first.hold(999, 0) && second.hold(25, 1024));
        drop(connections);
        assert!(clients.streams(one).is_none());
    }

    #[test]
    fn connections_have_memory_of_their_own_and_replace_those_that_end() {
        let text = "[limits]\nclient_memory = \"16M\"\n[[site]]\nroot = \"/srv\"\nphp = false\n";
        let clients = Clients::new(&Config::parse(text, "test.toml").expect("it is right"));
        let client = "192.0.2.1".parse().expect("an address");
        let _connection = clients.connect(client, 0, 100).expect("there is room");
        let account = clients.streams(client).expect("it is counted");
        let memory = ClientStreams::connection(0);
        let fitting = (0..2000).take_while(|_| account.hold_connection(0, memory)).count();
        assert_eq!((fitting, account.connections()), (1365, 4095));
        assert!(account.hold(0, 1024), "open requests have their own");
        assert!(!account.replace_connection(memory, || 0), "none is idle");
        // Three are about to end, so three may begin.
        assert!(account.replace_connection(memory, || 3));
        for _ in 0..2 {
            assert!(account.replace_connection(memory, || unreachable!("one is expected")));
        }
        assert!(!account.replace_connection(memory, || 0));
        assert_eq!(account.connections(), 4095 + 3 * memory);
        assert!(!account.hold_connection(memory, ClientStreams::connection(100)));
        assert!(account.hold_connection(1000 * memory, 0));
        assert!(account.hold_connection(memory, ClientStreams::connection(100)));
        assert_eq!(account.connections(), 368 * memory + 10);
    }
}
