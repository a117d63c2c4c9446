//! The kinds of values: how each is read, how its default is shown, what it is called in messages
//! and in the manual.

mod amounts;
mod logs;
mod names;
mod network;
mod overrides;
mod paths;
mod tables;
mod upstreams;

use std::marker::PhantomData;

use toml::Spanned;
use toml::de::DeValue;

pub(crate) use amounts::{AtLeast, Counted, Size, Span};
pub(crate) use logs::{Access, Errors, Format, Level};
pub(crate) use names::{Extension, Hosts, NamePattern, PlainName, Text};
pub(crate) use network::Addresses;
pub use network::listen_addresses;
pub(crate) use overrides::{DirectiveName, Overrides, Rules};
pub(crate) use paths::{File, Root, SymlinkPolicy, Try};
pub(crate) use tables::{Environment, Ini, PhpTable, Sites, Table};
pub(crate) use upstreams::UpstreamUrl;

use crate::diagnostic::Report;

/// A kind of value, one per meaning rather than one per Rust type: a size and a count are both
/// integers.
pub(crate) trait Kind {
    /// What a value of this kind is read into.
    type Value;

    /// In words, for the manual.
    fn name() -> String;

    /// As it would be written in the file; a word such as `unset` for what cannot be written.
    fn show(value: &Self::Value) -> String;

    /// Reads a value; what is wrong with it goes to `report`, and the result is `None` then.
    fn read(value: &Spanned<DeValue<'_>>, report: &mut Report<'_>) -> Option<Self::Value>;
}

/// What is wrong with a value, and what to do.
pub(crate) struct Problem {
    pub(crate) message: String,
    pub(crate) help: String,
}

impl Problem {
    pub(crate) fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Problem {
            message: message.into(),
            help: help.into(),
        }
    }
}

/// Reads a string and gives it to `parse`; another type of value is reported as "expected
/// `expected`".
pub(crate) fn read_string<T>(
    value: &Spanned<DeValue<'_>>,
    report: &mut Report<'_>,
    expected: &str,
    parse: impl FnOnce(&str) -> Result<T, Problem>,
) -> Option<T> {
    match value.get_ref() {
        DeValue::String(text) => match parse(text) {
            Ok(parsed) => Some(parsed),
            Err(problem) => {
                report.add(value.span(), problem.message, Some(problem.help));
                None
            }
        },
        other => {
            wrong_type(value, other, report, expected);
            None
        }
    }
}

/// Reports that a value has the wrong type.
pub(crate) fn wrong_type(
    value: &Spanned<DeValue<'_>>,
    found: &DeValue<'_>,
    report: &mut Report<'_>,
    expected: &str,
) {
    let article = if found.type_str().starts_with(['a', 'e', 'i', 'o', 'u']) {
        "an"
    } else {
        "a"
    };
    report.add(
        value.span(),
        format!("expected {expected}, found {article} {}", found.type_str()),
        None,
    );
}

/// `text` as a TOML string.
pub(crate) fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// A value that may be left out.
pub(crate) struct Optional<K>(PhantomData<K>);

impl<K: Kind> Kind for Optional<K> {
    type Value = Option<K::Value>;

    fn name() -> String {
        K::name()
    }

    fn show(value: &Self::Value) -> String {
        value.as_ref().map_or_else(|| "unset".to_owned(), K::show)
    }

    fn read(value: &Spanned<DeValue<'_>>, report: &mut Report<'_>) -> Option<Self::Value> {
        K::read(value, report).map(Some)
    }
}

/// `true` or `false`.
pub(crate) struct Flag;

impl Kind for Flag {
    type Value = bool;

    fn name() -> String {
        "`true` or `false`".to_owned()
    }

    fn show(value: &bool) -> String {
        value.to_string()
    }

    fn read(value: &Spanned<DeValue<'_>>, report: &mut Report<'_>) -> Option<bool> {
        match value.get_ref() {
            DeValue::Boolean(flag) => Some(*flag),
            other => {
                wrong_type(value, other, report, &Self::name());
                None
            }
        }
    }
}

/// An array. A single value stands for an array of one.
pub(crate) struct List<K>(PhantomData<K>);

impl<K: Kind> Kind for List<K> {
    type Value = Vec<K::Value>;

    fn name() -> String {
        format!("a list of {}", K::name())
    }

    fn show(values: &Self::Value) -> String {
        format!("[{}]", values.iter().map(K::show).collect::<Vec<_>>().join(", "))
    }

    fn read(value: &Spanned<DeValue<'_>>, report: &mut Report<'_>) -> Option<Self::Value> {
        let Some(items) = value.get_ref().as_array() else {
            return K::read(value, report).map(|one| vec![one]);
        };
        // Every item is read even after one failed, so that all mistakes are reported together.
        let read: Vec<_> = items.iter().map(|item| K::read(item, report)).collect();
        read.into_iter().collect()
    }
}
