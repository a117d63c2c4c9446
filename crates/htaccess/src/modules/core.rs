//! `core`: Options, ErrorDocument, FileETag, ForceType, SetHandler and other directives without a
//! module.

mod directives;
mod error_document;
mod etag;
mod options;

use std::sync::Arc;

use howdah_http::Status;

use crate::evaluation_context::EvaluationContext;
use crate::expression::StringExpression;
use crate::merge::Merge;
use crate::mistake::DirectivePlace;
use crate::module::{ApacheModule, ModuleConfig, Presence};
use crate::trace::TraceEvent;
use crate::transaction::Transaction;

pub(crate) use directives::DIRECTIVES;
pub use error_document::{ErrorDestination, ErrorDocument, destination};
pub use etag::EtagParts;
pub use options::Options;

/// The module's configuration. `None` is not configured.
#[derive(Clone, Debug, Default)]
pub struct Config {
    options: options::OptionsSetting,
    error_documents: Box<[(Status, ErrorDocument)]>,
    file_etag: etag::EtagSetting,
    /// `AcceptPathInfo`.
    pub accept_path_info: Option<AcceptPathInfo>,
    /// `AddDefaultCharset`: the charset for `text/plain` and `text/html` without one.
    pub default_charset: Option<DefaultCharset>,
    force_type: Option<(Arc<DirectivePlace>, Box<[u8]>)>,
    handler: Option<(Arc<DirectivePlace>, StringExpression)>,
    /// `SetOutputFilter`: names, separated by `;`.
    pub output_filters: Option<Box<[u8]>>,
    /// `SetInputFilter`: names, separated by `;`.
    pub input_filters: Option<Box<[u8]>>,
    /// `LimitRequestBody` in bytes; 0 is no limit.
    pub request_body_limit: Option<u64>,
    /// `ServerSignature`.
    pub server_signature: Option<ServerSignature>,
    /// `CGIVar REQUEST_URI`: whether scripts see the URI that is in force, and not the one that the
    /// client sent.
    pub request_uri_is_current: Option<bool>,
    /// `QualifyRedirectURL`: whether REDIRECT_URL is a full URL.
    pub qualify_redirect_url: Option<bool>,
}

/// `AcceptPathInfo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptPathInfo {
    /// The URL's path after an existing file is handed on.
    On,
    /// Such a URL is answered with 404.
    Off,
    /// The handler decides: scripts accept such a URL, files do not.
    Default,
}

/// `AddDefaultCharset`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefaultCharset {
    /// No charset is added.
    Off,
    /// This charset is added; `On` is ISO-8859-1.
    Named(Box<[u8]>),
}

/// `ServerSignature`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerSignature {
    /// No line below the server's own pages.
    Off,
    /// The server's name.
    On,
    /// With the administrator's address.
    Email,
}

impl Config {
    /// Returns the options in force, where the site itself has `above`.
    pub fn options(&self, above: Options) -> Options {
        self.options.in_force(above)
    }

    /// Returns the document for an error of that status; `None` is the server's own page.
    pub fn error_document(&self, status: Status) -> Option<&ErrorDocument> {
        let mut documents = self.error_documents.iter();
        match documents.find(|(of, _)| *of == status) {
            None | Some((_, ErrorDocument::Default)) => None,
            Some((_, document)) => Some(document),
        }
    }

    /// Returns the parts of a file's entity tag.
    pub fn etag_parts(&self) -> EtagParts {
        self.file_etag.in_force()
    }

    /// Returns whether SetHandler is in force.
    pub fn sets_handler(&self) -> bool {
        self.handler.is_some()
    }

    /// Returns the type of ForceType, which overrides mod_mime and rewrite rules. `None` without
    /// the directive, or if it says `none`.
    pub fn force_type(&self) -> Option<&[u8]> {
        let (_, media_type) = self.force_type.as_ref()?;
        Some(&media_type[..]).filter(|media_type| *media_type != b"none")
    }
}

/// Applies ForceType and SetHandler, as httpd's core does: before all other fixups.
///
/// # Errors
/// 500 where the handler's expression cannot be evaluated.
pub fn fixup(
    tx: &mut Transaction<'_>,
    config: &Config,
    context: &mut dyn EvaluationContext,
) -> Result<(), Status> {
    if let Some((place, media_type)) =
        config.force_type.as_ref().filter(|(_, name)| **name != *b"none")
    {
        tx.trace(|| applied("ForceType", place, media_type));
        tx.state.set_content_type(media_type);
    }
    let Some((place, handler)) = &config.handler else {
        return Ok(());
    };
    let mut name = match handler.render(tx, context) {
        Ok(name) => name.into_owned(),
        Err(problem) => {
            tx.complain(Some(place), format!("SetHandler: {problem}"));
            return Err(Status::INTERNAL_SERVER_ERROR);
        }
    };
    if !name.starts_with(b"proxy:unix") {
        name.make_ascii_lowercase();
    }
    if name != b"none" {
        tx.trace(|| applied("SetHandler", place, &name));
        tx.state.handler = Some(name);
    }
    Ok(())
}

fn applied(name: &str, place: &Arc<DirectivePlace>, value: &[u8]) -> TraceEvent {
    TraceEvent {
        step: "directive",
        place: Some(place.clone()),
        text: format!("{name} {}", String::from_utf8_lossy(value)),
        facts: Vec::new(),
        outcome: "applies".into(),
    }
}

impl Merge for Config {
    fn merge(base: &Config, add: &Config) -> Config {
        fn closer<T: Clone>(base: &Option<T>, add: &Option<T>) -> Option<T> {
            add.as_ref().or(base.as_ref()).cloned()
        }
        Config {
            options: base.options.closer(&add.options),
            error_documents: error_document::merge(&base.error_documents, &add.error_documents),
            file_etag: base.file_etag.closer(&add.file_etag),
            accept_path_info: closer(&base.accept_path_info, &add.accept_path_info),
            default_charset: closer(&base.default_charset, &add.default_charset),
            force_type: closer(&base.force_type, &add.force_type),
            handler: closer(&base.handler, &add.handler),
            output_filters: closer(&base.output_filters, &add.output_filters),
            input_filters: closer(&base.input_filters, &add.input_filters),
            request_body_limit: closer(&base.request_body_limit, &add.request_body_limit),
            server_signature: closer(&base.server_signature, &add.server_signature),
            request_uri_is_current: closer(
                &base.request_uri_is_current,
                &add.request_uri_is_current,
            ),
            qualify_redirect_url: closer(&base.qualify_redirect_url, &add.qualify_redirect_url),
        }
    }
}

impl ModuleConfig for Config {
    /// Returns whether there is nothing but Options, AcceptPathInfo, ForceType and SetHandler,
    /// which have no effect once the handler of a request is known.
    fn is_silent(&self) -> bool {
        self.error_documents.is_empty()
            && self.file_etag == etag::EtagSetting::default()
            && self.default_charset.is_none()
            && self.output_filters.is_none()
            && self.input_filters.is_none()
            && self.request_body_limit.is_none()
            && self.server_signature.is_none()
            && self.request_uri_is_current.is_none()
            && self.qualify_redirect_url.is_none()
    }
}

/// Apache's core, and modules that have no directives for `.htaccess`. An Apache with mod_php runs
/// with `prefork.c`.
pub(crate) const APACHE_MODULES: &[ApacheModule] = &[
    ApacheModule::new("core.c", "core_module", None, Presence::Debian),
    ApacheModule::new("http_core.c", "http_module", None, Presence::Debian),
    ApacheModule::new("prefork.c", "mpm_prefork_module", Some("php_value"), Presence::Debian),
    ApacheModule::new("mod_so.c", "so_module", None, Presence::Debian),
    ApacheModule::new("mod_unixd.c", "unixd_module", None, Presence::Debian),
    ApacheModule::new("mod_log_config.c", "log_config_module", None, Presence::Debian),
    ApacheModule::new("mod_logio.c", "logio_module", None, Presence::Debian),
    ApacheModule::new("mod_watchdog.c", "watchdog_module", None, Presence::Debian),
    ApacheModule::new("mod_version.c", "version_module", None, Presence::Debian),
];

#[cfg(test)]
mod tests;
