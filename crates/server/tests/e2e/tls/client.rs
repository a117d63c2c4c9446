//! An authority of the tests' own, and clients that trust it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::SystemTime;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, PKCS_RSA_SHA256,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, Tls12Resumption};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    SupportedProtocolVersion, version,
};

use crate::support::{Folder, PATIENCE};
use crate::wire::Wire;

/// A certificate authority.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its key.
pub struct Certified {
    pub certificate: String,
    pub key: String,
    der: Vec<u8>,
}

/// The abilities of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    Tls13,
    /// TLS 1.2 alone.
    Tls12,
    /// It checks only signatures with RSA keys, and trusts every certificate.
    OnlyRsa,
}

/// A client, which remembers its sessions.
pub struct TlsClient(Arc<ClientConfig>);

impl Authority {
    pub fn new() -> Authority {
        Authority::with(|_| {})
    }

    /// An authority whose time is over.
    pub fn expired() -> Authority {
        Authority::with(|params| {
            params.not_before = rcgen::date_time_ymd(2001, 1, 1);
            params.not_after = rcgen::date_time_ymd(2001, 4, 1);
        })
    }

    /// An authority whose last second is the one at this time.
    pub fn until(ends: SystemTime) -> Authority {
        Authority::with(|params| params.not_after = ends.into())
    }

    fn with(change: impl FnOnce(&mut CertificateParams)) -> Authority {
        let mut params = CertificateParams::default();
        change(&mut params);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "Authority of the tests");
        let key = KeyPair::generate().unwrap();
        Authority {
            issuer: CertifiedIssuer::self_signed(params, key).unwrap(),
        }
    }

    /// Its certificate in PEM.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate for these names, with an ECDSA key.
    pub fn certify(&self, names: &[&str]) -> Certified {
        self.sign(names, KeyPair::generate().unwrap(), |_| {})
    }

    /// A certificate for these names, with an RSA key.
    pub fn certify_rsa(&self, names: &[&str]) -> Certified {
        self.sign(names, KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap(), |_| {})
    }

    /// A certificate whose time is over, with an RSA key.
    pub fn certify_expired(&self, names: &[&str]) -> Certified {
        self.sign(names, KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap(), |params| {
            params.not_before = rcgen::date_time_ymd(2001, 1, 1);
            params.not_after = rcgen::date_time_ymd(2001, 4, 1);
        })
    }

    /// A certificate that begins in 2999.
    pub fn certify_too_early(&self, names: &[&str]) -> Certified {
        self.sign(names, KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap(), |params| {
            params.not_before = rcgen::date_time_ymd(2999, 1, 1);
            params.not_after = rcgen::date_time_ymd(2999, 4, 1);
        })
    }

    /// A certificate for a client.
    pub fn certify_client(&self, name: &str) -> Certified {
        self.sign(&[], KeyPair::generate().unwrap(), |params| {
            params.distinguished_name = DistinguishedName::new();
            params.distinguished_name.push(DnType::OrganizationName, "Example, Inc.");
            params.distinguished_name.push(DnType::CommonName, name);
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        })
    }

    /// A certificate for these names with many kinds of parts in the subject's name, and a serial
    /// number that begins with a high bit.
    pub fn certify_detailed(&self, names: &[&str], key: KeyPair) -> Certified {
        self.sign(names, key, |params| {
            params.serial_number = Some(vec![0xf0, 1, 2, 3, 4, 5, 6, 7, 8, 0].into());
            params.subject_alt_names.clear();
            params.custom_extensions.push(alternative_names(names));
            let mut name = DistinguishedName::new();
            name.push(DnType::CountryName, "IS");
            name.push(DnType::StateOrProvinceName, "Norðurland");
            name.push(DnType::LocalityName, "Here, there");
            name.push(DnType::OrganizationName, "Example, Inc. \"all\" ");
            name.push(DnType::OrganizationalUnitName, "#1");
            name.push(DnType::CommonName, "a.example");
            // Surname, number, title, description, given name, initials, an unknown one.
            for kind in [4, 5, 12, 13, 42, 43, 120] {
                let value = format!("value {kind}");
                name.push(DnType::CustomDnType(vec![2, 5, 4, kind]), value);
            }
            let mail = vec![1, 2, 840, 113_549, 1, 9, 1];
            name.push(DnType::CustomDnType(mail), "web@a.example");
            params.distinguished_name = name;
            params.extended_key_usages =
                vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        })
    }

    fn sign(
        &self,
        names: &[&str],
        key: KeyPair,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Certified {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Certified {
            certificate: certificate.pem() + &self.issuer.pem(),
            key: key.serialize_pem(),
            der: certificate.der().to_vec(),
        }
    }

    /// A client that trusts the authority.
    pub fn client(&self, trust: Trust) -> TlsClient {
        TlsClient::trusting(self.issuer.pem().as_bytes(), trust)
    }

    /// A connection of a new client that asks for `name`.
    pub fn connect(&self, address: SocketAddr, name: &str, trust: Trust) -> Wire {
        self.client(trust).connect(address, name)
    }
}

impl Certified {
    /// The certificate itself.
    pub fn der(&self) -> &[u8] {
        &self.der
    }
}

impl TlsClient {
    /// A client that trusts this authority, whose certificate is in PEM.
    pub fn trusting(authority: &[u8], trust: Trust) -> TlsClient {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(versions(trust)).unwrap();
        let config = if trust == Trust::OnlyRsa {
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(OnlySignatures {
                    schemes: RSA.to_vec(),
                }))
                .with_no_client_auth()
        } else {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(authority).unwrap()).unwrap();
            builder.with_root_certificates(roots).with_no_client_auth()
        };
        TlsClient(Arc::new(config))
    }

    /// The same client, which continues sessions by their numbers, as TLS 1.2 knows them.
    pub fn without_tickets(&self) -> TlsClient {
        let mut config = ClientConfig::clone(&self.0);
        config.resumption =
            Resumption::in_memory_sessions(16).tls12_resumption(Tls12Resumption::SessionIdOnly);
        TlsClient(Arc::new(config))
    }

    /// A client that trusts this authority and shows this certificate.
    pub fn showing(authority: &Authority, own: &Certified) -> TlsClient {
        TlsClient::with_chain(authority, own, Vec::new())
    }

    /// A client like that of [`showing`](TlsClient::showing), with the versions of `trust`.
    pub fn showing_as(authority: &Authority, own: &Certified, trust: Trust) -> TlsClient {
        TlsClient::with_versions(authority, own, Vec::new(), versions(trust))
    }

    /// A client like that of [`showing`](TlsClient::showing), with the authority's certificate
    /// behind its own.
    pub fn showing_chain(authority: &Authority, own: &Certified) -> TlsClient {
        TlsClient::with_chain(authority, own, vec![authority.issuer.der().clone()])
    }

    /// A client like that of [`showing`](TlsClient::showing), with the authority's certificate
    /// behind its own, that many times.
    pub fn showing_often(authority: &Authority, own: &Certified, times: usize) -> TlsClient {
        TlsClient::with_chain(authority, own, vec![authority.issuer.der().clone(); times])
    }

    fn with_chain(
        authority: &Authority,
        own: &Certified,
        behind: Vec<CertificateDer<'static>>,
    ) -> TlsClient {
        TlsClient::with_versions(authority, own, behind, versions(Trust::Tls13))
    }

    fn with_versions(
        authority: &Authority,
        own: &Certified,
        behind: Vec<CertificateDer<'static>>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> TlsClient {
        let mut roots = RootCertStore::empty();
        roots.add(authority.issuer.der().clone()).unwrap();
        let chain = [vec![CertificateDer::from(own.der.clone())], behind].concat();
        let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(versions).unwrap();
        let config = builder.with_root_certificates(roots).with_client_auth_cert(chain, key);
        TlsClient(Arc::new(config.unwrap()))
    }

    /// The client's settings.
    pub fn settings(&self) -> ClientConfig {
        ClientConfig::clone(&self.0)
    }

    /// A connection that asks for `name`.
    pub fn connect(&mut self, address: SocketAddr, name: &str) -> Wire {
        Wire::encrypted(address, self.session(name))
    }

    /// The client's side of a handshake.
    pub fn session(&self, name: &str) -> ClientConnection {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        ClientConnection::new(Arc::clone(&self.0), name).unwrap()
    }

    /// Returns whether a handshake succeeds.
    pub fn is_accepted(&self, address: SocketAddr, name: &str) -> bool {
        let mut session = self.session(name);
        let mut socket = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        while session.is_handshaking() {
            if session.complete_io(&mut socket).is_err() {
                return false;
            }
        }
        true
    }

    /// Returns the reason why a handshake fails.
    pub fn refused(&self, address: SocketAddr, name: &str) -> String {
        let mut session = self.session(name);
        let mut socket = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut stream = rustls::Stream::new(&mut session, &mut socket);
        let sent = stream.write_all(b"GET / HTTP/1.1\r\n\r\n").and_then(|()| stream.flush());
        // In TLS 1.3 the server's refusal may come after the client's last word.
        match sent.and_then(|()| stream.read(&mut [0])) {
            Ok(_) => panic!("the handshake with {name} was not refused"),
            Err(error) => error.to_string(),
        }
    }
}

/// Returns the extension with these hosts and with names of every other kind. The library knows not
/// all forms of them.
fn alternative_names(hosts: &[&str]) -> CustomExtension {
    fn element(tag: u8, content: &[u8]) -> Vec<u8> {
        let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
        let length: &[u8] = match (high, low) {
            (0, 0..0x80) => &[low],
            (0, _) => &[0x81, low],
            _ => &[0x82, high, low],
        };
        [&[tag], length, content].concat()
    }
    let other = |kind: &[u8], tag, text: &str| {
        let value = element(0xa0, &element(tag, text.as_bytes()));
        element(0xa0, &[element(0x06, kind), value].concat())
    };
    // msUPN and id-on-dnsSRV.
    let user = &[0x2b, 6, 1, 4, 1, 0x82, 0x37, 20, 2, 3];
    let service = &[0x2b, 6, 1, 5, 5, 7, 8, 7];
    let mut all: Vec<u8> = hosts.iter().flat_map(|host| element(0x82, host.as_bytes())).collect();
    let (utf8, ascii) = (0x0c, 0x16);
    all.extend(other(user, utf8, "änne@corp.example"));
    all.extend(element(0x81, b"web@a.example"));
    all.extend(other(service, ascii, "_https.a.example"));
    all.extend(other(&[0x2b, 6, 1], utf8, "no"));
    all.extend(other(user, utf8, "bob@corp.example"));
    // In forms that OpenSSL does not read. For rules, mod_ssl counts them nevertheless.
    all.extend(other(user, ascii, "no@corp.example"));
    all.extend(other(service, utf8, "_no.a.example"));
    CustomExtension::from_oid_content(&[2, 5, 29, 17], element(0x30, &all))
}

fn versions(trust: Trust) -> &'static [&'static SupportedProtocolVersion] {
    const BOTH: &[&SupportedProtocolVersion] = &[&version::TLS12, &version::TLS13];
    match trust {
        Trust::Tls12 => &BOTH[..1],
        Trust::Tls13 | Trust::OnlyRsa => BOTH,
    }
}

/// Writes `NAME.pem` and `NAME.key` of each pair.
pub fn files(pairs: &[(&str, &Certified)]) -> Folder {
    let folder = Folder::new();
    for (name, pair) in pairs {
        folder.file(&format!("{name}.pem"), &pair.certificate);
        folder.file(&format!("{name}.key"), &pair.key);
    }
    folder
}

const RSA: [SignatureScheme; 2] =
    [SignatureScheme::RSA_PSS_SHA256, SignatureScheme::RSA_PKCS1_SHA256];

/// Checks that the server has the key to its certificate, and nothing else.
#[derive(Debug)]
pub struct OnlySignatures {
    schemes: Vec<SignatureScheme>,
}

impl OnlySignatures {
    /// Takes signatures of every scheme.
    pub fn of_any_scheme() -> OnlySignatures {
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
        OnlySignatures { schemes: algorithms.supported_schemes() }
    }
}

impl ServerCertVerifier for OnlySignatures {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}
