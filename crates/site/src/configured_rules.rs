//! Keys of the configuration that act as Apache's directives do: `error_pages`, `charset`, `fields`
//! and `listing`. They become directives behind the site's own `rules`, so that `.htaccess` files
//! can change what they say, and `howdah explain` shows them.

use std::fmt::Write;

use howdah_config::{FieldRule, SiteSettings};

/// Returns the directives of a site's configuration: its `rules`, and those that its keys stand
/// for. `None`: there are none.
pub(crate) fn directives(site: &SiteSettings) -> Option<String> {
    let mut text = site.rules.clone().unwrap_or_default();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    for (status, path) in &site.error_pages {
        line(format!("ErrorDocument {status} {path}"));
    }
    if let Some(charset) = &site.charset {
        line(format!("AddDefaultCharset {charset}"));
    }
    if site.listing {
        line("Options +Indexes".to_owned());
    }
    for rule in &site.fields {
        let condition = condition(rule);
        for (name, value) in &rule.set {
            let value = value.replace('%', "%%").replace('"', "\\\"");
            line(format!("Header set {name} \"{value}\"{condition}"));
        }
        for name in &rule.unset {
            line(format!("Header unset {name}{condition}"));
        }
    }
    (site.rules.is_some() || !text.is_empty()).then_some(text)
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

    fn of(lines: &str) -> Option<String> {
        let text = format!("[[site]]\nroot = \"/srv\"\n{lines}");
        directives(&Config::parse(&text, "x").unwrap().sites[0])
    }

    #[test]
    fn keys_become_directives_behind_the_rules() {
        assert_eq!(of(""), None);
        let text = of("rules = \"Options -Indexes\"\nlisting = true\ncharset = \"utf-8\"\n\
                error_pages = { 404 = \"/404.html\" }");
        let expected = "Options -Indexes\nErrorDocument 404 /404.html\nAddDefaultCharset utf-8\n\
            Options +Indexes\n";
        assert_eq!(text.unwrap(), expected);
        let text = of("[[site.fields]]\nset = { X-A = \"100% \\\"b\\\"\" }").unwrap();
        assert_eq!(text, "Header set X-A \"100%% \\\"b\\\"\"\n");
        let text = of(
            "[[site.fields]]\nmatch = [\"*.css\", \"/a/**\"]\ntype = \"text/*\"\nunset = \"X-B\"",
        );
        let expected = "Header unset X-B \"expr=(%{SCRIPT_FILENAME} =~ \
            m#(?:^|/)(?:[^/]*\\x2ecss)$# || %{REQUEST_URI} =~ m#^(?:/a/.*)$#) && %{CONTENT_TYPE} \
            =~ m#^(?:text/[^/]*) *(?:;|$)#i\"\n";
        assert_eq!(text.unwrap(), expected);
    }

    #[test]
    fn no_character_of_a_pattern_has_another_meaning() {
        assert_eq!(pattern("a\"#%{x}'\\"), "a\\x22\\x23\\x25\\x7bx\\x7d\\x27\\x5c");
    }
}
