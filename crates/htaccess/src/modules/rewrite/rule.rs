//! One RewriteRule with the RewriteConds before it.

use std::sync::Arc;

use super::alternatives::{self, Alternatives};
use super::arguments;
use super::condition::RewriteCondition;
use super::environment::Assignment;
use super::flags;
use super::template::{Escape, Template};
use crate::mistake::{Complaint, DirectivePlace};
use crate::pattern::Pattern;

/// A rule, compiled.
#[derive(Debug)]
pub(super) struct RewriteRule {
    /// The place of the directive.
    pub place: Arc<DirectivePlace>,
    /// Its arguments as written.
    pub text: Box<[u8]>,
    /// Its pattern.
    pub pattern: Arc<Pattern>,
    /// Whether the pattern is compared with the whole path, its first slash included.
    pub sees_slash: bool,
    /// Whether it applies where the pattern does not match.
    pub negated: bool,
    /// The conditions that have to hold, too.
    pub conditions: Box<[Arc<RewriteCondition>]>,
    /// The long lists of alternatives among the conditions, in order.
    pub alternatives: Box<[Alternatives]>,
    /// The substitution of the URL.
    pub substitution: Template,
    /// Whether the substitution begins with two slashes, which are kept.
    pub keeps_slashes: bool,
    /// Whether a condition needs captures of the pattern.
    pub conditions_refer: bool,
    /// Whether the substitution or a flag needs captures of the pattern.
    pub output_refers: bool,
    /// Whether anything needs captures of a condition.
    pub captures_conditions: bool,
    /// The effects of the flags.
    pub effects: Effects,
}

/// The effects of a rule's flags.
#[derive(Debug)]
pub(super) struct Effects {
    /// The effects that are on or off.
    pub switches: Switches,
    /// `R=`, `F`, `G`: the status, 302 where there is none, 0 for a word that is none.
    pub status: u16,
    /// `E=`.
    pub variables: Vec<Assignment>,
    /// `CO=`.
    pub cookies: Vec<Template>,
    /// `T=`.
    pub media_type: Option<Template>,
    /// `H=`.
    pub handler: Option<Template>,
    /// `S=`: the number of rules that are skipped.
    pub skip: usize,
    /// `N=`: the number of rounds at most.
    pub rounds: i32,
    /// `B`, `BNE`, `BNP`, `BCTLS`.
    pub escape: Escape,
}

impl Default for Effects {
    fn default() -> Effects {
        Effects {
            switches: Switches::NONE,
            status: 302,
            variables: Vec::new(),
            cookies: Vec::new(),
            media_type: None,
            handler: None,
            skip: 0,
            rounds: MAX_ROUNDS,
            escape: Escape::default(),
        }
    }
}

/// The rounds of `N` without a number (`REWRITE_MAX_ROUNDS`); more are answered with 500.
const MAX_ROUNDS: i32 = 32_000;

/// A set of flags that are on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Switches(u32);

impl Switches {
    /// No flag.
    pub const NONE: Switches = Switches(0);
    /// `R`: the result is a redirect, whatever its form.
    pub const REDIRECT: Switches = Switches(1);
    /// `L`.
    pub const LAST: Switches = Switches(1 << 1);
    /// `N`.
    pub const NEXT_ROUND: Switches = Switches(1 << 2);
    /// `C`.
    pub const CHAIN: Switches = Switches(1 << 3);
    /// `NS`.
    pub const NOT_ON_SUBREQUEST: Switches = Switches(1 << 4);
    /// `P`.
    pub const PROXY: Switches = Switches(1 << 5);
    /// `PT`.
    pub const PASS_THROUGH: Switches = Switches(1 << 6);
    /// `QSA`.
    pub const QUERY_APPEND: Switches = Switches(1 << 7);
    /// `QSD`.
    pub const QUERY_DISCARD: Switches = Switches(1 << 8);
    /// `QSL`, or `QSA` with a substitution that ends in `?`.
    pub const QUERY_LAST: Switches = Switches(1 << 9);
    /// A substitution that ends in `?`: the query is dropped.
    pub const QUERY_NONE: Switches = Switches(1 << 10);
    /// `NC`.
    pub const CASELESS: Switches = Switches(1 << 11);
    /// `NE`.
    pub const NO_ESCAPE: Switches = Switches(1 << 12);
    /// The substitution is `-`, or only a status results.
    pub const KEEP: Switches = Switches(1 << 13);
    /// `F`, `G`, `R=` with a status that is no redirect.
    pub const STATUS: Switches = Switches(1 << 14);
    /// `B`.
    pub const ESCAPE: Switches = Switches(1 << 15);
    /// `DPI`.
    pub const DISCARD_PATH_INFO: Switches = Switches(1 << 16);
    /// `END`.
    pub const END: Switches = Switches(1 << 17);
    /// `UnsafeAllow3F`.
    pub const UNSAFE_ALLOW_3F: Switches = Switches(1 << 18);
    /// `UNC`.
    pub const KEEP_SLASHES: Switches = Switches(1 << 19);

    /// Returns whether all of `other` are on.
    pub fn has(self, other: Switches) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the union of both sets.
    pub fn with(self, other: Switches) -> Switches {
        Switches(self.0 | other.0)
    }
}

impl RewriteRule {
    /// Reads a rule's arguments.
    ///
    /// # Errors
    /// Wrong arguments, with Apache's message.
    pub fn new(
        line: &[u8],
        place: Arc<DirectivePlace>,
        conditions: Vec<Arc<RewriteCondition>>,
    ) -> Result<RewriteRule, Complaint> {
        let words = arguments::split(line).ok_or_else(|| {
            Complaint::new(format!(
                "RewriteRule: bad argument line '{}'",
                String::from_utf8_lossy(line)
            ))
            .hint("it takes a pattern, a substitution and, in brackets, flags")
        })?;
        let mut effects = Effects::default();
        if let Some(field) = words.flags {
            flags::read(field, &mut effects).map_err(|error| {
                let complaint = Complaint::new(format!("RewriteRule: {error}"));
                match error.as_str() {
                    "bad flag delimiters" => {
                        complaint.hint("write all flags in one pair of brackets, without spaces")
                    }
                    _ => complaint,
                }
            })?;
        }
        let (negated, pattern) = match words.first {
            [b'!', rest @ ..] => (true, rest),
            whole => (false, whole),
        };
        let pattern =
            Pattern::new(pattern, effects.switches.has(Switches::CASELESS)).map_err(|bad| {
                Complaint::new(format!(
                    "RewriteRule: cannot compile regular expression '{}'",
                    String::from_utf8_lossy(pattern)
                ))
                .hint(bad.message)
            })?;
        let substitution = substitution(words.second, &mut effects.switches)?;
        Ok(RewriteRule {
            conditions_refer: conditions.iter().any(|condition| condition.refers_to_rule()),
            captures_conditions: conditions.iter().any(|condition| condition.refers_to_condition())
                || std::iter::once(&substitution)
                    .chain(effects.templates())
                    .any(Template::refers_to_condition),
            output_refers: substitution.refers_to_rule()
                || effects.templates().any(Template::refers_to_rule),
            alternatives: alternatives::find(&conditions),
            place,
            text: line.into(),
            sees_slash: false,
            pattern: Arc::new(pattern),
            negated,
            conditions: conditions.into(),
            keeps_slashes: words.second.starts_with(b"//"),
            substitution,
            effects,
        })
    }

    /// Compares the pattern with the whole path if it begins with a slash, as patterns in
    /// `<VirtualHost>` do: `^/a`, `/a`, `^(/a)`. Other patterns see the path without its first
    /// slash, as in a `.htaccess` file.
    pub fn of_server(mut self) -> RewriteRule {
        let text = self.pattern.text();
        let text = text.strip_prefix(b"^").unwrap_or(text);
        let group = text.strip_prefix(b"(").map(|text| text.strip_prefix(b"?:").unwrap_or(text));
        self.sees_slash = group.unwrap_or(text).starts_with(b"/");
        self
    }

    /// Returns whether all of these flags are on.
    pub fn has(&self, switches: Switches) -> bool {
        self.effects.switches.has(switches)
    }
}

impl Effects {
    fn templates(&self) -> impl Iterator<Item = &Template> {
        let others = [&self.media_type, &self.handler];
        self.variables
            .iter()
            .filter_map(Assignment::template)
            .chain(&self.cookies)
            .chain(others.into_iter().flatten())
    }
}

/// Compiles the substitution. `-` leaves the URL unchanged; a `?` at the end drops the query.
fn substitution(text: &[u8], switches: &mut Switches) -> Result<Template, Complaint> {
    let mut text = text;
    if text == b"-" {
        *switches = switches.with(Switches::KEEP);
    }
    if let [rest @ .., b'?'] = text {
        if switches.has(Switches::QUERY_APPEND) {
            *switches = switches.with(Switches::QUERY_LAST);
        } else {
            *switches = switches.with(Switches::QUERY_NONE);
            text = rest;
        }
    } else if switches.has(Switches::QUERY_DISCARD) && !text.contains(&b'?') {
        *switches = switches.with(Switches::QUERY_NONE);
    }
    Template::new(text).map_err(|error| Complaint::about(1, format!("RewriteRule: {error}")))
}
