//! Keys of the configuration that act as Apache's directives do: `error_pages`, `charset`, `fields`
//! and `listing`. They become directives before the site's own `rules`, so that `rules` and
//! `.htaccess` files can change what they say, and `howdah explain` shows them.

use std::fmt::Write;
use std::sync::Arc;

use howdah_config::{FieldRule, SiteSettings};
use howdah_htaccess::KeyPlace;

/// The directives of a site's configuration.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConfiguredRules {
    /// Those that keys stand for, one a line, then `rules`.
    pub(crate) text: String,
    /// The keys that the first lines stand for.
    pub(crate) keys: Arc<[KeyPlace]>,
}

impl ConfiguredRules {
    /// Returns the directives of a site's configuration. `None`: there are none.
    pub(crate) fn of(site: &SiteSettings) -> Option<ConfiguredRules> {
        let (mut text, mut keys) = (String::new(), Vec::new());
        let mut line = |key: &str, entry: usize, directive: String| {
            text.push_str(&directive);
            text.push('\n');
            keys.push(KeyPlace {
                key: format!("`{key}` of site {}", site.name).into(),
                entry: entry as u32 + 1,
            });
        };
        for (entry, (status, path)) in site.error_pages.iter().enumerate() {
            line("error_pages", entry, format!("ErrorDocument {status} {path}"));
        }
        if let Some(charset) = &site.charset {
            line("charset", 0, format!("AddDefaultCharset {charset}"));
        }
        if site.listing {
            line("listing", 0, "Options +Indexes".to_owned());
        }
        for (entry, rule) in site.fields.iter().enumerate() {
            let condition = condition(rule);
            for name in &rule.unset {
                line("fields", entry, format!("Header unset {name}{condition}"));
            }
            for (name, value) in &rule.set {
                let value = value.replace('%', "%%").replace('"', "\\\"");
                line("fields", entry, format!("Header set {name} \"{value}\"{condition}"));
            }
        }
        if let Some(rules) = &site.rules {
            text.push_str(rules);
        }
        let is_there = site.rules.is_some() || !text.is_empty();
        is_there.then(|| ConfiguredRules { text, keys: keys.into() })
    }
}

/// Returns the last argument of a Header directive: the responses that it is for.
fn condition(rule: &FieldRule) -> String {
    let mut parts = Vec::new();
    let (paths, names): (Vec<&String>, Vec<&String>) =
        rule.names.iter().partition(|name| name.starts_with('/'));
    let mut either = Vec::new();
    if !names.is_empty() {
        let globs: Vec<_> = names.iter().map(|name| pattern(name)).collect();
        either.push(format!("%{{SCRIPT_FILENAME}} =~ m#(?:^|/)(?:{})$#", globs.join("|")));
    }
    if !paths.is_empty() {
        let globs: Vec<_> = paths.iter().map(|path| pattern(path)).collect();
        either.push(format!("%{{REQUEST_URI}} =~ m#^(?:{})$#", globs.join("|")));
    }
    if !either.is_empty() {
        parts.push(format!("({})", either.join(" || ")));
    }
    if !rule.types.is_empty() {
        let globs: Vec<_> = rule.types.iter().map(|media_type| pattern(media_type)).collect();
        parts.push(format!("%{{CONTENT_TYPE}} =~ m#^(?:{}) *(?:;|$)#i", globs.join("|")));
    }
    match parts.is_empty() {
        true => String::new(),
        false => format!(" \"expr={}\"", parts.join(" && ")),
    }
}

/// Returns a pattern with `*`, `**` and `?` as a regular expression, for a quoted argument. Every
/// other character but letters, digits, `-`, `_` and `/` is written as its code, so that none has a
/// meaning to the language of directives or of expressions.
fn pattern(glob: &str) -> String {
    let mut text = String::new();
    let mut rest = glob.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'*' if rest.first() == Some(&b'*') => {
                rest = &rest[1..];
                text.push_str(".*");
            }
            b'*' => text.push_str("[^/]*"),
            b'?' => text.push_str("[^/]"),
            plain if plain.is_ascii_alphanumeric() || b"-_/".contains(&plain) => {
                text.push(char::from(plain));
            }
            other => {
                // Writing to a String cannot fail.
                let _ = write!(text, "\\x{other:02x}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use howdah_config::Config;

    use super::*;

    fn of(lines: &str) -> Option<ConfiguredRules> {
        let text = format!("[[site]]\nname = \"g\"\nroot = \"/srv\"\n{lines}");
        ConfiguredRules::of(&Config::parse(&text, "x").unwrap().sites[0])
    }

    #[test]
    fn keys_become_directives_before_the_rules() {
        assert_eq!(of(""), None);
        assert_eq!(of("rules = \"\"").unwrap().text, "");
        let rules = of("rules = \"Options -Indexes\"\nlisting = true\ncharset = \"utf-8\"\n\
                error_pages = { 404 = \"/404.html\", 500 = \"/500.html\" }")
        .unwrap();
        let expected = "ErrorDocument 404 /404.html\nErrorDocument 500 /500.html\n\
            AddDefaultCharset utf-8\nOptions +Indexes\nOptions -Indexes";
        assert_eq!(rules.text, expected);
        let keys = rules.keys.iter().map(|key| format!("{}:{}", key.key, key.entry));
        let expected = [
            "`error_pages` of site g:1",
            "`error_pages` of site g:2",
            "`charset` of site g:1",
            "`listing` of site g:1",
        ];
        assert_eq!(keys.collect::<Vec<_>>(), expected);
        let text = of("[[site.fields]]\nset = { X-A = \"100% \\\"b\\\"\" }").unwrap().text;
        assert_eq!(text, "Header set X-A \"100%% \\\"b\\\"\"\n");
        let rules = of(
            "[[site.fields]]\nmatch = [\"*.css\", \"/a/**\"]\ntype = \"text/*\"\nunset = \"X-B\"",
        );
        let expected = "Header unset X-B \"expr=(%{SCRIPT_FILENAME} =~ \
            m#(?:^|/)(?:[^/]*\\x2ecss)$# || %{REQUEST_URI} =~ m#^(?:/a/.*)$#) && %{CONTENT_TYPE} \
            =~ m#^(?:text/[^/]*) *(?:;|$)#i\"\n";
        assert_eq!(rules.unwrap().text, expected);
    }

    #[test]
    fn no_character_of_a_pattern_has_another_meaning() {
        assert_eq!(pattern("a\"#%{x}'\\"), "a\\x22\\x23\\x25\\x7bx\\x7d\\x27\\x5c");
    }
}
