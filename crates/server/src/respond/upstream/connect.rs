//! Connections to upstreams: TCP or a Unix socket, with or without TLS.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use howdah_config::{Site, Upstream};
use rustls::ClientConfig;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::reply::Failure;
use crate::body::Duplex;
use crate::tls::{handshake_advice, server_name};

/// Connects to an upstream of `site` within its `upstream_connect_timeout`. `tls` are the settings
/// of its upstreams over TLS.
///
/// # Errors
/// There is no connection.
pub(super) async fn connect(
    site: &Site,
    upstream: &Upstream,
    tls: Option<&Arc<ClientConfig>>,
) -> Result<Box<dyn Duplex>, Failure> {
    let connected = open(site, upstream, tls);
    match tokio::time::timeout(site.upstream_connect_timeout, connected).await {
        Ok(connected) => connected,
        Err(_) => Err(Failure::Unanswered),
    }
}

async fn open(
    site: &Site,
    upstream: &Upstream,
    tls: Option<&Arc<ClientConfig>>,
) -> Result<Box<dyn Duplex>, Failure> {
    if let Some(socket) = &upstream.socket {
        let stream = UnixStream::connect(socket).await.map_err(Failure::Unreachable)?;
        return encrypt(site, upstream, tls, stream).await;
    }
    let stream = tcp(upstream).await.map_err(Failure::Unreachable)?;
    // Messages of a WebSocket are short.
    let _ = stream.set_nodelay(true);
    encrypt(site, upstream, tls, stream).await
}

async fn tcp(upstream: &Upstream) -> io::Result<TcpStream> {
    let addresses: &[IpAddr] = match upstream.host.trim_matches(['[', ']']) {
        "localhost" => &[IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)],
        host => &[host.parse().map_err(|_| io::ErrorKind::InvalidInput)?],
    };
    let mut failed = io::ErrorKind::InvalidInput.into();
    for address in addresses {
        match TcpStream::connect((*address, upstream.port)).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Makes the handshake of TLS, where the upstream is one over TLS.
async fn encrypt<S: Duplex + 'static>(
    site: &Site,
    upstream: &Upstream,
    tls: Option<&Arc<ClientConfig>>,
    stream: S,
) -> Result<Box<dyn Duplex>, Failure> {
    let (true, Some(tls)) = (upstream.scheme.is_tls(), tls) else {
        return match upstream.scheme.is_tls() {
            true => Err(Failure::Handshake("its site has no settings of TLS".to_owned())),
            false => Ok(Box::new(stream)),
        };
    };
    let name = server_name(site, upstream).map_err(Failure::Handshake)?;
    match TlsConnector::from(Arc::clone(tls)).connect(name, stream).await {
        Ok(stream) => Ok(Box::new(stream)),
        Err(error) => Err(Failure::Handshake(handshake_advice(&error))),
    }
}
