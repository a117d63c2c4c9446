//! Howdah's configuration: TOML text in, typed and checked values out.
//!
//! Every key is declared exactly once, in [`settings`], with its type, its default, the reason for
//! that default and the sentence that documents it; the parser, the defaults and the reference
//! manual all come from that one declaration. All mistakes of a file are reported together, each
//! with file, line, column and what to do.
//!
//! The crate is pure except for [`Config::load`], which reads one file.

#![forbid(unsafe_code)]

mod check;
mod diagnostic;
mod kinds;
mod listener;
mod log_format;
mod near;
pub mod reference;
mod section;
pub mod settings;
mod system_log;
pub mod values;

use std::fs;
use std::path::Path;

use toml::Spanned;
use toml::de::DeTable;

pub use diagnostic::{Diagnostic, Errors, Place};
pub use kinds::listen_addresses;
pub use listener::{HTTPS_PORT, ListenAddress, Listener, Network, TrustedProxies};
pub use log_format::{LogFormat, LogPart, LogValue};
pub use section::Key;
pub use settings::{
    Config, FRONT_USER, FieldRule, Limits, Log, POOL_USER, Php, ResourceLimits, Site, SiteTls,
};
pub use system_log::{LogDaemon, SystemLog};
pub use values::{
    AccessFormat, AccessTarget, AllowOverride, CertificateSource, CipherPolicy, ClientVerify,
    ContentCoding, Count, Destination, ErrorTarget, ForwardedField, HostPattern, LogLevel,
    OverrideClass, Rate, RootTemplate, Sandbox, Sapi, Symlinks, TlsVersion, TryStep, Upstream,
    UserName,
};

use diagnostic::MistakeCollector;
use section::Section;

impl Config {
    /// Reads and checks the file at `path`. No other function of the crate accesses the disk.
    ///
    /// # Errors
    /// The file cannot be read, or all mistakes in it.
    pub fn load(path: &Path) -> Result<Config, Errors> {
        let file_name = path.display().to_string();
        let text = fs::read(path)
            .map_err(|error| Errors::unreadable(&file_name, format!("cannot be read: {error}")))?;
        let text = String::from_utf8(text).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            Errors::unreadable(
                &file_name,
                format!("is not UTF-8 text (first bad byte at offset {at})"),
            )
        })?;
        Config::parse(&text, &file_name)
    }

    /// Parses and checks `text`. `file_name` is the file's name in errors. Relative paths start at
    /// its folder.
    ///
    /// # Errors
    /// All mistakes in the text.
    pub fn parse(text: &str, file_name: &str) -> Result<Config, Errors> {
        let (document, syntax_errors) = DeTable::parse_recoverable(text);
        let mut report = MistakeCollector::new(file_name, text);
        for error in &syntax_errors {
            report.syntax(error);
        }
        let mut config = read(&document, &mut report);
        if report.is_empty() {
            check::cross_check(&config, &document, &mut report);
        }
        report.finish()?;
        if let Some(folder) = Path::new(file_name).parent() {
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
        config.sites = vec![Site {
            name: "default".to_owned(),
            root: RootTemplate::fixed(directory),
            htaccess: options.htaccess,
            tls: match options.tls_internal {
                // Who listens in the clear as well means it.
                true => SiteTls {
                    source: CertificateSource::Internal,
                    redirect: false,
                    ..SiteTls::default()
                },
                false => SiteTls::default(),
            },
            php,
            ..Site::default()
        }];
        config
    }
}

/// The command-line options that shape [`Config::for_directory`]; what is left out keeps its
/// default.
#[derive(Clone, Debug)]
pub struct DirectoryOptions {
    /// Addresses to listen on; empty for the default.
    pub listen: Vec<Listener>,
    /// Event-loop threads.
    pub threads: Option<Count>,
    /// PHP workers.
    pub workers: Option<Count>,
    /// Whether PHP runs. Without it PHP files are refused, never sent.
    pub php: bool,
    /// Whether `.htaccess` files are read.
    pub htaccess: bool,
    /// Where the access log goes.
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
