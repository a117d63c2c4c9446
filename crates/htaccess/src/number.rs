//! Numbers as C's library reads them, because Apache's directives do.

use crate::language::is_space;

/// Reads an integer as `strtol` with base 10 does. Returns the number and the bytes that it took;
/// `None` where it overflows.
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

/// Reads an integer as `atoi` does, whatever follows the number; `None` where it overflows.
pub(crate) fn leading_integer(text: &[u8]) -> Option<i64> {
    integer(text).map(|(number, _)| number)
}

/// Reads an integer as `strtoll` does: leading white space, a sign, digits, and whatever follows. 0
/// where there is no number; a number that is too large is the largest.
pub(crate) fn saturating(text: &[u8]) -> i64 {
    let begin = text.iter().take_while(|byte| is_space(**byte)).count();
    let (negative, digits) = match &text[begin..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0i64, |value, digit| {
        let digit = i64::from(digit - b'0');
        let value = value.saturating_mul(10);
        if negative {
            value.saturating_sub(digit)
        } else {
            value.saturating_add(digit)
        }
    })
}

/// Reads an integer as [`saturating`] does, and clamps it to 32 bits.
pub(crate) fn clamped(text: &[u8]) -> i32 {
    saturating(text).clamp(-i64::from(i32::MAX), i64::from(i32::MAX)) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_far_as_they_go() {
        let rows: &[(&str, i64)] = &[
            ("", 0),
            ("12", 12),
            (" \t\n\x0b\x0c\r-7x", -7),
            ("+5", 5),
            ("+-5", 0),
            ("0x10", 0),
            ("9223372036854775808", i64::MAX),
            ("-9223372036854775809", i64::MIN),
            ("007", 7),
        ];
        for (text, expected) in rows {
            assert_eq!(saturating(text.as_bytes()), *expected, "{text}");
        }
    }

    #[test]
    fn numbers_of_rules_are_clamped() {
        let table = [
            ("12", 12),
            (" -7x", -7),
            ("+3", 3),
            ("", 0),
            ("x", 0),
            ("99999999999", i32::MAX),
            ("-99999999999", -i32::MAX),
        ];
        for (text, expected) in table {
            assert_eq!(clamped(text.as_bytes()), expected, "{text}");
        }
    }
}
