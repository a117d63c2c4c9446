//! Variables and fields that directives set without end.

use std::iter::successors;

use howdah_http::Fields;

use super::tree::{Tree, shown};
use crate::resolution::Resolved;

/// The bytes of variables that a request may have, with 32 for each.
const MOST: usize = 192 << 10;

/// The bytes of the lines, with 32 for each.
fn size(fields: &Fields) -> usize {
    fields.iter().map(|(name, value)| name.len() + value.len() + 32).sum()
}

/// The bytes that a request holds, and those that led to it: variables, and fields of the request.
fn held(resolved: &Resolved) -> (usize, usize) {
    let state = resolved.ruled.as_ref().map(|ruled| &ruled.state);
    let states = successors(state, |state| state.previous.as_deref());
    let sizes = states.map(|state| {
        (size(&state.env), state.request_fields.as_ref().map(size).unwrap_or_default())
    });
    sizes.fold((0, 0), |(env, fields), more| (env + more.0, fields + more.1))
}

fn resolved(directives: &str, target: &str) -> Resolved {
    let mut tree = Tree::new("index.php a.txt", &[("", directives)]);
    tree.resolved("GET", target, "Host: example.org")
}

fn lines(number: usize, line: impl Fn(usize) -> String) -> String {
    (0..number).map(line).collect()
}

/// Each of these rows sets more than a script can be given.
#[test]
fn what_directives_set_beyond_all_measure_is_answered_with_500_and_their_place() {
    let long = "x".repeat(7_000);
    let rewriting = "RewriteEngine On\n";
    let rows = [
        ("long values", lines(370, |number| format!("SetEnv B{number} {long}\n"))),
        ("many names", lines(20_000, |number| format!("SetEnv A{number} 1\n"))),
        ("conditions", lines(370, |number| format!("SetEnvIf Host . B{number}={long}\n"))),
        ("rules", lines(370, |number| format!("RewriteRule ^ - [E=B{number}:{long}]\n"))),
        (
            "a rule that begins again",
            format!(
                "RewriteCond %{{ENV:N}} !^x{{100}}$\n\
                 RewriteRule ^ - [E=N:%{{ENV:N}}x,E=B%{{ENV:N}}:{long},N]\n"
            ),
        ),
        ("fields", lines(9_000, |number| format!("RequestHeader add X{number} 1\n"))),
    ];
    for (what, directives) in rows {
        for target in ["/index.php", "/a.txt"] {
            let resolved = resolved(&format!("{rewriting}{directives}"), target);
            assert_eq!(shown(&resolved), "500", "{what}");
            let (variables, fields) = held(&resolved);
            assert!(variables <= MOST, "{what}: {variables}");
            assert!(fields <= MOST + 1_000, "{what}: {fields}");
            let complaints = &resolved.ruled.as_ref().unwrap().state.complaints;
            let (place, text) = complaints.first().unwrap();
            assert!(place.is_some() && text.contains("192 KiB"), "{what}: {text}");
        }
    }
}

#[test]
fn cookies_of_rules_are_limited() {
    let long = "x".repeat(7_000);
    for (number, expected) in [(70, "file a.txt"), (80, "500")] {
        let cookies =
            lines(number, |number| format!("RewriteRule ^ - [CO=c{number}:{long}:example.org]\n"));
        let resolved = resolved(&format!("RewriteEngine On\n{cookies}"), "/a.txt");
        assert_eq!(shown(&resolved), expected, "{number}");
        let complaints = &resolved.ruled.as_ref().unwrap().state.complaints;
        let is_told = complaints.iter().any(|(_, text)| text.contains("longer than 512 KiB"));
        assert_eq!(is_told, expected == "500", "{complaints:?}");
    }
}

/// Every redirect within the server renames the variables, and keeps those of the request before.
#[test]
fn variables_of_all_redirects_together_are_limited() {
    let rules = "RewriteEngine On\nRewriteRule ^go$ /go2\nRewriteRule ^go2$ /index.php\n";
    let set = |number| lines(number, |number| format!("SetEnv B{number} {}\n", "x".repeat(1_000)));
    for (number, expected) in [(20, "php index.php"), (60, "500")] {
        for page in ["", "ErrorDocument 500 /index.php\n"] {
            let resolved = resolved(&format!("{rules}{page}{}", set(number)), "/go");
            assert_eq!(shown(&resolved), expected, "{number} {page}");
            assert!(held(&resolved).0 <= MOST, "{number} {page}: {}", held(&resolved).0);
        }
    }
}

/// The groups of an expression for names become variables.
#[test]
fn variables_of_sections_are_limited() {
    let name = "x".repeat(200) + ".php";
    let sections = lines(2_000, |number| {
        format!("<FilesMatch \"^(?<G{number}>.*)$\">\nSetEnv A b\n</FilesMatch>\n")
    });
    let mut tree = Tree::new(&name, &[("", &sections)]);
    let resolved = tree.resolved("GET", &format!("/{name}"), "");
    assert!(held(&resolved).0 <= MOST, "{}", held(&resolved).0);
}
