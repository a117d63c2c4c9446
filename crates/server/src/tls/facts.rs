//! The facts about a connection that rules and scripts may see.

use std::sync::Arc;

use super::{certificate_variables, fill_random};
use howdah_http::{CertificateVariables, Tls};
use rustls::{CipherSuite, HandshakeKind, ProtocolVersion, ServerConnection};

/// The library, as `SSL_VERSION_LIBRARY`.
pub(super) const LIBRARY: &str = "rustls/0.23";

/// Returns the facts about a connection whose handshake is over. `server` are the variables of the
/// certificate that the client has seen.
pub(super) fn of(session: &ServerConnection, server: Option<Arc<CertificateVariables>>) -> Tls {
    let suite = session.negotiated_cipher_suite().map(|suite| suite.suite());
    let (cipher, cipher_bits) = cipher(suite);
    let is_tls12 = session.protocol_version() == Some(ProtocolVersion::TLSv1_2);
    Tls {
        protocol: if is_tls12 { "TLSv1.2" } else { "TLSv1.3" },
        cipher,
        cipher_bits,
        is_resumed: session.handshake_kind() == Some(HandshakeKind::Resumed),
        session: session_id().filter(|_| !is_tls12),
        library: LIBRARY,
        server_name: session.server_name().map(Into::into),
        server,
        client: session
            .peer_certificates()
            .and_then(certificate_variables::of_client)
            .map(Box::new),
    }
}

/// Returns a number for a connection of TLS 1.3: OpenSSL, too, gives each one a random number.
/// `None`: the system has no random numbers.
pub(super) fn session_id() -> Option<[u8; 32]> {
    let mut id = [0; 32];
    fill_random(&mut id).is_ok().then_some(id)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_the_one_that_is_built_in() {
        let packages = include_str!("../../../../Cargo.lock");
        let (_, behind) = packages.split_once("name = \"rustls\"\nversion = \"").unwrap();
        let (version, _) = behind.split_once('"').unwrap();
        assert!(format!("rustls/{version}").starts_with(&format!("{LIBRARY}.")), "{version}");
    }
}
