//! The command line of `howdah serve`. The configuration is made from it at the start and at each
//! reload.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use howdah_config::{AccessTarget, Config, Count, DirectoryOptions};

/// The source of the sites, and the options of the command line.
#[derive(Debug, Clone)]
pub(crate) struct ServePlan {
    pub(crate) source: SiteSource,
    pub(crate) options: ServeOptions,
}

/// The source of the sites.
#[derive(Debug, Clone)]
pub(crate) enum SiteSource {
    /// One site in this folder.
    Folder(PathBuf),
    /// A configuration file.
    File(PathBuf),
}

/// Options of the command line that replace settings of the configuration.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServeOptions {
    /// The addresses to listen on; empty for those of the configuration.
    pub(crate) listen: Vec<SocketAddr>,
    pub(crate) workers: Option<Count>,
    pub(crate) threads: Option<Count>,
    pub(crate) no_php: bool,
    pub(crate) no_htaccess: bool,
    pub(crate) access_log: Option<AccessTarget>,
}

impl ServePlan {
    /// Reads the present configuration.
    ///
    /// # Errors
    /// The mistakes with file, line and column, as text for the operator.
    pub(crate) fn load(&self) -> Result<Config, String> {
        match &self.source {
            SiteSource::Folder(folder) => self.of_folder(folder),
            SiteSource::File(file) => {
                let mut config = Config::load(file).map_err(|errors| errors.to_string())?;
                self.options.overrule(&mut config);
                Ok(config)
            }
        }
    }

    fn of_folder(&self, folder: &Path) -> Result<Config, String> {
        match folder.metadata() {
            Ok(found) if found.is_dir() => {}
            Ok(_) => {
                return Err(format!(
                    "{}: this is not a folder; give the folder of a site",
                    folder.display()
                ));
            }
            Err(error) => {
                return Err(format!("{}: {error}; give the folder of a site", folder.display()));
            }
        }
        let options = self.options.clone();
        Ok(Config::for_directory(
            folder,
            DirectoryOptions {
                listen: options.listen,
                threads: options.threads,
                workers: options.workers,
                php: !options.no_php,
                htaccess: !options.no_htaccess,
                access_log: options.access_log,
            },
        ))
    }
}

impl SiteSource {
    /// The source as arguments of `howdah check`.
    pub(crate) fn arguments(&self) -> Vec<&std::ffi::OsStr> {
        match self {
            SiteSource::Folder(folder) => vec![folder.as_os_str()],
            SiteSource::File(file) => vec!["--config".as_ref(), file.as_os_str()],
        }
    }
}

impl std::fmt::Display for SiteSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SiteSource::Folder(path) | SiteSource::File(path) => path.display().fmt(f),
        }
    }
}

impl ServeOptions {
    fn overrule(&self, config: &mut Config) {
        if !self.listen.is_empty() {
            config.listen.clone_from(&self.listen);
        }
        if let Some(threads) = self.threads {
            config.threads = threads;
        }
        if let Some(target) = &self.access_log {
            config.log.access = target.clone();
        }
        for site in &mut config.sites {
            if self.no_php {
                site.php = None;
            }
            if self.no_htaccess {
                site.htaccess = false;
            }
            if let (Some(workers), Some(php)) = (self.workers, &mut site.php) {
                php.workers = workers;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_overrules_the_file() {
        let text = "listen = [\"127.0.0.1:1\"]\nthreads = 3\n[[site]]\nroot = \"/srv/a\"\n[site.php]\nworkers = 5\n";
        let mut config = Config::parse(text, "howdah.toml").unwrap();
        ServeOptions::default().overrule(&mut config);
        assert_eq!(config.threads, Count::Exactly(3));
        assert_eq!(config.sites[0].php.as_ref().unwrap().workers, Count::Exactly(5));

        let options = ServeOptions {
            listen: vec!["127.0.0.1:2".parse().unwrap()],
            workers: Some(Count::Exactly(1)),
            threads: Some(Count::Auto),
            no_php: false,
            no_htaccess: false,
            access_log: Some(AccessTarget::Off),
        };
        options.overrule(&mut config);
        assert_eq!(config.listen, options.listen);
        assert_eq!(config.threads, Count::Auto);
        assert_eq!(config.log.access, AccessTarget::Off);
        assert!(config.sites[0].htaccess);
        assert_eq!(config.sites[0].php.as_ref().unwrap().workers, Count::Exactly(1));

        ServeOptions {
            no_php: true,
            no_htaccess: true,
            ..options
        }
        .overrule(&mut config);
        assert!(config.sites[0].php.is_none() && !config.sites[0].htaccess);
    }

    #[test]
    fn a_folder_that_is_none_is_refused() {
        for (path, why) in [("/no/such/folder", "No such file"), ("/etc/passwd", "not a folder")] {
            let plan = ServePlan {
                source: SiteSource::Folder(path.into()),
                options: ServeOptions::default(),
            };
            let error = plan.load().unwrap_err();
            assert!(error.contains(path) && error.contains(why), "{error}");
        }
    }
}
