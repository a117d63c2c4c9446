//! The user of a request: mod_authn_core, mod_authn_file, mod_authz_groupfile, mod_auth_basic and
//! mod_auth_digest.

mod basic;
mod des_crypt;
mod digest;
mod directives;
mod files;
mod md5_crypt;
pub mod password;

use howdah_http::Status;

use crate::evaluation_context::EvaluationContext;
use crate::expression::StringExpression;
use crate::merge::Merge;
use crate::module::{ApacheModule, ModuleConfig, Presence};
use crate::trace::TraceEvent;
use crate::transaction::Denial;
use crate::transaction::Transaction;
use crate::work;

pub use basic::named_user;
pub(crate) use directives::DIRECTIVES;

/// The modules' configuration.
#[derive(Clone, Debug, Default)]
pub struct Config {
    auth_type: Option<StringExpression>,
    name: Option<StringExpression>,
    user_file: Option<Box<[u8]>>,
    group_file: Option<Box<[u8]>>,
    basic: basic::Config,
    /// mod_auth_digest does not merge: a folder that has one of its directives has none of those
    /// above it.
    digest: Option<Box<digest::Config>>,
}

impl Merge for Config {
    fn merge(base: &Config, add: &Config) -> Config {
        Config {
            auth_type: add.auth_type.as_ref().or(base.auth_type.as_ref()).cloned(),
            name: add.name.as_ref().or(base.name.as_ref()).cloned(),
            user_file: add.user_file.as_ref().or(base.user_file.as_ref()).cloned(),
            group_file: add.group_file.as_ref().or(base.group_file.as_ref()).cloned(),
            basic: Merge::merge(&base.basic, &add.basic),
            digest: add.digest.as_ref().or(base.digest.as_ref()).cloned(),
        }
    }
}

impl ModuleConfig for Config {
    fn is_silent(&self) -> bool {
        true
    }
}

/// Apache's modules.
pub(crate) const APACHE_MODULES: &[ApacheModule] = &[
    ApacheModule::new("mod_authn_core.c", "authn_core_module", Some("AuthType"), Presence::Debian),
    ApacheModule::new(
        "mod_authn_file.c",
        "authn_file_module",
        Some("AuthUserFile"),
        Presence::Debian,
    ),
    ApacheModule::new(
        "mod_auth_basic.c",
        "auth_basic_module",
        Some("AuthBasicProvider"),
        Presence::Debian,
    ),
    ApacheModule::new(
        "mod_auth_digest.c",
        "auth_digest_module",
        Some("AuthDigestProvider"),
        Presence::Protects,
    ),
];

/// Returns the groups of a user, by AuthGroupFile.
///
/// # Errors
/// A line for the log where no file is set, or the file cannot be read.
pub(crate) fn groups_of(
    config: Option<&Config>,
    user: &[u8],
    context: &mut dyn EvaluationContext,
) -> Result<Vec<Vec<u8>>, String> {
    match config.and_then(|config| config.group_file.as_deref()) {
        None => Err("no AuthGroupFile is set".to_owned()),
        Some(file) => files::groups_of(user, file, context),
    }
}

/// Returns AuthType; `None` where users do not authenticate, and where the expression fails, which
/// is logged.
pub(crate) fn auth_type(
    tx: &mut Transaction<'_>,
    config: Option<&Config>,
    context: &mut dyn EvaluationContext,
) -> Option<Vec<u8>> {
    let text = config?.auth_type.as_ref()?;
    let auth_type = rendered(text, "AuthType", tx, context)?;
    Some(auth_type).filter(|auth_type| !auth_type.eq_ignore_ascii_case(b"none"))
}

/// Authenticates the request and sets the user.
///
/// # Errors
/// 401 with a challenge, 400, 500; or checking the password takes time.
pub(crate) fn authenticate(
    tx: &mut Transaction<'_>,
    config: Option<&Config>,
    context: &mut dyn EvaluationContext,
) -> Result<(), Denial> {
    let Some((config, auth_type)) = config.zip(auth_type(tx, config, context)) else {
        tx.complain(None, "a user is required and no AuthType is set");
        return Err(Denial::Status(Status::INTERNAL_SERVER_ERROR));
    };
    let is_decided = if auth_type.eq_ignore_ascii_case(b"basic") {
        basic::authenticate(tx, config, &auth_type, context)?
    } else if auth_type.eq_ignore_ascii_case(b"digest") {
        digest::authenticate(tx, config, context)?;
        true
    } else {
        false
    };
    if is_decided {
        return Ok(());
    }
    let what = format!("AuthType {} could not authenticate the user", shown(&auth_type));
    tx.complain(None, what);
    Err(Denial::Status(Status::INTERNAL_SERVER_ERROR))
}

/// Asks for another user: sets WWW-Authenticate. Returns 401, or 500 where the challenge cannot be
/// sent.
pub(crate) fn challenge(
    tx: &mut Transaction<'_>,
    config: Option<&Config>,
    context: &mut dyn EvaluationContext,
) -> Status {
    let Some((config, auth_type)) = config.zip(auth_type(tx, config, context)) else {
        return Status::UNAUTHORIZED;
    };
    let Some(realm) = realm(tx, config, context) else {
        return Status::UNAUTHORIZED;
    };
    if auth_type.eq_ignore_ascii_case(b"basic") {
        basic::challenge(tx, &realm)
    } else if auth_type.eq_ignore_ascii_case(b"digest") {
        digest::challenge_anew(tx, config, &realm, context)
    } else {
        Status::UNAUTHORIZED
    }
}

/// Returns 401 with this challenge; 500 where it contains bytes that no field may contain.
fn ask(tx: &mut Transaction<'_>, challenge: &[u8]) -> Status {
    if challenge.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
        tx.complain(None, "AuthName contains control characters");
        return Status::INTERNAL_SERVER_ERROR;
    }
    tx.state.error_fields.set(b"WWW-Authenticate", challenge);
    Status::UNAUTHORIZED
}

/// Applies `AuthBasicFake`: sets a field for the application. Among the last fixups.
///
/// # Errors
/// 500 where an expression fails.
pub fn fixup(
    tx: &mut Transaction<'_>,
    config: &Config,
    context: &mut dyn EvaluationContext,
) -> Result<(), Status> {
    basic::fake(tx, config, context)
}

/// Returns the realm, escaped for quotes; `None` where there is none, and where the expression
/// fails.
fn realm(
    tx: &mut Transaction<'_>,
    config: &Config,
    context: &mut dyn EvaluationContext,
) -> Option<Vec<u8>> {
    let name = rendered(config.name.as_ref()?, "AuthName", tx, context)?;
    Some(quoted(&name))
}

fn rendered(
    text: &StringExpression,
    directive: &str,
    tx: &mut Transaction<'_>,
    context: &mut dyn EvaluationContext,
) -> Option<Vec<u8>> {
    match text.render(tx, context) {
        Ok(value) => {
            // It is escaped, and made part of a challenge or of a field.
            tx.client.meter().note(work::bytes(8 * value.len()));
            Some(value.into_owned())
        }
        Err(problem) => {
            tx.complain(None, format!("{directive}: {problem}"));
            None
        }
    }
}

/// Returns the text with a backslash before each quote that has none (`ap_escape_quotes`).
fn quoted(text: &[u8]) -> Vec<u8> {
    let mut quoted = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => quoted.extend_from_slice(b"\\\""),
            b'\\' => {
                quoted.push(byte);
                quoted.extend(bytes.next());
            }
            _ => quoted.push(byte),
        }
    }
    quoted
}

/// Returns a realm or user for an event or a line of the log, with control bytes escaped.
fn shown(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

fn note(tx: &mut Transaction<'_>, user: &[u8], outcome: &str) {
    tx.trace(|| TraceEvent {
        step: "authentication",
        place: None,
        text: format!("user {}", shown(user)),
        facts: Vec::new(),
        outcome: outcome.to_owned(),
    });
}

#[cfg(test)]
mod tests;
