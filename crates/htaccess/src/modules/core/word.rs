//! Words as Apache's directives take them (`ap_getword_conf`), for directives that split their line themselves.

use super::number::is_space;

/// The first word of a line, its quotes removed, and what follows it and the white space behind it. An empty word at the end
/// of the line is none; a quoted one may be empty.
pub(crate) fn next_word(line: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let line = skip_space(line);
    let (first, inner) = line.split_first()?;
    let (word, rest) = match first {
        quote @ (b'"' | b'\'') => quoted(inner, *quote),
        _ => {
            let end = line.iter().position(|byte| is_space(*byte)).unwrap_or(line.len());
            (unescaped(&line[..end], None), &line[end..])
        }
    };
    Some((word, skip_space(rest)))
}

/// All words of a line.
pub(crate) fn words(mut line: &[u8]) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    while let Some((word, rest)) = next_word(line) {
        words.push(word);
        line = rest;
    }
    words
}

fn skip_space(line: &[u8]) -> &[u8] {
    let blanks = line.iter().take_while(|byte| is_space(**byte)).count();
    &line[blanks..]
}

/// A word up to its closing quote, or to the end of the line where there is none.
fn quoted(inner: &[u8], quote: u8) -> (Vec<u8>, &[u8]) {
    let mut end = 0;
    while let Some(byte) = inner.get(end).filter(|byte| **byte != quote) {
        let escapes =
            *byte == b'\\' && matches!(inner.get(end + 1), Some(next) if *next == quote || *next == b'\\');
        end += if escapes { 2 } else { 1 };
    }
    let rest = inner.get(end + 1..).unwrap_or_default();
    (unescaped(&inner[..end], Some(quote)), rest)
}

fn unescaped(word: &[u8], quote: Option<u8>) -> Vec<u8> {
    let mut plain = Vec::with_capacity(word.len());
    let mut bytes = word.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let next = bytes.peek().copied();
        if byte == b'\\' && next.is_some_and(|next| next == b'\\' || Some(next) == quote) {
            plain.extend(bytes.next());
        } else {
            plain.push(byte);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_at_white_space_outside_quotes() {
        let rows: &[(&str, &[&str])] = &[
            ("", &[]),
            ("  \t ", &[]),
            ("a b\tc", &["a", "b", "c"]),
            ("\"a b\" 'c d'", &["a b", "c d"]),
            ("\"a\"b", &["a", "b"]),
            ("a\"b c\"", &["a\"b", "c\""]),
            ("\"a \\\" b\" c", &["a \" b", "c"]),
            ("'it\\'s' x", &["it's", "x"]),
            ("\"a\\\\\" b", &["a\\", "b"]),
            ("\"open to the end", &["open to the end"]),
            ("\"\" x", &["", "x"]),
            ("a\\\\b \\d", &["a\\b", "\\d"]),
            ("\"\\d\"", &["\\d"]),
            ("\"", &[""]),
        ];
        for (line, expected) in rows {
            let found = words(line.as_bytes());
            let found: Vec<_> = found.iter().map(|word| String::from_utf8_lossy(word)).collect();
            assert_eq!(found, *expected, "{line}");
        }
    }
}
