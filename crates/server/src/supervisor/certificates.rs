//! The files of certificates and keys, which are read again when they change.
//!
//! The supervisor compares them with the disk once a second, because the front's user may not read
//! them. A certificate and its key are two files, which change one after the other: they are read
//! when neither has changed for one look. A pair that cannot be used leaves the former one in use,
//! or is left out; without any pair the site is closed. So it is without authorities of clients.

mod authority_ends;
mod handing_over;
mod local_authority;
mod tls_files;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use howdah_config::{Config, SiteSettings};

use self::authority_ends::AuthorityEnds;
use self::tls_files::TlsFiles;
pub(super) use self::tls_files::{kept_authorities, read_authorities, read_pairs};
use super::Supervisor;
use super::front_protocol::ToFront;
use crate::log::Level;

/// The time between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// The files of all sites' certificates and authorities of clients, as they were at the last look.
#[derive(Debug, Default, Clone)]
pub(super) struct CertificateFiles {
    sites: Vec<SiteFiles>,
    /// The time of the next look; `None` if there are no files.
    due: Option<Instant>,
}

/// The files of one site.
#[derive(Debug, Clone)]
struct SiteFiles {
    /// Index in the configuration.
    site: usize,
    paths: Vec<PathBuf>,
    stamps: Vec<Option<FileStamp>>,
    /// The last look has found a change.
    is_changing: bool,
    ends: AuthorityEnds,
}

/// The attributes that distinguish two states of a file: device, number, size, time of content and
/// of attributes.
type FileStamp = (u64, u64, u64, (i64, i64), (i64, i64));

impl CertificateFiles {
    /// The files that `config` names, as they are now. They are to be read after this.
    pub(super) fn of(config: &Config) -> CertificateFiles {
        let has_files =
            |site: &SiteSettings| !site.tls.cert.is_empty() || site.tls.client_ca.is_some();
        let with_files = config.sites.iter().enumerate().filter(|(_, site)| has_files(site));
        let sites: Vec<SiteFiles> = with_files
            .map(|(number, site)| {
                let pairs = site.tls.pairs();
                let of_pairs = pairs.flat_map(|(cert, key)| [cert.to_owned(), key.to_owned()]);
                let paths: Vec<PathBuf> = of_pairs.chain(site.tls.client_ca.clone()).collect();
                SiteFiles {
                    site: number,
                    stamps: paths.iter().map(|path| stamp(path)).collect(),
                    paths,
                    is_changing: false,
                    ends: AuthorityEnds::from_now(),
                }
            })
            .collect();
        let due = (!sites.is_empty()).then(|| Instant::now() + LOOK);
        CertificateFiles { sites, due }
    }

    /// Makes the next look read the files of all sites that `is_due` names, whether they change or
    /// not.
    pub(super) fn read_again(&mut self, is_due: impl Fn(usize) -> bool) {
        for files in &mut self.sites {
            files.is_changing |= is_due(files.site);
        }
    }

    /// The time of the next look. `None`: no site has files to look at.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Looks at the files if it is time. Returns the sites whose files have changed, and have not
    /// changed since the look before.
    fn look(&mut self, now: Instant) -> Vec<usize> {
        if self.due.is_none_or(|due| now < due) {
            return Vec::new();
        }
        self.due = Some(now + LOOK);
        let settled = |files: &mut SiteFiles| {
            let stamps: Vec<_> = files.paths.iter().map(|path| stamp(path)).collect();
            let has_changed = stamps != files.stamps;
            files.stamps = stamps;
            let was_changing = std::mem::replace(&mut files.is_changing, has_changed);
            (was_changing && !has_changed).then_some(files.site)
        };
        self.sites.iter_mut().filter_map(settled).collect()
    }
}

fn stamp(path: &Path) -> Option<FileStamp> {
    let found = fs::metadata(path).ok()?;
    let content = (found.mtime(), found.mtime_nsec());
    let attributes = (found.ctime(), found.ctime_nsec());
    Some((found.dev(), found.ino(), found.size(), content, attributes))
}

impl Supervisor {
    /// Reads certificates again whose files have changed, and hands them to the front.
    pub(super) fn look_at_certificates(&mut self, now: Instant) {
        if self.certificate_files.due.is_some_and(|due| due <= now) {
            self.look_at_ends();
        }
        for site in self.certificate_files.look(now) {
            let Some(current) = &self.current else { return };
            let Some(settings) = current.config.sites.get(site) else {
                continue;
            };
            let name = settings.name.clone();
            let pairs = current.certificates.get(site).map_or(&[][..], Vec::as_slice);
            let has_authorities = current.client_authorities.get(site).is_some_and(Option::is_some);
            let files = TlsFiles::read(settings, pairs, has_authorities);
            let news = files.news(current, site);
            let is_closed = current.closed.get(site).is_some_and(Option::is_some);
            for remark in &files.remarks {
                self.say(Level::Warning, remark);
            }
            if let Some(why) = files.closes {
                self.keep_closed(site, &name, why);
                continue;
            }
            if let Some(what) = &files.trouble {
                self.say(Level::Error, &format!("site {name}: {what}"));
            }
            self.note_kept_files(site, files.trouble.clone());
            let (level, what) = match news {
                // After a roll-back, or a mistake that was undone.
                None if !is_closed && files.trouble.is_none() => {
                    (Level::Notice, format!("site {name}: its files are those that are in use"))
                }
                None if !is_closed => continue,
                news => match self.replace_files(site, files) {
                    Ok(()) => {
                        let news = news.unwrap_or("files are");
                        (Level::Notice, format!("site {name}: its {news} in use"))
                    }
                    Err(error) => (
                        Level::Error,
                        format!(
                            "site {name}: the front does not get what is new: {error}; `howdah \
                             reload` hands it over"
                        ),
                    ),
                },
            };
            self.say(level, &what);
        }
    }

    /// Warns of authorities of clients that have ended.
    fn look_at_ends(&mut self) {
        let Some(current) = &self.current else { return };
        let mut news = Vec::new();
        for files in &mut self.certificate_files.sites {
            let text = current.client_authorities.get(files.site).and_then(Option::as_deref);
            let Some(passed) = text.and_then(|text| files.ends.look(text)) else {
                continue;
            };
            let Some(site) = current.config.sites.get(files.site) else {
                continue;
            };
            let remarks = passed.remarks.iter().map(|what| (Level::Warning, what.clone()));
            let is_over = passed.is_last && !passed.remarks.is_empty();
            let over = "none of these authorities is valid any more: every certificate of a \
                client is refused";
            let over = is_over.then(|| (Level::Error, over.to_owned()));
            let file = site.tls.client_ca.as_deref().unwrap_or(Path::new("")).display();
            let prefix = format!("site {}: {file}", site.name);
            let told = remarks.chain(over);
            news.extend(told.map(|(level, what)| (level, format!("{prefix}: {what}"))));
        }
        for (level, what) in news {
            self.say(level, &what);
        }
    }

    /// Says that a site without usable files stays closed, for this reason.
    fn keep_closed(&mut self, site: usize, name: &str, why: String) {
        let closed = self.current.as_mut().and_then(|current| current.closed.get_mut(site));
        let Some(reason) = closed.filter(|reason| reason.as_ref() != Some(&why)) else {
            return;
        };
        *reason = Some(why.clone());
        self.say(Level::Error, &format!("site {name}: it still has no https: {why}"));
        let message = ToFront::Closed { site, why: Some(why) };
        if let Err(error) = self.tell_serving(&message, None) {
            self.say(Level::Error, &format!("the front does not learn of it: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_when_they_have_come_to_rest() {
        let none: [usize; 0] = [];
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("a.pem"), "1").unwrap();
        fs::write(at("a.key"), "1").unwrap();
        let text = "listen = [{ address = \"127.0.0.1:0\", tls = true }]\n[[site]]\n\
            root = \"/srv\"\n\
            tls = { cert = \"a.pem\", key = \"a.key\" }\n";
        let config = Config::parse(text, at("howdah.toml").to_str().unwrap()).unwrap();
        let mut files = CertificateFiles::of(&config);
        let mut look = || {
            let due = files.due().unwrap();
            assert_eq!(files.look(due - Duration::from_millis(1)), none, "too early");
            files.look(due)
        };
        assert_eq!(look(), none);
        fs::write(at("a.pem"), "22").unwrap();
        assert_eq!(look(), none, "the key may follow");
        fs::write(at("a.key"), "22").unwrap();
        assert_eq!(look(), none);
        assert_eq!(look(), [0]);
        assert_eq!(look(), none, "once");
        fs::remove_file(at("a.key")).unwrap();
        assert_eq!(look(), none);
        assert_eq!(look(), [0]);
        let nothing = Config::parse("[[site]]\nroot = \"/srv\"\n", "howdah.toml").unwrap();
        assert_eq!(CertificateFiles::of(&nothing).due(), None);
        let mut of_closed = CertificateFiles::of(&config);
        of_closed.read_again(|site| site == 0);
        let due = of_closed.due().unwrap();
        assert_eq!(of_closed.look(due), [0], "they may have changed after they were read");
        assert_eq!(of_closed.look(due + LOOK), none, "once");
    }
}
