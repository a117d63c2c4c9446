//! Kinds of values that are one of a few words.

use toml::Spanned;
use toml::de::DeValue;

use super::{ValueError, quoted, read_string};
use crate::diagnostic::MistakeCollector;

/// Declares a kind that is one of a few words: its name, the Rust type of a value, the part of a
/// message behind another word, and an array of the words and their values, in the manual's order.
macro_rules! word_kind {
    ($(#[$doc:meta])+ $Name:ident, $Value:ty, $wrong:literal, $words:expr) => {
        $(#[$doc])+
        pub(crate) struct $Name;

        impl super::ValueKind for $Name {
            type Value = $Value;

            fn name() -> String {
                super::words::listed($words)
            }

            fn show(value: &$Value) -> String {
                super::words::shown($words, value)
            }

            fn read(
                value: &toml::Spanned<toml::de::DeValue<'_>>,
                report: &mut crate::diagnostic::MistakeCollector<'_>,
            ) -> Option<$Value> {
                super::words::read($words, value, report, $wrong)
            }
        }
    };
}

pub(super) use word_kind;

/// Lists words as a sentence does: `"a"`, `"b"` or `"c"`.
pub(super) fn listed<T, const N: usize>(words: [(&str, T); N]) -> String {
    let words = words.map(|(word, _)| format!("`{}`", quoted(word)));
    match words.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => words.concat(),
    }
}

/// Writes the word for `value`, which has one.
pub(super) fn shown<T: PartialEq, const N: usize>(words: [(&str, T); N], value: &T) -> String {
    let word = words.iter().find(|(_, known)| known == value);
    word.map_or_else(String::new, |(word, _)| quoted(word))
}

/// Reads one of the words. Returns `None`, after a report, for another one.
pub(super) fn read<T, const N: usize>(
    words: [(&str, T); N],
    value: &Spanned<DeValue<'_>>,
    report: &mut MistakeCollector<'_>,
    wrong: &str,
) -> Option<T> {
    let names = words.each_ref().map(|(word, _)| (*word, ()));
    let expected = listed(names);
    read_string(value, report, &expected, |text| {
        let found = words.into_iter().find(|(word, _)| *word == text);
        found
            .map(|(_, value)| value)
            .ok_or_else(|| ValueError::new(format!("`{text}` {wrong}"), format!("give {expected}")))
    })
}
