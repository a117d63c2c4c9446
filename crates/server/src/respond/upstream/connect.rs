//! Connections to upstreams: TCP or a Unix socket, with or without TLS.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use howdah_config::{SiteSettings, Upstream};
use howdah_sys::socket::refuse_descriptors;
use rustls::ClientConfig;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::{TcpStream, UnixSocket, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::failure::UpstreamFailure;
use super::names::UpstreamNames;
use crate::body::Duplex;
use crate::net::Transport;
use crate::operator_path::{self, PathInFolder};
use crate::tls::{handshake_advice, server_name};

impl Duplex for TcpStream {
    fn is_silent(&mut self) -> bool {
        peeked(self.as_fd()).is_none()
    }

    fn is_broken(&self) -> bool {
        is_broken(self)
    }
}

impl Duplex for UnixStream {
    fn is_silent(&mut self) -> bool {
        peeked(self.as_fd()).is_none()
    }

    fn is_broken(&self) -> bool {
        is_broken(self)
    }
}

impl<S: Duplex + AsFd> Duplex for TlsStream<S> {
    fn is_silent(&mut self) -> bool {
        match peeked(self.get_ref().0.as_fd()) {
            None => true,
            // The session may have news of its own, such as a ticket.
            Some(Ok(1..)) => {
                let mut byte = [0];
                let mut room = ReadBuf::new(&mut byte);
                let mut context = Context::from_waker(Waker::noop());
                Pin::new(self).poll_read(&mut context, &mut room).is_pending()
            }
            Some(_) => false,
        }
    }

    fn is_broken(&self) -> bool {
        self.get_ref().0.is_broken()
    }
}

/// Returns whether the system has told that a socket is broken. An end of the other side alone is
/// no break.
fn is_broken(socket: &impl Transport) -> bool {
    let ready = socket.readiness();
    ready.is_error() || ready.is_write_closed()
}

/// Looks at a socket without taking bytes. `None`: nothing is there; 0: the other side has ended.
fn peeked(socket: BorrowedFd<'_>) -> Option<io::Result<usize>> {
    match howdah_sys::socket::peek(socket) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        other => Some(other),
    }
}

/// Connects to an upstream of `site` within its `upstream_connect_timeout`. `tls` are the settings
/// of its upstreams over TLS, `names` the addresses of those that have names.
///
/// # Errors
/// There is no connection.
pub(super) async fn connect(
    site: &SiteSettings,
    upstream: &Upstream,
    tls: Option<&Arc<ClientConfig>>,
    names: &UpstreamNames,
) -> Result<Box<dyn Duplex>, UpstreamFailure> {
    let connected = open(site, upstream, tls, names);
    match tokio::time::timeout(site.upstream_connect_timeout, connected).await {
        Ok(connected) => connected,
        Err(_) => Err(UpstreamFailure::Unanswered),
    }
}

async fn open(
    site: &SiteSettings,
    upstream: &Upstream,
    tls: Option<&Arc<ClientConfig>>,
    names: &UpstreamNames,
) -> Result<Box<dyn Duplex>, UpstreamFailure> {
    if let Some(socket) = &upstream.socket {
        let connect = async {
            let unconnected = UnixSocket::new_stream()?;
            // Older kernels cannot.
            let _ = refuse_descriptors(unconnected.as_fd());
            // Not with the front's rights to what a site's owner has linked to.
            let file = PathInFolder::followed(socket)?.point()?;
            unconnected.connect(operator_path::path_of(&file)).await
        };
        let stream = connect.await.map_err(UpstreamFailure::Unreachable)?;
        return encrypt(site, upstream, tls, stream).await;
    }
    let stream = tcp(site, upstream, names).await.map_err(UpstreamFailure::Unreachable)?;
    // Messages of a WebSocket are short.
    let _ = stream.set_nodelay(true);
    encrypt(site, upstream, tls, stream).await
}

/// Tries the addresses of the upstream in turn. Each one has its share of the time.
async fn tcp(
    site: &SiteSettings,
    upstream: &Upstream,
    names: &UpstreamNames,
) -> io::Result<TcpStream> {
    let found;
    let addresses: &[IpAddr] = match (upstream.name(), upstream.host.trim_matches(['[', ']'])) {
        (Some(name), _) => {
            found = names.addresses(name).await?;
            &found
        }
        (None, "localhost") => &[IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)],
        (None, host) => &[host.parse().map_err(|_| io::ErrorKind::InvalidInput)?],
    };
    let (last, others) = addresses.split_last().ok_or(io::ErrorKind::InvalidInput)?;
    // There are few addresses.
    let share = site.upstream_connect_timeout / addresses.len() as u32;
    for address in others {
        let connecting = TcpStream::connect((*address, upstream.port));
        if let Ok(Ok(stream)) = tokio::time::timeout(share, connecting).await {
            return Ok(stream);
        }
    }
    TcpStream::connect((*last, upstream.port)).await
}

/// Makes the handshake of TLS, where the upstream is one over TLS.
async fn encrypt<S: Duplex + AsFd + 'static>(
    site: &SiteSettings,
    upstream: &Upstream,
    tls: Option<&Arc<ClientConfig>>,
    stream: S,
) -> Result<Box<dyn Duplex>, UpstreamFailure> {
    let (true, Some(tls)) = (upstream.scheme.is_tls(), tls) else {
        return match upstream.scheme.is_tls() {
            true => Err(UpstreamFailure::Handshake("its site has no settings of TLS".to_owned())),
            false => Ok(Box::new(stream)),
        };
    };
    let name = server_name(site, upstream).map_err(UpstreamFailure::Handshake)?;
    match TlsConnector::from(Arc::clone(tls)).connect(name, stream).await {
        Ok(stream) => Ok(Box::new(stream)),
        Err(error) => Err(UpstreamFailure::Handshake(handshake_advice(&error))),
    }
}
