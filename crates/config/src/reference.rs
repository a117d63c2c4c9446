//! The reference manual of the configuration file, made from the declarations.

use std::fmt::Write;

use crate::acme::Acme;
use crate::section::{ConfigTable, Key};
use crate::settings::{
    ClientLimits, Config, FieldRule, Http2, Http3, Lane, ListenerTable, Log, Php, ResourceLimits,
    SiteSettings, SiteTls,
};

/// The command that writes the manual.
pub const COMMAND: &str = "cargo run -q -p howdah-config --example reference > docs/config.md";

/// The heading of the tables of `listen`.
const LISTENERS: &str = "Listeners";

/// A section as the manual shows it.
#[derive(Clone, Debug)]
pub struct Chapter {
    /// The heading of the section in the file; empty for the top.
    pub heading: &'static str,
    /// The description.
    pub about: &'static str,
    /// Its keys.
    pub keys: Vec<Key>,
}

/// Every section of the file.
pub fn chapters() -> Vec<Chapter> {
    fn chapter<S: ConfigTable>(heading: &'static str) -> Chapter {
        Chapter {
            heading,
            about: S::ABOUT,
            keys: S::keys(),
        }
    }
    vec![
        chapter::<Config>(""),
        chapter::<ListenerTable>(LISTENERS),
        chapter::<ClientLimits>("[limits]"),
        chapter::<Http2>("[http2]"),
        chapter::<Http3>("[http3]"),
        chapter::<Log>("[log]"),
        chapter::<Acme>("[acme]"),
        chapter::<SiteSettings>("[[site]]"),
        chapter::<FieldRule>("[[site.fields]]"),
        chapter::<SiteTls>("[site.tls]"),
        chapter::<Php>("[site.php]"),
        chapter::<Lane>("[[site.php.lane]]"),
        chapter::<ResourceLimits>("[site.php.rlimits]"),
    ]
}

/// The sections that may contain a key called `name`, as in `belongs in [limits]`; `None`: there is
/// no such key.
pub(crate) fn sections_of(name: &str) -> Option<String> {
    let chapters = chapters().into_iter();
    let chapters = chapters.filter(|chapter| chapter.keys.iter().any(|key| key.name == name));
    let sections: Vec<String> = chapters
        .map(|chapter| match chapter.heading {
            "" => "belongs at the top of the file, above the first `[table]`".to_owned(),
            LISTENERS => "belongs in a table of `listen`".to_owned(),
            heading => format!("belongs in {heading}"),
        })
        .collect();
    (!sections.is_empty()).then(|| sections.join(", or "))
}

/// The whole manual, as Markdown.
pub fn markdown() -> String {
    let mut page = String::from(INTRODUCTION);
    for chapter in chapters() {
        let heading = match chapter.heading {
            "" => "Top level".to_owned(),
            LISTENERS => LISTENERS.to_owned(),
            table => format!("`{table}`"),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(page, "\n## {heading}\n\n{}", flow(chapter.about));
        for key in &chapter.keys {
            let _ = writeln!(page, "\n### `{}`\n\n{}\n", key.name, flow(key.doc));
            let _ = writeln!(page, "- Value: {}", key.kind);
            let in_words = key.default.starts_with(|first: char| first.is_ascii_lowercase());
            let default = if in_words {
                key.default.clone()
            } else {
                format!("`{}`", key.default)
            };
            let _ = writeln!(page, "- Default: {default}");
            let _ = writeln!(page, "- Why: {}", key.why);
        }
    }
    page
}

/// Doc-comment lines as one paragraph.
fn flow(doc: &str) -> String {
    doc.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

const INTRODUCTION: &str = "\
<!-- Generated from crates/config/src/settings.rs. Do not edit; regenerate with
     cargo run -q -p howdah-config --example reference > docs/config.md -->

# Configuration

Howdah reads one [TOML](https://toml.io) file: `howdah serve --config FILE`. `howdah check \
--config FILE` reports every
mistake in it, each with file, line and column, and starts nothing. An unknown key is an error, \
so a slip of the finger
never goes unnoticed. Relative paths start at the file's folder. A list of one may be written \
without brackets.

```toml
listen = [\":80\"]

[[site]]
hosts = [\"example.org\", \"*.example.org\"]
root = \"/srv/example.org/public\"
try = [\"$uri\", \"/index.php\"]

[site.php]
workers = 8
request_timeout = \"60s\"
ini = { memory_limit = \"256M\" }
admin_ini = { \"opcache.memory_consumption\" = 128 }
```

More of them, each complete, are in [examples](examples).
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_manual_is_up_to_date() {
        let committed = include_str!("../../../docs/config.md");
        assert!(committed == markdown(), "docs/config.md is out of date; run: {COMMAND}");
        assert!(INTRODUCTION.contains(COMMAND));
    }

    #[test]
    fn every_key_says_what_it_does_and_why() {
        for chapter in chapters() {
            assert!(!chapter.about.is_empty());
            for key in chapter.keys {
                assert!(
                    key.doc.len() > 10 && !key.why.is_empty() && !key.kind.is_empty(),
                    "{}",
                    key.name
                );
                assert!(!key.default.is_empty(), "{}", key.name);
            }
        }
    }
}
