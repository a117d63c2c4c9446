//! Words, quotes and backslashes (`ap_getword_conf`).

/// A word of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The text without its quotes, escapes resolved.
    pub text: Vec<u8>,
    /// The offset in the line, quote included.
    pub start: usize,
}

/// White space as C's `isspace` has it.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Takes the next word off `rest`, with the white space after it. The word is empty at the end, and
/// for `""`.
///
/// A word that begins with a quote ends at the same quote, or with the line; the next word follows
/// the quote, with or without a space. Inside, a backslash escapes that quote and itself; outside
/// of quotes it escapes itself only. Before anything else the backslash is kept.
pub fn word(rest: &mut &[u8]) -> Vec<u8> {
    RawWord::next(rest).bytes().collect()
}

/// Returns whether a text is one of the words of a line. No word is copied.
pub(crate) fn has_word(line: &[u8], text: &[u8]) -> bool {
    let mut rest = trim_start(line);
    while !rest.is_empty() {
        if RawWord::next(&mut rest).bytes().eq(text.iter().copied()) {
            return true;
        }
    }
    false
}

/// Returns all words of a line, empty ones included.
pub fn words(line: &[u8]) -> Vec<Word> {
    let mut rest = trim_start(line);
    let mut all = Vec::new();
    while !rest.is_empty() {
        let start = line.len() - rest.len();
        all.push(Word { text: word(&mut rest), start });
    }
    all
}

fn quoted_length(line: &[u8], quote: u8) -> usize {
    let mut at = 0;
    while at < line.len() && line[at] != quote {
        let escape = line[at] == b'\\'
            && line.get(at + 1).is_some_and(|&next| next == quote || next == b'\\');
        at += 1 + usize::from(escape);
    }
    at
}

/// A word as it was written, without its quotes.
struct RawWord<'l> {
    inside: &'l [u8],
    quote: Option<u8>,
}

impl<'l> RawWord<'l> {
    /// Takes the next word off `rest`, with the white space after it.
    fn next(rest: &mut &'l [u8]) -> RawWord<'l> {
        let line = trim_start(rest);
        let quote = line.first().copied().filter(|&byte| byte == b'"' || byte == b'\'');
        let (inside, after) = match quote {
            Some(quote) => {
                let end = 1 + quoted_length(&line[1..], quote);
                (&line[1..end], (end + 1).min(line.len()))
            }
            None => {
                let end = line.iter().position(|&byte| is_space(byte)).unwrap_or(line.len());
                (&line[..end], end)
            }
        };
        *rest = trim_start(&line[after..]);
        RawWord { inside, quote }
    }

    /// Returns the bytes with escapes resolved.
    fn bytes(&self) -> impl Iterator<Item = u8> {
        let mut bytes = self.inside.iter().copied().peekable();
        std::iter::from_fn(move || {
            let byte = bytes.next()?;
            let escaped =
                bytes.next_if(|&next| byte == b'\\' && (next == b'\\' || Some(next) == self.quote));
            Some(escaped.unwrap_or(byte))
        })
    }
}

fn trim_start(line: &[u8]) -> &[u8] {
    let start = line.iter().position(|&byte| !is_space(byte)).unwrap_or(line.len());
    &line[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_as_it_is_read() {
        let rows = [
            ("a b c", "b", true),
            ("  a\tb", "b", true),
            ("ab", "a", false),
            ("a", "ab", false),
            ("\"a b\" c", "a b", true),
            ("\"a b\" c", "a", false),
            ("'a\\'b' c", "a'b", true),
            ("\"a\"b", "b", true),
            ("a\\\\b", "a\\b", true),
            ("\"a\\qb\"", "a\\qb", true),
            ("\"a", "a", true),
            ("a \"\" b", "", true),
            ("a b", "", false),
            ("", "", false),
        ];
        for (members, user, expected) in rows {
            let found = has_word(members.as_bytes(), user.as_bytes());
            assert_eq!(found, expected, "{members} {user}");
            let words = words(members.as_bytes());
            let is_word = words.iter().any(|member| member.text == user.as_bytes());
            assert_eq!(found, is_word, "{members} {user}");
        }
    }
}
