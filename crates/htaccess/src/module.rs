//! The statements of a module about itself: what its directives change, and the modules of Apache's
//! that it provides.

use crate::merge::Merge;

/// The configuration of a module.
pub trait ModuleConfig: Merge {
    /// Returns whether these directives leave the response for a file or a script unchanged, once
    /// its handler is known. Effects on the request's state do not count: the state shows them.
    fn is_silent(&self) -> bool;

    /// Makes what the first request would have to wait for.
    fn prepare(&self) {}

    /// Returns how many entries [`merge`](Merge::merge) copies of these two configurations. Parts
    /// that the result shares with them, such as lists of redirects, do not count.
    fn copied(_base: &Self, _add: &Self) -> usize {
        0
    }
}

/// Pointers to shared directives take as much memory as one entry that is copied.
pub(crate) const POINTERS: usize = 8;

/// A module of Apache's that Howdah provides.
#[derive(Clone, Copy, Debug)]
pub struct ApacheModule {
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

/// The answer of `<IfModule>` for a module, and its reason.
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

impl ApacheModule {
    pub(crate) const fn new(
        file: &'static str,
        identifier: &'static str,
        shown_by: Option<&'static str>,
        presence: Presence,
    ) -> ApacheModule {
        ApacheModule { file, identifier, shown_by, presence }
    }

    /// The name as Debian's `a2enmod` has it: `brotli`.
    pub fn name(&self) -> &'static str {
        let name = self.file.strip_suffix(".c").unwrap_or(self.file);
        name.strip_prefix("mod_").unwrap_or(name)
    }
}
