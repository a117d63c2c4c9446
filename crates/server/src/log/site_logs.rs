//! The access logs of all sites.

use std::io;
use std::path::Path;

use howdah_config::{AccessTarget, Config, ErrorTarget};
use howdah_files::LinkedPath;
use howdah_sys::credentials;

use super::system_log::LineKind;
use super::target::LogTarget;

/// Access logs, each once, and which of them each site has.
#[derive(Debug, Clone)]
pub(crate) struct SiteLogs<T> {
    logs: Vec<(AccessTarget, T)>,
    /// By site, the index of its log; the last one is for requests of no site. `None`: no log.
    of_site: Vec<Option<usize>>,
}

/// No logs, for any number of sites.
impl<T> Default for SiteLogs<T> {
    fn default() -> SiteLogs<T> {
        SiteLogs { logs: Vec::new(), of_site: vec![None] }
    }
}

impl SiteLogs<LogTarget> {
    /// Opens the access logs of `config`. A log that `present` has is used again. A log in a folder
    /// of another user is left out if it cannot be opened, because that user can see to it; the
    /// reasons are returned beside the logs, for the operator.
    ///
    /// # Errors
    /// Another log cannot be opened; the text is for the operator.
    pub(crate) fn open(
        config: &Config,
        present: &SiteLogs<LogTarget>,
    ) -> Result<(SiteLogs<LogTarget>, Vec<String>), String> {
        let mut left_out: Vec<String> = Vec::new();
        let common = &config.log.access;
        let sites = config.sites.iter().map(|site| site.access_log.as_ref().unwrap_or(common));
        let mut opened = SiteLogs { logs: Vec::new(), of_site: Vec::new() };
        for target in sites.chain([common]) {
            let is_it = |(known, _): &(AccessTarget, LogTarget)| known == target;
            let index = match opened.logs.iter().position(is_it) {
                Some(index) => Some(index),
                None => {
                    let again = present.logs.iter().find(|&log| is_it(log) && is_file(target));
                    let log = match again {
                        Some((_, log)) => Some(log.clone()),
                        None => match open(config, target) {
                            Err(why) if is_in_foreign_folder(target) => {
                                left_out.push(why);
                                None
                            }
                            opened => opened?,
                        },
                    };
                    log.map(|log| {
                        opened.logs.push((target.clone(), log));
                        opened.logs.len() - 1
                    })
                }
            };
            opened.of_site.push(index);
        }
        left_out.sort();
        left_out.dedup();
        Ok((opened, left_out))
    }
}

/// Returns what keeps a server with this configuration from opening its logs, and from starting.
/// No file is made. Rights are not looked at: the server's may be others than this process's.
pub(crate) fn obstacles(config: &Config) -> Vec<String> {
    let mut targets: Vec<&AccessTarget> = vec![&config.log.access];
    targets.extend(config.sites.iter().filter_map(|site| site.access_log.as_ref()));
    // A site's owner sees to the logs in his folder.
    targets.retain(|target| !is_in_foreign_folder(target));
    let mut files: Vec<&Path> = match &config.log.error {
        ErrorTarget::File(path) => vec![path],
        _ => Vec::new(),
    };
    files.extend(targets.into_iter().filter_map(|target| match target {
        AccessTarget::File(path) => Some(&**path),
        _ => None,
    }));
    files.sort();
    files.dedup();
    files.into_iter().filter_map(obstacle).collect()
}

/// Returns why the log file at `path` cannot be opened, rights apart.
fn obstacle(path: &Path) -> Option<String> {
    let error = LogTarget::try_file(path).err()?;
    (error.kind() != io::ErrorKind::PermissionDenied).then(|| cannot_open(path, &error))
}

impl<T> SiteLogs<T> {
    /// Returns every log once.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.logs.iter().map(|(_, log)| log)
    }

    /// Returns the number of the log of the site with that number, or of requests of no site
    /// (`None`). The number is the place in [`all`](SiteLogs::all).
    pub(crate) fn index(&self, site: Option<usize>) -> Option<usize> {
        let last = self.of_site.len() - 1;
        self.of_site[site.map_or(last, |site| site.min(last))]
    }

    /// Makes something of each log.
    ///
    /// # Errors
    /// The first error of `make`.
    pub(crate) fn try_map<U>(
        self,
        mut make: impl FnMut(T) -> io::Result<U>,
    ) -> io::Result<SiteLogs<U>> {
        let logs = self.logs.into_iter();
        Ok(SiteLogs {
            logs: logs.map(|(target, log)| Ok((target, make(log)?))).collect::<io::Result<_>>()?,
            of_site: self.of_site,
        })
    }
}

/// A file stays open through a reload: no line goes to a file that was moved meanwhile and is
/// compressed already. Other destinations cost nothing to open.
fn is_file(target: &AccessTarget) -> bool {
    matches!(target, AccessTarget::File(_))
}

/// Whether the folder of a log file, or what exists of it, belongs neither to root nor to this
/// process's user.
fn is_in_foreign_folder(target: &AccessTarget) -> bool {
    let AccessTarget::File(path) = target else {
        return false;
    };
    let folder = path.parent().and_then(|folder| LinkedPath::of(folder).ok());
    folder.is_some_and(|folder| ![0, credentials::own_user()].contains(&folder.owner))
}

/// Opens a log; `None` if it is off.
fn open(config: &Config, target: &AccessTarget) -> Result<Option<LogTarget>, String> {
    let opened = match target {
        AccessTarget::Off => return Ok(None),
        AccessTarget::Stdout => LogTarget::stdout(),
        AccessTarget::File(path) => return open_file(path).map(Some),
        AccessTarget::System(log) => {
            LogTarget::system(log, &config.log.daemon_socket(log.daemon), LineKind::Access)
        }
    };
    opened.map(Some).map_err(|error| format!("cannot write a log: {error}"))
}

/// Opens the log file at `path`.
///
/// # Errors
/// Text for the operator.
pub(crate) fn open_file(path: &Path) -> Result<LogTarget, String> {
    LogTarget::file(path).map_err(|error| cannot_open(path, &error))
}

fn cannot_open(path: &Path, error: &io::Error) -> String {
    let advice = match error.kind() {
        io::ErrorKind::NotFound => "; create its folder",
        io::ErrorKind::PermissionDenied => "; its folder must be writable",
        _ => "",
    };
    format!("cannot open the log {}: {error}{advice}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_site_has_its_log_and_each_log_is_opened_once() {
        let folder = std::env::temp_dir().join(format!("howdah-site-logs-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let text = "[log]\naccess = \"all\"\n[[site]]\nhosts = [\"a\"]\nroot = \"/a\"\n\
            access_log = \"a\"\n\
            [[site]]\nhosts = [\"b\"]\nroot = \"/b\"\n[[site]]\nhosts = [\"c\"]\n\
            root = \"/c\"\n\
            access_log = \"a\"\n[[site]]\nhosts = [\"d\"]\nroot = \"/d\"\n\
            access_log = \"off\"\n";
        let config = Config::parse(text, &folder.join("x.toml").display().to_string()).unwrap();
        let logs = SiteLogs::open(&config, &SiteLogs::default()).unwrap().0;
        assert_eq!(logs.all().count(), 2);
        let indices: Vec<_> = (0..4).map(|site| logs.index(Some(site))).collect();
        assert_eq!(indices, [Some(0), Some(1), Some(0), None]);
        assert_eq!(logs.index(None), Some(1));
        let again = SiteLogs::open(&config, &logs).unwrap().0;
        let paths = |logs: &SiteLogs<LogTarget>| -> Vec<_> {
            logs.all().map(|log| log.path().unwrap().to_owned()).collect()
        };
        assert_eq!(paths(&again), [folder.join("a"), folder.join("all")]);
        let none: SiteLogs<LogTarget> = SiteLogs::default();
        assert_eq!((none.index(Some(3)), none.index(None)), (None, None));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
