//! Comparison of a digest's `uri` with the request's target.

use memchr::{memchr, memmem};

use crate::transaction::Transaction;

/// Returns whether the `uri` of a digest is the request's target, which proxies may have written
/// differently.
pub(super) fn fits(uri: &[u8], tx: &Transaction<'_>) -> bool {
    let target = &tx.client.request().target;
    if uri == target {
        return true;
    }
    let (authority, rest) = match memmem::find(uri, b"://") {
        Some(at) if uri.first() != Some(&b'/') => {
            let after = &uri[at + 3..];
            after.split_at(memchr(b'/', after).unwrap_or(after.len()))
        }
        _ => (&b""[..], uri),
    };
    if !authority.is_empty() && !authority.eq_ignore_ascii_case(tx.client.authority()) {
        return false;
    }
    let (path, query) = split(rest);
    let (own_path, own_query) = split(target);
    // Old browsers leave the query out, and sites know them by this variable.
    let may_lack_query =
        query.is_none() && tx.state.env.contains(b"AuthDigestEnableQueryStringHack");
    decoded(path) == decoded(own_path)
        && (may_lack_query || query.map(decoded) == own_query.map(decoded))
}

fn split(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr(b'?', target) {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    }
}

fn decoded(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        let digit = |index: usize| after.get(index).and_then(|byte| char::from(*byte).to_digit(16));
        match (byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                plain.push((high << 4 | low) as u8);
                rest = &after[2..];
            }
            _ => plain.push(*byte),
        }
    }
    plain
}
