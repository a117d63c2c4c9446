//! Lanes of a pool, and what tells their requests apart.

use toml::Spanned;
use toml::de::DeValue;

use super::names::text_kind;
use super::{Table, ValueError, ValueKind, quoted, read_string, wrong_type};
use crate::diagnostic::MistakeCollector;
use crate::settings::Lane;

/// Lanes of a site at most. More are a mistake in the configuration.
const MOST_LANES: usize = 64;

/// The `[[site.php.lane]]` tables.
pub(crate) struct LaneTables;

impl ValueKind for LaneTables {
    type Value = Vec<Lane>;

    fn name() -> String {
        "tables `[[site.php.lane]]`".to_owned()
    }

    fn show(_: &Vec<Lane>) -> String {
        "none".to_owned()
    }

    fn read(value: &Spanned<DeValue<'_>>, report: &mut MistakeCollector<'_>) -> Option<Vec<Lane>> {
        let DeValue::Array(tables) = value.get_ref() else {
            wrong_type(value, value.get_ref(), report, &Self::name());
            return None;
        };
        if tables.len() > MOST_LANES {
            let message = format!("the site has {} lanes", tables.len());
            let help = format!("give at most {MOST_LANES}");
            report.add(value.span(), message, Some(help));
            return None;
        }
        let mut lanes: Vec<Lane> = Vec::new();
        for table in tables {
            let lane = Table::<Lane>::read(table, report)?;
            check(&lane, &lanes, table, report);
            lanes.push(lane);
        }
        Some(lanes)
    }
}

/// Reports a lane without a name, with the name of another one, or that every request would fit.
fn check(
    lane: &Lane,
    others: &[Lane],
    table: &Spanned<DeValue<'_>>,
    report: &mut MistakeCollector<'_>,
) {
    let mut add = |message: String, help: &str| {
        report.add(table.span(), message, Some(help.to_owned()));
    };
    if lane.name.is_empty() {
        if table.get_ref().get("name").is_none() {
            add("the lane has no name".to_owned(), "add `name = \"search\"`");
        }
    } else if others.iter().any(|other| other.name == lane.name) {
        let message = format!("two lanes of the site are called `{}`", lane.name);
        add(message, "give each lane a `name` of its own: figures are shown under it");
    }
    let given = ["path", "method", "parameter", "cookie", "user_agent", "address"];
    if given.iter().all(|key| table.get_ref().get(key).is_none()) {
        let help = "say which requests it is for, as in `path = \"/search\"`";
        add("the lane is for every request".to_owned(), help);
    }
    if lane.address.unix {
        let help = "leave `unix` out: a lane is for addresses of clients";
        add("`unix` is not the address of a client".to_owned(), help);
    }
}

text_kind!(
    /// A path of URLs, with wildcards.
    PathGlob, "a path, perhaps with `*` and `?`", |text| {
        if !text.starts_with('/') || text.chars().any(char::is_control) || text.len() > LONGEST {
            return Err(ValueError::new(
                format!("`{text}` is not the path of a URL"),
                "begin with `/`, as in `/search` or `/api/*`",
            ));
        }
        if text.contains("//") || text.contains('#') {
            return Err(ValueError::new(
                format!("no path of a URL is `{text}`"),
                "write a path without `//` and `#`; `parameter` is for the query string",
            ));
        }
        Ok(())
    }
);

text_kind!(
    /// The method of a request.
    MethodName, "a method", |text| {
        let is_token = text.bytes().all(|byte| byte.is_ascii_uppercase() || b"-_".contains(&byte));
        if text.is_empty() || !is_token {
            return Err(ValueError::new(
                format!("`{text}` is not a method"),
                "write it in capital letters, as in `POST`",
            ));
        }
        Ok(())
    }
);

text_kind!(
    /// A name, or `NAME=VALUE`, with wildcards.
    NamedValue,
    "names, or `NAME=VALUE`, perhaps with `*` and `?`" => "a name, or `NAME=VALUE`", |text| {
        let name = text.split('=').next().unwrap_or_default();
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b";,&".contains(&byte);
        if name.is_empty() || text.len() > LONGEST || !text.bytes().all(is_plain) {
            return Err(ValueError::new(
                format!("`{text}` is neither a name nor `NAME=VALUE`"),
                "give a name as `session`, or a name and a value as `role=guest*`",
            ));
        }
        Ok(())
    }
);

/// Bytes of a pattern at most. A longer one is a mistake in the configuration.
const LONGEST: usize = 1000;
