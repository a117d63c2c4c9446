//! Apache's modules, one folder or file each: directives, merging, and the functions of the phases.

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

use crate::directive::Directive;

/// The directives of every module.
pub(crate) const TABLES: &[&[Directive]] = &[
    crate::compile::DIRECTIVES,
    core::DIRECTIVES,
    rewrite::DIRECTIVES,
    alias::DIRECTIVES,
    dir::DIRECTIVES,
    authz::DIRECTIVES,
    access_compat::DIRECTIVES,
    ssl::DIRECTIVES,
    auth::DIRECTIVES,
    headers::DIRECTIVES,
    expires::DIRECTIVES,
    filter::DIRECTIVES,
    substitute::DIRECTIVES,
    mime::DIRECTIVES,
    negotiation::DIRECTIVES,
    setenvif::DIRECTIVES,
    env::DIRECTIVES,
    autoindex::DIRECTIVES,
    php::DIRECTIVES,
];
