//! Requests that a client has open at a time, over all its connections of HTTP/2 and HTTP/3.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Clients;

/// Bytes of memory that an open request takes: 8 to 10 KB for its task and its stream, and twice
/// the length of a head of up to 4 KB, which nothing else counts. A connection's first one is like
/// a request of HTTP/1, and is not counted.
const STREAM: usize = 16 << 10;
/// The least `client_memory` that says how many may be open. With less memory, content waits in
/// files, and a client has no fewer requests.
const LEAST: usize = 16 << 20;

/// The account of one client. It belongs to a connection that is in the client's account as well.
#[derive(Debug)]
pub(crate) struct ClientStreams {
    open: Arc<AtomicUsize>,
    most: usize,
}

impl ClientStreams {
    /// The number of requests in the account.
    #[cfg(test)]
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Counts `number` in place of `former`. Returns `false`, and counts as before, where they are
    /// more and the client would have more than it may have.
    pub(crate) fn hold(&self, former: usize, number: usize) -> bool {
        if number <= former {
            self.open.fetch_sub(former - number, Ordering::Relaxed);
            return true;
        }
        let more = number - former;
        let with = |open: usize| Some(open + more).filter(|open| *open <= self.most);
        self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with).is_ok()
    }
}

impl Clients {
    /// Returns the account of a client. `None`: none of its connections is counted.
    pub(crate) fn streams(&self, client: IpAddr) -> Option<ClientStreams> {
        let network = self.network(client);
        let mut shard = self.shard(network);
        let streams = &mut shard.connections.get_mut(&network)?.streams;
        Some(ClientStreams {
            open: Arc::clone(streams.get_or_insert_default()),
            most: self.most_held.max(LEAST) / STREAM,
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
}
