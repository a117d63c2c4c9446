//! The local authority: certificates for development, which a machine trusts once its user has said
//! so.
//!
//! The authority's certificate and key are two files in the state folder. They are made once and
//! used again by every server of the same user. The key never leaves the supervisor.

use std::ffi::{CStr, OsStr};
use std::fs::{self, File};
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use howdah_config::{Config, HostPattern, ListenAddress, SiteSettings};
use howdah_sys::folder;
use howdah_sys::open::{self, Access, Lookup};
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
const CERTIFICATE: &CStr = c"authority.pem";
const KEY: &CStr = c"authority.key";
/// Bytes that are read of either file. A longer one cannot be understood.
const LONGEST: u64 = 1 << 20;
/// The time that the authority is valid. Its key is in nobody's hands but its user's.
const AUTHORITY_DAYS: u64 = 3650;
/// The time that a certificate is valid. A new one is made with each start and reload.
const DAYS: u64 = 397;
/// Before the present time: clocks of other machines may be late.
const SLACK: Duration = Duration::from_secs(24 * 60 * 60);

impl LocalAuthority {
    /// Opens the authority in `folder`, which is at `path` and private to this process's user, or
    /// makes one.
    ///
    /// # Errors
    /// The file with the mistake, and advice.
    pub(crate) fn open(path: &Path, folder: BorrowedFd<'_>) -> Result<LocalAuthority, String> {
        let failed = |name: &CStr, error: &dyn std::fmt::Display| {
            LocalAuthority::failure(&file_in(path, name), error)
        };
        let read = |name| read(folder, name).map_err(|error| failed(name, &error));
        let (certificate, key) = match (read(CERTIFICATE)?, read(KEY)?) {
            (Some(certificate), Some(key)) => (certificate, key),
            _ => {
                let made = make().map_err(|error| LocalAuthority::failure(path, &error))?;
                for (name, mode, text) in [(KEY, 0o600, &made.1), (CERTIFICATE, 0o644, &made.0)] {
                    folder::replace_file(folder, name, mode, text.as_bytes())
                        .map_err(|error| failed(name, &error))?;
                }
                made
            }
        };
        let pair = KeyPair::from_pem(&key).map_err(|error| failed(KEY, &error))?;
        if !is_for(&certificate, &pair) {
            let key = file_in(path, KEY);
            return Err(failed(CERTIFICATE, &format!("it does not belong to {}", key.display())));
        }
        Ok(LocalAuthority {
            folder: path.to_owned(),
            certificate,
            issuer: Issuer::new(authority(SystemTime::now()), pair),
        })
    }

    /// Returns the message about a file or folder of the authority, with advice.
    pub(crate) fn failure(path: &Path, error: &dyn std::fmt::Display) -> String {
        format!("the local authority: {}: {error}; remove it, or set `state_dir`", path.display())
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
        let file = file_in(&self.folder, CERTIFICATE);
        format!(
            "certificates are made by the local authority in {0}; to trust it: sudo cp {0} \
             /usr/local/share/ca-certificates/howdah.crt && sudo update-ca-certificates; browsers \
             import the file in their settings",
            file.display()
        )
    }
}

fn file_in(folder: &Path, name: &CStr) -> PathBuf {
    folder.join(OsStr::from_bytes(name.to_bytes()))
}

/// Returns the text of a file, which is no link; `None` if there is none.
fn read(folder: BorrowedFd<'_>, name: &CStr) -> io::Result<Option<String>> {
    let file = match open::step(folder, name, Access::Read, Lookup::Full) {
        Ok(file) => File::from(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if open::is_link_refused(&error) => {
            return Err(io::Error::other("it is a symbolic link, which is not followed"));
        }
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text)?;
    Ok(Some(text))
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
    // Some clients refuse a whole certificate with a name such as `*.localhost`.
    let names = ["localhost".to_owned(), machine()];
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

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_in_place_of_the_authoritys_files_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let opened = File::open(folder.path()).unwrap();
        let authority = || LocalAuthority::open(folder.path(), opened.as_fd());
        let made = authority().ok().unwrap().certificate;
        assert_eq!(authority().ok().unwrap().certificate, made, "it is used again");
        for name in ["authority.key", "authority.pem"] {
            fs::rename(at(name), at("elsewhere")).unwrap();
            for target in ["elsewhere", "missing"] {
                symlink(target, at(name)).unwrap();
                let why = authority().err().unwrap();
                assert!(why.contains(&format!("{name}: it is a symbolic link")), "{why}");
                assert!(!at("missing").exists());
                fs::remove_file(at(name)).unwrap();
            }
            fs::rename(at("elsewhere"), at(name)).unwrap();
        }
        assert_eq!(authority().ok().unwrap().certificate, made);
    }

    #[test]
    fn a_certificate_for_this_machine_has_no_name_that_strict_clients_refuse() {
        let config = Config::parse("[[site]]\nroot = \"/srv\"\n", "howdah.toml").unwrap();
        let names = names(&config, &config.sites[0]);
        assert!(names.contains(&"localhost".to_owned()), "{names:?}");
        assert!(names.iter().all(|name| !name.contains('*')), "{names:?}");
    }

    #[test]
    fn the_authoritys_certificate_has_its_key() {
        let (certificate, key) = make().unwrap();
        let (_, other) = make().unwrap();
        assert!(is_for(&certificate, &KeyPair::from_pem(&key).unwrap()));
        assert!(!is_for(&certificate, &KeyPair::from_pem(&other).unwrap()));
        assert!(!is_for("", &KeyPair::from_pem(&key).unwrap()));
    }
}
