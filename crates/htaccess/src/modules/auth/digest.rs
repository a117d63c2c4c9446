//! mod_auth_digest: a digest of name, realm and password, bound to request and time (RFC 7616 with
//! MD5 and qop auth).
//!
//! A nonce is the time and a digest of the time with a secret, so that the server keeps no state.
//! Apache keeps some for AuthDigestNcCheck and one-time nonces, which are refused here.

use howdah_http::Status;
use md5::Md5;
use sha1::{Digest, Sha1};

use super::basic::hexadecimal;
use super::files::{self, realm_hash_of};
use super::password::same;
use super::{ask, note, quoted, realm, shown};
use crate::base64;
use crate::evaluation_context::EvaluationContext;
use crate::transaction::Denial;
use crate::transaction::Transaction;

mod header;
mod target;

use header::{DigestResponse, SentCredentials};

/// The module's configuration.
#[derive(Clone, Debug, Default)]
pub(super) struct Config {
    /// AuthDigestNonceLifetime in seconds; negative is for ever.
    pub lifetime: Option<i64>,
    /// AuthDigestDomain: URLs, separated by spaces.
    pub domain: Option<Vec<u8>>,
}

/// Checks the digest. Sets the user, and Authentication-Info for the response.
///
/// # Errors
/// 401 with a new nonce, another status for a malformed field, or 500 where the configuration is
/// incomplete.
pub(super) fn authenticate(
    tx: &mut Transaction<'_>,
    config: &super::Config,
    context: &mut dyn EvaluationContext,
) -> Result<(), Denial> {
    let (Some(realm), Some(secret)) = (
        realm(tx, config, context),
        context.host().nonce_secret(tx.client.depends_on_everything()),
    ) else {
        tx.complain(None, "AuthType Digest needs an AuthName, and a server that makes nonces");
        return Err(Denial::Status(Status::INTERNAL_SERVER_ERROR));
    };
    let mut check = DigestCheck { config, realm, secret, context };
    let sent = DigestResponse::of(tx.client.request());
    match check.run(tx, sent) {
        Ok(()) => Ok(()),
        Err(DigestError::Status(status)) => Err(Denial::Status(status)),
        Err(DigestError::Again { what, is_stale }) => {
            if let Some(what) = what {
                let line = format!("Digest: {what}: {}", shown(&tx.state.uri));
                tx.complain(None, line);
            }
            Err(Denial::Status(check.challenge(tx, is_stale)))
        }
    }
}

/// Returns a challenge for a user who has authenticated and is not allowed.
pub(super) fn challenge_anew(
    tx: &mut Transaction<'_>,
    config: &super::Config,
    realm: &[u8],
    context: &mut dyn EvaluationContext,
) -> Status {
    let Some(secret) = context.host().nonce_secret(tx.client.depends_on_everything()) else {
        return Status::UNAUTHORIZED;
    };
    let check = DigestCheck {
        config,
        realm: realm.to_vec(),
        secret,
        context,
    };
    check.challenge(tx, false)
}

struct DigestCheck<'c> {
    config: &'c super::Config,
    /// The realm, with its quotes escaped.
    realm: Vec<u8>,
    secret: [u8; 32],
    context: &'c mut dyn EvaluationContext,
}

enum DigestError {
    Status(Status),
    /// Sets a challenge, and returns 401.
    Again {
        what: Option<String>,
        is_stale: bool,
    },
}

fn again(what: impl Into<String>) -> DigestError {
    DigestError::Again { what: Some(what.into()), is_stale: false }
}

impl DigestCheck<'_> {
    fn run(&mut self, tx: &mut Transaction<'_>, sent: SentCredentials) -> Result<(), DigestError> {
        let response = match sent {
            SentCredentials::Valid(response) => response,
            SentCredentials::Nothing => {
                return Err(DigestError::Again { what: None, is_stale: false });
            }
            SentCredentials::OtherScheme => return Err(again("another scheme was sent")),
            SentCredentials::Invalid => return Err(again("a parameter is missing")),
        };
        tx.state.user = Some(response.username.clone());
        tx.state.auth_type = Some("Digest");
        if !target::fits(&response.uri, tx) {
            let uri = shown(&response.uri);
            tx.complain(
                None,
                format!("Digest: the credentials are for {uri} and not for the requested URL"),
            );
            return Err(DigestError::Status(Status::BAD_REQUEST));
        }
        let secret_of_user = self.known(tx, &response)?;
        let outcome = self.digest_fits(tx, &response, &secret_of_user);
        note(tx, &response.username, if outcome.is_ok() { "authenticated" } else { "refused" });
        let made = outcome.and_then(|()| self.nonce_time(tx, &response))?;
        self.inform(tx, &response, &secret_of_user, made);
        Ok(())
    }

    /// Returns the digest of name, realm and password that the file has.
    fn known(
        &mut self,
        tx: &mut Transaction<'_>,
        response: &DigestResponse,
    ) -> Result<Vec<u8>, DigestError> {
        if response.opaque.as_ref().is_some_and(|opaque| !header::is_opaque(opaque)) {
            return Err(again("opaque is not what was sent"));
        }
        if self.own_realm() != response.realm {
            return Err(again(format!("it is for realm {}", shown(&response.realm))));
        }
        if response
            .algorithm
            .as_ref()
            .is_some_and(|name| !name.eq_ignore_ascii_case(b"MD5"))
        {
            return Err(again("it is with another algorithm than MD5"));
        }
        let user = &response.username;
        let found = match self.config.user_file.as_deref() {
            None => Err("no AuthUserFile is set".to_owned()),
            Some(path) => files::read(path, "AuthUserFile", self.context),
        };
        match found {
            Ok(file) => realm_hash_of(user, &response.realm, &file)
                .ok_or_else(|| again(format!("user {} is not found", shown(user)))),
            Err(problem) => {
                tx.complain(None, problem);
                Err(DigestError::Status(Status::INTERNAL_SERVER_ERROR))
            }
        }
    }

    fn digest_fits(
        &self,
        tx: &Transaction<'_>,
        response: &DigestResponse,
        secret: &[u8],
    ) -> Result<(), DigestError> {
        let method = tx.client.method().as_str().as_bytes();
        let request = md5(&[method, &response.uri]);
        if !response.qop.eq_ignore_ascii_case(b"auth") {
            return Err(again("it is not with qop auth"));
        }
        let expected = self.digest(response, secret, &request);
        if same(&expected, &response.response) {
            return Ok(());
        }
        Err(again(format!("user {}: password mismatch", shown(&response.username))))
    }

    /// Checks the nonce, and returns its time in microseconds. This is the last check, so that
    /// `stale` means that the password is right.
    fn nonce_time(
        &self,
        tx: &Transaction<'_>,
        response: &DigestResponse,
    ) -> Result<u64, DigestError> {
        let stale = |what: &str| DigestError::Again {
            what: Some(what.to_owned()),
            is_stale: true,
        };
        let (time, digest) = response
            .nonce
            .split_at_checked(NONCE_TIME_LENGTH)
            .ok_or_else(|| stale("the nonce is too short"))?;
        if !same(digest, &self.nonce_digest(time, response.opaque.as_deref())) {
            return Err(stale("the nonce is not from here"));
        }
        let made = base64::decode(time).try_into().map(u64::from_be_bytes);
        let made = made.map_err(|_| stale("the nonce has no time"))?;
        let Some(lifetime) = self.lifetime() else {
            return Ok(made);
        };
        match tx.client.time().checked_sub(made) {
            None => Err(stale("the nonce is from the future")),
            Some(age) if age > lifetime => Err(stale("the nonce is too old")),
            Some(_) => Ok(made),
        }
    }

    /// Returns the lifetime in microseconds; `None` is for ever.
    fn lifetime(&self) -> Option<u64> {
        let seconds = self.own().and_then(|own| own.lifetime).unwrap_or(DEFAULT_LIFETIME);
        u64::try_from(seconds).ok().map(|seconds| seconds.saturating_mul(1_000_000))
    }

    fn nonce(&self, time: u64) -> Vec<u8> {
        let mut nonce = base64::encode(&time.to_be_bytes());
        let digest = self.nonce_digest(&nonce, None);
        nonce.extend(digest);
        nonce
    }

    /// The secret is at both ends, so that the signed text cannot be extended. No nonce is made
    /// with an `opaque`, so that a client which sends one back has it from another server.
    fn nonce_digest(&self, time: &[u8], opaque: Option<&[u8]>) -> Vec<u8> {
        let mut hasher = Sha1::new();
        hasher.update(self.secret);
        for part in [self.own_realm(), time, opaque.unwrap_or_default()] {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        hasher.update(self.secret);
        hexadecimal(&hasher.finalize())
    }

    fn challenge(&self, tx: &mut Transaction<'_>, is_stale: bool) -> Status {
        let nonce = self.nonce(tx.client.time());
        let mut value =
            [&b"Digest realm=\""[..], &self.realm, b"\", nonce=\"", &nonce, b"\", algorithm=MD5"]
                .concat();
        if let Some(domain) = self.own().and_then(|own| own.domain.as_ref()) {
            value.extend([&b", domain=\""[..], domain, b"\""].concat());
        }
        if is_stale {
            value.extend_from_slice(b", stale=true");
        }
        value.extend_from_slice(b", qop=\"auth\"");
        ask(tx, &value)
    }

    /// Sets Authentication-Info: a proof that the server knows the password as well, and the next
    /// nonce where this one is about to expire.
    fn inform(
        &self,
        tx: &mut Transaction<'_>,
        response: &DigestResponse,
        secret: &[u8],
        made: u64,
    ) {
        let proof = self.digest(response, secret, &md5(&[b"", &response.uri]));
        let mut value = [&b"rspauth=\""[..], &proof, b"\""].concat();
        let age = tx.client.time().saturating_sub(made);
        if self
            .lifetime()
            .is_some_and(|lifetime| age > lifetime.saturating_sub(NEXT_NONCE_BEFORE))
        {
            value.extend([&b", nextnonce=\""[..], &self.nonce(tx.client.time()), b"\""].concat());
        }
        let (cnonce, nc, qop) = (quoted(&response.cnonce), &response.nc, &response.qop);
        value.extend([b", cnonce=\"", &cnonce[..], b"\", nc=", nc, b", qop=", qop].concat());
        tx.state.fields.set(b"Authentication-Info", &value);
    }

    /// Returns the digest of the user's secret, the nonce and the request's digest.
    fn digest(&self, response: &DigestResponse, secret: &[u8], of: &[u8]) -> Vec<u8> {
        md5(&[secret, &response.nonce, &response.nc, &response.cnonce, &response.qop, of])
    }

    fn own(&self) -> Option<&Config> {
        self.config.digest.as_deref()
    }

    /// AuthName as it was written.
    fn own_realm(&self) -> &[u8] {
        self.config.name.as_ref().map_or(b"", |name| name.source())
    }
}

/// Returns the digest of the parts with colons between them, in hexadecimal digits.
fn md5(parts: &[&[u8]]) -> Vec<u8> {
    hexadecimal(&Md5::digest(parts.join(&b':')))
}

/// Base64 of eight bytes.
const NONCE_TIME_LENGTH: usize = 12;

/// The time and a SHA-1 in hexadecimal digits.
const NONCE_LENGTH: usize = NONCE_TIME_LENGTH + 2 * 20;

/// AuthDigestNonceLifetime where it is not set, in seconds.
const DEFAULT_LIFETIME: i64 = 300;

/// In microseconds.
const NEXT_NONCE_BEFORE: u64 = 30_000_000;
