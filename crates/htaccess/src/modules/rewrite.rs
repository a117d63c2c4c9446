//! mod_rewrite: RewriteEngine, RewriteOptions, RewriteBase, RewriteCond, RewriteRule.
//!
//! ```text
//! directives ── arguments, flags ──> Rule (Matcher, Condition…, Template, Effects)
//! fixup ── RewriteRun: rules in order ──> RulesOutcome ── what it means ──> RewriteOutcome
//! ```

mod alternatives;
pub(crate) mod arguments;
mod condition;
mod cookie;
mod directives;
mod environment;
mod expansion;
mod fixup;
mod flags;
mod index;
mod list;
mod look_ahead;
mod notes;
#[cfg(any(test, fuzzing))]
pub mod properties;
mod rule;
mod run;
mod template;
mod trace;
mod url;
mod variables;

use std::sync::Arc;

use howdah_http::Status;

use crate::merge::Merge;
use crate::module::{ApacheModule, ModuleConfig, POINTERS, Presence};
use condition::RewriteCondition;
pub(crate) use directives::DIRECTIVES;
pub use fixup::{fixup, translate};
use list::RewriteRules;
pub use notes::note_path_by_site;
use rule::RewriteRule;

/// The module's configuration.
#[derive(Clone, Debug, Default)]
pub struct Config {
    engine: Option<bool>,
    options: RewriteOptions,
    options_set: bool,
    base: Option<Arc<[u8]>>,
    /// The folder of the rules, with a slash at its end.
    directory: Arc<[u8]>,
    rules: Arc<RewriteRules>,
    /// Conditions that wait for their rule while the file is read.
    pending: Vec<Arc<RewriteCondition>>,
}

/// The place of inherited rules among those of the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InheritedRules {
    Before,
    After,
}

/// The result of the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RewriteOutcome {
    /// Nothing has changed, except perhaps variables, cookies, type and handler.
    Declined,
    /// The path is unchanged; the query may have changed (`state.args`), and PATH_INFO may be gone.
    Continue,
    /// The request begins anew with this URL, which has to be parsed: it may contain escapes, and a
    /// `?` of its own. As in Apache, the other fixups come first, and a Redirect of mod_alias among
    /// them wins. The new request keeps Vary.
    Internal {
        /// Path of the URL. One that begins with no slash is a bad request.
        uri: Vec<u8>,
        /// Its query.
        args: Option<Vec<u8>>,
        /// Whether the last rule has `PT`; for rules of a site's configuration alone.
        is_passed_through: bool,
    },
    /// A redirect.
    Redirect {
        /// 3xx.
        status: Status,
        /// An absolute URL.
        location: Vec<u8>,
    },
    /// The answer is a status: mostly an error, but `R=200` is possible as well.
    Status(Status),
    /// The request of `P`. Apache without mod_proxy answers with 403.
    Proxy {
        /// An absolute URL with its query.
        url: Vec<u8>,
        /// Whether the path has been escaped: without `NE`.
        is_escaped: bool,
    },
}

/// A set of RewriteOptions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RewriteOptions(u16);

impl RewriteOptions {
    const NONE: RewriteOptions = RewriteOptions(0);
    const INHERIT: RewriteOptions = RewriteOptions(1);
    const INHERIT_BEFORE: RewriteOptions = RewriteOptions(1 << 1);
    const INHERIT_DOWN: RewriteOptions = RewriteOptions(1 << 2);
    const INHERIT_DOWN_BEFORE: RewriteOptions = RewriteOptions(1 << 3);
    const IGNORE_INHERIT: RewriteOptions = RewriteOptions(1 << 4);
    const ALLOW_NO_SLASH: RewriteOptions = RewriteOptions(1 << 5);
    const MERGE_BASE: RewriteOptions = RewriteOptions(1 << 6);
    const IGNORE_CONTEXT_INFO: RewriteOptions = RewriteOptions(1 << 7);

    fn has(self, other: RewriteOptions) -> bool {
        self.0 & other.0 != 0
    }

    fn with(self, other: RewriteOptions) -> RewriteOptions {
        RewriteOptions(self.0 | other.0)
    }
}

impl Config {
    fn push_condition(&mut self, condition: RewriteCondition) {
        self.pending.push(Arc::new(condition));
    }

    /// Returns the configuration for rules that act before those of any folder; `None` without
    /// rules. Substitutions without a slash at their beginning are below the root.
    pub(crate) fn of_server(&self) -> Option<Arc<Config>> {
        if self.rules.is_empty() {
            return None;
        }
        let base = self.base.clone().unwrap_or_else(|| Arc::from(&b"/"[..]));
        Some(Arc::new(Config { base: Some(base), ..self.clone() }))
    }

    /// Returns what is left for folders without the rules. As in Apache, `RewriteEngine` and
    /// `RewriteOptions` of the server hold for folders that do not say otherwise. `None` if nothing
    /// is left.
    pub(crate) fn without_rules(&self) -> Option<Arc<Config>> {
        let config = Config {
            engine: self.engine,
            options: self.options,
            options_set: self.options_set,
            ..Config::default()
        };
        (config.engine.is_some() || config.options_set).then(|| Arc::new(config))
    }

    /// Returns the options that are in force in the folder, below one with the configuration
    /// `base`.
    fn options_below(&self, base: &Config) -> RewriteOptions {
        if self.options_set { self.options } else { base.options }
    }

    /// Returns the place of the rules of `base`, which is further out; `None` if they are not in
    /// force in this folder.
    fn inheritance(&self, base: &Config) -> Option<InheritedRules> {
        let options = self.options_below(base);
        let inherits = |own: RewriteOptions, down: RewriteOptions| {
            options.has(own)
                || (base.options.has(down) && !options.has(RewriteOptions::IGNORE_INHERIT))
        };
        if inherits(RewriteOptions::INHERIT, RewriteOptions::INHERIT_DOWN) {
            Some(InheritedRules::After)
        } else if inherits(RewriteOptions::INHERIT_BEFORE, RewriteOptions::INHERIT_DOWN_BEFORE) {
            Some(InheritedRules::Before)
        } else {
            None
        }
    }

    fn take_conditions(&mut self) -> Vec<Arc<RewriteCondition>> {
        std::mem::take(&mut self.pending)
    }

    fn push_rule(&mut self, rule: RewriteRule) {
        Arc::make_mut(&mut self.rules).push(rule);
    }
}

impl Merge for Config {
    fn merge(base: &Config, add: &Config) -> Config {
        let options = add.options_below(base);
        let joined =
            |first: &Config, second: &Config| RewriteRules::joined(&first.rules, &second.rules);
        let rules = match add.inheritance(base) {
            Some(InheritedRules::After) => joined(add, base),
            Some(InheritedRules::Before) => joined(base, add),
            None => add.rules.clone(),
        };
        Config {
            engine: add.engine.or(base.engine),
            options,
            options_set: add.options_set || base.options_set,
            base: match &add.base {
                None if options.has(RewriteOptions::MERGE_BASE) => base.base.clone(),
                own => own.clone(),
            },
            directory: add.directory.clone(),
            rules,
            pending: Vec::new(),
        }
    }
}

impl ModuleConfig for Config {
    fn is_silent(&self) -> bool {
        true
    }

    /// Rules are shared. A folder that inherits those above has the parts of both.
    fn copied(base: &Config, add: &Config) -> usize {
        match add.inheritance(base) {
            None => 0,
            Some(_) => (base.rules.parts() + add.rules.parts()) / POINTERS,
        }
    }

    fn prepare(&self) {
        self.rules.prepare();
    }
}

/// Apache's module.
pub(crate) const APACHE_MODULES: &[ApacheModule] =
    &[ApacheModule::new("mod_rewrite.c", "rewrite_module", Some("RewriteRule"), Presence::Hosts)];

#[cfg(test)]
mod tests;
