//! Receiving the PROXY protocol's header, before the first byte of a connection's own protocol.

use std::future::poll_fn;
use std::task::Poll;

use howdah_http::Scheme;
use howdah_http::proxy_protocol::{self, HeaderProgress, LONGEST, ProxyHeader};
use tokio::io::ReadBuf;

use super::deadline::{DeadlineWatch, task_waker};
use super::{Peer, Transport};
use crate::front::FrontThread;
use crate::log::Level;

/// Receives the header and returns the peer that it names. `None`: the connection must be closed,
/// and the reason is logged.
///
/// Only bytes of the header are taken. The header has as much time as a request's head.
pub(super) async fn receive<T: Transport>(
    thread: &FrontThread,
    transport: &mut T,
    peer: &Peer,
) -> Option<Peer> {
    let result = if peer.is_proxy {
        let waker = task_waker().await;
        let watch = thread.watches().add(waker);
        watch.arm(thread.config().limits.head_timeout);
        // A server that stops closes connections without a request.
        watch.set_idle(true);
        read(transport, &watch).await
    } else {
        Err("the peer is not trusted to send it")
    };
    match result {
        Ok(header) => Some(named(thread, peer, header)),
        Err(why) => {
            let what = format!("closed a connection that needs a PROXY header: {why}");
            thread.shared.log.say_of_client(Level::Warning, None, peer.hop, &what);
            None
        }
    }
}

async fn read<T: Transport>(
    transport: &mut T,
    watch: &DeadlineWatch,
) -> Result<ProxyHeader, &'static str> {
    let mut bytes = Vec::new();
    loop {
        let missing = match proxy_protocol::read(&bytes)? {
            HeaderProgress::Complete(header) => return Ok(header),
            HeaderProgress::Missing(missing) => missing,
        };
        let start = bytes.len();
        debug_assert!(start + missing <= LONGEST);
        bytes.resize(start + missing, 0);
        let mut room = ReadBuf::new(&mut bytes[start..]);
        let result = poll_fn(|context| match transport.poll_read(context, &mut room) {
            Poll::Ready(result) => Poll::Ready(result.map_err(|_| "the connection broke")),
            Poll::Pending if watch.is_expired() => {
                Poll::Ready(Err("the header took longer than `head_timeout`"))
            }
            Poll::Pending => Poll::Pending,
        })
        .await;
        let count = room.filled().len();
        result?;
        if count == 0 {
            return Err("the connection ended before it");
        }
        bytes.truncate(start + count);
    }
}

/// The peer that a header names. The proxy's own connections keep the ends that they have.
fn named(thread: &FrontThread, peer: &Peer, header: ProxyHeader) -> Peer {
    match header {
        ProxyHeader::Local => Peer { is_proxy: false, ..peer.clone() },
        ProxyHeader::Proxied { source, destination, is_tls } => Peer {
            remote: source,
            local: destination,
            scheme: if is_tls { Scheme::Https } else { peer.scheme },
            // The proxy passes requests on as they are. Their fields are those of the client, which
            // may be a trusted proxy itself.
            is_proxy: thread.config().trusted_proxies.contains(source.ip()),
            ..peer.clone()
        },
    }
}
