//! Patterns, with a short cut for those that are hardly regular expressions at all.

use std::sync::OnceLock;

use crate::pattern::{BadPattern, Captures, Exhausted, Pattern};

/// A pattern of RewriteRule, RewriteCond or RedirectMatch.
pub(crate) struct Matcher {
    text: Box<[u8]>,
    caseless: bool,
    shape: Shape,
    /// Compiled at once, to know whether it is right, but where the shape says so already: of a list of a thousand plain
    /// redirects, none is ever compiled.
    pattern: OnceLock<Pattern>,
}

/// What a pattern demands, as far as that is plain to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Everything matches: `^`, `.*`, `^(.*)$`.
    Anything,
    /// Everything but the empty string: `.`, `^.+$`.
    Something,
    /// `^text$`.
    Exactly(Box<[u8]>),
    /// `^text`.
    Begins(Box<[u8]>),
    /// `text$`.
    Ends(Box<[u8]>),
    /// `text`.
    Contains(Box<[u8]>),
    /// It begins with this text, but only the regular expression can tell the rest.
    Prefixed(Box<[u8]>),
    /// Only the regular expression can tell.
    Regex,
}

impl Matcher {
    /// Compiles a pattern, without `!`.
    pub fn new(text: &[u8], caseless: bool) -> Result<Matcher, BadPattern> {
        let matcher = Matcher {
            text: text.into(),
            caseless,
            shape: shape(text),
            pattern: OnceLock::new(),
        };
        if matches!(matcher.shape, Shape::Prefixed(_) | Shape::Regex) {
            let pattern = Pattern::new(text, caseless)?;
            let _ = matcher.pattern.set(pattern);
        }
        Ok(matcher)
    }

    /// As it was written.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// What it demands, as far as that is plain to see. Letters may be in any case where it is [caseless](Self::is_caseless).
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Whether `[NC]` is on.
    pub fn is_caseless(&self) -> bool {
        self.caseless
    }

    /// Whether it matches somewhere in `subject`.
    #[inline]
    pub fn is_match(&self, subject: &[u8]) -> Result<bool, Exhausted> {
        let same = |part: &[u8], text: &[u8]| {
            if self.caseless {
                part.eq_ignore_ascii_case(text)
            } else {
                part == text
            }
        };
        Ok(match &self.shape {
            Shape::Anything => true,
            Shape::Something => !subject.is_empty(),
            Shape::Exactly(text) => same(subject, text),
            Shape::Begins(text) => subject.get(..text.len()).is_some_and(|part| same(part, text)),
            Shape::Ends(text) => subject
                .len()
                .checked_sub(text.len())
                .is_some_and(|at| same(&subject[at..], text)),
            Shape::Contains(text) if !self.caseless => memchr::memmem::find(subject, text).is_some(),
            Shape::Prefixed(text) if !subject.get(..text.len()).is_some_and(|part| same(part, text)) => false,
            Shape::Contains(_) | Shape::Prefixed(_) | Shape::Regex => self.regex()?.is_match(subject)?,
        })
    }

    /// Whether it matches somewhere in `subject`; if so, `captures` holds what its groups did.
    pub fn captures(&self, subject: &[u8], captures: &mut Captures) -> Result<bool, Exhausted> {
        self.regex()?.captures(subject, captures)
    }

    fn regex(&self) -> Result<&Pattern, Exhausted> {
        if let Some(pattern) = self.pattern.get() {
            return Ok(pattern);
        }
        // A pattern that is nothing but text is right, unless it is too long for PCRE2.
        let pattern = Pattern::new(&self.text, self.caseless).map_err(|_| Exhausted)?;
        Ok(self.pattern.get_or_init(|| pattern))
    }
}

impl std::fmt::Debug for Matcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "/{}/", String::from_utf8_lossy(&self.text))
    }
}

/// What a pattern demands, as far as that is plain to see.
fn shape(pattern: &[u8]) -> Shape {
    match pattern {
        b"" | b"^" | b".*" | b"^.*" | b"^.*$" | b".*$" | b"(.*)" | b"^(.*)" | b"^(.*)$" | b"(.*)$" => {
            return Shape::Anything;
        }
        b"." | b".+" | b"^." | b"^.+" | b"^.+$" | b".+$" | b"(.+)" | b"^(.+)" | b"^(.+)$" | b"(.+)$" => {
            return Shape::Something;
        }
        _ => {}
    }
    let (anchored, rest) = match pattern {
        [b'^', rest @ ..] => (true, rest),
        whole => (false, whole),
    };
    let (text, rest) = leading_text(rest);
    match (anchored, rest) {
        (true, b"$") => Shape::Exactly(text.into()),
        (true, b"" | b".*" | b"(.*)" | b".*$" | b"(.*)$") => Shape::Begins(text.into()),
        (false, b"$") => Shape::Ends(text.into()),
        (false, b"") => Shape::Contains(text.into()),
        (true, rest) if !text.is_empty() && !has_alternatives(rest) => Shape::Prefixed(text.into()),
        _ => Shape::Regex,
    }
}

/// The text that a pattern begins with, and what follows it. The last byte belongs to the rest where a quantifier follows it.
fn leading_text(pattern: &[u8]) -> (Vec<u8>, &[u8]) {
    let mut text = Vec::new();
    let mut rest = pattern;
    loop {
        let (byte, after) = match rest {
            // A letter or digit behind a backslash is a class, an assertion or a reference.
            [b'\\', byte, after @ ..] if byte.is_ascii_punctuation() || *byte == b' ' => (*byte, after),
            [
                b'\\' | b'^' | b'$' | b'.' | b'|' | b'?' | b'*' | b'+' | b'(' | b')' | b'[' | b'{',
                ..,
            ]
            | [] => break,
            [byte, after @ ..] => (*byte, after),
        };
        if let [b'?' | b'*' | b'+' | b'{', ..] = after {
            break;
        }
        text.push(byte);
        rest = after;
    }
    (text, rest)
}

/// Whether there may be a `|` outside of parentheses, which the text before it would belong to. In doubt, there is.
fn has_alternatives(rest: &[u8]) -> bool {
    if !rest.contains(&b'|') {
        return false;
    }
    let mut depth = 0i32;
    let mut bytes = rest.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            // Where a class begins, or text is quoted, or an option is set, it takes a real parser.
            b'[' => return true,
            b'\\' if bytes.next().is_none_or(|escaped| escaped.is_ascii_alphanumeric()) => return true,
            b'(' => depth += 1,
            b')' => depth -= 1,
            b'|' if depth <= 0 => return true,
            b'?' if depth > 0 && rest.windows(2).any(|two| two == b"(?") => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes() {
        use Shape::*;
        let text = |text: &str| text.as_bytes().into();
        let table = [
            ("", Anything),
            ("^(.*)$", Anything),
            (".", Something),
            (r"^index\.php$", Exactly(text("index.php"))),
            ("^$", Exactly(text(""))),
            ("^wp-admin/", Begins(text("wp-admin/"))),
            ("^a(.*)$", Begins(text("a"))),
            (r"\.php$", Ends(text(".php"))),
            ("$", Ends(text(""))),
            ("bot", Contains(text("bot"))),
            (r"^a\ b$", Exactly(text("a b"))),
            ("^old/?$", Prefixed(text("old"))),
            ("^old/+$", Prefixed(text("old"))),
            ("^old/{2}", Prefixed(text("old"))),
            (r"^p/(\d+)$", Prefixed(text("p/"))),
            ("^a/(b|c)", Prefixed(text("a/"))),
            ("^ab|c", Regex),
            ("^ab(x)|c", Regex),
            ("^ab[)|]", Regex),
            ("^ab(?:c|d)", Regex),
            (r"^ab\Q(\E|c", Regex),
            ("a|b", Regex),
            ("a.c", Regex),
            (r"^\d", Regex),
            ("^(?i)a", Regex),
            ("a?", Regex),
        ];
        for (pattern, expected) in table {
            assert_eq!(shape(pattern.as_bytes()), expected, "{pattern}");
        }
    }

    /// Short cuts and regular expressions must agree.
    #[test]
    fn shapes_match_what_the_pattern_matches() {
        let patterns = [
            "", "^", ".*", "^(.*)$", ".", "^.+$", "^ab$", "^ab", "ab$", "ab", "^a/?$", "^a.b", r"^a\.b$",
            "$", "^$", "^ab.*", "^a(b|c)", "^a(b)|c", "^ab+",
        ];
        let subjects = [
            "", "a", "ab", "AB", "abc", "cab", "cabx", "a.b", "axb", "a/", "a\n", "ab\n", "\n", "c", "xab\n",
        ];
        for pattern in patterns {
            for caseless in [false, true] {
                let matcher = Matcher::new(pattern.as_bytes(), caseless).unwrap();
                let regex = Pattern::new(pattern.as_bytes(), caseless).unwrap();
                for subject in subjects {
                    let subject = subject.as_bytes();
                    assert_eq!(
                        matcher.is_match(subject),
                        regex.is_match(subject),
                        "{pattern} {caseless} {:?}",
                        String::from_utf8_lossy(subject)
                    );
                }
            }
        }
    }
}
