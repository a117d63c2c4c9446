//! The two ends of a client's connection.

use std::net::SocketAddr;

use howdah_site::Client;

/// The client's end of a connection and ours, as every step after the protocol sees them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    /// The client's address.
    pub(crate) remote: SocketAddr,
    /// The address that the client connected to.
    pub(crate) local: SocketAddr,
}

impl Peer {
    /// The sender of `request`, which arrived at `time`, in microseconds since 1970.
    pub(crate) fn client<'r>(&self, request: &'r howdah_http::Request, time: u64) -> Client<'r> {
        Client::new(request, self.remote, self.local, time)
    }
}
