//! Words of a line, as `ap_getword_conf` splits it.

/// Takes the next word off `rest` and the white space behind it; empty where there is none. A word in quotes, single or double,
/// may hold white space; `\\` stands for a backslash everywhere, and `\` before the quote in use for that quote.
pub(crate) fn next_word(rest: &mut &[u8]) -> Vec<u8> {
    *rest = rest.trim_ascii_start();
    let Some(&first) = rest.first() else {
        return Vec::new();
    };
    let quote = matches!(first, b'"' | b'\'').then_some(first);
    let mut bytes = if quote.is_some() { &rest[1..] } else { *rest };
    let mut word = Vec::new();
    while let Some((&byte, behind)) = bytes.split_first() {
        match quote {
            Some(quote) if byte == quote => {
                bytes = behind;
                break;
            }
            None if is_space(byte) => break,
            _ => {}
        }
        match (byte, behind.first()) {
            (b'\\', Some(&next)) if next == b'\\' || Some(next) == quote => {
                word.push(next);
                bytes = &behind[1..];
            }
            _ => {
                word.push(byte);
                bytes = behind;
            }
        }
    }
    *rest = bytes.trim_ascii_start();
    word
}

/// C's `isspace`.
pub(crate) fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let table: &[(&str, &[&str])] = &[
            ("", &[]),
            ("  a\tb  ", &["a", "b"]),
            (r#""a b" c"#, &["a b", "c"]),
            (r#"'a "b" c' d"#, &[r#"a "b" c"#, "d"]),
            (r#""a \" b" c"#, &[r#"a " b"#, "c"]),
            (r#""a \' b""#, &[r"a \' b"]),
            (r"a\\b c\d", &[r"a\b", r"c\d"]),
            (r#"a"b c"d"#, &[r#"a"b"#, r#"c"d"#]),
            (r#""a"b"#, &["a", "b"]),
            (r#""open end"#, &["open end"]),
            (r#""" x"#, &["", "x"]),
        ];
        for (line, expected) in table {
            let mut rest = line.as_bytes().trim_ascii();
            let mut found = Vec::new();
            while !rest.is_empty() {
                found.push(String::from_utf8(next_word(&mut rest)).unwrap());
            }
            assert_eq!(found, *expected, "{line}");
        }
    }
}
