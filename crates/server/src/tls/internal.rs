//! The local authority: certificates for development, which a machine trusts once its user has said
//! so.
//!
//! The authority's certificate and key are two files in the state folder. They are made once and
//! used again by every server of the same user. The key never leaves the supervisor.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use howdah_config::{Config, HostPattern, ListenAddress, SiteSettings};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::pair::PairText;

/// The local authority.
pub(crate) struct LocalAuthority {
    folder: PathBuf,
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// The authority's name, which certificates repeat.
const NAME: &str = "Howdah's local authority";
/// The file of the authority's certificate.
const CERTIFICATE: &str = "authority.pem";
const KEY: &str = "authority.key";
/// The time that the authority is valid. Its key is in nobody's hands but its user's.
const AUTHORITY_DAYS: u64 = 3650;
/// The time that a certificate is valid. A new one is made with each start and reload.
const DAYS: u64 = 397;
/// Before the present time: clocks of other machines may be late.
const SLACK: Duration = Duration::from_secs(24 * 60 * 60);

impl LocalAuthority {
    /// Opens the authority in `folder`, or makes one.
    ///
    /// # Errors
    /// The file with the mistake, and advice.
    pub(crate) fn open(folder: &Path) -> Result<LocalAuthority, String> {
        let failed = |path: &Path, error: &dyn std::fmt::Display| {
            format!(
                "the local authority: {}: {error}; remove it, or set `state_dir`",
                path.display()
            )
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| failed(folder, &error))?;
        let (certificate, key) = (folder.join(CERTIFICATE), folder.join(KEY));
        if !certificate.exists() || !key.exists() {
            let made = make().map_err(|error| failed(folder, &error))?;
            write(&key, &made.1, 0o600).map_err(|error| failed(&key, &error))?;
            write(&certificate, &made.0, 0o644).map_err(|error| failed(&certificate, &error))?;
        }
        let text =
            fs::read_to_string(&certificate).map_err(|error| failed(&certificate, &error))?;
        let key_text = fs::read_to_string(&key).map_err(|error| failed(&key, &error))?;
        let pair = KeyPair::from_pem(&key_text).map_err(|error| failed(&key, &error))?;
        if !is_for(&text, &pair) {
            return Err(failed(&certificate, &format!("it does not belong to {}", key.display())));
        }
        Ok(LocalAuthority {
            folder: folder.to_owned(),
            certificate: text,
            issuer: Issuer::new(authority(SystemTime::now()), pair),
        })
    }

    /// Makes a certificate for the names of a site.
    ///
    /// # Errors
    /// A name cannot be in a certificate.
    pub(crate) fn certify(&self, config: &Config, site: &SiteSettings) -> Result<PairText, String> {
        let failed = |error: rcgen::Error| format!("the local authority: {error}");
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = CertificateParams::new(names(config, site)).map_err(failed)?;
        let now = SystemTime::now();
        params.not_before = (now - SLACK).into();
        params.not_after = (now + Duration::from_secs(DAYS * 24 * 60 * 60)).into();
        params.distinguished_name.push(DnType::CommonName, site.name.as_str());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?;
        Ok(PairText {
            certificate_name: format!("the certificate of the local authority for {}", site.name),
            key_name: "its key".to_owned(),
            certificate: (certificate.pem() + &self.certificate).into_bytes(),
            key: key.serialize_pem().into_bytes(),
        })
    }

    /// Returns how to trust the authority.
    pub(crate) fn advice(&self) -> String {
        let file = self.folder.join(CERTIFICATE);
        format!(
            "certificates are made by the local authority in {0}; to trust it: sudo cp {0} \
             /usr/local/share/ca-certificates/howdah.crt && sudo update-ca-certificates; browsers \
             import the file in their settings",
            file.display()
        )
    }
}

/// Whether the first certificate in the text, in PEM, has the public key of the pair.
fn is_for(text: &str, pair: &KeyPair) -> bool {
    let key = pair.public_key_raw();
    let first = CertificateDer::from_pem_slice(text.as_bytes());
    first.is_ok_and(|first| first.windows(key.len()).any(|part| part == key))
}

/// Returns the authority's certificate and key in PEM.
fn make() -> Result<(String, String), rcgen::Error> {
    let key = KeyPair::generate()?;
    let certificate = authority(SystemTime::now()).self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

/// Returns the content of the authority's certificate.
fn authority(now: SystemTime) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name.push(DnType::CommonName, NAME);
    params.not_before = (now - SLACK).into();
    params.not_after = (now + Duration::from_secs(AUTHORITY_DAYS * 24 * 60 * 60)).into();
    params
}

/// The names and addresses that a site is reached by: its hosts, or where it answers for all, those
/// of this machine.
fn names(config: &Config, site: &SiteSettings) -> Vec<String> {
    let mut names = Vec::new();
    for host in &site.hosts {
        match host {
            HostPattern::Exact(host) => names.push(host.trim_matches(['[', ']']).to_owned()),
            HostPattern::Wildcard(host) => names.push(format!("*.{host}")),
            HostPattern::Default => names.extend(of_machine(config, site)),
        }
    }
    names.sort();
    names.dedup();
    names
}

fn of_machine(config: &Config, site: &SiteSettings) -> Vec<String> {
    let mut addresses: Vec<IpAddr> = vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    for listener in config.listen.iter().filter(|listener| site.answers_on(listener)) {
        if let ListenAddress::Tcp(address) = &listener.address {
            match address.ip() {
                ip if ip.is_unspecified() => addresses.extend(outward(ip)),
                ip => addresses.push(ip),
            }
        }
    }
    let names = ["localhost".to_owned(), "*.localhost".to_owned(), machine()];
    let addresses = addresses.iter().map(ToString::to_string);
    names.into_iter().filter(|name| !name.is_empty()).chain(addresses).collect()
}

/// The address that this machine has in the network that leads outward; `None` without one. Nothing
/// is sent.
fn outward(unspecified: IpAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind((unspecified, 0)).ok()?;
    let far: IpAddr = match unspecified {
        IpAddr::V4(_) => Ipv4Addr::new(192, 0, 2, 1).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    };
    socket.connect((far, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// The machine's name, where a certificate can have it.
fn machine() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim().to_ascii_lowercase();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
    if name.bytes().all(is_plain) {
        name
    } else {
        String::new()
    }
}

/// Writes a file that did not exist as a whole.
fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let fresh = path.with_extension(format!("{}.new", std::process::id()));
    let _ = fs::remove_file(&fresh);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&fresh, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_authoritys_certificate_has_its_key() {
        let (certificate, key) = make().unwrap();
        let (_, other) = make().unwrap();
        assert!(is_for(&certificate, &KeyPair::from_pem(&key).unwrap()));
        assert!(!is_for(&certificate, &KeyPair::from_pem(&other).unwrap()));
        assert!(!is_for("", &KeyPair::from_pem(&key).unwrap()));
    }
}
