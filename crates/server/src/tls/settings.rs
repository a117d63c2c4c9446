//! The library's settings of sessions: versions, cipher suites, the place of sessions, early data.

use std::sync::{Arc, OnceLock};

use howdah_config::{CipherPolicy, SiteTls, TlsVersion};
use rustls::crypto::{CryptoProvider, GetRandomFailed, aws_lc_rs};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, StoresServerSessions};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CipherSuite, ServerConfig, SupportedProtocolVersion, version};

use super::pair;
use super::site_certificates::SiteCertificates;
use super::tickets::NoTickets;

/// Makes settings whose sessions are with the clients, in tickets whose keys are forgotten. Those
/// that the server kept would have no end. The caller adds the tickets.
pub(super) fn settings(
    tls: &SiteTls,
    certificates: Arc<SiteCertificates>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    protocols: Vec<Vec<u8>>,
) -> Result<ServerConfig, String> {
    const BOTH: &[&SupportedProtocolVersion] = &[&version::TLS13, &version::TLS12];
    let versions = match tls.min_version {
        TlsVersion::Tls12 => BOTH,
        TlsVersion::Tls13 => &BOTH[..1],
    };
    let provider = match tls.ciphers {
        CipherPolicy::Intermediate => Arc::clone(provider()),
        CipherPolicy::Modern => modern(),
    };
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .map_err(|error| error.to_string())?;
    let builder = match verifier {
        None => builder.with_no_client_auth(),
        Some(verifier) => builder.with_client_cert_verifier(verifier),
    };
    let mut settings = builder.with_cert_resolver(certificates);
    settings.session_storage = Arc::new(NoServerSessionStorage {});
    settings.alpn_protocols = protocols;
    Ok(settings)
}

/// Makes `settings` accept early data of clients that continue one of `sessions`. The library takes
/// early data only where it has the sessions itself, and removes one that is continued: a client,
/// or somebody who has recorded its bytes, cannot continue the session again. Tickets cannot do
/// that.
pub(super) fn accept_early_data(
    settings: &mut ServerConfig,
    sessions: Arc<dyn StoresServerSessions>,
    most: u32,
) {
    settings.session_storage = sessions;
    settings.ticketer = Arc::new(NoTickets);
    settings.max_early_data_size = most;
    // Responses to early data go before the client's last message.
    settings.send_half_rtt_data = true;
}

/// Returns the settings for the handshake of an authority that checks a name: this certificate
/// alone, and this protocol alone. `None` if the certificate cannot be used.
pub(super) fn for_challenge(certificate: &str, key: &str, protocol: &[u8]) -> Option<ServerConfig> {
    // The certificate has a critical extension that only authorities know, so it is not checked.
    let chain = pair::chain(certificate.as_bytes()).ok()?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).ok()?;
    let certified = CertifiedKey::new(chain, provider().key_provider.load_private_key(key).ok()?);
    let builder = ServerConfig::builder_with_provider(Arc::clone(provider()));
    let builder = builder.with_safe_default_protocol_versions().ok()?.with_no_client_auth();
    let resolver = SingleCertAndKey::from(certified);
    let mut settings = builder.with_cert_resolver(Arc::new(resolver));
    settings.alpn_protocols = vec![protocol.to_vec()];
    Some(settings)
}

/// Returns the cryptography with every cipher suite of the library: all have forward secrecy and
/// authenticated encryption.
pub(super) fn provider() -> &'static Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(aws_lc_rs::default_provider()))
}

/// Fills `bytes` with random numbers.
///
/// # Errors
/// The system has none.
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<(), String> {
    let filled = provider().secure_random.fill(bytes);
    filled.map_err(|GetRandomFailed| "the system gives no random numbers".to_owned())
}

/// Returns the cryptography with the suites of TLS 1.3, and of TLS 1.2 with ECDSA.
fn modern() -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites.retain(|suite| {
        suite.tls13().is_some()
            || matches!(
                suite.suite(),
                CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
                    | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
                    | CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
            )
    });
    Arc::new(provider)
}
