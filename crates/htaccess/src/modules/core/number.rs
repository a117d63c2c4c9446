//! Numbers as C's library reads them, because Apache's directives do.

use crate::language::is_space;

/// What `strtol` with base 10 makes of the text: the number and how many bytes it took. `None`
/// where it overflows.
pub(crate) fn integer(text: &[u8]) -> Option<(i64, usize)> {
    let blanks = text.iter().take_while(|byte| is_space(**byte)).count();
    let signed = &text[blanks..];
    let sign = usize::from(matches!(signed.first(), Some(b'+' | b'-')));
    let digits = signed[sign..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return Some((0, 0));
    }
    let end = blanks + sign + digits;
    let number = std::str::from_utf8(&text[blanks..end]).ok()?.parse().ok()?;
    Some((number, end))
}

/// What `atoi` makes of the text, whatever follows the number.
pub(crate) fn leading_integer(text: &[u8]) -> Option<i64> {
    integer(text).map(|(number, _)| number)
}
