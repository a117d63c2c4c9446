//! A certificate with its key: read by the supervisor as text, parsed by both processes.

use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use howdah_config::{HostPattern, SiteSettings};
use howdah_http::{CertificateVariables, date};
use howdah_sys::open;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::certificate::CertificateFacts;
use super::certificate_variables;
use super::settings::provider;
use crate::operator_path;

/// A certificate and its key in PEM, with the names of their files.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PairText {
    pub(crate) certificate_name: String,
    pub(crate) key_name: String,
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

/// The pairs of each site, by site.
pub(crate) type SitePairs = Vec<Vec<PairText>>;

/// A certificate that can be used.
#[derive(Debug)]
pub(crate) struct CertificatePair {
    /// The file of the certificate.
    pub(crate) name: String,
    pub(crate) certified: Arc<CertifiedKey>,
    pub(crate) facts: CertificateFacts,
    /// The variables for rules and scripts.
    pub(super) variables: Arc<CertificateVariables>,
}

/// Bytes of the longest file that is read: a hundred certificates. A longer one is refused.
const LONGEST: u64 = 1 << 20;

/// Bytes of all certificates that a handshake sends. Each one holds them until the client has
/// answered, who need not be known yet. Usual chains have 5 KB, four RSA certificates of 4,096 bits
/// have 8 KB.
const LONGEST_CHAIN: usize = 16 << 10;

impl PairText {
    /// Reads both files.
    ///
    /// # Errors
    /// The file that cannot be read, and why.
    pub(crate) fn read(certificate: &Path, key: &Path) -> Result<PairText, String> {
        Ok(PairText {
            certificate_name: certificate.display().to_string(),
            key_name: key.display().to_string(),
            certificate: read(certificate)?,
            key: read(key)?,
        })
    }

    /// Whether the pair is from these files.
    pub(crate) fn is_of(&self, certificate: &Path, key: &Path) -> bool {
        self.certificate_name == certificate.display().to_string()
            && self.key_name == key.display().to_string()
    }

    /// Returns the names of the files without their content.
    pub(crate) fn names(&self) -> PairText {
        PairText {
            certificate_name: self.certificate_name.clone(),
            key_name: self.key_name.clone(),
            certificate: Vec::new(),
            key: Vec::new(),
        }
    }

    /// Parses certificate and key, and checks that they belong together.
    ///
    /// # Errors
    /// The file with the mistake, and advice.
    pub(crate) fn parse(&self) -> Result<CertificatePair, String> {
        let of_certificate = |why: String| format!("{}: {why}", self.certificate_name);
        let of_key = |why: String| format!("{}: {why}", self.key_name);
        let chain = chain(&self.certificate).map_err(of_certificate)?;
        check_length(&chain).map_err(of_certificate)?;
        let facts = CertificateFacts::read(&chain[0]).map_err(of_certificate)?;
        let key = key(&self.key).map_err(of_key)?;
        let signs = provider().key_provider.load_private_key(key).map_err(|error| {
            of_key(format!(
                "the key cannot be used ({error}); use an ECDSA key (P-256) or an RSA key of 2048 \
                 bits or more"
            ))
        })?;
        let variables = Arc::new(certificate_variables::of_server(&chain[0]));
        let certified = CertifiedKey::new(chain, signs);
        match certified.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
            Err(_) => {
                return Err(of_key(format!(
                    "the key does not belong to the certificate in {}; name the key that the \
                     certificate was made with, and put the server's own certificate first in its \
                     file",
                    self.certificate_name
                )));
            }
        }
        Ok(CertificatePair {
            name: self.certificate_name.clone(),
            certified: Arc::new(certified),
            facts,
            variables,
        })
    }
}

impl CertificatePair {
    /// Returns what is wrong with the certificate for `site` at `now`: browsers will refuse it.
    pub(crate) fn remarks(&self, site: &SiteSettings, now: SystemTime) -> Vec<String> {
        let (name, facts) = (&site.name, &self.facts);
        let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
        let mut remarks = Vec::new();
        if facts.ends <= now {
            remarks.push(format!(
                "site {name}: its certificate for {} is expired: it ended at {}; browsers will \
                 refuse it: get a new one, or correct the clock of this machine, which says {}",
                facts.shown(),
                shown_time(facts.ends),
                shown_time(now)
            ));
        }
        if facts.begins > now {
            remarks.push(format!(
                "site {name}: its certificate for {} is not valid yet: it begins at {}; browsers \
                 will refuse it until then: correct the clock of this machine, which says {}, or \
                 use an older certificate",
                facts.shown(),
                shown_time(facts.begins),
                shown_time(now)
            ));
        }
        // Another certificate of the site may have the other names.
        if site.hosts.iter().all(|host| !self.is_for(host)) && !site.hosts.is_empty() {
            remarks.push(format!(
                "site {name}: its certificate is for {}, and for none of the site's `hosts`; \
                 browsers will refuse it: get one for {}",
                facts.shown(),
                some_names(&site.hosts)
            ));
        }
        remarks
    }

    fn is_for(&self, host: &HostPattern) -> bool {
        match host {
            HostPattern::Exact(host) => self.facts.covers(host),
            HostPattern::Wildcard(host) => self.facts.covers(&format!("any.{host}")),
            HostPattern::Default => true,
        }
    }
}

/// Returns what is wrong with the certificates of `site` together: browsers will refuse them for
/// some of its names. `None`: nothing is, or each certificate has a remark of its own.
pub(crate) fn names_left_out(site: &SiteSettings, pairs: &[CertificatePair]) -> Option<String> {
    let is_covered = |host: &&HostPattern| pairs.iter().any(|pair| pair.is_for(host));
    let (covered, left_out): (Vec<_>, Vec<_>) = site.hosts.iter().partition(is_covered);
    (!covered.is_empty() && !left_out.is_empty() && !pairs.is_empty()).then(|| {
        format!(
            "site {}: none of its certificates is for {}; browsers will refuse them there: get \
             one for these names, or put the names into a site of their own",
            site.name,
            some_names(left_out)
        )
    })
}

/// Lists the first names.
fn some_names<'h>(hosts: impl IntoIterator<Item = &'h HostPattern>) -> String {
    let mut names: Vec<_> = hosts.into_iter().map(ToString::to_string).collect();
    let more = names.len().saturating_sub(MOST_NAMES);
    names.truncate(MOST_NAMES);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    names.join(", ")
}

/// Names of a site that a message lists. Of the others it tells the number.
const MOST_NAMES: usize = 5;

/// Writes seconds since 1970 as `Sun, 06 Nov 1994 08:49:37 GMT`.
pub(super) fn shown_time(seconds: i64) -> String {
    String::from_utf8_lossy(&date::format(seconds.max(0) as u64)).into_owned()
}

/// The key is not shown.
impl fmt::Debug for PairText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PairText")
            .field("certificate_name", &self.certificate_name)
            .field("key_name", &self.key_name)
            .finish_non_exhaustive()
    }
}

/// Reads a file of certificates or keys.
///
/// # Errors
/// The file cannot be read, with advice.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    let shown = path.display();
    let unreadable = |error: io::Error| unreadable(path, &error);
    // The supervisor reads the file with rights that the owner of its folder may not have, and must
    // not wait for the writer of a pipe.
    let opened = operator_path::owned(path).and_then(|real| open::unlinked_regular_file(&real));
    let (file, length) = opened.map_err(unreadable)?;
    if length > LONGEST {
        return Err(format!("{shown}: the file has more than {LONGEST} bytes; name a PEM file"));
    }
    let mut text = Vec::new();
    // It may grow meanwhile.
    file.take(LONGEST).read_to_end(&mut text).map_err(unreadable)?;
    Ok(text)
}

fn unreadable(path: &Path, error: &io::Error) -> String {
    let advice = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::InvalidInput => "give the path of a PEM file",
        io::ErrorKind::PermissionDenied => {
            "the user that starts the server must be able to read it"
        }
        io::ErrorKind::Other => "give the path of the file itself, or make root the link's owner",
        _ => "the file cannot be read",
    };
    format!("{}: {error}; {advice}", path.display())
}

/// Returns the certificates of a file, of which there is at least one.
///
/// # Errors
/// The text is no PEM, or has no certificate in it. Says what to do.
pub(super) fn chain(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(text).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) if text.first() == Some(&0x30) => Err(
            "the certificate is in DER; convert it: openssl x509 -inform DER -in FILE -out FILE.pem"
                .to_owned(),
        ),
        Ok(_) => Err("there is no certificate in it; it must have a line \
                      `-----BEGIN CERTIFICATE-----`"
            .to_owned()),
        Err(error) => Err(no_pem(&error)),
    }
}

/// Checks that handshakes can send the certificates of a chain.
///
/// # Errors
/// They are too long together. Says what to do.
fn check_length(chain: &[CertificateDer<'_>]) -> Result<(), String> {
    let bytes: usize = chain.iter().map(|certificate| certificate.len()).sum();
    match bytes {
        0..=LONGEST_CHAIN => Ok(()),
        _ => Err(format!(
            "its {} certificates have {bytes} bytes, and each handshake would send all of them; \
             at most {LONGEST_CHAIN} are sent: keep the server's own certificate and the \
             intermediate ones that lead to an authority, and no list of authorities",
            chain.len()
        )),
    }
}

/// Describes what is wrong with a file.
fn no_pem(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { end_marker } => format!(
            "the file is cut off: the line `-----END {}-----` is missing; copy the whole file",
            end_marker.escape_ascii()
        ),
        pem::Error::IllegalSectionStart { line } => {
            format!("the file is no PEM: the line `{}` is malformed", line.escape_ascii())
        }
        other => format!("the file is no PEM ({other})"),
    }
}

fn key(text: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    let has = |part: &[u8]| text.windows(part.len()).any(|window| window == part);
    if has(b"BEGIN ENCRYPTED PRIVATE KEY") || has(b"Proc-Type: 4,ENCRYPTED") {
        return Err("the key is encrypted, and nobody is asked for its passphrase; decrypt it: \
                    openssl pkey -in FILE -out KEY.pem, readable by root alone"
            .to_owned());
    }
    match PrivateKeyDer::from_pem_slice(text) {
        Ok(key) => Ok(key),
        Err(pem::Error::NoItemsFound) if text.first() == Some(&0x30) => {
            Err("the key is in DER; convert it: openssl pkey -inform DER -in FILE -out FILE.pem"
                .to_owned())
        }
        Err(pem::Error::NoItemsFound) => Err("there is no private key in it; it must have a line \
                                              `-----BEGIN PRIVATE KEY-----`"
            .to_owned()),
        Err(error) => Err(no_pem(&error)),
    }
}
