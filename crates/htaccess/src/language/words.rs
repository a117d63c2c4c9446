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
    unescape(inside, quote)
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

fn unescape(text: &[u8], quote: Option<u8>) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let escaped = bytes
            .peek()
            .filter(|&&next| byte == b'\\' && (next == b'\\' || Some(next) == quote));
        plain.push(escaped.copied().unwrap_or(byte));
        if escaped.is_some() {
            bytes.next();
        }
    }
    plain
}

fn trim_start(line: &[u8]) -> &[u8] {
    let start = line.iter().position(|&byte| !is_space(byte)).unwrap_or(line.len());
    &line[start..]
}
