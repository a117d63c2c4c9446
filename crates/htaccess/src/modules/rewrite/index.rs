//! An index of the rules of one file, which finds those that may match a path without trying one
//! after the other.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::rule::RewriteRule;
use crate::pattern::{Candidates, PatternSet};
use crate::work::Meter;

/// An index of the rules of one file.
///
/// A rule that does not match has no effect, so rules may be skipped as long as none of them would
/// have matched. Rules after one with `C` are reached through it only.
#[derive(Debug)]
pub(super) struct RuleIndex {
    /// The rules with a pattern such as `^old\.html$`, by its text in small letters.
    exact: HashMap<Box<[u8]>, Vec<u32>>,
    /// The other rules with known words: those that see the path without its first slash, and those
    /// that see the whole path.
    sets: [RuleSet; 2],
    /// The rules that must be tried: those with `!`.
    always: Box<[u32]>,
}

/// Rules with known words, and their places, in order.
#[derive(Debug)]
struct RuleSet {
    patterns: PatternSet,
    places: Box<[u32]>,
}

/// The rules that may match a path. Reused, it allocates nothing.
#[derive(Debug, Default)]
pub(super) struct MatchingRules {
    places: Vec<usize>,
    lower: Vec<u8>,
    candidates: Candidates,
}

/// Fewer rules than this are tried faster than looked up.
pub(super) const FEWEST: usize = 24;

impl RuleIndex {
    /// Makes the index of a file's rules, which are in order.
    pub fn new(rules: &[Arc<RewriteRule>]) -> RuleIndex {
        let mut exact: HashMap<Box<[u8]>, Vec<u32>> = HashMap::new();
        let mut sets = [(Vec::new(), Vec::new()), (Vec::new(), Vec::new())];
        let mut always = Vec::new();
        for (place, rule) in rules.iter().enumerate() {
            let place = place as u32;
            if rule.negated {
                always.push(place);
            } else if let Some(text) = exact_text(rule.pattern.text()) {
                let text = match rule.sees_slash {
                    true => text.strip_prefix(b"/").unwrap_or(&text),
                    false => &text,
                };
                exact.entry(text.into()).or_default().push(place);
            } else {
                let (patterns, places) = &mut sets[usize::from(rule.sees_slash)];
                places.push(place);
                patterns.push(rule.pattern.clone());
            }
        }
        RuleIndex {
            exact,
            sets: sets.map(|(patterns, places)| RuleSet {
                patterns: PatternSet::new(patterns),
                places: places.into(),
            }),
            always: always.into(),
        }
    }

    /// Adds the rules that may match a path, which is given without and with its first slash.
    /// `start` is the place of the file's first rule among all.
    pub fn chart(
        &self,
        start: usize,
        subjects: [&[u8]; 2],
        matching: &mut MatchingRules,
        meter: Meter<'_>,
    ) {
        let MatchingRules { places, lower, candidates } = matching;
        let exact = self.exact.get(&**lower).map_or(&[][..], Vec::as_slice);
        places.extend(self.always.iter().chain(exact).map(|&place| start + place as usize));
        for (set, subject) in self.sets.iter().zip(subjects) {
            if !set.places.is_empty() {
                let found = set.patterns.candidates(subject, candidates, meter);
                let found = found.iter().map(|&found| set.places[found as usize]);
                places.extend(found.map(|place| start + place as usize));
            }
        }
    }
}

impl MatchingRules {
    /// Begins anew, for a path without its first slash.
    pub fn begin(&mut self, subject: &[u8]) {
        self.lower.clear();
        self.lower.extend(subject.iter().map(u8::to_ascii_lowercase));
        self.places.clear();
    }

    /// Adds all of these rules.
    pub fn add_all(&mut self, places: Range<usize>) {
        self.places.extend(places);
    }

    /// Ends what [`begin`](MatchingRules::begin) has begun.
    pub fn end(&mut self, meter: Meter<'_>) {
        meter.note(self.places.len() as u64);
        self.places.sort_unstable();
    }

    /// The places from `at` on, in order.
    pub fn from(&self, at: usize) -> impl Iterator<Item = usize> {
        let from = self.places.partition_point(|&place| place < at);
        self.places[from..].iter().copied()
    }
}

/// Returns the only text that a pattern such as `^old\.html$` matches, in small letters.
fn exact_text(pattern: &[u8]) -> Option<Vec<u8>> {
    let mut rest = pattern.strip_prefix(b"^")?.strip_suffix(b"$")?;
    let mut text = Vec::with_capacity(rest.len());
    while let [byte, after @ ..] = rest {
        let (byte, after) = match (byte, after) {
            (b'\\', [escaped, after @ ..])
                if escaped.is_ascii_punctuation() || *escaped == b' ' =>
            {
                (escaped, after)
            }
            (
                b'\\' | b'^' | b'$' | b'.' | b'|' | b'?' | b'*' | b'+' | b'(' | b')' | b'[' | b'{',
                _,
            ) => {
                return None;
            }
            _ => (byte, after),
        };
        text.push(byte.to_ascii_lowercase());
        rest = after;
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_patterns_are_known() {
        let table = [
            (r"^Old\.html$", Some("old.html")),
            (r"^a\ b/c-d_e$", Some("a b/c-d_e")),
            ("^$", Some("")),
            (r"^a\$", None),
            (r"^a\\$", Some(r"a\")),
            (r"^a\d$", None),
            ("^a.$", None),
            ("^a?$", None),
            ("^(a)$", None),
            ("^a{2}$", None),
            ("^[a]$", None),
            ("^a", None),
            ("a$", None),
        ];
        for (pattern, expected) in table {
            assert_eq!(
                exact_text(pattern.as_bytes()).as_deref(),
                expected.map(str::as_bytes),
                "{pattern}"
            );
        }
    }
}
