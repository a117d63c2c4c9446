//! Regular expressions as Apache has them: PCRE2 with Apache's defaults, compiled with the JIT,
//! with limits for the steps of a match. The patterns that files use most (literals, `^`, `$`,
//! `.*`, lists of words) are matched without PCRE2, with the same result.
//!
//! ```text
//! text ── syntax (a subset) ──┬──> shape      matched by hand
//!                             └──> literals   what every match contains, for PatternSet and for a look before the engine
//! text ── translate ──> engine                PCRE2, compiled when it is first needed
//! ```

use std::fmt;

mod engine;
mod literals;
#[cfg(any(test, fuzzing))]
pub mod properties;
mod replacement;
mod required;
mod set;
mod shape;
mod syntax;
#[cfg(test)]
mod tests;
mod translate;

pub(crate) use replacement::substitute;
pub use set::{Candidates, PatternSet};

use crate::work::{Exhausted, Meter};
use engine::PcrePattern;
use shape::Shape;

/// A compiled regular expression.
pub struct Pattern {
    definition: Definition,
    matcher: Matcher,
}

/// The text and the flags of a pattern.
struct Definition {
    text: Box<[u8]>,
    caseless: bool,
}

enum Matcher {
    Shape(Box<Shape>),
    Pcre(Box<PcrePattern>),
}

/// An invalid pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPattern {
    /// The message, in PCRE2's words.
    pub message: String,
    /// The offset in the pattern, in bytes.
    pub offset: usize,
}

/// The texts that the groups of a match captured: `$0` to `$9`. Reused, it allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Captures {
    subject: Vec<u8>,
    spans: Spans,
}

/// The ranges of a match's groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Spans {
    at: [Option<(u32, u32)>; GROUPS],
    count: u8,
}

/// `$0` to `$9` (`AP_MAX_REG_MATCH`): captures of further groups cannot be named.
const GROUPS: usize = 10;

impl Pattern {
    /// Compiles a pattern, without its slashes. Apache's defaults are in force: `.` matches a
    /// line's end (`AP_REG_DOTALL`), `$` only the very end (`AP_REG_DOLLAR_ENDONLY`), names of
    /// groups may be used twice. `caseless` is `AP_REG_ICASE`, for ASCII letters.
    ///
    /// # Errors
    /// Where the text is no regular expression, with PCRE2's message.
    pub fn new(text: &[u8], caseless: bool) -> Result<Pattern, BadPattern> {
        let definition = Definition { text: text.into(), caseless };
        let tree = syntax::parse(text, caseless);
        let matcher = match tree.as_ref().and_then(Shape::of) {
            Some(shape) => Matcher::Shape(Box::new(shape)),
            None => Matcher::Pcre(Box::new(PcrePattern::new(&definition, tree.as_ref())?)),
        };
        Ok(Pattern { definition, matcher })
    }

    /// Returns a pattern that matches this text literally.
    ///
    /// # Errors
    /// Where the text is too long for PCRE2: some 30,000 bytes.
    pub fn literal(text: &[u8], caseless: bool) -> Result<Pattern, BadPattern> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte >= 0x80;
        let quoted = text.iter().flat_map(|&byte| {
            let backslash = (!is_plain(byte)).then_some(b'\\');
            backslash.into_iter().chain([byte])
        });
        Pattern::new(&quoted.collect::<Vec<u8>>(), caseless)
    }

    /// Returns the pattern as it was written.
    pub fn text(&self) -> &[u8] {
        &self.definition.text
    }

    /// Returns whether letters match in both cases.
    pub fn is_caseless(&self) -> bool {
        self.definition.caseless
    }

    /// Returns whether it has groups that capture.
    pub fn has_groups(&self) -> bool {
        match &self.matcher {
            Matcher::Shape(shape) => shape.has_groups(),
            Matcher::Pcre(engine) => engine.has_groups(),
        }
    }

    /// Returns whether the pattern matches somewhere in `subject`.
    ///
    /// # Errors
    /// Where the match takes too many steps.
    #[inline]
    pub fn is_match(&self, subject: &[u8], meter: Meter<'_>) -> Result<bool, Exhausted> {
        match &self.matcher {
            Matcher::Shape(shape) => {
                meter.spend(steps_of_shape(subject))?;
                Ok(shape.find(subject).is_some())
            }
            Matcher::Pcre(engine) => engine.is_match(&self.definition, subject, meter),
        }
    }

    /// Returns whether the pattern matches somewhere in `subject`. If so, `captures` gets what its
    /// groups captured; else it is unchanged.
    ///
    /// # Errors
    /// Where the match takes too many steps.
    pub fn captures(
        &self,
        subject: &[u8],
        captures: &mut Captures,
        meter: Meter<'_>,
    ) -> Result<bool, Exhausted> {
        let found = self.spans(subject, meter)?;
        if let Some(spans) = found {
            captures.subject.clear();
            captures.subject.extend_from_slice(subject);
            captures.spans = spans;
        }
        Ok(found.is_some())
    }

    /// Finds the first match in `subject` at or after `from`, for replacing. Assertions such as `^`
    /// and `\b` see the text before `from`.
    ///
    /// # Errors
    /// Where the match takes too many steps.
    pub fn find_from(
        &self,
        subject: &[u8],
        from: usize,
        meter: Meter<'_>,
    ) -> Result<Option<(usize, usize)>, Exhausted> {
        if from == 0 {
            let whole =
                |spans: Spans| spans.at[0].map(|(start, end)| (start as usize, end as usize));
            return Ok(self.spans(subject, meter)?.and_then(whole));
        }
        match &self.matcher {
            Matcher::Shape(shape) => {
                meter.spend(steps_of_shape(subject))?;
                Ok(shape.find_from(subject, from))
            }
            Matcher::Pcre(engine) => engine.find_from(&self.definition, subject, from, meter),
        }
    }

    fn spans(&self, subject: &[u8], meter: Meter<'_>) -> Result<Option<Spans>, Exhausted> {
        match &self.matcher {
            Matcher::Shape(shape) => {
                meter.spend(steps_of_shape(subject))?;
                Ok(shape.spans(subject))
            }
            Matcher::Pcre(engine) => engine.spans(&self.definition, subject, meter),
        }
    }
}

/// Returns the steps of a match without PCRE2, which looks at each byte about once.
#[inline]
fn steps_of_shape(subject: &[u8]) -> u64 {
    1 + subject.len() as u64 / 16
}

impl Captures {
    /// Clears the captures.
    pub fn clear(&mut self) {
        self.subject.clear();
        self.spans = Spans::default();
    }

    /// Sets a subject without captures; `$0` is empty.
    pub fn begin(&mut self, subject: &[u8]) {
        self.subject.clear();
        self.subject.extend_from_slice(subject);
        self.spans = Spans::default();
        self.spans.push(Some((0, 0)));
    }

    /// Returns the text that a group captured; empty where the group took no part.
    pub fn group(&self, number: usize) -> &[u8] {
        match self.spans.at.get(number) {
            Some(Some((start, end))) => {
                self.subject.get(*start as usize..*end as usize).unwrap_or_default()
            }
            _ => b"",
        }
    }

    /// Returns the range of the whole match in the subject, in bytes; empty at the beginning of the
    /// subject before the first match.
    pub fn span(&self) -> (usize, usize) {
        self.spans.at[0].map_or((0, 0), |(start, end)| (start as usize, end as usize))
    }

    /// Returns the text that the pattern was matched against.
    pub fn subject(&self) -> &[u8] {
        &self.subject
    }

    /// Returns the number of groups, at most 10, the whole match included; 0 where nothing has
    /// matched yet.
    pub fn len(&self) -> usize {
        self.spans.count as usize
    }

    /// Returns whether nothing has matched yet.
    pub fn is_empty(&self) -> bool {
        self.spans.count == 0
    }
}

impl Spans {
    /// Adds a group; beyond the tenth it does nothing.
    fn push(&mut self, span: Option<(usize, usize)>) {
        if let Some(slot) = self.at.get_mut(self.count as usize) {
            *slot = span.map(|(start, end)| (start as u32, end as u32));
            self.count += 1;
        }
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = if self.definition.caseless { "i" } else { "" };
        write!(f, "/{}/{flags}", String::from_utf8_lossy(&self.definition.text))
    }
}

impl fmt::Display for BadPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at offset {}", self.message, self.offset)
    }
}
