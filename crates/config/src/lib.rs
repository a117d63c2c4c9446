//! Howdah's configuration: TOML text in, typed and checked values out.
//!
//! Every key is declared exactly once, in [`settings`], with its type, its default, the reason for
//! that default and the sentence that documents it; the parser, the defaults and the reference
//! manual all come from that one declaration. All mistakes of a file are reported together, each
//! with file, line, column and what to do.
//!
//! The crate is pure except for [`Config::load`], which reads a file and those that it includes.

#![forbid(unsafe_code)]

mod acme;
mod check;
mod diagnostic;
mod include;
mod kinds;
mod listener;
mod log_format;
mod near;
pub mod reference;
mod section;
pub mod settings;
mod system_log;
pub mod values;

use std::path::Path;

use toml::Spanned;
use toml::de::DeTable;

pub use acme::{Acme, LETS_ENCRYPT};
pub use diagnostic::{Diagnostic, Errors, FilePlace};
pub use kinds::listen_addresses;
pub use listener::{HTTPS_PORT, ListenAddress, ListenerSettings, Network, TrustedProxies};
pub use log_format::{
    LogFormat, LogPart, LogValue, LoggedTime, StatusCondition, TimeField, TimeForm, TimePart,
    TimePattern,
};
pub use section::Key;
pub use settings::{
    ClientLimits, Config, FRONT_USER, FieldRule, Http2, Http3, Lane, Log, MOST_WORKERS, POOL_USER,
    Php, ResourceLimits, SiteSettings, SiteTls,
};
pub use system_log::{LogDaemon, SystemLog};
pub use values::{
    AccessFormat, AccessTarget, AcmeChallenge, AllowOverride, CertificateSource, CipherPolicy,
    ClientVerify, ContentCoding, Count, Destination, EncodedSlashes, ErrorTarget, ForwardedField,
    HostPattern, Includes, LogLevel, OverrideClass, PoolMode, Rate, RootTemplate, Sandbox, Sapi,
    Symlinks, TlsVersion, TryStep, Upstream, UpstreamScheme, UserName,
};

use diagnostic::MistakeCollector;
use include::ConfigFiles;
use section::ConfigTable;

impl Config {
    /// Reads and checks the file at `path`, and the files that it includes. No other function of
    /// the crate accesses the disk.
    ///
    /// # Errors
    /// The file cannot be read, or all mistakes in all files.
    pub fn load(path: &Path) -> Result<Config, Errors> {
        Config::of_files(&ConfigFiles::load(path)?)
    }

    /// Parses and checks `text`. `file_name` is the file's name in errors. Relative paths start at
    /// its folder. Files that the text includes are not read.
    ///
    /// # Errors
    /// All mistakes in the text.
    pub fn parse(text: &str, file_name: &str) -> Result<Config, Errors> {
        Config::of_files(&ConfigFiles::of_text(text, file_name))
    }

    fn of_files(files: &ConfigFiles) -> Result<Config, Errors> {
        let mut report = MistakeCollector::new(&files.sources);
        let mut documents = Vec::with_capacity(files.sources.len());
        let mut config = Config::default();
        for (number, source) in files.sources.iter().enumerate() {
            let (document, syntax_errors) = DeTable::parse_recoverable(&source.text);
            report.begin(number);
            for error in &syntax_errors {
                report.syntax(error);
            }
            let folder = Path::new(&source.name).parent().unwrap_or(Path::new(""));
            if number == 0 {
                config = read(&document, &mut report);
                config.sites.iter_mut().for_each(|site| site.anchor(folder));
            } else {
                let mut sites = section::included_sites(document.get_ref(), &mut report);
                sites.iter_mut().for_each(|site| site.anchor(folder));
                config.sites.append(&mut sites);
                config.include.files.push(source.name.clone().into());
            }
            documents.push(document);
        }
        files.report(&mut report);
        config.choose_certificates(&documents);
        if report.is_empty() {
            check::cross_check(&config, &documents, &mut report);
        }
        report.finish()?;
        let folder = files.sources.first().and_then(|first| Path::new(&first.name).parent());
        if let Some(folder) = folder {
            config.anchor(folder);
        }
        Ok(config)
    }

    /// The configuration of `howdah serve DIR`: one site that answers for every host name, at
    /// `directory` (best given as an absolute path), on `127.0.0.1:8080` unless `options` says
    /// otherwise.
    pub fn for_directory(directory: &Path, options: DirectoryOptions) -> Config {
        let mut config = Config::default();
        if !options.listen.is_empty() {
            config.listen = options.listen;
        } else if options.tls_internal {
            config.listen.iter_mut().for_each(|listener| listener.tls = true);
        }
        if let Some(threads) = options.threads {
            config.threads = threads;
        }
        if let Some(target) = options.access_log {
            config.log.access = target;
        }
        let php = options.php.then(|| {
            let mut php = Php::default();
            if let Some(workers) = options.workers {
                php.workers = workers;
            }
            php
        });
        config.sites = vec![SiteSettings {
            name: "default".to_owned(),
            root: RootTemplate::fixed(directory),
            htaccess: options.htaccess,
            tls: match options.tls_internal {
                // A listener in the clear beside it is meant.
                true => SiteTls {
                    source: CertificateSource::Internal,
                    redirect: false,
                    ..SiteTls::default()
                },
                false => SiteTls::default(),
            },
            php,
            ..SiteSettings::default()
        }];
        config
    }
}

/// The command-line options that shape [`Config::for_directory`]; what is left out keeps its
/// default.
#[derive(Clone, Debug)]
pub struct DirectoryOptions {
    /// Addresses to listen on; empty for the default.
    pub listen: Vec<ListenerSettings>,
    /// Event-loop threads.
    pub threads: Option<Count>,
    /// PHP workers.
    pub workers: Option<Count>,
    /// Whether PHP runs. Without it PHP files are refused, never sent.
    pub php: bool,
    /// Whether `.htaccess` files are read.
    pub htaccess: bool,
    /// The destination of the access log.
    pub access_log: Option<AccessTarget>,
    /// Whether the site has a certificate of the local authority.
    pub tls_internal: bool,
}

impl Default for DirectoryOptions {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            threads: None,
            workers: None,
            php: true,
            htaccess: true,
            access_log: None,
            tls_internal: false,
        }
    }
}

fn read(document: &Spanned<DeTable<'_>>, report: &mut MistakeCollector<'_>) -> Config {
    Config::read(document.get_ref(), "", report)
}

#[cfg(test)]
mod tests;
