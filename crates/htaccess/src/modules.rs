//! Apache's modules, one file or folder each: directives, merging, and the functions of the phases.
//!
//! A module depends on what a directive and a request are and never on another module. Phases that
//! need several modules are in [`phases`](crate::phases) and [`response`](crate::response).

pub mod access_compat;
pub mod alias;
pub mod auth;
pub mod authz;
pub mod autoindex;
pub mod core;
pub mod dir;
pub mod env;
pub mod expires;
pub mod filter;
pub mod headers;
pub mod mime;
pub mod negotiation;
pub mod php;
pub mod rewrite;
pub mod setenvif;
pub mod ssl;
pub mod substitute;

/// Calls the macro `$with` with the list of all modules, a line each: the field of
/// [`DirectiveSettings`](crate::DirectiveSettings) with its documentation, and the module.
macro_rules! all_modules {
    ($with:ident) => {
        $with! {
            /// `core`: Options, ErrorDocument, FileETag, AcceptPathInfo…
            core: core,
            /// mod_rewrite.
            rewrite: rewrite,
            /// mod_alias.
            alias: alias,
            /// mod_dir.
            dir: dir,
            /// mod_authz_core and its providers.
            authz: authz,
            /// mod_access_compat.
            access: access_compat,
            /// mod_authn_core, mod_authn_file, mod_authz_groupfile, mod_auth_basic,
            /// mod_auth_digest.
            auth: auth,
            /// mod_ssl.
            ssl: ssl,
            /// mod_headers.
            headers: headers,
            /// mod_expires.
            expires: expires,
            /// mod_filter, mod_deflate, mod_brotli, and core's output filters.
            filter: filter,
            /// mod_substitute.
            substitute: substitute,
            /// mod_mime.
            mime: mime,
            /// mod_negotiation.
            negotiation: negotiation,
            /// mod_setenvif.
            setenvif: setenvif,
            /// mod_env.
            env: env,
            /// mod_autoindex.
            autoindex: autoindex,
            /// mod_php.
            php: php,
        }
    };
}
pub(crate) use all_modules;
