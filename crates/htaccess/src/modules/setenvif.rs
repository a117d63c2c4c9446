//! mod_setenvif: SetEnvIf, SetEnvIfNoCase, BrowserMatch, BrowserMatchNoCase, SetEnvIfExpr.
//!
//! ```text
//! directives ──> rules (attribute, pattern or expression, variables) ──> a list, one for each file ── run ──> variables
//! ```
//!
//! Rules that follow each other and ask for the same attribute look at the value that it had at the
//! first of them, as in Apache. Many of them, as in lists of robots, are searched at once.

mod directives;
mod list;
mod run;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub(crate) use directives::DIRECTIVES;
use list::SetEnvIfList;
pub use run::header_parser;

use crate::merge::Merge;
use crate::module::{ApacheModule, ModuleConfig, Presence};

/// The module's configuration: a list for each file, outermost first.
#[derive(Clone, Debug, Default)]
pub struct Config {
    lists: Vec<Arc<SetEnvIfList>>,
}

impl Merge for Config {
    fn merge(base: &Config, add: &Config) -> Config {
        Config {
            lists: [&base.lists[..], &add.lists].concat(),
        }
    }
}

impl ModuleConfig for Config {
    fn is_silent(&self) -> bool {
        true
    }

    fn prepare(&self) {
        self.lists.iter().for_each(|list| list.prepare());
    }
}

/// Apache's module.
pub(crate) const APACHE_MODULES: &[ApacheModule] =
    &[ApacheModule::new("mod_setenvif.c", "setenvif_module", Some("SetEnvIf"), Presence::Debian)];
