//! Certificates and encryption.

/// A way to show an authority for certificates that a name leads to this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// A file on port 80.
    Http01,
    /// A certificate on port 443.
    TlsAlpn01,
    /// A DNS record.
    Dns01,
}

impl AcmeChallenge {
    /// All challenges.
    pub const ALL: [AcmeChallenge; 3] =
        [AcmeChallenge::Http01, AcmeChallenge::TlsAlpn01, AcmeChallenge::Dns01];

    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            AcmeChallenge::Http01 => "http-01",
            AcmeChallenge::TlsAlpn01 => "tls-alpn-01",
            AcmeChallenge::Dns01 => "dns-01",
        }
    }
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// The origin of a site's certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateSource {
    /// From files; without any, the site has no certificate.
    Files,
    /// From the local authority, for development.
    Internal,
    /// Ordered from the authorities of `[acme]`.
    Auto,
}

/// The treatment of a client without a certificate, where a site asks for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientVerify {
    /// The handshake fails.
    Require,
    /// The client is served. Rules and scripts see that it has shown none.
    Optional,
}

/// A list of cipher suites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CipherPolicy {
    /// Every suite with forward secrecy and authenticated encryption.
    Intermediate,
    /// TLS 1.3, and TLS 1.2 with ECDSA.
    Modern,
}
