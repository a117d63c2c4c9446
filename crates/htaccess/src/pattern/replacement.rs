//! Replacements for the matches of a pattern.

use super::Captures;

/// Appends a replacement: `$0` to `$9` are replaced by the captures, and a backslash makes the next
/// byte literal.
pub(crate) fn substitute(replacement: &[u8], captures: &Captures, out: &mut Vec<u8>) {
    let mut rest = replacement;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        match (byte, behind.first()) {
            (b'$', Some(digit @ b'0'..=b'9')) => {
                out.extend_from_slice(captures.group(usize::from(digit - b'0')));
                rest = &behind[1..];
            }
            (b'\\', Some(&next)) => {
                out.push(next);
                rest = &behind[1..];
            }
            _ => out.push(byte),
        }
    }
}
