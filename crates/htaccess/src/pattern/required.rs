//! A check of the subject before PCRE2 is called: without one of a few words in it, the pattern
//! cannot match.

use super::literals;
use super::syntax::{Alternative, PatternNode, PatternTree};

/// Words of which a subject must have one, letters in either case.
pub(super) struct Required {
    words: Box<[RequiredWord]>,
}

enum RequiredWord {
    /// At the beginning.
    Begins(Box<[u8]>),
    /// Anywhere.
    Contains(Box<[u8]>),
}

/// The words at most; searching for more takes longer than PCRE2.
const MOST: usize = 4;

impl Required {
    /// Returns the words that a pattern requires; `None` where too little is known.
    pub(super) fn of(tree: &PatternTree) -> Option<Required> {
        let mut words = Vec::new();
        for branch in &tree.branches {
            match beginning(branch) {
                Some(word) => words.push(RequiredWord::Begins(word.into())),
                None => {
                    let branch_words = literals::of_branch(branch)?.into_iter();
                    words.extend(branch_words.map(|word| RequiredWord::Contains(word.into())));
                }
            }
        }
        (words.len() <= MOST).then(|| Required { words: words.into() })
    }

    /// Returns whether a word is there.
    #[inline]
    pub(super) fn is_in(&self, subject: &[u8]) -> bool {
        self.words.iter().any(|word| match word {
            RequiredWord::Begins(word) => {
                subject.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
            }
            RequiredWord::Contains(word) => contains(subject, word),
        })
    }
}

/// Returns the text that a branch with `^` begins with.
fn beginning(branch: &Alternative) -> Option<Vec<u8>> {
    let (first, rest) = branch.split_first()?;
    if !matches!(first.node, PatternNode::Start) || !first.is_once() {
        return None;
    }
    let bytes = rest.iter().map_while(|item| match item.node {
        PatternNode::Byte(byte) if item.is_once() => Some(byte.to_ascii_lowercase()),
        _ => None,
    });
    Some(bytes.collect()).filter(|word: &Vec<u8>| !word.is_empty())
}

/// Returns whether `word`, which is in small letters and not empty, is in `subject` in any case.
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
    fn what_patterns_require() {
        let table = [
            (r"/\.|^\.(?!well-known/)", "a/.b", true),
            (r"/\.|^\.(?!well-known/)", ".b", true),
            (r"/\.|^\.(?!well-known/)", "a.b", false),
            ("^ab[cd]|x[de]y", "AB", true),
            ("^ab[cd]|x[de]y", "xxy", true),
            ("^ab[cd]|x[de]", "cab", false),
            ("^a?b[cd]", "bc", true),
        ];
        for (pattern, subject, expected) in table {
            let tree = super::super::syntax::parse(pattern.as_bytes(), false).unwrap();
            let required = Required::of(&tree).unwrap();
            assert_eq!(required.is_in(subject.as_bytes()), expected, "{pattern} {subject}");
        }
    }

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
            assert_eq!(contains(subject.as_bytes(), word.as_bytes()), expected, "{word} {subject}");
        }
    }
}
