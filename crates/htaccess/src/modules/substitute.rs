//! mod_substitute: replaces text in content, line by line.

mod directives;
mod transformer;

use std::sync::Arc;

use crate::merge::Merge;
use crate::module::{ApacheModule, ModuleConfig, POINTERS, Presence};
use crate::pattern::Pattern;
use crate::transform::{ContentFilter, Transform};

pub(crate) use directives::DIRECTIVES;
use transformer::Transformer;

/// The module's configuration.
#[derive(Clone, Debug, Default)]
pub struct Config {
    substitutions: Vec<Arc<Substitution>>,
    /// SubstituteMaxLineLength in bytes.
    longest_line: Option<usize>,
    inherit_before: Option<bool>,
}

impl ContentFilter for Config {
    fn transform(self: Arc<Self>) -> Box<dyn Transform> {
        Box::new(Transformer::new(self))
    }
}

/// One `Substitute`.
#[derive(Debug)]
struct Substitution {
    find: SearchTerm,
    replacement: Replacement,
    /// `q`: later substitutions do not reach across the places where this one replaced text.
    quick: bool,
}

/// The replacement.
#[derive(Debug)]
enum Replacement {
    /// Always the same.
    Constant(Box<[u8]>),
    /// With `$0` to `$9`, and backslashes before literal bytes.
    Template(Box<[u8]>),
}

/// The text that is replaced.
#[derive(Debug)]
enum SearchTerm {
    /// `n`: this text; with `i` in any case, then it is in lower case here.
    Text { text: Box<[u8]>, caseless: bool },
    /// A regular expression.
    Regex(Pattern),
}

impl Substitution {
    fn is_caseless_text(&self) -> bool {
        matches!(self.find, SearchTerm::Text { caseless: true, .. })
    }
}

impl Merge for Config {
    fn merge(base: &Config, add: &Config) -> Config {
        let inherit_before = add.inherit_before.or(base.inherit_before);
        let (first, second) = match inherit_before {
            Some(true) => (base, add),
            _ => (add, base),
        };
        Config {
            substitutions: [&first.substitutions[..], &second.substitutions].concat(),
            longest_line: add.longest_line.or(base.longest_line),
            inherit_before,
        }
    }
}

impl ModuleConfig for Config {
    fn is_silent(&self) -> bool {
        false
    }

    fn copied(base: &Config, add: &Config) -> usize {
        (base.substitutions.len() + add.substitutions.len()) / POINTERS
    }
}

/// Apache's module.
pub(crate) const APACHE_MODULES: &[ApacheModule] = &[ApacheModule::new(
    "mod_substitute.c",
    "substitute_module",
    Some("Substitute"),
    Presence::Chosen,
)];

/// The default of SubstituteMaxLineLength: 1 MiB.
const LONGEST_LINE: usize = 1024 * 1024;
/// The longest line whatever SubstituteMaxLineLength says: each response holds one in memory. At a
/// longer one the response is broken off.
const LONGEST_OF_ALL: usize = 8 * 1024 * 1024;
