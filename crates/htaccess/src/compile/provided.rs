//! The modules that `<IfModule>` finds.

use crate::registry;

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
}

const fn module(
    file: &'static str,
    identifier: &'static str,
    shown_by: Option<&'static str>,
) -> Provided {
    Provided { file, identifier, shown_by }
}

/// The modules that `<IfModule>` finds. Names are compared with case, as Apache does.
///
/// `prefork.c` is what an Apache with mod_php runs with. Not among them, so that their sections are
/// skipped as by an Apache without them: other versions of PHP (`mod_php5.c`, `php7_module`), CGI
/// and FastCGI, proxies, mod_speling, mod_security, mod_pagespeed, `LiteSpeed`.
pub const PROVIDED: &[Provided] = &[
    module("core.c", "core_module", None),
    module("http_core.c", "http_module", None),
    module("prefork.c", "mpm_prefork_module", Some("php_value")),
    module("mod_so.c", "so_module", None),
    module("mod_unixd.c", "unixd_module", None),
    module("mod_log_config.c", "log_config_module", None),
    module("mod_logio.c", "logio_module", None),
    module("mod_watchdog.c", "watchdog_module", None),
    module("mod_version.c", "version_module", None),
    module("mod_rewrite.c", "rewrite_module", Some("RewriteRule")),
    module("mod_alias.c", "alias_module", Some("Redirect")),
    module("mod_dir.c", "dir_module", Some("DirectoryIndex")),
    module("mod_authz_core.c", "authz_core_module", Some("Require")),
    module("mod_authz_host.c", "authz_host_module", Some("Require")),
    module("mod_authz_user.c", "authz_user_module", Some("Require")),
    module("mod_authz_groupfile.c", "authz_groupfile_module", Some("AuthGroupFile")),
    module("mod_access_compat.c", "access_compat_module", Some("Order")),
    module("mod_authn_core.c", "authn_core_module", Some("AuthType")),
    module("mod_authn_file.c", "authn_file_module", Some("AuthUserFile")),
    module("mod_auth_basic.c", "auth_basic_module", Some("AuthBasicProvider")),
    module("mod_auth_digest.c", "auth_digest_module", Some("AuthDigestProvider")),
    module("mod_ssl.c", "ssl_module", Some("SSLRequireSSL")),
    module("mod_headers.c", "headers_module", Some("Header")),
    module("mod_expires.c", "expires_module", Some("ExpiresActive")),
    module("mod_filter.c", "filter_module", Some("AddOutputFilterByType")),
    module("mod_deflate.c", "deflate_module", Some("AddOutputFilterByType")),
    module("mod_brotli.c", "brotli_module", Some("AddOutputFilterByType")),
    module("mod_substitute.c", "substitute_module", Some("Substitute")),
    module("mod_mime.c", "mime_module", Some("AddType")),
    module("mod_negotiation.c", "negotiation_module", Some("LanguagePriority")),
    module("mod_setenvif.c", "setenvif_module", Some("SetEnvIf")),
    module("mod_env.c", "env_module", Some("SetEnv")),
    module("mod_autoindex.c", "autoindex_module", Some("IndexOptions")),
    module("mod_php.c", "php_module", Some("php_value")),
];

/// Returns the names of the modules as PHP's `apache_get_modules()` has them, `mod_rewrite`,
/// separated by spaces.
pub fn module_names() -> String {
    let provided = PROVIDED.iter().filter(|module| is_provided(module.file.as_bytes()));
    let names: Vec<_> = provided.filter_map(|module| module.file.strip_suffix(".c")).collect();
    names.join(" ")
}

/// Whether `<IfModule name>` holds.
pub fn is_provided(name: &[u8]) -> bool {
    let is =
        |module: &&Provided| module.file.as_bytes() == name || module.identifier.as_bytes() == name;
    PROVIDED
        .iter()
        .find(is)
        .is_some_and(|module| module.shown_by.is_none_or(|name| registry::find(name).is_some()))
}
