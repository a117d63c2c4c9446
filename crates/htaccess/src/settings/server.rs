//! The directives of a site's configuration that act before those of any folder.

use super::DirectiveSettings;
use crate::merge::SharedConfig;
use crate::modules::{alias, rewrite, setenvif};

/// Directives of a site's configuration that Apache keeps in the configuration of the server, and
/// applies before it knows the folder. No `.htaccess` file can change them.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// SetEnvIf and its relatives.
    pub setenvif: SharedConfig<setenvif::Config>,
    /// RewriteRule.
    pub rewrite: SharedConfig<rewrite::Config>,
    /// Redirect and RedirectMatch.
    pub alias: SharedConfig<alias::Config>,
}

impl DirectiveSettings {
    /// Divides the directives of a site's configuration: those that act before any folder's, if
    /// there are any, and the others, which are merged with those of folders. Directives in
    /// sections are among the others.
    pub fn split_server(&self) -> (Option<ServerSettings>, DirectiveSettings) {
        let server = ServerSettings {
            setenvif: self.setenvif.clone(),
            rewrite: self.rewrite.as_ref().and_then(|config| config.of_server()),
            alias: self.alias.clone().filter(|config| config.redirects()),
        };
        let rest = DirectiveSettings {
            setenvif: None,
            rewrite: self.rewrite.as_ref().and_then(|config| config.without_rules()),
            alias: self.alias.as_ref().and_then(|config| config.without_redirects()),
            ..self.clone()
        };
        let has_rules = server.rewrite.is_some() || server.alias.is_some();
        match has_rules || server.setenvif.is_some() {
            true => (Some(server), rest),
            false => (None, rest),
        }
    }
}
