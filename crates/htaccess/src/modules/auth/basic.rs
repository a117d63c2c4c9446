//! mod_auth_basic: name and password in every request (RFC 7617).

use howdah_http::Status;
use md5::{Digest, Md5};

use super::files::{self, hash_of, realm_hash_of};
use super::{ask, base64, note, password, realm, rendered, shown};
use crate::evaluation_context::EvaluationContext;
use crate::expression::Text;
use crate::host::Verified;
use crate::merge::Merge;
use crate::transaction::Denial;
use crate::transaction::Transaction;

/// The module's configuration.
#[derive(Clone, Debug, Default)]
pub(super) struct Config {
    pub authoritative: Option<bool>,
    /// AuthBasicFake: user and password; `off` is no pair.
    pub fake: Option<Option<Box<(Text, Text)>>>,
    /// AuthBasicUseDigestAlgorithm MD5.
    pub uses_digest: Option<bool>,
}

impl Merge for Config {
    fn merge(base: &Config, add: &Config) -> Config {
        Config {
            authoritative: add.authoritative.or(base.authoritative),
            fake: add.fake.as_ref().or(base.fake.as_ref()).cloned(),
            uses_digest: add.uses_digest.or(base.uses_digest),
        }
    }
}

/// Checks the user's password. Returns `false` where the user is unknown and AuthBasicAuthoritative
/// is Off.
pub(super) fn authenticate(
    tx: &mut Transaction<'_>,
    config: &super::Config,
    auth_type: &[u8],
    context: &mut dyn EvaluationContext,
) -> Result<bool, Denial> {
    let Some(realm) = realm(tx, config, context) else {
        tx.complain(None, "AuthType Basic needs an AuthName");
        return Err(Denial::Status(Status::INTERNAL_SERVER_ERROR));
    };
    // AUTH_TYPE has the site's spelling.
    tx.state.auth_type = Some(match auth_type {
        b"basic" => "basic",
        b"BASIC" => "BASIC",
        _ => "Basic",
    });
    let Some((user, password)) = credentials(tx) else {
        return Err(Denial::Status(challenge(tx, &realm)));
    };
    tx.state.user = Some(user.clone());
    let outcome = match found(config, &user, &realm, context) {
        Ok(Some(hash)) => verified(tx, config, &hash, (&user, &realm, &password), context)?,
        Ok(None) => Err("not found"),
        Err(problem) => {
            tx.complain(None, problem);
            if config.basic.authoritative == Some(false) {
                return Ok(false);
            }
            return Err(Denial::Status(Status::INTERNAL_SERVER_ERROR));
        }
    };
    note(tx, &user, outcome.err().unwrap_or("authenticated"));
    match outcome {
        Ok(()) => Ok(true),
        Err("not found") if config.basic.authoritative == Some(false) => Ok(false),
        Err(what) => {
            let uri = shown(&tx.state.uri);
            tx.complain(None, format!("user {}: {what}: {uri}", shown(&user)));
            Err(Denial::Status(challenge(tx, &realm)))
        }
    }
}

/// Returns the hash that the user's file has.
fn found(
    config: &super::Config,
    user: &[u8],
    realm: &[u8],
    context: &mut dyn EvaluationContext,
) -> Result<Option<Vec<u8>>, String> {
    let path = config.user_file.as_deref().ok_or("no AuthUserFile is set")?;
    let file = files::read(path, "AuthUserFile", context)?;
    Ok(match config.basic.uses_digest {
        Some(true) => realm_hash_of(user, realm, &file),
        _ => hash_of(user, &file).map(|hash| hash.into_owned()),
    })
}

fn verified(
    tx: &mut Transaction<'_>,
    config: &super::Config,
    hash: &[u8],
    (user, realm, password): (&[u8], &[u8], &[u8]),
    context: &mut dyn EvaluationContext,
) -> Result<Result<(), &'static str>, Denial> {
    let fits = if config.basic.uses_digest == Some(true) {
        let digest = hexadecimal(&Md5::digest([user, b":", realm, b":", password].concat()));
        password::same(hash, &digest)
    } else {
        if !password::is_known(hash) {
            let user = shown(user);
            tx.complain(
                None,
                format!("the hash of user {user} is in a form that is not supported"),
            );
        }
        match context.host().verify(tx.client.depends_on_everything(), hash, password) {
            Verified::Yes => true,
            Verified::No => false,
            Verified::Later => {
                context.await_password(hash, password);
                return Err(Denial::Later);
            }
        }
    };
    Ok(if fits { Ok(()) } else { Err("password mismatch") })
}

/// Returns user and password, as far as they were sent.
fn credentials(tx: &mut Transaction<'_>) -> Option<(Vec<u8>, Vec<u8>)> {
    let field = tx.request_field(b"Authorization")?;
    let end = memchr::memchr(b' ', field).unwrap_or(field.len());
    let (scheme, rest) = field.split_at(end);
    if !scheme.eq_ignore_ascii_case(b"basic") {
        let what = format!("{} was sent and Basic is asked for", shown(scheme));
        tx.complain(None, what);
        return None;
    }
    let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let mut pair = base64::decode(&rest[blanks..]);
    // Apache keeps the text in a C string.
    if let Some(end) = memchr::memchr(0, &pair) {
        pair.truncate(end);
    }
    let end = memchr::memchr(b':', &pair).unwrap_or(pair.len());
    let password = pair.get(end + 1..).unwrap_or_default().to_vec();
    pair.truncate(end);
    Some((pair, password))
}

pub(super) fn challenge(tx: &mut Transaction<'_>, realm: &[u8]) -> Status {
    let value = [&b"Basic realm=\""[..], realm, b"\""].concat();
    ask(tx, &value)
}

/// Sets the Authorization field of AuthBasicFake.
pub(super) fn fake(
    tx: &mut Transaction<'_>,
    config: &super::Config,
    context: &mut dyn EvaluationContext,
) -> Result<(), Status> {
    let Some(Some(pair)) = &config.basic.fake else {
        return Ok(());
    };
    let (user, password) = &**pair;
    let mut parts = Vec::with_capacity(2);
    for text in [user, password] {
        let Some(part) = rendered(text, "AuthBasicFake", tx, context) else {
            return Err(Status::INTERNAL_SERVER_ERROR);
        };
        if part.is_empty() {
            tx.edit_request_fields().remove(b"Authorization");
            return Ok(());
        }
        parts.push(part);
    }
    let encoded = base64::encode(&parts.join(&b':'));
    let value = [&b"Basic "[..], &encoded].concat();
    tx.edit_request_fields().set(b"Authorization", &value);
    Ok(())
}

pub(super) fn hexadecimal(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| DIGITS[usize::from(digit)]).collect()
}
