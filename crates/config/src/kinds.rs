//! The kinds of values: how each is read, how its default is written, and its name in messages and
//! in the manual.

mod acme;
mod amounts;
mod fields;
mod isolation;
mod lanes;
mod listeners;
mod logs;
mod names;
mod overrides;
mod paths;
mod proxies;
mod sending;
mod spans;
mod tables;
mod tls;
mod upstreams;
mod words;

use std::marker::PhantomData;

use toml::Spanned;
use toml::de::DeValue;

pub(crate) use acme::{AskUrl, Challenge, DirectoryUrl, Email};
pub(crate) use amounts::{
    AtLeast, AutoCount, AutoCountTo, AutoSize, Niceness, RateLimit, Size, SizeWithin, Within,
};
pub(crate) use fields::{
    Charset, ErrorPages, FieldName, FieldRules, FieldTable, NameGlob, TypeGlob,
};
pub(crate) use isolation::{ConnectTo, FunctionName, SandboxLevel};
pub(crate) use lanes::{LaneTables, MethodName, NamedValue, PathGlob};
pub use listeners::listen_addresses;
pub(crate) use listeners::{Address, Addresses, AdminAddress, Listeners, Mode, Umask};
pub(crate) use logs::{AccessLogTarget, ErrorLogTarget, Format, LevelName};
pub(crate) use names::{
    Extension, Hosts, ModeName, ModuleName, NamePattern, PagePath, PhpVersion, PlainName, SapiName,
    Text, User,
};
pub(crate) use overrides::{DirectiveName, OverrideClasses, RuleLines};
pub(crate) use paths::{EncodedSlashRule, FilePath, RootPath, SymlinkPolicy, Try};
pub(crate) use proxies::{AddressField, ForwardedName, Proxies, TrustedValue};
pub(crate) use sending::{Accel, Coding};
pub(crate) use spans::{TimeSpan, TimeSpanOrZero};
pub(crate) use tables::{Include, Ini, PhpTable, SiteTables, Table, VariableName, VariableTable};
pub(crate) use tls::{Ciphers, OldestTls, SourceName, TlsTable, TransportSecurity, Verify};
pub(crate) use upstreams::UpstreamUrl;

use crate::diagnostic::MistakeCollector;

/// A kind of value. There is one per meaning, and not one per Rust type: a size and a count are
/// both integers.
pub(crate) trait ValueKind {
    /// The Rust type of a value.
    type Value;

    /// Description of the kind for the manual.
    fn name() -> String;

    /// Writes a value as in the file, or as a word such as `unset` if the file has no notation for
    /// it.
    fn show(value: &Self::Value) -> String;

    /// Reads a value. Reports mistakes in `report` and returns `None` then.
    fn read(value: &Spanned<DeValue<'_>>, report: &mut MistakeCollector<'_>)
    -> Option<Self::Value>;
}

/// A mistake in a value: its description, and advice.
pub(crate) struct ValueError {
    pub(crate) message: String,
    pub(crate) help: String,
}

impl ValueError {
    pub(crate) fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        ValueError {
            message: message.into(),
            help: help.into(),
        }
    }
}

/// Reads a string and calls `parse` with it, whose error is reported as a mistake in the value.
/// Another type of value is reported as "expected `expected`". `None` after a mistake, which is
/// reported.
pub(crate) fn read_string<T>(
    value: &Spanned<DeValue<'_>>,
    report: &mut MistakeCollector<'_>,
    expected: &str,
    parse: impl FnOnce(&str) -> Result<T, ValueError>,
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
    report: &mut MistakeCollector<'_>,
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

/// Writes `text` as a TOML string.
pub(crate) fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// A value that may be missing.
pub(crate) struct Optional<K>(PhantomData<K>);

impl<K: ValueKind> ValueKind for Optional<K> {
    type Value = Option<K::Value>;

    fn name() -> String {
        K::name()
    }

    fn show(value: &Self::Value) -> String {
        value.as_ref().map_or_else(|| "unset".to_owned(), K::show)
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<Self::Value> {
        K::read(value, report).map(Some)
    }
}

/// `true` or `false`.
pub(crate) struct Flag;

impl ValueKind for Flag {
    type Value = bool;

    fn name() -> String {
        "`true` or `false`".to_owned()
    }

    fn show(value: &bool) -> String {
        value.to_string()
    }

    fn read(value: &Spanned<DeValue<'_>>, report: &mut MistakeCollector<'_>) -> Option<bool> {
        match value.get_ref() {
            DeValue::Boolean(flag) => Some(*flag),
            other => {
                wrong_type(value, other, report, &Self::name());
                None
            }
        }
    }
}

/// An array. A single value is read as an array of one.
pub(crate) struct List<K>(PhantomData<K>);

impl<K: ValueKind> ValueKind for List<K> {
    type Value = Vec<K::Value>;

    fn name() -> String {
        format!("a list of {}", K::name())
    }

    fn show(values: &Self::Value) -> String {
        format!("[{}]", values.iter().map(K::show).collect::<Vec<_>>().join(", "))
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<Self::Value> {
        let Some(items) = value.get_ref().as_array() else {
            return K::read(value, report).map(|one| vec![one]);
        };
        // Every item is read, even after a mistake, to report all mistakes together.
        let read: Vec<_> = items.iter().map(|item| K::read(item, report)).collect();
        read.into_iter().collect()
    }
}
