//! The two ends of a client's connection, and what a trusted proxy says about the client.

use std::net::SocketAddr;
use std::sync::Arc;

use howdah_http::Scheme;
use howdah_site::ClientRequest;

use crate::tls::EstablishedTls;

/// The sender of a request and the connection that brought it, as every step after the protocol
/// sees them: the one place that says who the client is.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// The client's address. Behind a trusted proxy, the address that the proxy has named.
    pub(crate) remote: SocketAddr,
    /// The address that the client connected to.
    pub(crate) local: SocketAddr,
    /// The other end of the connection: the client, or the proxy that speaks for it.
    pub(crate) hop: SocketAddr,
    /// The scheme of the connection. A request's own scheme is in the request.
    pub(crate) scheme: Scheme,
    /// The encryption of the connection; `None` if it has none.
    pub(crate) tls: Option<Arc<EstablishedTls>>,
    /// The listener's place in the configuration.
    pub(crate) listener: usize,
    /// Each request's fields say for whom it is: `remote` differs between requests. Limits by
    /// address must not count the connection, which carries many clients.
    pub(crate) is_proxy: bool,
    /// The connection begins with a TLS handshake, after a header of the PROXY protocol.
    pub(crate) is_on_tls: bool,
    /// The connection begins with a header of the PROXY protocol.
    pub(crate) has_proxy_header: bool,
}

impl Peer {
    /// A client that speaks for itself.
    pub(crate) fn new(remote: SocketAddr, local: SocketAddr) -> Peer {
        Peer {
            remote,
            local,
            hop: remote,
            scheme: Scheme::Http,
            tls: None,
            listener: 0,
            is_proxy: false,
            is_on_tls: false,
            has_proxy_header: false,
        }
    }

    /// The sender of `request`, which arrived at `time`, in microseconds since 1970.
    pub(crate) fn client<'r>(
        &'r self,
        request: &'r howdah_http::Request,
        time: u64,
    ) -> ClientRequest<'r> {
        ClientRequest::new(request, self.remote, self.local, time)
            .through(self.hop)
            .over(self.tls.as_deref().map(|tls| &tls.facts))
    }
}
