//! mod_alias: Redirect and its kin. Directives that map a URL to a file (Alias, ScriptAlias) are
//! not allowed in `.htaccess`.

mod directives;
mod fixup;
mod list;
mod redirect;
mod target;

use std::sync::Arc;

use howdah_http::Status;

use crate::expression::Expression;
use crate::merge::Merge;
use crate::module::{ApacheModule, ModuleConfig, Presence};
pub(crate) use directives::DIRECTIVES;
pub use fixup::fixup;
use list::RedirectList;

/// The module's configuration.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// `Redirect` with a path, and `RedirectMatch`.
    redirects: Arc<RedirectList>,
    /// `Redirect` without a path: for everything below the folder.
    everything: Option<PathlessRedirect>,
    /// `RedirectRelative`.
    relative: Option<bool>,
}

/// `Redirect` without a path.
#[derive(Clone, Debug)]
struct PathlessRedirect {
    /// The status of the answer.
    status: i32,
    /// The target.
    target: Option<Arc<Expression>>,
}

/// The result of mod_alias for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedirectOutcome {
    /// A redirect.
    Redirect {
        /// 3xx.
        status: Status,
        /// A whole URL, or a path where RedirectRelative is on.
        location: Vec<u8>,
    },
    /// The answer is a status.
    Status(Status),
}

impl Merge for Config {
    fn merge(base: &Config, add: &Config) -> Config {
        Config {
            redirects: RedirectList::joined(&add.redirects, &base.redirects),
            everything: add.everything.as_ref().or(base.everything.as_ref()).cloned(),
            relative: add.relative.or(base.relative),
        }
    }
}

impl ModuleConfig for Config {
    fn is_silent(&self) -> bool {
        true
    }

    fn prepare(&self) {
        self.redirects.prepare();
    }
}

/// Apache's module.
pub(crate) const APACHE_MODULES: &[ApacheModule] =
    &[ApacheModule::new("mod_alias.c", "alias_module", Some("Redirect"), Presence::Debian)];

impl Config {
    /// Returns whether there is a redirect.
    pub(crate) fn redirects(&self) -> bool {
        self.everything.is_some() || !self.redirects.is_empty()
    }

    /// Returns what is left for folders without the redirects. `None` if nothing is.
    pub(crate) fn without_redirects(&self) -> Option<Arc<Config>> {
        let relative = self.relative?;
        Some(Arc::new(Config {
            relative: Some(relative),
            ..Config::default()
        }))
    }
}

#[cfg(test)]
mod tests;
