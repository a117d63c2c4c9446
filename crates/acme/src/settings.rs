//! The settings of the process.

use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::{Deserialize, Serialize};

/// The settings of the process, and the names that need certificates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcmeSettings {
    /// URLs of the authorities' directories, the preferred one first.
    pub directories: Vec<String>,
    /// Roots that are trusted beside those of the system when speaking with an authority, in PEM.
    /// Otherwise the reason why they cannot be read: nothing is ordered then.
    pub roots: Result<Vec<u8>, String>,
    /// The address for the authorities' messages.
    pub email: Option<String>,
    /// Key identifier and key of an account that the first authority knows already (external
    /// account binding, RFC 8555 §7.3.4). The key is encoded in base64url.
    pub binding: Option<(String, String)>,
    /// The state folder.
    #[serde(with = "bytes_of_path")]
    pub state: PathBuf,
    /// Challenges in order of preference.
    pub challenges: Vec<ChallengeKind>,
    /// Program and arguments that add and remove DNS records; empty for none.
    pub dns_hook: Vec<String>,
    /// The names that need certificates, checked by [`check`](crate::names::check).
    pub names: Vec<String>,
    /// Orders that may begin in an hour for names that visitors ask for; 0: none is ordered.
    pub on_demand_per_hour: usize,
    /// Sites that have names on demand.
    pub on_demand_sites: usize,
    /// The URL that is asked whether a name may have a certificate; `None`: a folder decides alone.
    pub ask: Option<String>,
}

/// A way to show that a name leads to this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChallengeKind {
    /// A file on port 80 (RFC 8555 §8.3).
    Http01,
    /// A certificate on port 443 (RFC 8737).
    TlsAlpn01,
    /// A DNS record (RFC 8555 §8.4).
    Dns01,
}

impl ChallengeKind {
    /// The name as in the RFCs and in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            ChallengeKind::Http01 => "http-01",
            ChallengeKind::TlsAlpn01 => "tls-alpn-01",
            ChallengeKind::Dns01 => "dns-01",
        }
    }
}

/// Reads a file with roots.
///
/// # Errors
/// The file cannot be read, or has no certificate in PEM. The text names it.
pub fn read_roots(path: &Path) -> Result<Vec<u8>, String> {
    let told = |why: &dyn std::fmt::Display| {
        format!("`acme.ca_file` {}: {why}; name a file with certificates in PEM", path.display())
    };
    let text = std::fs::read(path).map_err(|error| told(&error))?;
    let mut roots = CertificateDer::pem_slice_iter(&text).peekable();
    if roots.peek().is_none() {
        return Err(told(&"no certificate is in the file"));
    }
    roots.try_for_each(|root| root.map(drop)).map_err(|error| told(&error))?;
    Ok(text)
}

/// A path as bytes: it need not be text.
mod bytes_of_path {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes the bytes of a path.
    ///
    /// # Errors
    /// The error of the serializer.
    pub(super) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        path.as_os_str().as_bytes().serialize(to)
    }

    /// Reads a path from bytes.
    ///
    /// # Errors
    /// The error of the deserializer.
    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<PathBuf, D::Error> {
        Vec::deserialize(from).map(|bytes| OsString::from_vec(bytes).into())
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use super::*;
    use crate::message;

    #[test]
    fn settings_survive_the_way_to_the_process() {
        let settings = AcmeSettings {
            directories: vec!["https://127.0.0.1/dir".to_owned()],
            roots: Ok(vec![0, 255]),
            email: None,
            binding: Some(("kid".to_owned(), "key".to_owned())),
            state: OsString::from_vec(b"/not text: \xff".to_vec()).into(),
            challenges: vec![ChallengeKind::Http01, ChallengeKind::Dns01],
            dns_hook: vec!["hook".to_owned()],
            names: vec!["example.org".to_owned()],
            on_demand_per_hour: 7,
            on_demand_sites: 0,
            ask: Some("http://127.0.0.1/".to_owned()),
        };
        let packet = message::encode(&settings);
        assert_eq!(message::decode::<AcmeSettings>(&packet).unwrap(), settings);
    }
}
