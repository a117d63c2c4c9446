//! Apache's `.htaccess`: from bytes to compiled settings, and from settings and a request to what
//! happens.
//!
//! ```text
//! bytes ── language ──> items ── compile (one Directive each) ──> Compiled   Settings, sections, mistakes
//! Settings of the folders on the way ── Settings::merge ──────> Settings    what is in force for a file
//! Transaction + Settings ── modules::*::{phase functions} ────> what happens
//! ```
//!
//! The crate does no I/O and asks no clock. It asks the caller, through [`World`], for what is on
//! disk, for the result of a sub-request and whether a password fits. The order of the phases, the
//! walk down the folders, internal redirects and sub-requests are `howdah-site`'s, which calls the
//! phase functions of the [modules] in Apache's order.

#![forbid(unsafe_code)]

mod client;
pub mod compile;
mod description;
pub mod directive;
mod escape;
mod excerpt;
pub mod expression;
mod fields;
pub mod host;
pub mod language;
pub mod lint;
pub mod manual;
mod media_type;
pub mod merge;
mod method_set;
pub mod mistake;
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
pub mod world;

pub use client::{Answers, Client, Reads, Unrepeatable};
pub use compile::{Compiled, compile};
pub use host::Host;
pub use mistake::{Complaint, Mistake, MistakeKind, Place, Severity};
pub use scope::Surroundings;
pub use settings::Settings;
pub use transaction::{State, Transaction};
pub use world::World;
