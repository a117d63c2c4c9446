//! Values that are refused although they are of the right kind.

use super::mistakes::errors;
use crate::Config;

#[test]
fn a_log_that_would_be_a_file_of_another_meaning_is_refused() {
    let site = "[[site]]\nroot = \"/srv\"\n";
    for (value, message, help) in [
        ("|cat", "a log is not piped to a program", "`tail -F FILE | cat`"),
        ("| /usr/bin/rotatelogs x", "a log is not piped", "call `howdah reopen`"),
        ("syslog", "`syslog` would be a file of that name", "write `syslog:`"),
        ("journald", "`journald` would be a file of that name", "write `journald:`"),
    ] {
        for text in [
            format!("[log]\naccess = \"{value}\"\n{site}"),
            format!("[log]\nerror = \"{value}\"\n{site}"),
            format!("{site}access_log = \"{value}\"\n"),
        ] {
            let found = errors(&text);
            assert!(found.contains(message) && found.contains(help), "{found}");
        }
    }
    let text = format!("{site}access_log = \"./syslog\"\n");
    assert!(Config::parse(&text, "howdah.toml").is_ok());
}

#[test]
fn a_value_that_cannot_be_sent_is_one_mistake_that_names_its_field() {
    let site = "[[site]]\nroot = \"/srv\"\n[[site.fields]]\n";
    let found = errors(&format!("{site}set = {{ X-Good = \"a\", X-Bad = \"a\\\\b\" }}\n"));
    assert!(found.contains("the value of `X-Bad` cannot be sent"), "{found}");
    assert!(!found.contains("change nothing"), "{found}");
    for nothing in ["", "set = {}\n", "unset = []\n"] {
        let found = errors(&format!("{site}{nothing}"));
        assert!(found.contains("these fields change nothing"), "{nothing}: {found}");
    }
}
