//! The reference manual of `.htaccess`, made from the tables of directives.

mod syntax;

use std::fmt::{self, Write};

use crate::compile::{SECTIONS, VERSION, provided};
use crate::directive::{Overrides, Support};
use crate::mistake::MistakeKind;
use crate::module::Presence;
use crate::registry::{self, Registered};

/// The command that writes the manual.
pub const COMMAND: &str = "cargo run -q -p howdah-htaccess --example manual > docs/htaccess.md";

/// Returns the whole manual, as Markdown.
pub fn markdown() -> String {
    let mut page = String::from(INTRODUCTION);
    // Writing to a String cannot fail.
    let _ = kinds(&mut page)
        .and_then(|()| sections(&mut page))
        .and_then(|()| modules(&mut page));
    page
}

fn kinds(page: &mut String) -> fmt::Result {
    page.push_str(KINDS_INTRODUCTION);
    for (kind, what) in MistakeKind::ALL {
        writeln!(page, "| `{}` | {} | {what} |", kind.name(), kind.severity().name())?;
    }
    Ok(())
}

fn sections(page: &mut String) -> fmt::Result {
    let (major, minor, patch) = VERSION;
    write!(page, "{SECTIONS_INTRODUCTION}")?;
    for section in SECTIONS {
        let space = if section.arguments.is_empty() { "" } else { " " };
        let arguments = section.arguments.replace('|', "\\|");
        let class = class(section.overrides);
        writeln!(
            page,
            "| `{}{space}{arguments}>` | {class} | {} |",
            section.name, section.summary
        )?;
    }
    write!(page, "\n`<IfVersion>` compares with {major}.{minor}.{patch}. {IFMODULE_INTRODUCTION}")?;
    writeln!(page)?;
    for (presence, why) in PRESENCES {
        let modules = provided().filter(|module| module.presence == presence);
        let names: Vec<String> = modules
            .map(|module| format!("`{}` (`{}`)", module.file, module.identifier))
            .collect();
        writeln!(page, "- {why}: {}.", names.join(", "))?;
    }
    writeln!(page, "{DIFFERENCES}")
}

fn modules(page: &mut String) -> fmt::Result {
    let mut names: Vec<&str> = Vec::new();
    for directive in registry::all() {
        if !names.contains(&directive.module) {
            names.push(directive.module);
        }
    }
    writeln!(page, "\n## Directives\n")?;
    for name in &names {
        let count = registry::all().iter().filter(|directive| directive.module == *name).count();
        writeln!(page, "- [{name}](#{name}): {count}")?;
    }
    for name in names {
        writeln!(page, "\n### {name}")?;
        for directive in registry::all().iter().filter(|directive| directive.module == name) {
            one(directive, page)?;
        }
    }
    Ok(())
}

fn one(directive: &Registered, page: &mut String) -> fmt::Result {
    let end = if directive.name.starts_with('<') { ">" } else { "" };
    let arguments = syntax::of(directive.name).unwrap_or("…");
    let space = if arguments.is_empty() { "" } else { " " };
    writeln!(page, "\n#### `{}{end}`\n\n{}\n", directive.name, directive.summary)?;
    writeln!(page, "- Takes: `{}{end}{space}{arguments}`", directive.name)?;
    writeln!(page, "- Allowed by: {}", class(directive.overrides))?;
    match directive.support {
        Support::Full => writeln!(page, "- Supported: as in Apache"),
        Support::Differs(how) => writeln!(page, "- Supported, with a difference: {how}."),
        Support::Ignored(why) => writeln!(page, "- Without effect: {why}."),
        Support::Refused(why) if directive.overrides == Overrides::NONE => {
            writeln!(page, "- Refused: {why}.")
        }
        Support::Refused(why) => {
            writeln!(page, "- Refused, what it covers is answered with 500: {why}.")
        }
    }
}

/// Returns the classes of `AllowOverride` that let something in.
fn class(overrides: Overrides) -> String {
    match overrides {
        Overrides::ALL => "any class".to_owned(),
        Overrides::NONE => "none; Apache does not allow it in `.htaccess` either".to_owned(),
        some => some.to_string(),
    }
}

const INTRODUCTION: &str = include_str!("manual/introduction.md");

const DIFFERENCES: &str = include_str!("manual/differences.md");

const KINDS_INTRODUCTION: &str = "
| kind | | |
|---|---|---|
";

const SECTIONS_INTRODUCTION: &str = "
## Sections

| | allowed by | |
|---|---|---|
";

const IFMODULE_INTRODUCTION: &str = "`<IfModule>` is decided when a file is \
compiled. It holds for these modules, by file and by identifier, and for no others:
";

/// The reason why `<IfModule>` finds modules.
const PRESENCES: [(Presence, &str); 4] = [
    (Presence::Debian, "On in Debian's Apache with mod_php"),
    (Presence::Hosts, "Off in Debian's Apache, but on at nearly every host"),
    (
        Presence::Protects,
        "Off in Debian's Apache, but a section that is skipped could have kept people out",
    ),
    (
        Presence::Chosen,
        "Only if the site's `modules` names it (`modules = [\"brotli\"]`), since Debian's Apache \
         has it off",
    ),
];

#[cfg(test)]
mod tests {
    use super::{COMMAND, markdown};

    #[test]
    fn the_committed_manual_is_the_one_made_from_the_tables() {
        let committed = include_str!("../../../docs/htaccess.md");
        assert!(committed == markdown(), "docs/htaccess.md is out of date; run: {COMMAND}");
    }
}
