//! The hash of `$1$` and of Apache's `$apr1$`: a thousand rounds of MD5.

use md5::{Digest, Md5};

/// Returns the hash of a password, in the form that follows the salt. `magic` is `$1$` or `$apr1$`.
pub(super) fn hash(magic: &[u8], salt: &[u8], password: &[u8]) -> Vec<u8> {
    let salt = &salt[..salt.len().min(8)];
    let inner = md5(&[password, salt, password]);
    let mut outer = Md5::new();
    outer.update(password);
    outer.update(magic);
    outer.update(salt);
    for chunk in password.chunks(16) {
        outer.update(&inner[..chunk.len()]);
    }
    let mut bits = password.len();
    while bits > 0 {
        // The algorithm uses a zero byte for each bit that is set, and otherwise the password's
        // first byte.
        outer.update(if bits & 1 == 1 { &[0][..] } else { &password[..1] });
        bits >>= 1;
    }
    let mut digest: [u8; 16] = outer.finalize().into();
    for round in 0..1000 {
        let (first, last) = if round % 2 == 1 {
            (password, &digest[..])
        } else {
            (&digest[..], password)
        };
        let salt = if round % 3 == 0 { &b""[..] } else { salt };
        let again = if round % 7 == 0 { &b""[..] } else { password };
        digest = md5(&[first, salt, again, last]);
    }
    encoded(&digest)
}

fn md5(parts: &[&[u8]]) -> [u8; 16] {
    let mut hasher = Md5::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}

fn encoded(digest: &[u8; 16]) -> Vec<u8> {
    let mut text = Vec::with_capacity(22);
    for start in 0..5 {
        let last = if start == 4 { 5 } else { start + 12 };
        let bytes = [digest[start], digest[start + 6], digest[last]];
        push(&mut text, bytes, 4);
    }
    push(&mut text, [0, 0, digest[11]], 2);
    text
}

/// Appends the digits of three bytes, the least significant first.
pub(super) fn push(text: &mut Vec<u8>, bytes: [u8; 3], digits: u32) {
    let bits = bytes.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
    text.extend((0..digits).map(|digit| DIGITS[(bits >> (6 * digit)) as usize & 63]));
}

/// The digits of `crypt(3)`.
pub(super) const DIGITS: &[u8; 64] =
    b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
