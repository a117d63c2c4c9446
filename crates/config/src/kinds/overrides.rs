//! The directives that `.htaccess` files may use, and directives within the configuration.

use toml::Spanned;
use toml::de::DeValue;

use super::names::text_kind;
use super::{List, Text, ValueError, ValueKind, quoted, read_string};
use crate::diagnostic::MistakeCollector;
use crate::near;
use crate::values::{AllowOverride, OverrideClass};

/// `"All"`, `"None"`, or the classes of directives that are allowed.
pub(crate) struct OverrideClasses;

impl ValueKind for OverrideClasses {
    type Value = AllowOverride;

    fn name() -> String {
        "`\"All\"`, `\"None\"`, or a list of `\"AuthConfig\"`, `\"FileInfo\"`, `\"Indexes\"`, \
         `\"Limit\"`, `\"Options\"` and `\"Options=Indexes,…\"`"
            .to_owned()
    }

    fn show(value: &AllowOverride) -> String {
        match (&value.options, value.classes.len()) {
            (_, 0) => quoted("None"),
            (None, count) if count == OverrideClass::ALL.len() => quoted("All"),
            _ => {
                let words = value.classes.iter().map(|class| match (class, &value.options) {
                    (OverrideClass::Options, Some(options)) => {
                        quoted(&format!("Options={}", options.join(",")))
                    }
                    _ => quoted(class.name()),
                });
                format!("[{}]", words.collect::<Vec<_>>().join(", "))
            }
        }
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<AllowOverride> {
        // One string may contain several words, as in Apache.
        let texts = List::<Text>::read(value, report)?;
        let mut allowed = AllowOverride::none();
        for word in texts.iter().flat_map(|text| text.split_ascii_whitespace()) {
            if let Err(problem) = add(word, &mut allowed) {
                report.add(value.span(), problem.message, Some(problem.help));
                return None;
            }
        }
        Some(allowed)
    }
}

fn add(word: &str, allowed: &mut AllowOverride) -> Result<(), ValueError> {
    let (name, options) = match word.split_once('=') {
        Some((name, options)) => (name, Some(options)),
        None => (word, None),
    };
    match (options, name.to_ascii_lowercase().as_str()) {
        (None, "all") => *allowed = AllowOverride::all(),
        (None, "none") => *allowed = AllowOverride::none(),
        (Some(_), "nonfatal") => {
            return Err(ValueError::new(
                format!("`{word}`: a directive that is not allowed is always an error here"),
                "leave it out: what a file says in vain must not go unnoticed",
            ));
        }
        (options, _) => {
            let class = OverrideClass::ALL
                .into_iter()
                .find(|class| class.name().eq_ignore_ascii_case(name))
                .filter(|class| options.is_none() || *class == OverrideClass::Options)
                .ok_or_else(|| unknown(word))?;
            if class == OverrideClass::Options {
                allowed.options = options.map(|options| {
                    let named = options.split(',').filter(|option| !option.is_empty());
                    named.map(str::to_owned).collect()
                });
            }
            if !allowed.classes.contains(&class) {
                allowed.classes.push(class);
            }
        }
    }
    Ok(())
}

fn unknown(word: &str) -> ValueError {
    let names = OverrideClass::ALL.map(OverrideClass::name);
    let lower = names.map(str::to_ascii_lowercase);
    let near = near::nearest(word, &lower.each_ref().map(String::as_str));
    let help = match names
        .iter()
        .find(|name| near.is_some_and(|near| near.eq_ignore_ascii_case(name)))
    {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("give {}", OverrideClasses::name()),
    };
    ValueError::new(format!("`{word}` is no class of directives"), help)
}

text_kind!(
    /// The name of one of Apache's directives.
    DirectiveName, "names of directives" => "the name of a directive", |text| {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(ValueError::new(
                format!("`{text}` is not the name of a directive"),
                "give one name in each string, as in `[\"Redirect\", \"RewriteRule\"]`",
            ));
        }
        Ok(())
    }
);

/// Directives, written as in a file.
pub(crate) struct RuleLines;

impl ValueKind for RuleLines {
    type Value = String;

    fn name() -> String {
        "directives, as in a `.htaccess` file".to_owned()
    }

    fn show(value: &String) -> String {
        quoted(value)
    }

    fn read(value: &Spanned<DeValue<'_>>, report: &mut MistakeCollector<'_>) -> Option<String> {
        read_string(value, report, "directives in quotes", |text| {
            if text.contains('\0') {
                return Err(ValueError::new("the directives hold a NUL", "remove it"));
            }
            Ok(text.to_owned())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes() {
        let rows = [
            ("All", Some("\"All\"")),
            ("none", Some("\"None\"")),
            ("FileInfo authconfig", Some("[\"FileInfo\", \"AuthConfig\"]")),
            ("Options=Indexes,MultiViews", Some("[\"Options=Indexes,MultiViews\"]")),
            (
                "All Options=Indexes",
                Some("[\"AuthConfig\", \"FileInfo\", \"Indexes\", \"Limit\", \"Options=Indexes\"]"),
            ),
            ("FileInfo None", Some("\"None\"")),
            ("FileInfo FileInfo", Some("[\"FileInfo\"]")),
            ("FileInfos", None),
            ("Limit=GET", None),
            ("Nonfatal=All", None),
        ];
        for (text, shown) in rows {
            let mut allowed = AllowOverride::none();
            let added = text.split(' ').try_for_each(|word| add(word, &mut allowed));
            let found = added.ok().map(|()| OverrideClasses::show(&allowed));
            assert_eq!(found.as_deref(), shown, "{text}");
        }
    }
}
