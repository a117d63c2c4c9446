//! A look at the subject before PCRE2 is asked: without one of a few words in it, the pattern cannot match.

use super::literals;
use super::syntax::Tree;

/// Words of which a subject must contain one, letters in either case.
pub(super) struct Required {
    words: Box<[Box<[u8]>]>,
}

/// More words than this take longer than PCRE2 does.
const MOST: usize = 4;

impl Required {
    /// What a pattern requires; `None` where too little is known.
    pub(super) fn of(tree: &Tree) -> Option<Required> {
        let words = literals::of(tree).filter(|words| words.len() <= MOST)?;
        Some(Required {
            words: words.into_iter().map(Into::into).collect(),
        })
    }

    /// Whether a word is there.
    #[inline]
    pub(super) fn is_in(&self, subject: &[u8]) -> bool {
        self.words.iter().any(|word| contains(subject, word))
    }
}

/// Whether `word`, which is in small letters and not empty, is in `subject` in any case.
fn contains(subject: &[u8], word: &[u8]) -> bool {
    let first = word[0];
    let Some(last) = subject.len().checked_sub(word.len()) else {
        return false;
    };
    let is_there = |at: usize| subject[at..at + word.len()].eq_ignore_ascii_case(word);
    memchr::memchr2_iter(first, first.to_ascii_uppercase(), &subject[..=last]).any(is_there)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_any_case() {
        let table = [
            ("a", "", false),
            ("a", "xA", true),
            ("a.b", "aa.B", true),
            ("a.b", "a.", false),
            ("aab", "aaab", true),
            ("@a", "`A@A", true),
        ];
        for (word, subject, expected) in table {
            assert_eq!(
                contains(subject.as_bytes(), word.as_bytes()),
                expected,
                "{word} {subject}"
            );
        }
    }
}
