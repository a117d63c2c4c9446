//! The modules that `<IfModule>` finds.

use crate::registry;
use Presence::{Chosen, Debian, Hosts, Protects};

/// A module of Apache's that Howdah provides.
#[derive(Clone, Copy, Debug)]
pub struct Provided {
    /// Its source file: `<IfModule mod_rewrite.c>`.
    pub file: &'static str,
    /// Its identifier: `<IfModule rewrite_module>`.
    pub identifier: &'static str,
    /// A directive of the module, whose presence is checked; `None` where the module has none for
    /// `.htaccess`.
    pub shown_by: Option<&'static str>,
    /// Whether and why `<IfModule>` finds it.
    pub presence: Presence,
}

/// Whether `<IfModule>` finds a module, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Always: Debian's Apache with mod_php has it on.
    Debian,
    /// Always: Debian's Apache has it off, but nearly every host has it on.
    Hosts,
    /// Always: Debian's Apache has it off, but a section that is skipped could have kept people
    /// out.
    Protects,
    /// Only where the site's configuration names it: Debian's Apache has it off.
    Chosen,
}

impl Provided {
    /// The name as Debian's `a2enmod` has it: `brotli`.
    pub fn name(&self) -> &'static str {
        let name = self.file.strip_suffix(".c").unwrap_or(self.file);
        name.strip_prefix("mod_").unwrap_or(name)
    }
}

const fn module(
    file: &'static str,
    identifier: &'static str,
    shown_by: Option<&'static str>,
    presence: Presence,
) -> Provided {
    Provided { file, identifier, shown_by, presence }
}

/// The modules that `<IfModule>` finds. Names are compared with case, as Apache does.
///
/// `prefork.c` is what an Apache with mod_php runs with. Not among them, so that their sections are
/// skipped as by an Apache without them: other versions of PHP (`mod_php5.c`, `php7_module`), CGI
/// and FastCGI, proxies, mod_speling, mod_security, mod_pagespeed, `LiteSpeed`.
pub const PROVIDED: &[Provided] = &[
    module("core.c", "core_module", None, Debian),
    module("http_core.c", "http_module", None, Debian),
    module("prefork.c", "mpm_prefork_module", Some("php_value"), Debian),
    module("mod_so.c", "so_module", None, Debian),
    module("mod_unixd.c", "unixd_module", None, Debian),
    module("mod_log_config.c", "log_config_module", None, Debian),
    module("mod_logio.c", "logio_module", None, Debian),
    module("mod_watchdog.c", "watchdog_module", None, Debian),
    module("mod_version.c", "version_module", None, Debian),
    module("mod_rewrite.c", "rewrite_module", Some("RewriteRule"), Hosts),
    module("mod_alias.c", "alias_module", Some("Redirect"), Debian),
    module("mod_dir.c", "dir_module", Some("DirectoryIndex"), Debian),
    module("mod_authz_core.c", "authz_core_module", Some("Require"), Debian),
    module("mod_authz_host.c", "authz_host_module", Some("Require"), Debian),
    module("mod_authz_user.c", "authz_user_module", Some("Require"), Debian),
    module("mod_authz_groupfile.c", "authz_groupfile_module", Some("AuthGroupFile"), Protects),
    module("mod_access_compat.c", "access_compat_module", Some("Order"), Debian),
    module("mod_authn_core.c", "authn_core_module", Some("AuthType"), Debian),
    module("mod_authn_file.c", "authn_file_module", Some("AuthUserFile"), Debian),
    module("mod_auth_basic.c", "auth_basic_module", Some("AuthBasicProvider"), Debian),
    module("mod_auth_digest.c", "auth_digest_module", Some("AuthDigestProvider"), Protects),
    module("mod_ssl.c", "ssl_module", Some("SSLRequireSSL"), Protects),
    module("mod_headers.c", "headers_module", Some("Header"), Hosts),
    module("mod_expires.c", "expires_module", Some("ExpiresActive"), Hosts),
    module("mod_filter.c", "filter_module", Some("AddOutputFilterByType"), Debian),
    module("mod_deflate.c", "deflate_module", Some("AddOutputFilterByType"), Debian),
    module("mod_brotli.c", "brotli_module", Some("AddOutputFilterByType"), Chosen),
    module("mod_substitute.c", "substitute_module", Some("Substitute"), Chosen),
    module("mod_mime.c", "mime_module", Some("AddType"), Debian),
    module("mod_negotiation.c", "negotiation_module", Some("LanguagePriority"), Debian),
    module("mod_setenvif.c", "setenvif_module", Some("SetEnvIf"), Debian),
    module("mod_env.c", "env_module", Some("SetEnv"), Debian),
    module("mod_autoindex.c", "autoindex_module", Some("IndexOptions"), Debian),
    module("mod_php.c", "php_module", Some("php_value"), Debian),
];

/// Returns the names of the modules as PHP's `apache_get_modules()` has them, `mod_rewrite`,
/// separated by spaces. `chosen`: the modules that the site's configuration names.
pub fn module_names(chosen: &[Box<str>]) -> String {
    let found = PROVIDED.iter().filter(|module| module.is_found(chosen));
    let names: Vec<_> = found.filter_map(|module| module.file.strip_suffix(".c")).collect();
    names.join(" ")
}

/// Whether `<IfModule name>` holds. `chosen`: the modules that the site's configuration names.
pub fn is_provided(name: &[u8], chosen: &[Box<str>]) -> bool {
    named(name).is_some_and(|module| module.is_found(chosen))
}

/// Returns the module of that file or identifier.
pub(crate) fn named(name: &[u8]) -> Option<&'static Provided> {
    let is =
        |module: &&Provided| module.file.as_bytes() == name || module.identifier.as_bytes() == name;
    PROVIDED.iter().find(is)
}

impl Provided {
    fn is_found(&self, chosen: &[Box<str>]) -> bool {
        let is_on = self.presence != Presence::Chosen
            || chosen.iter().any(|chosen| **chosen == *self.name());
        is_on && self.shown_by.is_none_or(|name| registry::find(name).is_some())
    }
}
