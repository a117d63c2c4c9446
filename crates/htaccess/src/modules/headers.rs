//! mod_headers: `Header` and `RequestHeader`.
//!
//! Apache keeps two tables of response fields. `Header` changes that of successful responses,
//! `Header always` the one that is also sent with errors and redirects; both are sent with a
//! successful response. Therefore `Header always unset X` does not remove a field that the script
//! has set, and a field that is set with and without `always` is sent twice.

mod constant;
mod format;
mod key_rules;
mod parse;
mod rule;
mod run;

use std::sync::Arc;

use howdah_http::{ResponseHead, Status};

use crate::directive::{Apply, Arguments, Directive, Overrides, Support};
use crate::evaluation_context::EvaluationContext;
use crate::merge::Merge;
use crate::module::{ApacheModule, ModuleConfig, POINTERS, Presence};
use crate::transaction::Transaction;

use key_rules::{KeyRules, has_lifetime};
use rule::HeaderRule;
use run::HeaderTable;

/// The module's configuration.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// RequestHeader.
    request: Vec<Arc<HeaderRule>>,
    /// Header, and Header onsuccess.
    success: Vec<Arc<HeaderRule>>,
    /// Header always.
    always: Vec<Arc<HeaderRule>>,
}

impl Merge for Config {
    fn merge(base: &Config, add: &Config) -> Config {
        Config {
            request: [&base.request[..], &add.request].concat(),
            success: [&base.success[..], &add.success].concat(),
            always: [&base.always[..], &add.always].concat(),
        }
    }
}

impl ModuleConfig for Config {
    fn is_silent(&self) -> bool {
        false
    }

    fn copied(base: &Config, add: &Config) -> usize {
        let rules = |part: &Config| part.request.len() + part.success.len() + part.always.len();
        (rules(base) + rules(add)) / POINTERS
    }
}

/// Apache's module.
pub(crate) const APACHE_MODULES: &[ApacheModule] =
    &[ApacheModule::new("mod_headers.c", "headers_module", Some("Header"), Presence::Hosts)];

impl Config {
    /// Returns whether [`request_fixup`] has anything to do.
    pub fn changes_requests(&self) -> bool {
        !self.request.is_empty()
    }

    /// Returns whether [`response`] may take long for a head of that extent: there are many rules
    /// or fields, rules with expressions or patterns, values of any length, or long fields to copy.
    pub fn response_may_take_long(&self, head: HeadExtent) -> bool {
        let rules = || self.success.iter().chain(&self.always);
        let (copies, added) = rules()
            .filter_map(|rule| rule.bytes_added())
            .fold((0, 0), |(copies, added), more| (copies + 1, added + more));
        !self.is_short(head.names)
            || head.bytes.saturating_add(added).saturating_mul(copies) > FEW_BYTES
            || rules().any(|rule| rule.may_take_long())
    }

    /// Returns whether there are few rules for responses, also where there are that many names of
    /// fields and variables. Each rule is compared with each name, and may add one.
    fn is_short(&self, names: usize) -> bool {
        let rules = self.success.len() + self.always.len();
        rules.saturating_mul(names + rules) <= FEW_COMPARISONS
    }

    /// Returns whether [`response`] has anything to do.
    pub fn changes_responses(&self) -> bool {
        !self.success.is_empty() || !self.always.is_empty()
    }
}

/// The extent of a head that rules are compared with, and that they may copy from.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeadExtent {
    /// The number of fields and variables.
    pub names: usize,
    /// The bytes of the fields.
    pub bytes: usize,
}

/// The names that rules without expressions and patterns may be compared with on an event loop
/// without counting: some tens of microseconds.
const FEW_COMPARISONS: usize = 20_000;

/// The bytes of fields that rules may copy on an event loop without counting: some tens of
/// microseconds.
const FEW_BYTES: usize = 256 << 10;

/// Applies RequestHeader, as the last of the fixups.
///
/// # Errors
/// 500 where the rules take too much work or a value cannot be sent.
pub fn request_fixup(
    tx: &mut Transaction<'_>,
    config: &Config,
    context: &mut dyn EvaluationContext,
) -> Result<(), Status> {
    run::apply(tx, &config.request, HeaderTable::Request, context, None)
}

/// Applies Header, when the response is about to be sent. `head` holds the fields of a successful
/// response (`r->headers_out`, with Content-Type). The fields of every response are in the
/// transaction's `error_fields` and stay there: [`crate::response`] joins them. `error`: the
/// response is an error or a redirect whose page the server makes, to which only `Header always`
/// applies.
///
/// # Errors
/// 500 where the rules take too much work, and where a field would hold a control byte, as with
/// `\n` in a value: Apache does not send such a response either.
pub fn response(
    tx: &mut Transaction<'_>,
    config: &Config,
    context: &mut dyn EvaluationContext,
    head: &mut ResponseHead,
    error: bool,
) -> Result<(), Status> {
    if !config.changes_responses() {
        return Ok(());
    }
    tx.with_head(head, config.needs_media_type(), |tx| {
        run::apply(tx, &config.always, HeaderTable::Always, context, None)?;
        if error {
            return Ok(());
        }
        let state = &tx.state;
        let has_lifetime = has_lifetime(&state.fields) || has_lifetime(&state.error_fields);
        let keys = KeyRules::new(state.status, has_lifetime);
        run::apply(tx, &config.success, HeaderTable::Success, context, Some(keys))
    })
}

/// The module's directives.
pub(crate) const DIRECTIVES: &[Directive<Apply<Config>>] = &[
    Directive {
        name: "Header",
        module: "mod_headers",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::Raw,
        summary: "Changes a field of the response: set, setifempty, add, append, merge, unset, \
            edit, edit*, echo, note.",
        support: Support::Differs(
            "`early` has no effect below a folder, as in Apache; %l, %i and %b tell Howdah's own \
             load",
        ),
        apply: parse::header,
    },
    Directive {
        name: "RequestHeader",
        module: "mod_headers",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::Raw,
        summary: "Changes a field of the request before a script sees it, with the same actions as \
            Header but echo.",
        support: Support::Full,
        apply: parse::request_header,
    },
];

#[cfg(test)]
mod tests;
