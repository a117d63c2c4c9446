//! TLS: the certificates that all stacks of a run share, and the settings of the laboratory's
//! client.
//!
//! Equal cryptography comes from the client: it offers one key exchange and one cipher, so every
//! server uses these.

use std::fs;
use std::io;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair, PKCS_RSA_SHA256, RsaKeySize};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider, kx_group};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};

use crate::loads::Wrong;

/// The name in the certificates, and the Host field over TLS.
pub const HOST: &str = "lab.test";
/// The cipher that the client offers with TLS 1.3, as OpenSSL names it.
pub const CIPHER: &str = "TLS_AES_128_GCM_SHA256";
/// The ciphers that the client offers with TLS 1.2, as OpenSSL names them.
pub const CIPHERS_OF_1_2: &str = "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256";
/// The key exchange that the client offers.
pub const GROUP: &str = "X25519";

/// A kind of private key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// ECDSA with the curve P-256.
    EcdsaP256,
    /// RSA with 2048 bits.
    Rsa2048,
}

/// The files of a certificate and its key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PemFiles {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl PemFiles {
    /// The pair with a key of that kind in this folder. It is made at the first call, signed by
    /// itself.
    ///
    /// # Errors
    ///
    /// The pair cannot be made or written.
    pub fn of(kind: KeyKind, folder: &Path) -> Result<PemFiles, Wrong> {
        let name = match kind {
            KeyKind::EcdsaP256 => "ecdsa-p256",
            KeyKind::Rsa2048 => "rsa-2048",
        };
        let pair = PemFiles {
            certificate: folder.join(format!("{name}.pem")),
            key: folder.join(format!("{name}.key")),
        };
        if !pair.certificate.is_file() {
            pair.write(kind)
                .map_err(|why| Wrong(format!("{}: {why}", pair.certificate.display())))?;
        }
        Ok(pair)
    }

    fn write(&self, kind: KeyKind) -> Result<(), String> {
        let text = |error: rcgen::Error| error.to_string();
        let key = match kind {
            KeyKind::EcdsaP256 => KeyPair::generate(),
            KeyKind::Rsa2048 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048),
        };
        let key = key.map_err(text)?;
        let names = [HOST, "localhost", "127.0.0.1"].map(str::to_owned);
        let certificate = CertificateParams::new(names.to_vec())
            .and_then(|parameters| parameters.self_signed(&key))
            .map_err(text)?;
        let write = || {
            fs::write(&self.key, key.serialize_pem())?;
            fs::set_permissions(&self.key, fs::Permissions::from_mode(0o600))?;
            fs::write(&self.certificate, certificate.pem())
        };
        write().map_err(|error: io::Error| error.to_string())
    }
}

/// A client's check of the server's signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signature {
    /// The signature is checked.
    Checked,
    /// The signature is not checked, which leaves processor time to the server.
    Ignored,
}

impl Signature {
    /// Calls `verify` with the known algorithms, where signatures are checked.
    fn verify(
        self,
        verify: impl FnOnce(
            &WebPkiSupportedAlgorithms,
        ) -> Result<HandshakeSignatureValid, rustls::Error>,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        match self {
            Signature::Ignored => Ok(HandshakeSignatureValid::assertion()),
            Signature::Checked => verify(&PROVIDER.signature_verification_algorithms),
        }
    }
}

/// The settings of a client: one cipher, one key exchange, TLS 1.3 and 1.2, this ALPN name. The
/// settings hold the tickets of earlier connections.
///
/// # Errors
///
/// The TLS library does not know the protocol versions.
pub fn client(alpn: &str, signature: Signature) -> Result<ClientConfig, Wrong> {
    let wrong = |error: rustls::Error| Wrong(format!("TLS: {error}"));
    let mut config = ClientConfig::builder_with_provider(PROVIDER.clone())
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(wrong)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(signature)))
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
    config.resumption = Resumption::in_memory_sessions(TICKETS);
    Ok(config)
}

/// The settings for single connections that are not resumed.
///
/// # Errors
/// The TLS library does not know the protocol versions.
pub(crate) fn plain_client(alpn: &str) -> Result<Arc<ClientConfig>, Wrong> {
    let mut config = client(alpn, Signature::Checked)?;
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// The name that the client asks for.
///
/// # Errors
/// The name is not valid.
pub(crate) fn server_name() -> Result<ServerName<'static>, Wrong> {
    ServerName::try_from(HOST).map_err(|error| Wrong(format!("TLS: {error}")))
}

/// Checks that the stack on this port has that certificate. Returns what was agreed on, such as
/// `TLSv1_3 TLS13_AES_128_GCM_SHA256 X25519`.
///
/// # Errors
///
/// The handshake fails, or another certificate was shown.
pub fn agreed(port: u16, pair: &PemFiles) -> Result<String, Wrong> {
    let wrong = |error: rustls::Error| Wrong(format!("TLS: {error}"));
    let mut connection =
        ClientConnection::new(plain_client("http/1.1")?, server_name()?).map_err(wrong)?;
    let mut stream = TcpStream::connect_timeout(&([127, 0, 0, 1], port).into(), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream)?;
    }
    let expected = CertificateDer::from_pem_file(&pair.certificate)
        .map_err(|error| Wrong(format!("{}: {error}", pair.certificate.display())))?;
    let found = connection.peer_certificates().and_then(<[_]>::first);
    if found != Some(&expected) {
        return Err(Wrong("another certificate than the one it was given".to_owned()));
    }
    let (version, suite, group) = (
        connection.protocol_version().map(|version| format!("{version:?}")),
        connection.negotiated_cipher_suite().map(|suite| format!("{:?}", suite.suite())),
        connection
            .negotiated_key_exchange_group()
            .map(|group| format!("{:?}", group.name())),
    );
    Ok([version, suite, group].into_iter().flatten().collect::<Vec<_>>().join(" "))
}

/// Time-out of reading in a handshake.
const PATIENCE: Duration = Duration::from_secs(60);
/// Number of servers whose tickets a client keeps.
const TICKETS: usize = 8;

static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| {
    Arc::new(CryptoProvider {
        cipher_suites: vec![
            cipher_suite::TLS13_AES_128_GCM_SHA256,
            cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
            cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        ],
        kx_groups: vec![kx_group::X25519],
        ..default_provider()
    })
});

/// Accepts any certificate: the servers are the laboratory's own, on the loopback interface.
/// [`agreed`] compares the certificate itself.
#[derive(Debug)]
struct AnyCertificate(Signature);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0
            .verify(|known| verify_tls12_signature(message, certificate, signed, known))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0
            .verify(|known| verify_tls13_signature(message, certificate, signed, known))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        PROVIDER.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use rustls::pki_types::PrivateKeyDer;
    use rustls::{ServerConfig, ServerConnection};

    use super::*;
    use crate::environment::Temporary;

    /// Answers one handshake with this pair, and reads until the client is gone.
    fn serve(pair: &PemFiles) -> u16 {
        let certificate = CertificateDer::from_pem_file(&pair.certificate).unwrap();
        let key = PrivateKeyDer::from_pem_file(&pair.key).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut connection = ServerConnection::new(Arc::new(config)).unwrap();
            let mut stream = rustls::Stream::new(&mut connection, &mut stream);
            let _ = stream.flush();
            let _ = stream.read(&mut [0; 64]);
        });
        port
    }

    #[test]
    fn the_certificate_and_what_is_agreed_on_are_checked() {
        let folder = Temporary::new().unwrap();
        let pair = |kind| PemFiles::of(kind, folder.path()).unwrap();
        let (ecdsa, rsa) = (pair(KeyKind::EcdsaP256), pair(KeyKind::Rsa2048));
        assert_eq!(pair(KeyKind::EcdsaP256), ecdsa, "made once");
        for own in [&ecdsa, &rsa] {
            let found = agreed(serve(own), own).unwrap();
            assert_eq!(found, "TLSv1_3 TLS13_AES_128_GCM_SHA256 X25519");
        }
        let error = agreed(serve(&rsa), &ecdsa).unwrap_err().to_string();
        assert!(error.contains("another certificate"), "{error}");
    }
}
