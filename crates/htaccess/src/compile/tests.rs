use super::{Surroundings, compile};

#[test]
fn a_file_becomes_settings_or_a_mistake() {
    let compiled = |text: &str| compile(text.as_bytes(), &Surroundings::new(".htaccess", b"/site/"));
    for (text, mistake) in [
        ("", None),
        ("# only a comment \\\n RewriteEngin On", None),
        (
            "\n  RewriteEngin On\n",
            Some(
                ".htaccess:2:3: Invalid command 'RewriteEngin', perhaps misspelled or defined by a module not included in \
                 the server configuration",
            ),
        ),
        ("<Files a>\n</Files>\n", None),
        ("<Files a>\n", Some(".htaccess:1:1: <Files> was not closed.")),
        ("<IfModule mod_foo.c>\nFoo bar\n</IfModule>", None),
    ] {
        let found = compiled(text).mistake.map(|mistake| mistake.to_string());
        let found = found
            .as_deref()
            .map(|text| text.split("; ").next().unwrap_or(text));
        assert_eq!(found, mistake, "{text}");
    }
}
