//! mod_auth_basic: name and password in every request (RFC 7617).

use howdah_http::Status;
use md5::{Digest, Md5};

use super::files::{self, hash_of, hashes, realm_hash_of};
use super::{ask, note, password, realm, rendered, shown};
use crate::base64;
use crate::evaluation_context::EvaluationContext;
use crate::expression::StringExpression;
use crate::host::PasswordVerdict;
use crate::merge::Merge;
use crate::transaction::Denial;
use crate::transaction::Transaction;

/// The module's configuration.
#[derive(Clone, Debug, Default)]
pub(super) struct Config {
    pub authoritative: Option<bool>,
    /// AuthBasicFake: user and password; `off` is no pair.
    pub fake: Option<Option<Box<(StringExpression, StringExpression)>>>,
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
///
/// # Errors
/// 401 for a missing or a wrong password, 500 where the configuration is incomplete, or
/// [`Denial::Later`] while a password is compared.
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
        Ok(FoundUser::Hash(hash)) => {
            verified(tx, config, &hash, (&user, &realm, &password), context)?
        }
        // The comparison takes as long as for a user who is there.
        Ok(FoundUser::Nobody { like: Some(hash) }) => {
            match context.host().verify(tx.client.depends_on_everything(), &hash, &password) {
                PasswordVerdict::Yes | PasswordVerdict::No => Err("not found"),
                PasswordVerdict::Later => {
                    context.await_password(&hash, &password);
                    return Err(Denial::Later);
                }
            }
        }
        Ok(FoundUser::Nobody { like: None }) => Err("not found"),
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

/// Looks for the user in the file of users.
fn found(
    config: &super::Config,
    user: &[u8],
    realm: &[u8],
    context: &mut dyn EvaluationContext,
) -> Result<FoundUser, String> {
    let path = config.user_file.as_deref().ok_or("no AuthUserFile is set")?;
    let file = files::read(path, "AuthUserFile", context)?;
    let (hash, like) = match config.basic.uses_digest {
        Some(true) => (realm_hash_of(user, realm, &file), None),
        _ => match hash_of(user, &file) {
            Some(hash) => (Some(hash.into_owned()), None),
            None => (None, hash_like_others(user, &file)),
        },
    };
    Ok(hash.map_or(FoundUser::Nobody { like }, FoundUser::Hash))
}

/// The result of looking for a user.
enum FoundUser {
    Hash(Vec<u8>),
    /// The file has no such user. `like` is a hash that no password fits, and that takes as long to
    /// compare with as that of a user in the file; `None` where that takes no time.
    Nobody {
        like: Option<Vec<u8>>,
    },
}

/// Returns a hash for a user whom the file does not have: that of another user, changed. The name
/// decides which one, so that a name keeps its time.
fn hash_like_others(user: &[u8], file: &[u8]) -> Option<Vec<u8>> {
    let slow: Vec<Vec<u8>> =
        hashes(file).take(MOST_LIKE).filter(|hash| password::is_slow(hash)).collect();
    let sum = user
        .iter()
        .fold(0, |sum: usize, byte| sum.wrapping_mul(31) + usize::from(*byte));
    let mut hash = slow.get(sum.checked_rem(slow.len())?)?.clone();
    // A letter in the middle of the digest stays a letter of every alphabet.
    let place = hash.len().checked_sub(10)?;
    hash[place] = if hash[place] == b'a' { b'b' } else { b'a' };
    Some(hash)
}

/// The users whose hashes are looked at for one whom the file does not have. The hashes of further
/// users are not chosen.
const MOST_LIKE: usize = 100;

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
            PasswordVerdict::Yes => true,
            PasswordVerdict::No => false,
            PasswordVerdict::Later => {
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
    let mut pair = pair(rest);
    let end = memchr::memchr(b':', &pair).unwrap_or(pair.len());
    let password = pair.get(end + 1..).unwrap_or_default().to_vec();
    pair.truncate(end);
    Some((pair, password))
}

/// Decodes `name:password` behind the scheme.
fn pair(rest: &[u8]) -> Vec<u8> {
    let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let mut pair = base64::decode(&rest[blanks..]);
    // Apache keeps the text in a C string.
    if let Some(end) = memchr::memchr(0, &pair) {
        pair.truncate(end);
    }
    pair
}

/// Returns the user that an Authorization field names for PHP, which nothing has checked. `None`
/// where it is not for Basic, or has no password.
pub fn named_user(field: &[u8]) -> Option<Vec<u8>> {
    let (scheme, rest) = field.split_at_checked("Basic ".len())?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let mut pair = pair(rest);
    pair.truncate(memchr::memchr(b':', &pair)?);
    Some(pair)
}

pub(super) fn challenge(tx: &mut Transaction<'_>, realm: &[u8]) -> Status {
    let value = [&b"Basic realm=\""[..], realm, b"\""].concat();
    ask(tx, &value)
}

/// Sets the Authorization field of AuthBasicFake.
///
/// # Errors
/// 500, where an expression cannot be evaluated.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// `htpasswd -nbm ann secret` and `htpasswd -nbB -C 10 bob secret`; `{SHA}` takes no time.
    const USERS: &[u8] = b"quick:{SHA}W8r/fyL/UzygmbNAjq2HbA67qac=\n\
        ann:$apr1$dHjB0/..$mkTTbqwpK/0h/rz4ZeN8M0\n\
        bob:$2y$10$qYH7NNZAIiAwzQe6lAymRu5AGkNb/oudWkF4xxes8oA8OaxKi35BG\n";

    #[test]
    fn an_unknown_user_is_compared_like_a_known_one() {
        let known: Vec<Vec<u8>> = hashes(USERS).collect();
        let mut seen = [false; 2];
        for name in ["", "a", "b", "c", "nobody", "root", "admin"] {
            let like = hash_like_others(name.as_bytes(), USERS).unwrap();
            assert!(password::is_slow(&like) && !known.contains(&like), "{name}");
            let near = known.iter().position(|hash| {
                hash.len() == like.len()
                    && hash.iter().zip(&like).filter(|(one, other)| one != other).count() == 1
            });
            seen[near.unwrap() - 1] = true;
            assert_eq!(hash_like_others(name.as_bytes(), USERS), Some(like), "the same each time");
        }
        assert_eq!(seen, [true, true], "each form is used");
        assert_eq!(hash_like_others(b"nobody", b"quick:{SHA}W8r/fyL/UzygmbNAjq2HbA67qac=\n"), None);
        assert_eq!(hash_like_others(b"nobody", b""), None);
    }
}
