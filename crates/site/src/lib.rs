//! Resolves requests: which site answers, and which file or script below its document root, or
//! which status.
//!
//! ```text
//! Host ── Sites::find ──> Site            names: exact, longest wildcard, default
//! path ── resolve ──────> Resolution      decode once, normalise, map below the root, ask the SiteHost
//!            └─ phases ──> and RuledRequest where the SiteHost says that directives apply: in Apache's order
//! Script ── server_variables ──> $_SERVER
//! ```
//!
//! The crate does no I/O. It sees the file system through [`SiteHost`] only, which the caller
//! implements, so every rule is a table test. [`DocumentPath`] is the only type that names a file
//! below a root, and only this crate makes one: the path is decoded and holds no NUL, no `.` and no
//! `..`. The code that opens a file decides which symbolic links are followed.

#![forbid(unsafe_code)]

mod compile_context;
mod configured_rules;
mod documents;
mod error;
mod host;
mod lanes;
mod line_index;
mod names;
mod normal;
mod path;
mod phases;
#[cfg(any(test, fuzzing))]
pub mod properties;
mod redirect;
mod resolution;
mod resolution_cache;
mod resolve;
mod ruled_request;
mod rules;
mod sendfile;
mod sites;
mod variables;

pub use documents::{DocumentLook, FileHandle, PathKind, SiteHost};
pub use error::error;
pub use howdah_config::{ContentCoding, EncodedSlashes, Symlinks};
pub use howdah_htaccess::{ClientRequest, DirectiveHost};
pub use path::{DocumentPath, Scratch};
pub use phases::{ListingPage, list, listing_type, respond};
pub use resolution::{DetachedResolution, Resolution, Resolved, Script};
pub use resolution_cache::{CachedResolution, ResolutionCache};
pub use resolve::{explain, logged_path, requested_file, resolve, resolve_cached};
pub use ruled_request::RuledRequest;
pub use rules::{MergedCopies, Rules};
pub use sendfile::{SendfileError, SendfileField};
pub use sites::{Site, Sites};
pub use variables::{
    EnvironmentNames, ScriptEnvironment, common_variables, own_variables, server_variables,
};
