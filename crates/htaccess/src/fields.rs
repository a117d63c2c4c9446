//! Fields of requests and responses: values, lists and their members.

use howdah_http::Fields;

/// The bytes of a response head's names and values that directives may lead to: as many as a script
/// may send. Beyond them: 500.
pub(crate) const LONGEST_HEAD: usize = 512 << 10;
/// The fields of a response head that directives may lead to: as many as a script may send. Beyond
/// them: 500.
pub(crate) const MOST_FIELDS: usize = 8_000;

/// Appends a value to the field's first line, behind a comma, as `apr_table_merge` does. Adds a
/// line where there is none.
pub(crate) fn append(fields: &mut Fields, name: &[u8], value: &[u8]) {
    let mut values: Vec<Vec<u8>> = fields.values(name).map(<[u8]>::to_vec).collect();
    match values.first_mut() {
        None => fields.push(name, value),
        Some(first) => {
            first.extend_from_slice(b", ");
            first.extend_from_slice(value);
            fields.remove(name);
            values.iter().for_each(|value| fields.push(name, value));
        }
    }
}

/// Returns whether a field of the response may have this value: a tab is the only control character
/// in it. Apache answers with 500 otherwise.
pub(crate) fn can_be_sent(value: &[u8]) -> bool {
    value.iter().all(|&byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f))
}

/// Takes a token off, and the white space around it (`ap_get_token`). It ends at `;`, at `,` and,
/// unless `with_white`, at white space.
pub(crate) fn token<'r>(rest: &mut &'r [u8], with_white: bool) -> &'r [u8] {
    let start = rest.trim_ascii_start();
    let mut quoted = false;
    let end = start.iter().position(|&byte| {
        quoted ^= byte == b'"';
        !quoted && (matches!(byte, b';' | b',') || (!with_white && byte.is_ascii_whitespace()))
    });
    let (token, behind) = start.split_at(end.unwrap_or(start.len()));
    *rest = behind.trim_ascii_start();
    token
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_no_control_characters_but_tabs() {
        for (value, expected) in
            [("a b", true), ("a\tb", true), ("\u{e4}", true), ("a\nb", false), ("a\x7fb", false)]
        {
            assert_eq!(can_be_sent(value.as_bytes()), expected, "{value:?}");
        }
    }

    #[test]
    fn a_token_ends_outside_of_quotes() {
        for (text, with_white, expected) in [
            ("a, b", false, ("a", ", b")),
            (" a b;c", false, ("a", "b;c")),
            (" a b;c", true, ("a b", ";c")),
            ("a=\"b;c\",d", false, ("a=\"b;c\"", ",d")),
            ("a=\"b c\" d", false, ("a=\"b c\"", "d")),
        ] {
            let mut rest = text.as_bytes();
            let found = token(&mut rest, with_white);
            assert_eq!((found, rest), (expected.0.as_bytes(), expected.1.as_bytes()), "{text}");
        }
    }
}
