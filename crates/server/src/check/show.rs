//! Formats findings, as text for people and as JSON for programs.

use std::fmt::Write;
use std::path::PathBuf;

use howdah_htaccess::{Mistake, Severity};
use howdah_watch::printed::{visible, visible_lines};
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
    let (at, message) = (visible(&place.to_string()), visible_lines(message));
    let _ = writeln!(page, "{at}: {}: {message}", kind.severity().name());
    let number = place.line.to_string();
    let margin = " ".repeat(number.len());
    if !line.is_empty() {
        let shown = visible_lines(line);
        let _ = writeln!(page, " {number} | {shown}");
        let _ = writeln!(page, " {margin} | {}^", before_caret(line, place.column as usize - 1));
    }
    if let Some(hint) = hint {
        let _ = writeln!(page, " {margin} = {}", visible_lines(hint));
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
    use howdah_htaccess::{DirectivePlace, MistakeKind};

    fn findings() -> Findings {
        let remark = |line: &str, column: u32, kind: MistakeKind, hint: Option<&str>| Mistake {
            place: DirectivePlace {
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

    /// Files and folders of a site's owner must not control an administrator's terminal.
    #[test]
    fn names_messages_and_hints_cannot_control_a_terminal() {
        let nasty = "a\u{1b}[31m\u{7}\u{202e}";
        let place = DirectivePlace { file: nasty.into(), line: 1, column: 1 };
        let remark = Mistake {
            place,
            line: nasty.to_owned(),
            message: nasty.to_owned(),
            hint: Some(nasty.to_owned()),
            kind: MistakeKind::Unknown,
        };
        let findings = Findings {
            remarks: vec![remark],
            ..Findings::default()
        };
        let text = text(&findings);
        let is_shown = |one: char| one == '\n' || !howdah_watch::printed::controls_terminal(one);
        assert!(text.chars().all(is_shown), "{text:?}");
        assert_eq!(text.matches("a\u{fffd}[31m\u{fffd}\u{fffd}").count(), 4, "{text}");
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
