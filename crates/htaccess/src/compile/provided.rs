//! The modules that `<IfModule>` finds.

use crate::module::{ApacheModule, Presence};
use crate::modules::all_modules;
use crate::registry;

macro_rules! apache_modules {
    ($($(#[$doc:meta])* $field:ident: $module:ident,)*) => {
        const APACHE_MODULES: &[&[ApacheModule]] =
            &[$(crate::modules::$module::APACHE_MODULES),*];
    };
}

all_modules!(apache_modules);

/// Returns the modules that `<IfModule>` finds. Names are compared with case, as Apache does.
///
/// Not among them, so that their sections are skipped as by an Apache without them: other versions
/// of PHP (`mod_php5.c`, `php7_module`), CGI and FastCGI, proxies, mod_speling, mod_security,
/// mod_pagespeed, `LiteSpeed`.
pub fn provided() -> impl Iterator<Item = &'static ApacheModule> {
    APACHE_MODULES.iter().copied().flatten()
}

/// Returns the names of the modules as PHP's `apache_get_modules()` has them, `mod_rewrite`,
/// separated by spaces. `chosen`: the modules that the site's configuration names.
pub fn module_names(chosen: &[Box<str>]) -> String {
    let found = provided().filter(|module| is_found(module, chosen));
    let names: Vec<_> = found.filter_map(|module| module.file.strip_suffix(".c")).collect();
    names.join(" ")
}

/// Returns whether `<IfModule name>` holds. `chosen`: the modules that the site's configuration
/// names.
pub fn is_provided(name: &[u8], chosen: &[Box<str>]) -> bool {
    named(name).is_some_and(|module| is_found(module, chosen))
}

/// Returns the module of that file or identifier. `None` if Howdah does not provide it.
pub(crate) fn named(name: &[u8]) -> Option<&'static ApacheModule> {
    let is = |module: &&'static ApacheModule| {
        module.file.as_bytes() == name || module.identifier.as_bytes() == name
    };
    provided().find(is)
}

fn is_found(module: &ApacheModule, chosen: &[Box<str>]) -> bool {
    let is_on = module.presence != Presence::Chosen
        || chosen.iter().any(|chosen| **chosen == *module.name());
    is_on && module.shown_by.is_none_or(|name| registry::find(name).is_some())
}
