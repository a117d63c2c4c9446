//! Accept-Encoding, read as mod_deflate and mod_brotli read it.

use crate::fields::token;
use crate::transaction::Transaction;

/// Returns whether the client accepts a coding: the field names it, and not with `q=0`. `*` is
/// ignored.
pub(super) fn accepts(tx: &Transaction<'_>, coding: &[u8]) -> bool {
    let mut values = tx.request_values(b"accept-encoding");
    let Some(first) = values.next() else {
        return false;
    };
    let more: Vec<&[u8]> = values.collect();
    match more.is_empty() {
        true => named(first, coding),
        false => named(&[&[first][..], &more].concat().join(&b','), coding),
    }
}

fn named(mut rest: &[u8], coding: &[u8]) -> bool {
    let mut found = token(&mut rest, false);
    while !found.is_empty() && !found.eq_ignore_ascii_case(coding) {
        while let [b';', behind @ ..] = rest {
            rest = behind;
            token(&mut rest, true);
        }
        if let [b',', behind @ ..] = rest {
            rest = behind;
        }
        found = token(&mut rest, false);
    }
    if found.is_empty() {
        return false;
    }
    while let [b';', behind @ ..] = rest {
        rest = behind;
    }
    let quality = token(&mut rest, true);
    !(quality.len() >= 3 && b"q=0.000".starts_with(quality))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codings() {
        let table = [
            ("gzip", true),
            ("GZIP", true),
            ("deflate, gzip;q=1.0, *;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip;q=0.000", false),
            ("gzip;q=0.001", true),
            ("gzip; q=0", false),
            ("gzip;Q=0", true),
            ("br;q=0, gzip", true),
            ("br;q=1;x=\"a,b\" , gzip", true),
            ("*", false),
            ("x-gzip", false),
            ("identity", false),
            ("", false),
            (", gzip", false),
            ("gzip, br;q=0", true),
        ];
        for (value, expected) in table {
            assert_eq!(named(value.as_bytes(), b"gzip"), expected, "{value}");
        }
    }
}
