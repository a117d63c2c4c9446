//! Comparison of passwords with hashes, in the forms that `htpasswd` and `crypt(3)` write.

use std::hint::black_box;

use sha1::{Digest, Sha1};

use super::md5_crypt::push;
use super::{des_crypt, md5_crypt};
use crate::base64;

/// Returns whether the comparison takes so long that it should not block an event loop: tens of
/// microseconds to seconds, by the form and the cost of the hash.
pub fn is_slow(hash: &[u8]) -> bool {
    !matches!(HashForm::of(hash), HashForm::Sha1(_) | HashForm::Unknown)
}

/// Returns whether the form of the hash is known. No password fits a hash of an unknown form, such
/// as a plain password.
pub fn is_known(hash: &[u8]) -> bool {
    !matches!(HashForm::of(hash), HashForm::Unknown)
}

/// Returns whether the password fits. The time does not depend on the place of the first
/// difference.
pub fn fits(hash: &[u8], password: &[u8]) -> bool {
    // The password as a C program sees it.
    let end = password.iter().position(|byte| *byte == 0).unwrap_or(password.len());
    let password = &password[..end];
    match HashForm::of(hash) {
        HashForm::Bcrypt(hash) => bcrypt::verify(password, hash).unwrap_or(false),
        HashForm::Sha1(expected) => same(expected, &base64::encode(&Sha1::digest(password))),
        HashForm::Md5 { magic, salt, expected }
            if magic == APR1 || password.len() <= LONGEST_FOR_CRYPT =>
        {
            same(expected, &md5_crypt::hash(magic, salt, password))
        }
        _ if password.len() > LONGEST_FOR_CRYPT => false,
        HashForm::Sha2(sha2) => sha2.fits(password),
        HashForm::Des(hash) => same(hash, &des_crypt::hash([hash[0], hash[1]], password)),
        HashForm::Md5 { .. } | HashForm::Unknown => false,
    }
}

/// Returns whether both are equal; every byte is compared.
pub(super) fn same(expected: &[u8], found: &[u8]) -> bool {
    let differences = expected.iter().zip(found).fold(0, |all, (a, b)| all | (a ^ b));
    expected.len() == found.len() && black_box(differences) == 0
}

enum HashForm<'h> {
    Bcrypt(&'h str),
    Sha1(&'h [u8]),
    Md5 {
        magic: &'static [u8],
        salt: &'h [u8],
        expected: &'h [u8],
    },
    Sha2(Sha2<'h>),
    Des(&'h [u8]),
    Unknown,
}

/// `$5$` or `$6$`.
struct Sha2<'h> {
    is_512: bool,
    params: sha_crypt::Params,
    salt: &'h [u8],
    expected: &'h [u8],
}

impl<'h> HashForm<'h> {
    fn of(hash: &'h [u8]) -> HashForm<'h> {
        let known = HashForm::bcrypt(hash)
            .or_else(|| hash.strip_prefix(b"{SHA}").map(HashForm::Sha1))
            .or_else(|| HashForm::md5(APR1, hash))
            .or_else(|| HashForm::md5(b"$1$", hash))
            .or_else(|| Sha2::of(hash).map(HashForm::Sha2));
        known.unwrap_or(match hash {
            [..] if hash.len() == 13
                && hash.iter().all(|byte| md5_crypt::DIGITS.contains(byte)) =>
            {
                HashForm::Des(hash)
            }
            _ => HashForm::Unknown,
        })
    }

    fn bcrypt(hash: &[u8]) -> Option<HashForm<'_>> {
        let is_one = [&b"$2a$"[..], b"$2b$", b"$2y$"].iter().any(|id| hash.starts_with(id));
        let cost = std::str::from_utf8(hash.get(4..6)?).ok()?.parse::<u8>().ok()?;
        let is_bearable = cost <= HIGHEST_BCRYPT_COST;
        (is_one && is_bearable).then_some(HashForm::Bcrypt(std::str::from_utf8(hash).ok()?))
    }

    fn md5(magic: &'static [u8], hash: &'h [u8]) -> Option<HashForm<'h>> {
        let (salt, expected) = salt_and_rest(hash.strip_prefix(magic)?)?;
        (salt.len() <= 8).then_some(HashForm::Md5 { magic, salt, expected })
    }
}

impl<'h> Sha2<'h> {
    fn of(hash: &'h [u8]) -> Option<Sha2<'h>> {
        let (is_512, rest) = match (hash.strip_prefix(b"$5$"), hash.strip_prefix(b"$6$")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return None,
        };
        let (rounds, rest) = match rest.strip_prefix(b"rounds=") {
            None => (sha_crypt::Params::RECOMMENDED_ROUNDS, rest),
            Some(rest) => {
                let (rounds, rest) = salt_and_rest(rest)?;
                (std::str::from_utf8(rounds).ok()?.parse().ok()?, rest)
            }
        };
        let (salt, expected) = salt_and_rest(rest)?;
        let params =
            sha_crypt::Params::new(rounds).ok().filter(|_| rounds <= HIGHEST_SHA2_ROUNDS)?;
        (salt.len() <= 16).then_some(Sha2 { is_512, params, salt, expected })
    }

    fn fits(&self, password: &[u8]) -> bool {
        let mut found = Vec::with_capacity(86);
        if self.is_512 {
            let digest = sha_crypt::sha512_crypt(password, self.salt, self.params);
            // Each group takes one byte of each third, beginning one third further each time.
            for index in 0..21 {
                let thirds = [digest[index], digest[index + 21], digest[index + 42]];
                let first = index % 3;
                push(
                    &mut found,
                    [thirds[first], thirds[(first + 1) % 3], thirds[(first + 2) % 3]],
                    4,
                );
            }
            push(&mut found, [0, 0, digest[63]], 2);
        } else {
            let digest = sha_crypt::sha256_crypt(password, self.salt, self.params);
            for index in 0..10 {
                let thirds = [digest[index], digest[index + 10], digest[index + 20]];
                let first = (3 - index % 3) % 3;
                push(
                    &mut found,
                    [thirds[first], thirds[(first + 1) % 3], thirds[(first + 2) % 3]],
                    4,
                );
            }
            push(&mut found, [0, digest[31], digest[30]], 3);
        }
        same(self.expected, &found)
    }
}

fn salt_and_rest(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(b'$', text)?;
    Some((&text[..end], &text[end + 1..]))
}

/// Apache's own form, unknown to `crypt(3)`.
const APR1: &[u8] = b"$apr1$";

/// The longest password that `crypt(3)` takes (CRYPT_MAX_PASSPHRASE_SIZE). A longer one fits no
/// hash of that function.
const LONGEST_FOR_CRYPT: usize = 511;

/// About three seconds of a processor. A hash that asks for more fits no password.
const HIGHEST_BCRYPT_COST: u8 = 16;

/// About three seconds of a processor. A hash that asks for more fits no password.
const HIGHEST_SHA2_ROUNDS: u32 = 5_000_000;

#[cfg(test)]
mod tests;
