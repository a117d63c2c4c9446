//! Formats findings, as text for people and as JSON for programs.

use std::fmt::Write;
use std::path::PathBuf;

use howdah_htaccess::{Mistake, Severity};
use serde_json::{Value, json};

use super::Findings;

/// All findings as text, each with its line and a caret. Empty if there are no files.
pub(crate) fn text(findings: &Findings) -> String {
    let mut page = String::new();
    for remark in &findings.remarks {
        one(remark, &mut page);
    }
    if findings.files > 0 || !findings.remarks.is_empty() {
        let count = |severity, name: &str| plural(findings.count(severity), name);
        // Writing to a String cannot fail.
        let _ = write!(
            page,
            "howdah: {}: {}, {}, {}",
            plural(findings.files, ".htaccess file"),
            count(Severity::Error, "error"),
            count(Severity::Warning, "warning"),
            count(Severity::Note, "note"),
        );
    }
    page
}

fn one(remark: &Mistake, page: &mut String) {
    let Mistake { place, line, message, hint, kind } = remark;
    let _ = writeln!(page, "{place}: {}: {message}", kind.severity().name());
    let number = place.line.to_string();
    let margin = " ".repeat(number.len());
    if !line.is_empty() {
        let shown: String = line.chars().map(visible).collect();
        let _ = writeln!(page, " {number} | {shown}");
        let _ = writeln!(page, " {margin} | {}^", before_caret(line, place.column as usize - 1));
    }
    if let Some(hint) = hint {
        let _ = writeln!(page, " {margin} = {hint}");
    }
    page.push('\n');
}

/// White space with the width of the text before the caret. Tabs remain tabs.
fn before_caret(line: &str, bytes: usize) -> String {
    let mut end = bytes.min(line.len());
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    line[..end]
        .chars()
        .map(|character| if character == '\t' { '\t' } else { ' ' })
        .collect()
}

/// Replaces control characters, to keep a file's content from controlling the terminal.
fn visible(character: char) -> char {
    match character {
        '\t' => '\t',
        control if control.is_control() => '\u{fffd}',
        other => other,
    }
}

fn plural(number: usize, name: &str) -> String {
    format!("{number} {name}{}", if number == 1 { "" } else { "s" })
}

/// All findings as JSON. `included` are the files that the configuration includes, `refusals` the
/// errors in the configuration.
pub(crate) fn json(
    findings: &Findings,
    included: &[PathBuf],
    refusals: &[String],
    warnings: &[String],
) -> String {
    let included: Vec<_> = included.iter().map(|file| file.to_string_lossy()).collect();
    let remarks: Vec<Value> = findings
        .remarks
        .iter()
        .map(|remark| {
            json!({
                "file": &*remark.place.file,
                "line": remark.place.line,
                "column": remark.place.column,
                "severity": remark.kind.severity().name(),
                "kind": remark.kind.name(),
                "message": remark.message,
                "hint": remark.hint,
                "source": remark.line,
            })
        })
        .collect();
    let page = json!({
        "configuration": { "included": included, "errors": refusals, "warnings": warnings },
        "site_rules": findings.site_rules,
        "files": findings.files,
        "errors": findings.count(Severity::Error),
        "warnings": findings.count(Severity::Warning),
        "notes": findings.count(Severity::Note),
        "remarks": remarks,
    });
    format!("{page:#}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_htaccess::{MistakeKind, Place};

    fn findings() -> Findings {
        let remark = |line: &str, column: u32, kind: MistakeKind, hint: Option<&str>| Mistake {
            place: Place {
                file: "/srv/.htaccess".into(),
                line: 12,
                column,
            },
            line: line.to_owned(),
            message: "is wrong".to_owned(),
            hint: hint.map(str::to_owned),
            kind,
        };
        Findings {
            files: 1,
            site_rules: Vec::new(),
            remarks: vec![
                remark("\tÄ Bogus\u{1b}[1m", 5, MistakeKind::Unknown, Some("did you mean it?")),
                remark("", 1, MistakeKind::Ignored, None),
                remark("ab", 400, MistakeKind::Dangerous, None),
            ],
        }
    }

    #[test]
    fn for_people() {
        let expected = "/srv/.htaccess:12:5: error: is wrong
 12 | \tÄ Bogus\u{fffd}[1m
    | \t  ^
    = did you mean it?

/srv/.htaccess:12:1: note: is wrong

/srv/.htaccess:12:400: warning: is wrong
 12 | ab
    |   ^

howdah: 1 .htaccess file: 1 error, 1 warning, 1 note";
        assert_eq!(text(&findings()), expected);
        assert_eq!(text(&Findings::default()), "");
    }

    #[test]
    fn for_programs() {
        let page: Value =
            serde_json::from_str(&json(&findings(), &[], &["bad".to_owned()], &[])).unwrap();
        assert_eq!(page["errors"], 1);
        assert_eq!(page["configuration"]["errors"][0], "bad");
        let first = &page["remarks"][0];
        assert_eq!((&first["severity"], &first["kind"]), (&"error".into(), &"unknown".into()));
        assert_eq!((&first["line"], &first["column"]), (&12.into(), &5.into()));
    }
}
