//! The command line of `howdah serve`. The configuration is made from it at the start and at each
//! reload.

use std::path::{Path, PathBuf};

use howdah_config::{
    AccessTarget, CertificateSource, Config, Count, DirectoryOptions, ListenAddress,
    ListenerSettings,
};

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
    pub(crate) listen: Vec<ListenerSettings>,
    /// Whether sites without a certificate get one of the local authority.
    pub(crate) tls_internal: bool,
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
                self.options.overrule(&mut config)?;
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
        let config = Config::for_directory(
            folder,
            DirectoryOptions {
                listen: options.listen,
                threads: options.threads,
                workers: options.workers,
                php: !options.no_php,
                htaccess: !options.no_htaccess,
                access_log: options.access_log,
                tls_internal: options.tls_internal,
            },
        );
        refuse_without_certificates(&config)?;
        Ok(config)
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
    /// # Errors
    /// A site listens on an address that the command line leaves out.
    fn overrule(&self, config: &mut Config) -> Result<(), String> {
        if !self.listen.is_empty() {
            self.replace_listeners(config)?;
        }
        if let Some(threads) = self.threads {
            config.threads = threads;
        }
        if let Some(target) = &self.access_log {
            config.log.access = target.clone();
        }
        for site in &mut config.sites {
            if self.tls_internal && !site.tls.is_on() {
                site.tls.source = CertificateSource::Internal;
            }
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
        if self.tls_internal && self.listen.is_empty() {
            config.listen.iter_mut().for_each(|listener| {
                listener.tls |= matches!(listener.address, ListenAddress::Tcp(_));
            });
        }
        refuse_without_certificates(config)
    }

    /// Replaces the listeners. An address that the file has as well keeps its settings.
    fn replace_listeners(&self, config: &mut Config) -> Result<(), String> {
        let of_the_file = std::mem::take(&mut config.listen);
        let known = |wanted: &ListenerSettings| {
            let same = of_the_file.iter().find(|listener| listener.address == wanted.address);
            same.unwrap_or(wanted).clone()
        };
        config.listen = self.listen.iter().map(known).collect();
        for site in &config.sites {
            // Elsewhere the site must not be reachable, so another address does not take its place.
            let is_left_out = |address: &&ListenAddress| {
                !config.listen.iter().any(|listener| listener.address == **address)
            };
            if let Some(address) = site.listen.iter().find(is_left_out) {
                return Err(format!(
                    "the site {} listens on {address}, which --listen leaves out; add --listen \
                     {address}",
                    site.name
                ));
            }
        }
        Ok(())
    }
}

/// # Errors
/// A listener is for TLS, and no site that answers there has a certificate.
fn refuse_without_certificates(config: &Config) -> Result<(), String> {
    let has_none = |listener: &&ListenerSettings| {
        let mut sites = config.sites.iter().filter(|site| site.answers_on(listener));
        listener.tls && !sites.any(|site| site.tls.is_on())
    };
    match config.listen.iter().find(has_none) {
        None => Ok(()),
        Some(listener) => Err(format!(
            "{0} is for TLS, and no site has a certificate there; add --tls internal for one of \
             the local authority, give a configuration with certificates, or write --listen \
             http://{0}",
            listener.address
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(address: &str) -> ListenerSettings {
        address.parse::<std::net::SocketAddr>().unwrap().into()
    }

    #[test]
    fn a_site_is_not_moved_to_another_listener() {
        let text = "listen = [\"127.0.0.1:1\", { address = \"127.0.0.1:2\", trusted = true }]\n\
                    [[site]]\nroot = \"/srv/a\"\nlisten = \"127.0.0.1:2\"\n\
                    [[site]]\nname = \"b\"\nroot = \"/srv/b\"\nlisten = \"127.0.0.1:1\"\n";
        let mut config = Config::parse(text, "howdah.toml").unwrap();
        let options = |listen: &[&str]| ServeOptions {
            listen: listen.iter().map(|address| listener(address)).collect(),
            ..ServeOptions::default()
        };
        let both = options(&["127.0.0.1:2", "127.0.0.1:1", "127.0.0.1:3"]);
        both.overrule(&mut config).unwrap();
        assert!(config.listen[0].trusted.is_some(), "the settings of the file");
        let error = options(&["127.0.0.1:1"]).overrule(&mut config).unwrap_err();
        assert!(error.contains("--listen 127.0.0.1:2"), "{error}");
    }

    #[test]
    fn the_command_line_overrules_the_file() {
        let text = "listen = [\"127.0.0.1:1\"]\nthreads = 3\n[[site]]\nroot = \"/srv/a\"\n\
            [site.php]\nworkers = 5\n";
        let mut config = Config::parse(text, "howdah.toml").unwrap();
        ServeOptions::default().overrule(&mut config).unwrap();
        assert_eq!(config.threads, Count::Exactly(3));
        assert_eq!(config.sites[0].php.as_ref().unwrap().workers, Count::Exactly(5));

        let options = ServeOptions {
            listen: vec![listener("127.0.0.1:2")],
            tls_internal: false,
            workers: Some(Count::Exactly(1)),
            threads: Some(Count::Auto),
            no_php: false,
            no_htaccess: false,
            access_log: Some(AccessTarget::Off),
        };
        options.overrule(&mut config).unwrap();
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
        .overrule(&mut config)
        .unwrap();
        assert!(config.sites[0].php.is_none() && !config.sites[0].htaccess);
    }

    #[test]
    fn a_listener_for_tls_needs_a_certificate() {
        let serve = |tls_internal| {
            let options = ServeOptions {
                listen: vec![listener("127.0.0.1:443")],
                tls_internal,
                ..ServeOptions::default()
            };
            ServePlan {
                source: SiteSource::Folder("/".into()),
                options,
            }
            .load()
        };
        assert!(serve(true).unwrap().sites[0].tls.is_on());
        let error = serve(false).unwrap_err();
        assert!(error.contains("add --tls internal"), "{error}");
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
