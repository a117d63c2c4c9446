//! Where Howdah differs from Apache on purpose, each with its reason. One that matches no case any more fails the suite.

use crate::answer::Answer;

/// A decided difference.
pub struct Decided {
    /// The cases: `file: title`, with `*` for anything.
    pub cases: &'static str,
    /// A line that Apache's answer has and Howdah's lacks, with `*` for anything; empty for none.
    pub apache: &'static str,
    /// A line that Howdah's answer has and Apache's lacks.
    pub howdah: &'static str,
    pub why: &'static str,
}

/// All of them.
pub const DECIDED: &[Decided] = &[
    Decided {
        cases: "*",
        apache: "",
        howdah: "$HTTP_AUTHORIZATION=*",
        why: "scripts see it without the rules that every application carries for that",
    },
    Decided {
        cases: "*",
        apache: "",
        howdah: "content-type: application/octet-stream",
        why: "without any type a browser guesses, and a visitor's upload could become a page of the site",
    },
];

/// What is left of a comparison when the decided differences are taken out: lines of Apache's, lines of Howdah's.
pub fn left(
    case: &str,
    apache: &Answer,
    howdah: &Answer,
    mut used: impl FnMut(usize),
) -> (Vec<String>, Vec<String>) {
    let (mut theirs, mut ours) = (apache.without(howdah), howdah.without(apache));
    for (number, decided) in DECIDED.iter().enumerate() {
        let has = |lines: &[String], pattern: &str| {
            pattern.is_empty() || lines.iter().any(|line| matches(pattern, line))
        };
        if matches(decided.cases, case) && has(&theirs, decided.apache) && has(&ours, decided.howdah) {
            theirs.retain(|line| !matches(decided.apache, line));
            ours.retain(|line| !matches(decided.howdah, line));
            used(number);
        }
    }
    (theirs, ours)
}

/// Whether a text is as the pattern says, in which `*` stands for anything.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[test]
fn patterns() {
    let rows = [
        ("a", "a", true),
        ("a", "ab", false),
        ("", "", true),
        ("a*", "abc", true),
        ("*c", "abc", true),
        ("a*c", "abd", false),
        ("a*b*c", "a1b2c", true),
        ("a*b*c", "a1c", false),
    ];
    for (pattern, text, expected) in rows {
        assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
    }
}
