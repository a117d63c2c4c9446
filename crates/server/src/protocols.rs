//! The protocols that clients speak, and the choice between them.
//!
//! Transports, TLS and QUIC name no protocol. They ask here for the names to offer, and hand over
//! each connection that is ready. A further protocol is named in this file, and has a folder of its
//! own beside `h1`, `h2` and `h3`, which lists the limits that are counted.

use std::rc::Rc;

use howdah_config::Config;
use howdah_http::h2::PREFACE;

use crate::front::FrontThread;
use crate::net::{EncryptedTransport, Peer, TimedTransport, Transport};
use crate::observe::ProtocolLimit;
use crate::{h1, h2, h3};

/// HTTP/2 in ALPN.
const HTTP2: &[u8] = b"h2";

/// HTTP/1.1 in ALPN. Upstreams are offered it alone.
pub(crate) const HTTP1: &[u8] = b"http/1.1";

/// HTTP/1.0 in ALPN. Its responses are those of HTTP/1.1 that such a client understands. HTTP/0.9,
/// which has a name as well, is not spoken.
const HTTP10: &[u8] = b"http/1.0";

/// HTTP/3, the one protocol on QUIC, in ALPN and in Alt-Svc (RFC 9114 §3.1).
pub(crate) const ON_QUIC: &str = "h3";

/// Returns the protocols that clients may choose between on TLS (ALPN), the preferred one first.
pub(crate) fn on_tls(config: &Config) -> Vec<Vec<u8>> {
    let spoken = [HTTP2, HTTP1, HTTP10].into_iter();
    let spoken = spoken.filter(|protocol| config.http2.enabled || *protocol != HTTP2);
    spoken.map(<[u8]>::to_vec).collect()
}

/// Returns the limits of all protocols that are counted when a client meets one.
pub(crate) fn counted_limits() -> Vec<ProtocolLimit> {
    [h2::COUNTED_LIMITS, h3::COUNTED_LIMITS].concat()
}

/// Serves a connection without encryption to its end.
pub(crate) fn serve_plain<T: Transport>(
    thread: Rc<FrontThread>,
    transport: T,
    peer: Rc<Peer>,
) -> impl Future<Output = ()> {
    h1::run(thread, transport, peer)
}

/// Serves an encrypted connection to its end, in the protocol that the client has chosen.
pub(crate) async fn serve_encrypted(
    thread: Rc<FrontThread>,
    transport: EncryptedTransport,
    peer: Rc<Peer>,
) {
    match transport.facts(|tls| tls.alpn_protocol() == Some(HTTP2)) {
        true => Box::pin(h2::run(thread, transport, peer)).await,
        false => h1::run(thread, transport, peer).await,
    }
}

/// Answers a connection in the clear on a listener with TLS: its port is for https.
pub(crate) fn refuse_plain<T: Transport>(
    thread: Rc<FrontThread>,
    transport: T,
    peer: Rc<Peer>,
) -> impl Future<Output = ()> {
    h1::refuse_plain(thread, transport, peer)
}

/// Serves a connection of QUIC to its end.
pub(crate) fn serve_quic(
    thread: Rc<FrontThread>,
    connection: quinn::Connection,
    peer: Peer,
) -> impl Future<Output = ()> {
    h3::run(thread, connection, peer)
}

/// Returns whether `input`, the first bytes of a connection, which begin no request of HTTP/1, hold
/// the whole preface of HTTP/2 (RFC 9113 §3.3). `None`: they begin no such preface.
#[cold]
pub(crate) fn has_preface(config: &Config, input: &[u8]) -> Option<bool> {
    let begins = input.starts_with(PREFACE) || PREFACE.starts_with(input);
    (config.http2.enabled && begins).then_some(input.len() >= PREFACE.len())
}

/// Serves a connection to its end that has begun with the whole [preface](has_preface).
/// `received` are the bytes that the client has sent so far.
pub(crate) fn serve_after_preface<T: Transport>(
    thread: Rc<FrontThread>,
    timed: TimedTransport<T>,
    peer: Rc<Peer>,
    received: Vec<u8>,
) -> impl Future<Output = ()> {
    h2::serve(thread, timed, peer, received)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_is_a_key_of_the_configuration() {
        let reference = include_str!("../../../docs/config.md");
        for (protocol, key) in counted_limits().into_iter().filter(|(_, key)| *key != h2::LIBRARY) {
            let is_general = ["send_timeout", "client_memory"].contains(&key);
            let table = if is_general { "limits" } else { protocol };
            let (_, behind) = reference.split_once(&format!("## `[{table}]`\n")).expect(table);
            let keys = behind.split("\n## ").next().unwrap_or_default();
            assert!(keys.contains(&format!("### `{key}`\n")), "{table} {key}");
        }
    }
}
