//! Tables within the file: sections, sites, PHP, and pairs of names and values.

use std::marker::PhantomData;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::names::{IncludePattern, text_kind};
use super::{List, ValueError, ValueKind, quoted, read_string, wrong_type};
use crate::acme::Acme;
use crate::diagnostic::MistakeCollector;
use crate::section::ConfigTable;
use crate::settings::{
    ClientLimits, FieldRule, Http2, Http3, Lane, ListenerTable, Log, Php, ResourceLimits,
    SiteSettings, SiteTls,
};
use crate::values::Includes;

/// A `[section]` of the file.
pub(crate) struct Table<S>(PhantomData<S>);

/// The heading of a section in the file.
pub(crate) trait TableHeading: ConfigTable {
    const HEADING: &'static str;
}

impl TableHeading for ClientLimits {
    const HEADING: &'static str = "[limits]";
}

impl TableHeading for Http2 {
    const HEADING: &'static str = "[http2]";
}

impl TableHeading for Http3 {
    const HEADING: &'static str = "[http3]";
}

impl TableHeading for Log {
    const HEADING: &'static str = "[log]";
}

impl TableHeading for Acme {
    const HEADING: &'static str = "[acme]";
}

impl TableHeading for ListenerTable {
    const HEADING: &'static str = "a table of `listen`";
}

impl TableHeading for SiteSettings {
    const HEADING: &'static str = "[[site]]";
}

impl TableHeading for FieldRule {
    const HEADING: &'static str = "[[site.fields]]";
}

impl TableHeading for SiteTls {
    const HEADING: &'static str = "[site.tls]";
}

impl TableHeading for Php {
    const HEADING: &'static str = "[site.php]";
}

impl TableHeading for ResourceLimits {
    const HEADING: &'static str = "[site.php.rlimits]";
}

impl TableHeading for Lane {
    const HEADING: &'static str = "[[site.php.lane]]";
}

impl<S: TableHeading> ValueKind for Table<S> {
    type Value = S;

    fn name() -> String {
        format!("a table `{}`", S::HEADING)
    }

    fn show(_: &S) -> String {
        "the defaults below".to_owned()
    }

    fn read(value: &Spanned<DeValue<'_>>, report: &mut MistakeCollector<'_>) -> Option<S> {
        match value.get_ref() {
            DeValue::Table(table) => Some(S::read(table, S::HEADING, report)),
            other => {
                wrong_type(value, other, report, &Self::name());
                None
            }
        }
    }
}

/// The `[[site]]` tables.
pub(crate) struct SiteTables;

impl ValueKind for SiteTables {
    type Value = Vec<SiteSettings>;

    fn name() -> String {
        "tables `[[site]]`".to_owned()
    }

    fn show(_: &Vec<SiteSettings>) -> String {
        "must be given".to_owned()
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<Vec<SiteSettings>> {
        let DeValue::Array(tables) = value.get_ref() else {
            let help = "begin each site with `[[site]]`, in two pairs of brackets";
            report.add(value.span(), "the sites are not a list of tables", Some(help.to_owned()));
            return None;
        };
        let sites = tables.iter().map(|table| {
            let mut site = Table::<SiteSettings>::read(table, report)?;
            if table.get_ref().get("root").is_none() {
                let help = "add `root = \"/path/to/its/public/folder\"`";
                report.add(table.span(), "the site has no root", Some(help.to_owned()));
            }
            if site.name.is_empty() {
                site.name = site.name_from_hosts();
            }
            Some(site)
        });
        let sites: Vec<_> = sites.collect();
        sites.into_iter().collect()
    }
}

/// Files to include.
pub(crate) struct Include;

impl ValueKind for Include {
    type Value = Includes;

    fn name() -> String {
        List::<IncludePattern>::name()
    }

    fn show(value: &Includes) -> String {
        List::<IncludePattern>::show(&value.patterns)
    }

    fn read(value: &Spanned<DeValue<'_>>, report: &mut MistakeCollector<'_>) -> Option<Includes> {
        let patterns = List::<IncludePattern>::read(value, report)?;
        Some(Includes { patterns, files: Vec::new() })
    }
}

/// `[site.php]`, `php = true` or `php = false`.
pub(crate) struct PhpTable;

impl ValueKind for PhpTable {
    type Value = Option<Php>;

    fn name() -> String {
        "`false`, or a table `[site.php]`".to_owned()
    }

    fn show(value: &Option<Php>) -> String {
        if value.is_some() {
            "a table with the defaults below"
        } else {
            "false"
        }
        .to_owned()
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<Option<Php>> {
        match value.get_ref() {
            DeValue::Boolean(true) => Some(Some(Php::default())),
            DeValue::Boolean(false) => Some(None),
            _ => Table::<Php>::read(value, report).map(Some),
        }
    }
}

/// php.ini values.
pub(crate) struct Ini;

impl ValueKind for Ini {
    type Value = Vec<(String, String)>;

    fn name() -> String {
        "a table of php.ini names and values".to_owned()
    }

    fn show(value: &Vec<(String, String)>) -> String {
        show_pairs(value)
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<Vec<(String, String)>> {
        read_pairs(value, report, &Self::name(), |name| {
            let plain =
                name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
            if name.is_empty() || !plain {
                return Err(ValueError::new(
                    format!("`{name}` is not a php.ini name"),
                    "use letters, digits, `.`, `_` and `-`, as in `\"opcache.memory_consumption\"`",
                ));
            }
            Ok(())
        })
    }
}

/// Environment variables.
pub(crate) struct VariableTable;

impl ValueKind for VariableTable {
    type Value = Vec<(String, String)>;

    fn name() -> String {
        "a table of environment variables".to_owned()
    }

    fn show(value: &Vec<(String, String)>) -> String {
        show_pairs(value)
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<Vec<(String, String)>> {
        read_pairs(value, report, &Self::name(), check_variable)
    }
}

text_kind!(
    /// The name of an environment variable.
    VariableName, "the name of an environment variable", check_variable
);

fn check_variable(name: &str) -> Result<(), ValueError> {
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !plain {
        return Err(ValueError::new(
            format!("`{name}` is not the name of an environment variable"),
            "use letters, digits and `_`",
        ));
    }
    Ok(())
}

pub(super) fn show_pairs(pairs: &[(String, String)]) -> String {
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(name, value)| format!("{} = {}", quoted(name), quoted(value)))
        .collect();
    if pairs.is_empty() {
        "{}".to_owned()
    } else {
        format!("{{ {} }}", pairs.join(", "))
    }
}

/// Reads a table of scalars in the order of the file. An error of `check_name` is reported as a
/// mistake in the name. `None` after a mistake, which is reported.
pub(super) fn read_pairs(
    value: &Spanned<DeValue<'_>>,
    report: &mut MistakeCollector<'_>,
    expected: &str,
    check_name: impl Fn(&str) -> Result<(), ValueError>,
) -> Option<Vec<(String, String)>> {
    let DeValue::Table(table) = value.get_ref() else {
        wrong_type(value, value.get_ref(), report, expected);
        return None;
    };
    let mut pairs = Vec::new();
    let mut sound = true;
    collect_pairs(table, "", report, &check_name, &mut pairs, &mut sound);
    pairs.sort_by_key(|(offset, _, _)| *offset);
    sound.then(|| pairs.into_iter().map(|(_, name, value)| (name, value)).collect())
}

/// `opcache.enable = true` without quotes is a table `opcache` to TOML. Its meaning is plain, so it
/// is taken.
fn collect_pairs(
    table: &DeTable<'_>,
    prefix: &str,
    report: &mut MistakeCollector<'_>,
    check_name: &impl Fn(&str) -> Result<(), ValueError>,
    pairs: &mut Vec<(usize, String, String)>,
    sound: &mut bool,
) {
    for (key, value) in table {
        let name = format!("{prefix}{}", key.get_ref());
        if let DeValue::Table(inner) = value.get_ref() {
            collect_pairs(inner, &format!("{name}."), report, check_name, pairs, sound);
            continue;
        }
        if let Err(problem) = check_name(&name) {
            report.add(key.span(), problem.message, Some(problem.help));
            *sound = false;
            continue;
        }
        match scalar(value, report) {
            Some(text) => pairs.push((key.span().start, name, text)),
            None => *sound = false,
        }
    }
}

fn scalar(value: &Spanned<DeValue<'_>>, report: &mut MistakeCollector<'_>) -> Option<String> {
    let text = match value.get_ref() {
        DeValue::String(text) => text.to_string(),
        // PHP reads decimal, and 0x and 0o as in TOML; decimal is what everything that looks at the
        // value expects.
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => number.to_string(),
            Err(_) => {
                report.add(value.span(), format!("{number} is too large"), None);
                return None;
            }
        },
        DeValue::Boolean(flag) => if *flag { "1" } else { "0" }.to_owned(),
        other => {
            wrong_type(value, other, report, "a string, a whole number, `true` or `false`");
            return None;
        }
    };
    // A line break would begin another setting where values are handed on as php.ini text.
    if text.contains(['\0', '\n', '\r']) {
        let help = "values are single lines".to_owned();
        report.add(value.span(), "the value holds a line break or a NUL", Some(help));
        return None;
    }
    Some(text)
}
