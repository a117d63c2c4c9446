//! The state folder: accounts and certificates, each in a folder of its own.
//!
//! ```text
//! README                                        text for a person
//! accounts/acme.example.org-directory/account.json    URL of the directory and of the account
//! accounts/acme.example.org-directory/account.pem     private key of the account
//! certificates/example.org/certificate.pem            private key, certificate and chain
//! certificates/example.org/about.json                 facts for a person
//! certificates/_wildcard.example.org/…                *.example.org
//! ```
//! A file is written under another name, synchronised with the disk, and renamed. Therefore a full
//! disk or a crash leaves the former file. Key and chain are one file, so that they always belong
//! together. All files have mode 0600.

use std::ffi::CString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use howdah_sys::open::{self, Access, Lookup};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::certificate::RenewalFacts;
use crate::names;
use crate::schedule::Validity;

/// The state folder.
#[derive(Debug, Clone)]
pub struct CertificateFolder {
    root: PathBuf,
}

/// A certificate in the folder.
#[derive(Debug, Clone)]
pub struct StoredCertificate {
    /// The host name, perhaps with `*.`.
    pub name: String,
    /// Private key, certificate and chain, in PEM.
    pub pem: String,
    /// The time for which the certificate is valid.
    pub validity: Validity,
    /// URL of the directory of the authority; `None` if the folder does not tell.
    pub directory: Option<String>,
}

/// An account at an authority.
#[derive(Debug)]
pub(crate) struct StoredAccount {
    /// URL of the account.
    pub(crate) id: String,
    pub(crate) key: PrivatePkcs8KeyDer<'static>,
}

#[derive(Debug, Serialize, Deserialize)]
struct AccountFile {
    directory: String,
    account: String,
}

/// The facts about a certificate that are written for a person. Only `directory` is read again.
#[derive(Debug, Serialize, Deserialize)]
struct StoredFacts {
    name: String,
    directory: String,
    serial: String,
    not_before: String,
    not_after: String,
}

impl CertificateFolder {
    /// The folder at `root`, which exists.
    pub fn new(root: &Path) -> CertificateFolder {
        CertificateFolder { root: root.to_owned() }
    }

    /// Creates the folders within the state folder, and the text for a person.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        for name in [ACCOUNTS, CERTIFICATES] {
            create_folder(&self.root.join(name))?;
        }
        if self.root.join(README).exists() {
            return Ok(());
        }
        replace(&self.root.join(README), README_TEXT.as_bytes())
    }

    /// Checks that the disk has room for a certificate. An order whose result cannot be stored
    /// would only use up the authority's rate limit.
    ///
    /// # Errors
    /// There is no room, or the folder cannot be written to.
    pub(crate) fn check_room(&self) -> io::Result<()> {
        let path = self.root.join(format!("{TEMPORARY}room"));
        let written = write_new(&path, &[b' '; ROOM]);
        let removed = fs::remove_file(&path);
        written.and(removed)
    }

    /// Returns the certificate of `name`; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read, or holds no certificate of that name with a key.
    pub fn certificate(&self, name: &str) -> io::Result<Option<StoredCertificate>> {
        let folder = certificate_folder(name);
        let path = folder.join(CERTIFICATE);
        let Some(pem) = self.read(&path)? else {
            return Ok(None);
        };
        let path = self.root.join(path);
        let wrong = |what: &str| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", path.display()))
        };
        let facts = RenewalFacts::read(&pem).map_err(|what| wrong(&what))?;
        PrivateKeyDer::from_pem_slice(pem.as_bytes())
            .map_err(|error| wrong(&format!("the private key cannot be read: {error}")))?;
        if !facts.names.iter().any(|one| one.eq_ignore_ascii_case(name)) {
            return Err(wrong(&format!("the certificate is not for {name}")));
        }
        let about = self.read(&folder.join(ABOUT)).ok().flatten();
        let about = about.and_then(|text| serde_json::from_str::<StoredFacts>(&text).ok());
        // A crash between two renames leaves the text of the former certificate.
        let about = about.filter(|about| about.serial == facts.serial);
        Ok(Some(StoredCertificate {
            name: name.to_owned(),
            pem,
            validity: facts.validity,
            directory: about.map(|about| about.directory),
        }))
    }

    /// Returns the names, without wildcards, whose stored certificates have not ended at `now`.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn valid_names(&self, now: SystemTime) -> io::Result<Vec<String>> {
        let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let mut names = Vec::new();
        for entry in fs::read_dir(self.root.join(CERTIFICATES))? {
            let Ok(name) = entry?.file_name().into_string() else {
                continue;
            };
            if names::check(&name).is_err() {
                continue;
            }
            // A certificate that cannot be read is reported when it is used.
            if let Ok(Some(stored)) = self.certificate(&name)
                && stored.validity.not_after > now
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Stores a certificate of `name` with its key, both in PEM.
    ///
    /// # Errors
    /// The former certificate stays: the chain is not for `name`, or the disk is full.
    pub(crate) fn store(
        &self,
        name: &str,
        directory: &str,
        key: &str,
        chain: &str,
    ) -> io::Result<Validity> {
        let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        let facts = RenewalFacts::read(chain).map_err(invalid)?;
        if !facts.names.iter().any(|one| one.eq_ignore_ascii_case(name)) {
            return Err(invalid(format!("the authority's certificate is not for {name}")));
        }
        let folder = self.root.join(certificate_folder(name));
        create_folder(&folder)?;
        let about = StoredFacts {
            name: name.to_owned(),
            directory: directory.to_owned(),
            serial: facts.serial,
            not_before: date(facts.validity.not_before),
            not_after: date(facts.validity.not_after),
        };
        replace(&folder.join(CERTIFICATE), [key, chain].concat().as_bytes())?;
        replace(&folder.join(ABOUT), &pretty(&about)?)?;
        Ok(facts.validity)
    }

    /// Returns the account at an authority; `None` if there is none.
    ///
    /// # Errors
    /// A file cannot be read or understood.
    pub(crate) fn account(&self, directory: &str) -> io::Result<Option<StoredAccount>> {
        let folder = account_folder(directory);
        let Some(text) = self.read(&folder.join(ACCOUNT))? else {
            return Ok(None);
        };
        let file: AccountFile = serde_json::from_str(&text)?;
        if file.directory != directory {
            return Ok(None);
        }
        let Some(pem) = self.read(&folder.join(ACCOUNT_KEY))? else {
            return Ok(None);
        };
        let key = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes());
        let key = key.map_err(|error| {
            let path = self.root.join(folder.join(ACCOUNT_KEY));
            let what = format!("{}: the key cannot be read: {error}", path.display());
            io::Error::new(io::ErrorKind::InvalidData, what)
        })?;
        Ok(Some(StoredAccount { id: file.account, key }))
    }

    /// Stores an account. `key` is PEM.
    ///
    /// # Errors
    /// The disk is full, or the folder cannot be written to.
    pub(crate) fn store_account(&self, directory: &str, id: &str, key: &str) -> io::Result<()> {
        let folder = self.root.join(account_folder(directory));
        create_folder(&folder)?;
        // The file with the account's URL makes the account, therefore it is the last one.
        replace(&folder.join(ACCOUNT_KEY), key.as_bytes())?;
        let file = AccountFile {
            directory: directory.to_owned(),
            account: id.to_owned(),
        };
        replace(&folder.join(ACCOUNT), &pretty(&file)?)
    }

    /// Puts aside an account that the authority no longer accepts.
    ///
    /// # Errors
    /// The files cannot be renamed.
    pub(crate) fn retire_account(&self, directory: &str) -> io::Result<()> {
        let folder = self.root.join(account_folder(directory));
        for name in [ACCOUNT, ACCOUNT_KEY] {
            fs::rename(folder.join(name), folder.join(format!("{name}.retired")))?;
        }
        Ok(())
    }

    /// Reads a file below the folder, never through a link; `None` if there is none. The supervisor
    /// reads here with more rights than the process that writes.
    fn read(&self, path: &Path) -> io::Result<Option<String>> {
        let named = |error| named(error, &self.root.join(path));
        let text = |path: &Path| CString::new(path.as_os_str().as_bytes());
        let root = open::folder(&text(&self.root)?, Lookup::Full).map_err(named)?;
        let file = match open::beneath(root.as_fd(), &text(path)?, Access::Read, Lookup::Full) {
            Ok(file) => File::from(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(named(error)),
        };
        let mut text = String::new();
        file.take(LONGEST_FILE).read_to_string(&mut text).map_err(named)?;
        Ok(Some(text))
    }
}

fn certificate_folder(name: &str) -> PathBuf {
    let folder = match name.strip_prefix("*.") {
        Some(domain) => format!("_wildcard.{domain}"),
        None => name.to_owned(),
    };
    Path::new(CERTIFICATES).join(folder)
}

fn account_folder(directory: &str) -> PathBuf {
    let address = directory.split_once("://").map_or(directory, |(_, address)| address);
    let plain = |one: char| {
        if one.is_ascii_alphanumeric() || one == '.' {
            one
        } else {
            '-'
        }
    };
    let name: String = address.chars().map(plain).take(LONGEST_FOLDER).collect();
    Path::new(ACCOUNTS).join(name.trim_start_matches('.'))
}

/// A time in seconds since 1970 as RFC 3339 writes it.
pub fn date(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    let time = OffsetDateTime::from_unix_timestamp(seconds).ok();
    time.and_then(|time| time.format(&Rfc3339).ok())
        .unwrap_or_else(|| seconds.to_string())
}

const README: &str = "README";
const ACCOUNTS: &str = "accounts";
const CERTIFICATES: &str = "certificates";
const CERTIFICATE: &str = "certificate.pem";
const ABOUT: &str = "about.json";
const ACCOUNT: &str = "account.json";
const ACCOUNT_KEY: &str = "account.pem";
/// The beginning of the names of unfinished files.
const TEMPORARY: &str = ".new-";
/// Bytes that are written to check that the disk has room for a certificate with its key and chain.
const ROOM: usize = 64 * 1024;
/// Bytes of a file that are read at most. The rest is left out.
const LONGEST_FILE: u64 = 1 << 20;
/// Characters of a folder's name. A longer name is cut.
const LONGEST_FOLDER: usize = 200;
const README_TEXT: &str = "\
Howdah keeps its accounts at certificate authorities and its certificates here.

accounts/          one folder for each authority: account.json names the account, account.pem is
                   its private key
certificates/      one folder for each host name: certificate.pem holds private key, certificate
                   and chain, about.json tells authority and dates

Without a certificate's folder Howdah orders a new certificate. Without an account's folder it
makes a new account. Keep a copy of this folder in your backups, and keep the backups secret.
";

fn pretty(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    Ok(text)
}

/// Creates a folder that only its owner may enter, unless it exists.
fn create_folder(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result.map_err(|error| named(error, path)),
    }
}

/// Replaces a file by one with that content, or leaves it as it is.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(named(io::ErrorKind::InvalidInput.into(), path));
    };
    let fresh = folder.join(format!("{TEMPORARY}{}", name.display()));
    let replaced = write_new(&fresh, content).and_then(|()| fs::rename(&fresh, path));
    if let Err(error) = replaced {
        // The former file stays; the unfinished one may not even exist.
        let _ = fs::remove_file(&fresh);
        return Err(named(error, path));
    }
    // The rename itself lasts after a power failure only if the folder was written.
    File::open(folder)?.sync_all()
}

/// Writes a new file to the disk, in place of what an interrupted run has left.
fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(named(error, path)),
        _ => {}
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = file.map_err(|error| named(error, path))?;
    file.write_all(content)
        .and_then(|()| file.sync_all())
        .map_err(|error| named(error, path))
}

fn named(error: io::Error, path: &Path) -> io::Error {
    let text = error.to_string();
    if text.contains('/') {
        return error;
    }
    io::Error::new(error.kind(), format!("{}: {text}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    const DIRECTORY: &str = "https://ca.example.org/acme/dir";

    fn folder() -> (tempfile::TempDir, CertificateFolder) {
        let folder = tempfile::tempdir().unwrap();
        let storage = CertificateFolder::new(folder.path());
        storage.prepare().unwrap();
        (folder, storage)
    }

    fn certificate(name: &str) -> (String, String) {
        crate::certificate::of_challenge(name, &[1; 32]).unwrap()
    }

    /// Every file below `folder`.
    fn files(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
        entries
            .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
            .collect()
    }

    #[test]
    fn certificates_are_found_again() {
        let (folder, storage) = folder();
        for name in ["example.org", "*.example.org"] {
            assert!(storage.certificate(name).unwrap().is_none());
            let (chain, key) = certificate(name);
            let validity = storage.store(name, DIRECTORY, &key, &chain).unwrap();
            let found = storage.certificate(name).unwrap().unwrap();
            assert_eq!((found.validity, found.name.as_str()), (validity, name));
            assert_eq!(found.directory.as_deref(), Some(DIRECTORY));
            assert_eq!(found.pem, format!("{key}{chain}"));
        }
        let found = files(folder.path());
        assert_eq!(found.len(), 5, "{found:?}");
        for path in found {
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{path:?}");
        }
        let about = folder.path().join("certificates/_wildcard.example.org/about.json");
        assert!(fs::read_to_string(about).unwrap().contains("\"name\": \"*.example.org\""));
    }

    #[test]
    fn a_certificate_of_another_name_is_not_stored() {
        let (_folder, storage) = folder();
        let (chain, key) = certificate("example.net");
        assert!(storage.store("example.org", DIRECTORY, &key, &chain).is_err());
        assert!(storage.certificate("example.org").unwrap().is_none());
    }

    #[test]
    fn a_broken_file_is_named_and_a_link_is_not_followed() {
        let (folder, storage) = folder();
        let of_name = folder.path().join("certificates/example.org");
        fs::create_dir(&of_name).unwrap();
        fs::write(of_name.join(CERTIFICATE), "nonsense").unwrap();
        let error = storage.certificate("example.org").unwrap_err().to_string();
        assert!(error.contains("example.org/certificate.pem"), "{error}");
        fs::remove_file(of_name.join(CERTIFICATE)).unwrap();
        symlink("/etc/passwd", of_name.join(CERTIFICATE)).unwrap();
        assert!(storage.certificate("example.org").is_err());
    }

    #[test]
    fn what_an_interrupted_run_has_left_is_replaced() {
        let (folder, storage) = folder();
        let of_name = folder.path().join("certificates/example.org");
        fs::create_dir(&of_name).unwrap();
        fs::write(of_name.join(".new-certificate.pem"), "half a fi").unwrap();
        let (chain, key) = certificate("example.org");
        storage.store("example.org", DIRECTORY, &key, &chain).unwrap();
        assert!(storage.certificate("example.org").unwrap().is_some());
        assert_eq!(files(&of_name).len(), 2);
    }

    #[test]
    fn accounts_are_found_again_and_put_aside() {
        let (_folder, storage) = folder();
        assert!(storage.account(DIRECTORY).unwrap().is_none());
        let (_, key) = certificate("example.org");
        storage.store_account(DIRECTORY, "https://ca.example.org/acct/7", &key).unwrap();
        let found = storage.account(DIRECTORY).unwrap().unwrap();
        assert_eq!(found.id, "https://ca.example.org/acct/7");
        assert!(storage.account("https://ca.example.org/acme-dir").unwrap().is_none());
        storage.retire_account(DIRECTORY).unwrap();
        assert!(storage.account(DIRECTORY).unwrap().is_none());
    }

    #[test]
    fn dates() {
        assert_eq!(date(1_800_000_000), "2027-01-15T08:00:00Z");
    }
}
