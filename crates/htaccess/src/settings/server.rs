//! The directives of a site's configuration that act before those of any folder.

use super::Settings;
use crate::merge::Shared;
use crate::modules::{alias, rewrite, setenvif};

/// Directives of a site's configuration that Apache keeps in the configuration of the server, and
/// applies before it knows the folder. No `.htaccess` file can change them.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// SetEnvIf and its relatives.
    pub setenvif: Shared<setenvif::Config>,
    /// RewriteRule.
    pub rewrite: Shared<rewrite::Config>,
    /// Redirect and RedirectMatch.
    pub alias: Shared<alias::Config>,
}

impl Settings {
    /// Divides the directives of a site's configuration: those that act before any folder's, if
    /// there are any, and the others, which are merged with those of folders. Directives in
    /// sections are among the others.
    pub fn split_server(&self) -> (Option<ServerSettings>, Settings) {
        let server = ServerSettings {
            setenvif: self.setenvif.clone(),
            rewrite: self.rewrite.as_ref().and_then(|config| config.of_server()),
            alias: self.alias.clone().filter(|config| config.redirects()),
        };
        let rest = Settings {
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
