//! Apache's `.htaccess`: from bytes to compiled settings, and from settings and a request to its
//! result.
//!
//! ```text
//! bytes ── language ──> items ── compile, registry ──> Compiled   settings, sections, mistakes
//! DirectiveSettings of the folders on the way ── merge ──> DirectiveSettings   in force for a file
//! Transaction + DirectiveSettings ── modules, phases, response ──> Transaction, or an answer
//! ```
//!
//! The crate does no I/O and asks no clock. It asks the caller, through [`EvaluationContext`], for
//! what is on disk, for the result of a sub-request and whether a password fits. `howdah-site` has
//! the order of the phases, the walk down the folders, internal redirects and sub-requests; it
//! calls the phase functions of the [modules] in Apache's order.
//!
//! The layers, from below; `scripts/check-dependencies` checks that there is no cycle among them:
//!
//! ```text
//! leaves          work, metered_text, language, pattern, mistake, merge, network, fields …
//! the request     client, transaction, evaluation_context, variables, expression
//! a directive     overrides, scope, directive
//! modules::…      one each; a module names no other module
//! the list        modules, and what is generated from it: settings, registry
//! on top          compile, phases, response, lint, manual
//! ```

#![forbid(unsafe_code)]

mod base64;
mod client;
pub mod compile;
mod description;
pub mod directive;
mod escape;
pub mod evaluation_context;
mod excerpt;
pub mod expression;
mod fields;
pub mod host;
pub mod language;
pub mod lint;
pub mod manual;
mod media_type;
pub mod merge;
mod metered_text;
mod method_names;
mod method_set;
pub mod mistake;
pub mod module;
pub mod module_notes;
pub mod modules;
#[cfg(test)]
mod mutation;
mod near;
mod network;
mod number;
mod overrides;
pub mod pattern;
pub mod phases;
pub mod registry;
pub mod response;
pub mod scope;
pub mod settings;
mod status;
mod subrequest;
#[cfg(any(test, fuzzing))]
#[cfg_attr(fuzzing, allow(dead_code))] // Tests need more of it.
mod testing;
pub mod trace;
pub mod transaction;
pub mod transform;
mod variables;
pub mod wildcard;
pub mod work;

pub use client::{ClientRequest, PropertyValues, RequestReads, Unrepeatable};
pub use compile::{Compiled, compile};
pub use evaluation_context::EvaluationContext;
pub use host::DirectiveHost;
pub use mistake::{Complaint, DirectivePlace, Mistake, MistakeKind, Severity};
pub use scope::{CompileContext, KeyPlace};
pub use settings::DirectiveSettings;
pub use transaction::{NoVariableRoom, RequestState, Transaction};
pub use variables::{SERVER_ADMIN, SERVER_SOFTWARE};
pub use work::{Exhausted, Meter, WorkBudget};
