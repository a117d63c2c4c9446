//! The keys of `[site.tls]`.

use std::path::{Path, PathBuf};

use crate::kinds::{
    Ciphers, FilePath, Flag, List, OldestTls, Optional, SourceName, TransportSecurity, Verify,
};
use crate::section::section;
use crate::values::{CertificateSource, CipherPolicy, ClientVerify, TlsVersion};

section! {
    /// A site's certificates, and what the site demands of encrypted connections.
    pub struct SiteTls {
        /// The origin of the certificates: `"files"` are those of `cert` and `key`; `"auto"` are
        /// ordered from the authorities of `[acme]`; `"internal"` is the local authority, which
        /// makes certificates for development. `tls = "auto"` is short for
        /// `tls = { from = "auto" }`.
        source ("from"): CertificateSource as SourceName = CertificateSource::Files,
            "Browsers trust the certificates of known authorities; the local one must be trusted \
             by hand.";
        /// Files with a certificate in PEM, each followed by the certificates of the authorities
        /// between it and the root. Several certificates, for example with an ECDSA and an RSA key,
        /// are lists: `cert = ["a.pem", "b.pem"]`, or a list of tables, `tls = [{ cert = "a.pem",
        /// key = "a.key" }, …]`, with the same other keys in each; the client's abilities choose,
        /// ECDSA first. Changed files are read again.
        cert ("cert"): Vec<PathBuf> as List<FilePath> = Vec::new(),
            "A site without a certificate is not reachable over https.";
        /// Files with the keys of `cert` in PEM, in the same order. The supervisor reads them
        /// before it gives up its rights; the front's user needs no right to read them.
        key ("key"): Vec<PathBuf> as List<FilePath> = Vec::new(),
            "Each certificate has a key of its own.";
        /// The oldest version of TLS that clients of this site may use: `"1.2"` or `"1.3"`.
        min_version ("min_version"): TlsVersion as OldestTls = TlsVersion::Tls12,
            "All browsers since 2014 know TLS 1.2. Older versions are broken, and not there.";
        /// The cipher suites: `"intermediate"` are those of TLS 1.3 and of TLS 1.2 with ECDHE and
        /// AES-GCM or ChaCha20, `"modern"` those of TLS 1.3 and, with `min_version = "1.2"`, of TLS
        /// 1.2 with ECDSA keys. Neither has DHE or CBC: clients that know nothing else are refused.
        ciphers ("ciphers"): CipherPolicy as Ciphers = CipherPolicy::Intermediate,
            "No suite of either list is known to be weak.";
        /// A file with the certificates of authorities in PEM. Clients are asked for a certificate
        /// of one of them. Rules and scripts see it in mod_ssl's variables `SSL_CLIENT_…`. The file
        /// is read again when it changes. A file that cannot be used closes the site: see
        /// [https.md](https.md).
        client_ca ("client_ca"): Option<PathBuf> as Optional<FilePath> = None,
            "Visitors have no certificates.";
        /// With `client_ca`, and not without it: `"require"` refuses clients without a certificate,
        /// also those over http; `"optional"` serves them.
        client_verify ("client_verify"): ClientVerify as Verify = ClientVerify::Require,
            "A site that names authorities wants their clients alone.";
        /// Whether clients that come back may send requests before the end of the handshake
        /// (0-RTT), in TLS 1.3 and over QUIC. GET and HEAD without content are answered, and
        /// scripts see `HTTP_EARLY_DATA` as `1`; others get 425, and clients send them again
        /// after the handshake. Sessions of the site are kept in memory, and end with a reload. Not
        /// with `client_ca`. See [https.md](https.md).
        early_data ("early_data"): bool as Flag = false,
            "The server answers the same bytes once, but a client that gets no answer may send \
                the request again after the handshake, and most scripts were not written for that.";
        /// Whether requests over http for a name of the site are redirected to https: with 301 for
        /// GET and HEAD, and 308 for others. Tokens of `/.well-known/acme-challenge/` are not,
        /// nor requests that a trusted proxy has received over https.
        redirect ("redirect"): bool as Flag = true,
            "A site with a certificate is meant to be used over https.";
        /// The field Strict-Transport-Security of responses over https, such as `"max-age=31536000;
        /// includeSubDomains"`. For that many seconds browsers use https alone, and let nobody go
        /// on after a warning. A response that has the field already keeps its own.
        hsts ("hsts"): Option<String> as Optional<TransportSecurity> = None,
            "A browser that has seen the field cannot go back to http. The operator decides.";
    }
}

impl SiteTls {
    /// Returns whether the site has certificates.
    pub fn is_on(&self) -> bool {
        self.source != CertificateSource::Files || !self.cert.is_empty()
    }

    /// Returns the files of each certificate and of its key.
    pub fn pairs(&self) -> impl Iterator<Item = (&Path, &Path)> {
        let keys = self.key.iter().map(PathBuf::as_path);
        self.cert.iter().map(PathBuf::as_path).zip(keys)
    }
}
