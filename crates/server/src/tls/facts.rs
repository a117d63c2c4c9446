//! The facts about a connection that rules and scripts may see.

use super::client;
use howdah_http::Tls;
use rustls::{CipherSuite, HandshakeKind, ProtocolVersion, ServerConnection};

/// Returns the facts about a connection whose handshake is over.
pub(super) fn of(session: &ServerConnection) -> Tls {
    let suite = session.negotiated_cipher_suite().map(|suite| suite.suite());
    let (cipher, cipher_bits) = cipher(suite);
    Tls {
        protocol: match session.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "TLSv1.3",
        },
        cipher,
        cipher_bits,
        is_resumed: session.handshake_kind() == Some(HandshakeKind::Resumed),
        client: session
            .peer_certificates()
            .and_then(|chain| chain.first())
            .map(|certificate| client::variables(certificate))
            .unwrap_or_default(),
        server_name: session.server_name().map(Into::into),
    }
}

/// Returns OpenSSL's name of a cipher suite, and the bits of its key.
pub(super) fn cipher(suite: Option<CipherSuite>) -> (&'static str, u16) {
    use CipherSuite as S;
    match suite {
        Some(S::TLS13_AES_128_GCM_SHA256) => ("TLS_AES_128_GCM_SHA256", 128),
        Some(S::TLS13_AES_256_GCM_SHA384) => ("TLS_AES_256_GCM_SHA384", 256),
        Some(S::TLS13_CHACHA20_POLY1305_SHA256) => ("TLS_CHACHA20_POLY1305_SHA256", 256),
        Some(S::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256) => ("ECDHE-ECDSA-AES128-GCM-SHA256", 128),
        Some(S::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384) => ("ECDHE-ECDSA-AES256-GCM-SHA384", 256),
        Some(S::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256) => {
            ("ECDHE-ECDSA-CHACHA20-POLY1305", 256)
        }
        Some(S::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256) => ("ECDHE-RSA-AES128-GCM-SHA256", 128),
        Some(S::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384) => ("ECDHE-RSA-AES256-GCM-SHA384", 256),
        Some(S::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256) => {
            ("ECDHE-RSA-CHACHA20-POLY1305", 256)
        }
        _ => ("UNKNOWN", 0),
    }
}
