//! Translation of a pattern as it was written to the one that PCRE2 gets.
//!
//! The `pcre2` crate has no `DOLLAR_ENDONLY` and takes patterns as `str`. Therefore `$` becomes
//! `\z` where it is an assertion and not in multi-line mode, and bytes that are no UTF-8 become
//! `\xHH`. Everything else is unchanged.

use super::{BadPattern, Definition};

/// The pattern that PCRE2 gets, without limits.
pub(super) struct TranslatedPattern {
    /// The settings at the very beginning, such as `(*UTF)`.
    pub verbs: String,
    /// The rest.
    pub body: String,
    /// For each byte of `body`, the offset that it comes from.
    origins: Vec<u32>,
    /// The length of the text.
    length: usize,
    /// Whether the pattern refers to its own groups, which makes each step as long as the capture.
    pub refers_back: bool,
}

impl TranslatedPattern {
    /// Translates a pattern.
    ///
    /// # Errors
    /// A pattern with `(*UTF)` has bytes that are no UTF-8.
    pub(super) fn of(definition: &Definition) -> Result<TranslatedPattern, BadPattern> {
        let text = &definition.text[..];
        let (verbs, begin, utf) = leading_verbs(text);
        if utf && let Err(error) = std::str::from_utf8(text) {
            return Err(BadPattern {
                message: "UTF-8 error: illegal byte".to_owned(),
                offset: error.valid_up_to(),
            });
        }
        let mut translation = Translation {
            text,
            at: begin,
            escape_high: std::str::from_utf8(text).is_err(),
            body: Vec::with_capacity(text.len() + 8),
            origins: Vec::with_capacity(text.len() + 8),
            modes: vec![Modes { multi_line: false, extended: false }],
            refers_back: false,
        };
        if text.windows(2).any(|two| two == b"(?") {
            translation.emit(b"(?J)");
        }
        translation.run();
        let body =
            String::from_utf8(translation.body).expect("bytes that are no UTF-8 are escaped");
        Ok(TranslatedPattern {
            verbs,
            body,
            origins: translation.origins,
            length: text.len(),
            refers_back: translation.refers_back,
        })
    }

    /// Returns the offset in the text that a byte of `body` comes from.
    pub(super) fn origin(&self, offset: usize) -> usize {
        self.origins.get(offset).map_or(self.length, |&origin| origin as usize)
    }
}

/// Returns the settings at the beginning of a pattern that PCRE2 knows; where they end; whether one
/// says UTF-8. `(*NO_JIT)` is left out: it changes nothing but the time that a match takes.
fn leading_verbs(text: &[u8]) -> (String, usize, bool) {
    let (mut verbs, mut at, mut utf) = (String::new(), 0, false);
    while let Some(rest) = text[at..].strip_prefix(b"(*") {
        let length = rest
            .iter()
            .take_while(|&&byte| {
                byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"_=".contains(&byte)
            })
            .count();
        let verb = String::from_utf8_lossy(&rest[..length]);
        let name = verb.find('=').map_or(&*verb, |equals| &verb[..=equals]);
        if rest.get(length) != Some(&b')') || !VERBS.contains(&name) {
            break;
        }
        match &*verb {
            "NO_JIT" => {}
            // As in PCRE1, which Apache was built with for a long time.
            "UTF8" => verbs.push_str("(*UTF)"),
            verb => verbs.extend(["(*", verb, ")"]),
        }
        utf |= matches!(name, "UTF" | "UTF8");
        at += length + 3;
    }
    (verbs, at, utf)
}

/// The verbs that are allowed at the beginning of a pattern (pcre2pattern(3), "Special
/// start-of-pattern items"), without numbers.
const VERBS: &[&str] = &[
    "UTF",
    "UTF8",
    "UCP",
    "NOTEMPTY",
    "NOTEMPTY_ATSTART",
    "NO_AUTO_POSSESS",
    "NO_DOTSTAR_ANCHOR",
    "NO_JIT",
    "NO_START_OPT",
    "LIMIT_HEAP=",
    "LIMIT_DEPTH=",
    "LIMIT_RECURSION=",
    "LIMIT_MATCH=",
    "CR",
    "LF",
    "CRLF",
    "ANYCRLF",
    "ANY",
    "NUL",
    "BSR_ANYCRLF",
    "BSR_UNICODE",
];

struct Translation<'t> {
    text: &'t [u8],
    at: usize,
    escape_high: bool,
    body: Vec<u8>,
    origins: Vec<u32>,
    /// The modes of each open group, the pattern itself first.
    modes: Vec<Modes>,
    refers_back: bool,
}

/// The modes that `(?m)` and `(?x)` set.
#[derive(Clone, Copy)]
struct Modes {
    multi_line: bool,
    extended: bool,
}

impl Translation<'_> {
    fn run(&mut self) {
        while let Some(&byte) = self.text.get(self.at) {
            let modes = *self.modes.last().expect("the pattern's own modes stay");
            match byte {
                b'\\' => self.escape(),
                b'[' => self.class(),
                b'(' => self.open(),
                b')' => {
                    if self.modes.len() > 1 {
                        self.modes.pop();
                    }
                    self.copy(1);
                }
                b'$' if !modes.multi_line => {
                    self.emit(b"\\z");
                    self.at += 1;
                }
                b'#' if modes.extended => self.copy_through(b"\n"),
                _ => self.copy(1),
            }
        }
    }

    /// Translates a backslash outside a class, with its escape.
    fn escape(&mut self) {
        match self.text.get(self.at + 1) {
            Some(b'Q') => self.quoted(),
            Some(b'c') => self.copy(3),
            Some(&byte) => {
                self.refers_back |= byte.is_ascii_digit() || byte == b'g' || byte == b'k';
                self.escaped_byte(byte);
            }
            None => self.copy(1),
        }
    }

    fn escaped_byte(&mut self, byte: u8) {
        if byte >= 0x80 && self.escape_high {
            self.at += 1; // `\xHH` takes the place of the backslash as well.
            self.copy(1);
        } else {
            self.copy(2);
        }
    }

    /// `\Q…\E`: everything in it is literal. High bytes leave it for a moment.
    fn quoted(&mut self) {
        self.copy(2);
        while self.at < self.text.len() {
            if self.text[self.at..].starts_with(b"\\E") {
                return self.copy(2);
            }
            if self.text[self.at] >= 0x80 && self.escape_high {
                self.emit(b"\\E");
                self.copy(1);
                self.emit(b"\\Q");
            } else {
                self.copy(1);
            }
        }
    }

    /// `[…]`.
    fn class(&mut self) {
        self.copy(1);
        if self.text.get(self.at) == Some(&b'^') {
            self.copy(1);
        }
        if self.text.get(self.at) == Some(&b']') {
            self.copy(1);
        }
        while let Some(&byte) = self.text.get(self.at) {
            match byte {
                b']' => return self.copy(1),
                b'\\' => match self.text.get(self.at + 1) {
                    Some(b'Q') => self.quoted(),
                    Some(&byte) => self.escaped_byte(byte),
                    None => self.copy(1),
                },
                b'[' => {
                    let length = posix_class(&self.text[self.at..]).unwrap_or(1);
                    self.copy(length);
                }
                _ => self.copy(1),
            }
        }
    }

    /// Translates an opening parenthesis, with the group's kind.
    fn open(&mut self) {
        let rest = &self.text[self.at + 1..];
        match rest {
            [b'?', b'#', ..] => self.copy_through(b")"),
            [b'?', b'C', ..] => self.callout(),
            [b'*', first, ..] if !first.is_ascii_lowercase() => self.copy_through(b")"),
            [b'?', b'P', b'=' | b'>', ..] | [b'?', b'R' | b'&' | b'0'..=b'9' | b'+' | b'-', ..] => {
                self.refers_back = true;
                self.open_with_modes();
            }
            _ => self.open_with_modes(),
        }
    }

    /// A group, or `(?m-x)`, which has its effect until the group around it ends.
    fn open_with_modes(&mut self) {
        let mut modes = *self.modes.last().expect("the pattern's own modes stay");
        let flags = match self.text[self.at..].strip_prefix(b"(?") {
            Some(rest) => {
                let is_flag = |byte: &&u8| b"imsxnJUa^-".contains(byte);
                &rest[..rest.iter().take_while(is_flag).count()]
            }
            None => b"",
        };
        let after = self.text.get(self.at + 2 + flags.len());
        if matches!(after, Some(b')' | b':')) {
            let mut on = true;
            for flag in flags {
                match flag {
                    b'^' => modes = Modes { multi_line: false, extended: false },
                    b'-' => on = false,
                    b'm' => modes.multi_line = on,
                    b'x' => modes.extended = on,
                    _ => {}
                }
            }
        }
        if after == Some(&b')') && !flags.is_empty() {
            *self.modes.last_mut().expect("the pattern's own modes stay") = modes;
            self.copy(flags.len() + 3);
        } else {
            self.modes.push(modes);
            self.copy(1);
        }
    }

    /// `(?C…)`, whose string may hold anything.
    fn callout(&mut self) {
        let close = match self.text.get(self.at + 3) {
            Some(b'{') => Some(b'}'),
            Some(&quote) if b"`'\"^%#$".contains(&quote) => Some(quote),
            _ => None,
        };
        if let Some(close) = close {
            self.copy(4);
            self.copy_through(&[close]);
        }
        self.copy_through(b")");
    }

    /// Copies up to and with the next `end`.
    fn copy_through(&mut self, end: &[u8]) {
        let length =
            memchr::memchr(end[0], &self.text[self.at..]).map_or(usize::MAX, |found| found + 1);
        self.copy(length);
    }

    /// Copies `length` bytes, or as many as there are.
    fn copy(&mut self, length: usize) {
        let end = self.at.saturating_add(length).min(self.text.len());
        while self.at < end {
            let byte = self.text[self.at];
            if byte >= 0x80 && self.escape_high {
                self.emit(format!("\\x{byte:02X}").as_bytes());
            } else {
                self.emit(&[byte]);
            }
            self.at += 1;
        }
    }

    /// Appends the translation of the byte at hand.
    fn emit(&mut self, bytes: &[u8]) {
        self.body.extend_from_slice(bytes);
        self.origins.resize(self.body.len(), self.at as u32);
    }
}

/// Returns the length of a POSIX class such as `[:alpha:]`, if the text begins with one (within a
/// class). `None`: the text begins with no class.
pub(super) fn posix_class(text: &[u8]) -> Option<usize> {
    let kind = *text.get(1).filter(|kind| b":.=".contains(kind))?;
    let mut at = 2;
    while let [first, second, ..] = text[at..] {
        match first {
            b'\\' if second == b']' || second == b'\\' => at += 1,
            b']' => return None,
            b'[' if second == kind => return None,
            _ if first == kind && second == b']' => return Some(at + 2),
            _ => {}
        }
        at += 1;
    }
    None
}
