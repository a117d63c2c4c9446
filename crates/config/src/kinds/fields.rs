//! Fields of responses, error pages and charsets.

use toml::Spanned;
use toml::de::DeValue;

use super::names::text_kind;
use super::tables::{Table, read_pairs, show_pairs};
use super::{ValueError, ValueKind, quoted, read_string, wrong_type};
use crate::diagnostic::MistakeCollector;
use crate::settings::FieldRule;

/// The `[[site.fields]]` tables.
pub(crate) struct FieldRules;

impl ValueKind for FieldRules {
    type Value = Vec<FieldRule>;

    fn name() -> String {
        "tables `[[site.fields]]`".to_owned()
    }

    fn show(_: &Vec<FieldRule>) -> String {
        "none".to_owned()
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<Vec<FieldRule>> {
        let DeValue::Array(tables) = value.get_ref() else {
            wrong_type(value, value.get_ref(), report, &Self::name());
            return None;
        };
        let rules = tables.iter().map(|table| {
            let rule = Table::<FieldRule>::read(table, report)?;
            // A key whose value was refused has been reported.
            let is_said = |key| {
                let value = table.get_ref().get(key).map(Spanned::get_ref);
                value.is_some_and(|value| match value {
                    DeValue::Table(table) => !table.is_empty(),
                    DeValue::Array(values) => !values.is_empty(),
                    _ => true,
                })
            };
            if !is_said("set") && !is_said("unset") {
                let help = "add `set = { Cache-Control = \"max-age=3600\" }`, or `unset`";
                report.add(table.span(), "these fields change nothing", Some(help.to_owned()));
            }
            Some(rule)
        });
        let rules: Vec<_> = rules.collect();
        rules.into_iter().collect()
    }
}

/// Names and values of fields.
pub(crate) struct FieldTable;

impl ValueKind for FieldTable {
    type Value = Vec<(String, String)>;

    fn name() -> String {
        "a table of field names and values".to_owned()
    }

    fn show(value: &Self::Value) -> String {
        show_pairs(value)
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<Self::Value> {
        let pairs = read_pairs(value, report, &Self::name(), check_name)?;
        for (name, text) in &pairs {
            let is_plain = text.bytes().all(|byte| byte >= b' ' && byte != 0x7f && byte != b'\\');
            if !is_plain || text.len() > LONGEST_VALUE || text.starts_with("expr=") {
                let help = "write printable characters without `\\`, at most 4,000 of them";
                let message = format!("the value of `{name}` cannot be sent");
                report.add(value.span(), message, Some(help.to_owned()));
                return None;
            }
        }
        Some(pairs)
    }
}

text_kind!(
    /// The name of a field.
    FieldName, "names of fields" => "the name of a field", check_name
);

/// Refuses what is no name, and the fields that belong to the server.
fn check_name(name: &str) -> Result<(), ValueError> {
    let is_token = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if name.is_empty() || name.len() > 100 || !is_token {
        return Err(ValueError::new(
            format!("`{name}` is not the name of a field"),
            "use letters, digits, `-` and `_`, as in `Cache-Control`",
        ));
    }
    if OURS.iter().any(|ours| ours.eq_ignore_ascii_case(name)) {
        return Err(ValueError::new(
            format!("`{name}` is a field that the server makes itself"),
            "remove the line",
        ));
    }
    Ok(())
}

text_kind!(
    /// The names of files, or paths.
    NameGlob, "patterns of names or paths" => "a pattern such as `\"*.css\"`", |text| {
        let is_path = text.starts_with('/') || !text.contains('/');
        let is_plain = !text.chars().any(char::is_control) && text.len() <= LONGEST_PATTERN;
        if text.is_empty() || !is_path || !is_plain {
            return Err(ValueError::new(
                format!("`{text}` is neither a name nor a path"),
                "give a name without `/`, as `*.css`, or a path that begins with `/`, as \
                 `/assets/**`",
            ));
        }
        Ok(())
    }
);

text_kind!(
    /// Media types.
    TypeGlob, "media types" => "a media type such as `\"image/*\"`", |text| {
        let is_part = |part: &str| {
            let is_token = |byte| u8::is_ascii_alphanumeric(&byte) || b"-+._*".contains(&byte);
            !part.is_empty() && part.bytes().all(is_token)
        };
        let parts = text.split_once('/');
        if text.len() > 100 || !parts.is_some_and(|(one, two)| is_part(one) && is_part(two)) {
            return Err(ValueError::new(
                format!("`{text}` is not a media type"),
                "give a type such as `text/css`, or all of a kind, as `image/*`",
            ));
        }
        Ok(())
    }
);

/// Pages by status.
pub(crate) struct ErrorPages;

impl ValueKind for ErrorPages {
    type Value = Vec<(u16, String)>;

    fn name() -> String {
        "a table of statuses and paths".to_owned()
    }

    fn show(value: &Self::Value) -> String {
        let pairs: Vec<_> =
            value.iter().map(|(status, path)| (status.to_string(), path.clone())).collect();
        show_pairs(&pairs)
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<Self::Value> {
        let pairs = read_pairs(value, report, &Self::name(), |status| match status.parse() {
            Ok(400..=599_u16) => Ok(()),
            _ => Err(ValueError::new(
                format!("`{status}` is not the status of an error"),
                "give a status from 400 to 599, as in `404 = \"/404.html\"`",
            )),
        })?;
        let mut pages = Vec::with_capacity(pairs.len());
        for (status, path) in pairs {
            let is_url =
                path.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"'\\".contains(&byte));
            let is_fixed = !path.contains("%{") && !path.starts_with("//");
            if !path.starts_with('/') || !is_url || !is_fixed || path.len() > LONGEST_PATTERN {
                report.add(
                    value.span(),
                    format!("`{path}` is not a path of the site"),
                    Some("begin it with one `/`, and escape characters as in a URL".to_owned()),
                );
                return None;
            }
            pages.push((status.parse().unwrap_or(0), path));
        }
        Some(pages)
    }
}

text_kind!(
    /// The name of a charset.
    Charset, "a charset" => "a charset such as `\"utf-8\"`", |text| {
        let is_name = |byte| u8::is_ascii_alphanumeric(&byte) || b"-_.:".contains(&byte);
        let is_word = ["on", "off"].iter().any(|word| text.eq_ignore_ascii_case(word));
        if text.is_empty() || text.len() > 40 || is_word || !text.bytes().all(is_name) {
            return Err(ValueError::new(
                format!("`{text}` is not the name of a charset"),
                "give a name such as `utf-8`, or leave the key out",
            ));
        }
        Ok(())
    }
);

/// Fields that frame a response or tell of the connection.
const OURS: [&str; 11] = [
    "Connection",
    "Content-Encoding",
    "Content-Length",
    "Content-Range",
    "Date",
    "Keep-Alive",
    "Server",
    "Status",
    "TE",
    "Trailer",
    "Transfer-Encoding",
];

/// Bytes of a pattern. A longer one is refused: all patterns of a rule become one line.
const LONGEST_PATTERN: usize = 500;
/// Bytes of a field's value. A longer one is refused.
const LONGEST_VALUE: usize = 4000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_fields() {
        for right in ["Cache-Control", "X-Frame-Options", "Vary"] {
            assert!(check_name(right).is_ok(), "{right}");
        }
        for wrong in ["", "a b", "a:b", "Content-Length", "transfer-encoding", "\u{e4}"] {
            assert!(check_name(wrong).is_err(), "{wrong}");
        }
    }
}
