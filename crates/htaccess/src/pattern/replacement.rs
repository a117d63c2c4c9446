//! Replacements for the matches of a pattern.

use super::Captures;
use crate::metered_text::{MeteredText, TextError};

/// Appends a replacement (`ap_pregsub`): `$0` to `$9` are replaced by the captures, and a backslash
/// makes the next byte literal.
///
/// # Errors
/// The text would become too long, or the work is too much.
pub(crate) fn substitute(
    replacement: &[u8],
    captures: &Captures,
    out: &mut MeteredText<'_>,
) -> Result<(), TextError> {
    let mut rest = replacement;
    while let Some(at) = memchr::memchr2(b'$', b'\\', rest) {
        if at > 0 {
            out.push(&rest[..at])?;
        }
        rest = &rest[at..];
        rest = match rest {
            [b'$', digit @ b'0'..=b'9', behind @ ..] => {
                out.push(captures.group(usize::from(digit - b'0')))?;
                behind
            }
            [b'\\', next, behind @ ..] => {
                out.push(std::slice::from_ref(next))?;
                behind
            }
            alone => {
                out.push(&alone[..1])?;
                &alone[1..]
            }
        };
    }
    if rest.is_empty() { Ok(()) } else { out.push(rest) }
}
