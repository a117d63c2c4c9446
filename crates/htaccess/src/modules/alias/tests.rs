//! Redirects on requests. The expected answers are those of Apache 2.4.71.

use crate::modules::alias::{self, RedirectOutcome};
use crate::testing::{Nowhere, request, settings, transaction, try_settings};
use crate::work::{Meter, WorkBudget};

/// The answer to `GET target` with `Host: own.example`: status and location.
fn answer(lines: &str, target: &str) -> String {
    let mut request = request(target, "Host: own.example");
    request.authority = b"own.example".to_vec();
    let settings = settings(lines);
    let mut transaction = transaction(&request);
    transaction.state.args = request.query().map(<[u8]>::to_vec);
    transaction.state.uri = transaction.state.uri.replace_escapes();
    let config = settings.alias.as_deref().unwrap();
    match alias::fixup(&mut transaction, config, &mut Nowhere::default()) {
        None => "none".into(),
        Some(RedirectOutcome::Status(status)) => status.to_string(),
        Some(RedirectOutcome::Redirect { status, location }) => {
            format!("{status} {}", String::from_utf8_lossy(&location))
        }
    }
}

trait ReplaceEscapes {
    fn replace_escapes(&self) -> Vec<u8>;
}

impl ReplaceEscapes for Vec<u8> {
    /// Decoded, as the walker has it.
    fn replace_escapes(&self) -> Vec<u8> {
        let text = String::from_utf8_lossy(self)
            .replace("%20", " ")
            .replace("%3f", "?")
            .replace("%0a", "\n");
        text.into_bytes()
    }
}

#[test]
fn redirects() {
    let target = "/q/a%20b%3f;?orig=1";
    let table = [
        ("Redirect /q http://h/", "302 http://h//a%20b%3f;?orig=1"),
        ("Redirect permanent /q /x", "301 http://own.example/x/a%20b%3f;?orig=1"),
        ("Redirect temp /q http://h/", "302 http://h//a%20b%3f;?orig=1"),
        ("Redirect gone /q", "410"),
        ("Redirect 404 /q", "404"),
        ("Redirect 200 /q", "200"),
        ("Redirect 0 /q", "none"),
        ("Redirect 999 /q", "500"),
        ("Redirect 20 /q", "500"),
        ("Redirect 399 /q /x", "500"),
        ("Redirect 306 /q /x", "500"),
        ("Redirect seeother /q http://h/a", "303 http://h/a/a%20b%3f;?orig=1"),
        ("Redirect /q/ http://h/", "302 http://h/a%20b%3f;?orig=1"),
        ("Redirect gone", "410"),
        ("RedirectPermanent /q http://h/", "301 http://h//a%20b%3f;?orig=1"),
        ("RedirectTemp /q http://h/", "302 http://h//a%20b%3f;?orig=1"),
        ("RedirectRelative On\nRedirect /q /x", "302 /x/a%20b%3f;?orig=1"),
        ("RedirectMatch 404 ^/q", "404"),
        ("RedirectMatch gone ^/q", "410"),
        ("Redirect / http://h/", "302 http://h/q/a%20b%3f;?orig=1"),
        ("Redirect /q http://h/?a=b", "302 http://h/?a=b/a%20b%3f;"),
        (r"RedirectMatch ^/q(.*) /x\\$1-$1&$9", "302 http://own.example/x$1-/a%20b?;&"),
        ("RedirectMatch ^/q(.*)$ rel/x", "500"),
        ("RedirectMatch ^/q \"#f\"", "500"),
        ("RedirectMatch ^/q http://h/x#f", "302 http://h/x#f?orig=1"),
        ("Redirect /qq /x", "none"),
        ("Redirect /q/a /x", "none"),
        ("Redirect //q///a%20 /x", "none"),
        ("Redirect /q /1\nRedirect /q /2", "302 http://own.example/1/a%20b%3f;?orig=1"),
        ("Redirect /z /1\nRedirectMatch ^/q /2\nRedirect /q /3", "302 http://own.example/2?orig=1"),
    ];
    for (lines, expected) in table {
        assert_eq!(answer(lines, target), expected, "{lines}");
    }
}

#[test]
fn no_line_of_the_head_can_be_forged() {
    for (lines, target, expected) in [
        ("RedirectMatch ^/q/((?s).*)$ http://h/?$1", "/q/a%0ab", "500"),
        ("RedirectMatch ^/q/((?s).*)$ http://h/$1", "/q/a%0ab", "302 http://h/a%0ab"),
        ("Redirect /q http://h", "/q/a%0ab", "302 http://h/a%0ab"),
    ] {
        assert_eq!(answer(lines, target), expected, "{lines}");
    }
}

#[test]
fn paths_match_by_components() {
    use super::redirect::matching_length;
    let table = [
        ("/q", "/q", Some(2)),
        ("/q/", "/q", Some(2)),
        ("/qa", "/q", None),
        ("/q/a", "/q/", Some(3)),
        ("/q", "/q/", None),
        ("//q//a", "/q/", Some(5)),
        ("/q/a", "//q", Some(2)),
        ("/", "/", Some(1)),
        ("/a", "/", Some(1)),
        ("/a", "", None),
        ("", "/", None),
    ];
    for (path, source, expected) in table {
        assert_eq!(
            matching_length(path.as_bytes(), source.as_bytes()),
            expected,
            "{path} {source}"
        );
    }
}

#[test]
fn the_closer_folder_comes_first() {
    use crate::merge::Merge;
    let (base, add) =
        (settings("Redirect /q /base\nRedirectRelative On"), settings("Redirect /q /add"));
    let merged = alias::Config::merge(&base.alias.unwrap(), &add.alias.unwrap());
    let request = request("/q", "");
    let found = alias::fixup(&mut transaction(&request), &merged, &mut Nowhere::default());
    let Some(RedirectOutcome::Redirect { location, .. }) = found else {
        panic!("no redirect: {found:?}");
    };
    assert_eq!(location, b"/add");
}

#[test]
fn mistakes() {
    let table = [
        ("Redirect one two three", "Redirect: invalid first argument (of three)"),
        ("Redirect /q relative", "Redirect to non-URL"),
        ("Redirect 410 /q /x", "Redirect URL not valid for this status"),
        ("Redirect 301", "URL to redirect to is missing"),
        ("RedirectMatch ( /x", "Regular expression could not be compiled."),
    ];
    for (lines, expected) in table {
        assert_eq!(try_settings(lines).unwrap_err().message, expected, "{lines}");
    }
}

/// A list with an index must answer as one that is tried from top to bottom.
#[test]
fn an_index_changes_nothing() {
    let sources = [
        "Redirect /a /1",
        "Redirect /a/b /2",
        "Redirect /a/b/ /3",
        "Redirect //a//c /4",
        "Redirect / /5",
        "Redirect 410 /a/d",
        "RedirectMatch ^/a/(.*)x$ /6/$1",
        "RedirectMatch 404 c$",
        "RedirectMatch ^/b/?$ /7",
        "Redirect /b /8",
        "Redirect x /9",
        "RedirectMatch (.*) /10$1",
        "Redirect /c/d/e /11",
        "Redirect /c /12",
    ];
    let paths = [
        "/",
        "//",
        "/a",
        "/a/",
        "/ab",
        "/a/b",
        "/a/b/",
        "/a//b//c",
        "/a/c/x",
        "/a/d",
        "/a/dx",
        "/b",
        "/b/",
        "/b/c",
        "/c",
        "/c/d",
        "/c/d/e",
        "/c/d/ef",
        "///c//d/e/f",
        "/x",
        "",
        "x",
    ];
    let mut random = crate::mutation::Mutator(7);
    for _ in 0..200 {
        let lines: Vec<&str> = (0..12).map(|_| sources[random.below(sources.len())]).collect();
        let settings = settings(&lines.join("\n"));
        let list = &settings.alias.as_ref().unwrap().redirects;
        for path in paths {
            let (indexed, in_order) = (
                list.find(path.as_bytes(), Meter::unlimited()),
                list.find_in_order(path.as_bytes()),
            );
            let text = |found: super::list::Search<'_>| {
                found.unwrap().map(|(redirect, to)| (redirect.text.clone(), to))
            };
            assert_eq!(text(indexed), text(in_order), "{path} in\n{}", lines.join("\n"));
        }
    }
}

/// Targets that contain the path thousands of times.
#[test]
fn a_target_that_becomes_too_long_is_never_put_together() {
    let settings = settings(&format!("RedirectMatch ^(.*)$ /{}", "$1".repeat(3_900)));
    let config = settings.alias.as_deref().unwrap();
    for (length, expected) in [(16, "303"), (17, "500"), (4_000, "500")] {
        let request = request(&format!("/{}", "x".repeat(length - 1)), "");
        let budget = WorkBudget::new(1_000_000);
        let mut tx = transaction(&request);
        tx.client = tx.client.within(&budget);
        let outcome = alias::fixup(&mut tx, config, &mut Nowhere::default());
        match expected {
            "500" => assert!(tx.state.complaints[0].1.contains("too long"), "{length}"),
            _ => assert!(matches!(outcome, Some(RedirectOutcome::Redirect { .. })), "{length}"),
        }
        assert!(budget.used() >= 4_000 / 16 * length.min(16) as u64, "{}", budget.used());
        assert!(budget.used() < 90_000, "{length}: {}", budget.used());
    }
}
