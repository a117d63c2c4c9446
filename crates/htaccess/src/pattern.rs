//! Regular expressions as Apache has them: PCRE2, compiled with the JIT, bounded in what they may try.

use std::fmt;

use pcre2::bytes::{CaptureLocations, Regex, RegexBuilder};

/// A compiled regular expression.
pub struct Pattern {
    text: Box<[u8]>,
    regex: Regex,
}

/// A pattern that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPattern {
    /// What is wrong, in PCRE2's words.
    pub message: String,
    /// Where in the pattern, in bytes.
    pub offset: usize,
}

/// A match that was given up: the pattern tries too much on this subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted;

/// What the groups of a match have captured: `$0` to `$9`.
#[derive(Clone, Debug, Default)]
pub struct Captures {
    subject: Vec<u8>,
    groups: Vec<Option<(usize, usize)>>,
}

/// How often PCRE2 may try before a match is given up.
const MATCH_LIMIT: u32 = 1_000_000;

impl Pattern {
    /// Compiles a pattern, without its slashes. As Apache's default: `.` matches a line's end, `$` only the very end.
    pub fn new(text: &[u8], caseless: bool) -> Result<Pattern, BadPattern> {
        let source = format!("(*LIMIT_MATCH={MATCH_LIMIT}){}", String::from_utf8_lossy(text));
        let regex = RegexBuilder::new()
            .caseless(caseless)
            .dotall(true)
            .jit_if_available(true)
            .build(&source)
            .map_err(|error| BadPattern {
                message: error.to_string(),
                offset: error.offset().unwrap_or(0),
            })?;
        Ok(Pattern {
            text: text.into(),
            regex,
        })
    }

    /// The pattern as it was written.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Whether it matches somewhere in `subject`.
    pub fn is_match(&self, subject: &[u8]) -> Result<bool, Exhausted> {
        self.regex.is_match(subject).map_err(|_| Exhausted)
    }

    /// Whether it matches somewhere in `subject`; if so, `captures` holds what its groups did.
    pub fn captures(&self, subject: &[u8], captures: &mut Captures) -> Result<bool, Exhausted> {
        let mut places: CaptureLocations = self.regex.capture_locations();
        let found = self
            .regex
            .captures_read(&mut places, subject)
            .map_err(|_| Exhausted)?;
        if found.is_none() {
            return Ok(false);
        }
        captures.subject.clear();
        captures.subject.extend_from_slice(subject);
        captures.groups.clear();
        captures
            .groups
            .extend((0..places.len()).map(|group| places.get(group)));
        Ok(true)
    }
}

impl Captures {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.subject.clear();
        self.groups.clear();
    }

    /// What a group captured; empty where it took no part.
    pub fn group(&self, number: usize) -> &[u8] {
        match self.groups.get(number) {
            Some(Some((start, end))) => &self.subject[*start..*end],
            _ => b"",
        }
    }

    /// Where the whole match stands in the subject, in bytes; empty at its beginning where nothing has matched yet.
    pub fn span(&self) -> (usize, usize) {
        self.groups.first().copied().flatten().unwrap_or((0, 0))
    }

    /// How many groups there are, the whole match included; 0 where nothing has matched yet.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether nothing has matched yet.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}/", String::from_utf8_lossy(&self.text))
    }
}
