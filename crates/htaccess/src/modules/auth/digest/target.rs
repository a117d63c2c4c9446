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

#[cfg(test)]
mod tests {
    use crate::testing::{request, transaction};

    #[test]
    fn a_digest_is_for_one_target() {
        let fits = |uri: &str, target: &str, variable: &str| {
            let mut asked = request(target, "");
            asked.authority = b"example.org".to_vec();
            let mut tx = transaction(&asked);
            tx.state.env.set(variable.as_bytes(), b"1");
            super::fits(uri.as_bytes(), &tx)
        };
        let old = "AuthDigestEnableQueryStringHack";
        for (uri, target, variable, expected) in [
            ("/x", "/x", "v", true),
            ("/y", "/x", "v", false),
            ("/%78?%71", "/x?q", "v", true),
            ("/x?q", "/x?r", "v", false),
            ("/x?q", "/x", "v", false),
            ("/x", "/x?q", "v", false),
            ("/x", "/x?q", old, true),
            ("/y", "/x?q", old, false),
            ("/x?r", "/x?q", old, false),
            ("http://example.org/x?q", "/x?q", "v", true),
            ("https://EXAMPLE.org/x", "/x", "v", true),
            ("http://example.org/y", "/x", "v", false),
            ("http://example.com/x", "/x", "v", false),
            ("http:///x", "/x", "v", true),
            ("http://example.org", "/x", "v", false),
            ("/x?u=http://other.example/", "/x?u=%68ttp://other.example/", "v", true),
            ("/a://example.org/x", "/x", "v", false),
        ] {
            assert_eq!(fits(uri, target, variable), expected, "{uri} for {target} {variable}");
        }
    }
}
