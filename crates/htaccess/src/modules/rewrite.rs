//! mod_rewrite: RewriteEngine, RewriteOptions, RewriteBase, RewriteCond, RewriteRule.
//!
//! ```text
//! directives ── arguments, flags ──> Rule (Matcher, Condition…, Template, Effects)
//! fixup ── Run: rules in order ──> RulesOutcome ── what it means ──> Outcome
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
mod look_ahead;
#[cfg(any(test, fuzzing))]
pub mod properties;
mod rule;
mod run;
mod template;
mod trace;
mod url;
mod variables;

use std::sync::{Arc, OnceLock};

use howdah_http::Status;

use crate::merge::Merge;
use crate::work::{self, Meter};
use condition::Condition;
pub(crate) use directives::DIRECTIVES;
pub use fixup::{fixup, translate};
use index::Index;
use rule::Rule;

/// The module's configuration.
#[derive(Clone, Debug, Default)]
pub struct Config {
    engine: Option<bool>,
    options: Options,
    options_set: bool,
    base: Option<Arc<[u8]>>,
    /// The folder of the rules, with a slash at its end.
    directory: Arc<[u8]>,
    rules: Arc<Rules>,
    /// Conditions that wait for their rule while the file is read.
    pending: Vec<Arc<Condition>>,
}

/// Rules in order, and their index.
#[derive(Debug, Default)]
struct Rules {
    list: Vec<Arc<Rule>>,
    /// Built on first use: while a file is read, rules are added.
    index: OnceLock<Index>,
}

/// The result of the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
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
    },
}

/// A set of RewriteOptions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Options(u16);

impl Options {
    const NONE: Options = Options(0);
    const INHERIT: Options = Options(1);
    const INHERIT_BEFORE: Options = Options(1 << 1);
    const INHERIT_DOWN: Options = Options(1 << 2);
    const INHERIT_DOWN_BEFORE: Options = Options(1 << 3);
    const IGNORE_INHERIT: Options = Options(1 << 4);
    const ALLOW_NO_SLASH: Options = Options(1 << 5);
    const MERGE_BASE: Options = Options(1 << 6);
    const IGNORE_CONTEXT_INFO: Options = Options(1 << 7);

    fn has(self, other: Options) -> bool {
        self.0 & other.0 != 0
    }

    fn with(self, other: Options) -> Options {
        Options(self.0 | other.0)
    }
}

impl Rules {
    fn new(list: Vec<Arc<Rule>>) -> Rules {
        Rules { list, index: OnceLock::new() }
    }

    /// Returns the index, where there are enough rules for it.
    fn index(&self, meter: Meter<'_>) -> Option<&Index> {
        if self.list.len() < index::FEWEST {
            return None;
        }
        if self.index.get().is_none() {
            meter.note(work::INDEXING * self.list.len() as u64);
        }
        Some(self.index.get_or_init(|| Index::new(&self.list)))
    }
}

impl Clone for Rules {
    /// Copies the rules without the index, so that rules can be added.
    fn clone(&self) -> Rules {
        Rules::new(self.list.clone())
    }
}

impl Config {
    fn push_condition(&mut self, condition: Condition) {
        self.pending.push(Arc::new(condition));
    }

    /// Makes what the first request would have to wait for.
    pub(crate) fn prepare(&self) {
        self.rules.index(Meter::unlimited());
    }

    /// Returns the configuration for rules that act before those of any folder; `None` without
    /// rules. Substitutions without a slash at their beginning are below the root.
    pub(crate) fn of_server(&self) -> Option<Arc<Config>> {
        if self.rules.list.is_empty() {
            return None;
        }
        let base = self.base.clone().unwrap_or_else(|| Arc::from(&b"/"[..]));
        Some(Arc::new(Config { base: Some(base), ..self.clone() }))
    }

    /// Returns what is left for folders without the rules. As in Apache, `RewriteEngine` and
    /// `RewriteOptions` of the server hold for folders that do not say otherwise.
    pub(crate) fn without_rules(&self) -> Option<Arc<Config>> {
        let config = Config {
            engine: self.engine,
            options: self.options,
            options_set: self.options_set,
            ..Config::default()
        };
        (config.engine.is_some() || config.options_set).then(|| Arc::new(config))
    }

    fn take_conditions(&mut self) -> Vec<Arc<Condition>> {
        std::mem::take(&mut self.pending)
    }

    fn push_rule(&mut self, rule: Rule) {
        let rules = Arc::make_mut(&mut self.rules);
        rules.index = OnceLock::new();
        rules.list.push(Arc::new(rule));
    }
}

impl Merge for Config {
    fn merge(base: &Config, add: &Config) -> Config {
        let options = if add.options_set { add.options } else { base.options };
        let inherits = |own: Options, down: Options| {
            options.has(own) || (base.options.has(down) && !options.has(Options::IGNORE_INHERIT))
        };
        let rules = if inherits(Options::INHERIT, Options::INHERIT_DOWN) {
            Rules::new([&add.rules.list[..], &base.rules.list].concat()).into()
        } else if inherits(Options::INHERIT_BEFORE, Options::INHERIT_DOWN_BEFORE) {
            Rules::new([&base.rules.list[..], &add.rules.list].concat()).into()
        } else {
            add.rules.clone()
        };
        Config {
            engine: add.engine.or(base.engine),
            options,
            options_set: add.options_set || base.options_set,
            base: match &add.base {
                None if options.has(Options::MERGE_BASE) => base.base.clone(),
                own => own.clone(),
            },
            directory: add.directory.clone(),
            rules,
            pending: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
