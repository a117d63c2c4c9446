//! A table per flag.

use super::{ask, check, outcome};
use crate::module_notes::CarryOver;
use crate::transaction::FileKind;

const ON: &str = "RewriteEngine On\n";

fn variables(rules: &str, target: &str) -> Vec<String> {
    let answer = ask(&format!("{ON}{rules}"), target, "");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    answer
        .state
        .env
        .iter()
        .map(|(name, value)| format!("{}={}", text(name), text(value)))
        .collect()
}

#[test]
fn last_ends_the_round_and_without_it_rules_go_on() {
    check(&[
        ("RewriteRule ^x$ /y [L]\nRewriteRule ^ /z", "/x", "internal /y"),
        ("RewriteRule ^x$ /y\nRewriteRule y /z", "/x", "internal /z"),
        ("RewriteRule ^x$ - [L]\nRewriteRule ^ /z", "/x", "declined"),
        ("RewriteRule ^x$ y\nRewriteRule ^y$ z", "/x", "internal /z"),
        ("RewriteRule ^x$ /y [END]\nRewriteRule ^ /z", "/x", "internal /y"),
    ]);
}

#[test]
fn end_is_remembered_across_internal_redirects() {
    let settings = crate::testing::settings(&format!("{ON}RewriteRule ^ /z"));
    for (way, expected) in
        [(CarryOver::Redirect, "declined"), (CarryOver::ToSubRequest, "internal /z")]
    {
        let mut first = ask(&format!("{ON}RewriteRule ^x$ /y [END]"), "/x", "");
        let again = super::evaluate(&settings, "/y", "", |state| {
            first.state.module_notes.carry_over(way, &mut state.module_notes);
        });
        assert_eq!(again.outcome, expected, "{way:?}");
    }
}

/// A cookie is set once for a client's request, whichever of the requests below it comes first.
#[test]
fn a_cookie_is_set_once_across_internal_redirects_and_sub_requests() {
    let rules = format!("{ON}RewriteRule ^ - [CO=a:b:example.org]");
    let settings = crate::testing::settings(&rules);
    for way in [CarryOver::Redirect, CarryOver::ToSubRequest, CarryOver::FromSubRequest] {
        let mut first = ask(&rules, "/x", "");
        assert!(first.state.error_fields.value(b"Set-Cookie").is_some());
        let again = super::evaluate(&settings, "/y", "", |state| {
            first.state.module_notes.carry_over(way, &mut state.module_notes);
        });
        assert_eq!(again.state.error_fields.value(b"Set-Cookie"), None, "{way:?}");
    }
}

#[test]
fn redirects() {
    check(&[
        ("RewriteRule ^x$ /y [R]", "/x", "302 http://own.example/y"),
        ("RewriteRule ^x$ /y [R=301]", "/x", "301 http://own.example/y"),
        ("RewriteRule ^x$ /y [R=permanent]", "/x", "301 http://own.example/y"),
        ("RewriteRule ^x$ /y [R=seeother]", "/x", "303 http://own.example/y"),
        ("RewriteRule ^x$ /y [R=308]", "/x", "308 http://own.example/y"),
        ("RewriteRule ^x$ /y [R=whatever]", "/x", "302 http://own.example/y"),
        ("RewriteRule ^x$ y [R]", "/x", "302 http://own.example/srv/y"),
        ("RewriteBase /b\nRewriteRule ^x$ y [R]", "/x", "302 http://own.example/b/y"),
        ("RewriteRule ^x$ http://o.example/ [R]", "/x", "302 http://o.example/"),
        ("RewriteRule ^x$ http://o.example/", "/x", "302 http://o.example/"),
        ("RewriteRule ^x$ http://o.example/ [R=410]", "/x", "410"),
        ("RewriteRule ^x$ - [R=404]", "/x", "404"),
        ("RewriteRule ^x$ /y [R=500]", "/x", "500"),
        ("RewriteRule ^x$ - [R=200]", "/x", "200"),
        ("RewriteRule ^x$ - [R=301]", "/x", "declined"),
        ("RewriteRule ^x$ - [F,R=301]", "/x", "301"),
    ]);
}

#[test]
fn forbidden_and_gone() {
    check(&[
        ("RewriteRule ^x$ - [F]", "/x", "403"),
        ("RewriteRule ^x$ /y [F]\nRewriteRule ^ /z", "/x", "403"),
        ("RewriteRule ^x$ - [G]", "/x", "410"),
        ("RewriteRule ^x$ - [gone]", "/y", "declined"),
    ]);
}

#[test]
fn queries() {
    check(&[
        ("RewriteRule ^x$ /y", "/x?q=1", "internal /y?q=1"),
        ("RewriteRule ^x$ /y?a=b", "/x?q=1", "internal /y?a=b"),
        ("RewriteRule ^x$ /y?", "/x?q=1", "internal /y"),
        ("RewriteRule ^x$ /y?a=b [QSA]", "/x?q=1", "internal /y?a=b&q=1"),
        ("RewriteRule ^x$ /y?a=b [QSA]", "/x", "internal /y?a=b"),
        ("RewriteRule ^x$ /y [QSA]", "/x?q=1", "internal /y?q=1"),
        ("RewriteRule ^x$ /y [QSD]", "/x?q=1", "internal /y"),
        ("RewriteRule ^x$ /y?a [QSD]", "/x?q=1", "internal /y?a"),
        ("RewriteRule ^x$ /y?a?b [QSL]", "/x?q=1", "internal /y?a?b"),
        ("RewriteRule ^x$ /y?a?b", "/x", "internal /y?a?b"),
        ("RewriteRule ^x$ /y?a? [QSA]", "/x?q=1", "internal /y?a?q=1"),
        ("RewriteRule ^x$ /y [R]", "/x?q=%20", "302 http://own.example/y?q=%20"),
        (r"RewriteRule ^x$ /y?a=\%20 [R]", "/x", "302 http://own.example/y?a=%2520"),
        (r"RewriteRule ^x$ /y?a=\%20 [R,NE]", "/x", "302 http://own.example/y?a=%20"),
        ("RewriteRule ^x$ ?a=b", "/x", "internal /?a=b"),
        ("RewriteRule ^(a.html)$ $1?b=c", "/a.html", "continue"),
    ]);
    let answer = ask(&format!("{ON}RewriteRule ^(a.html)$ $1?b=c"), "/a.html", "");
    assert_eq!(answer.state.args.as_deref(), Some(&b"b=c"[..]));
}

#[test]
fn no_escape() {
    check(&[
        ("RewriteRule ^x$ \"/a b#c\" [R]", "/x", "302 http://own.example/a%20b%23c"),
        ("RewriteRule ^x$ /a#c [R,NE]", "/x", "302 http://own.example/a#c"),
        ("RewriteRule ^(.*)$ /y/$1 [R]", "/x%20y", "302 http://own.example/y/x%20y"),
        ("RewriteRule ^(.*)$ /y/$1 [R]", "/100%25", "302 http://own.example/y/100%25"),
    ]);
}

#[test]
fn escaped_back_references() {
    check(&[
        ("RewriteRule ^x/(.*)$ /y?q=$1 [B]", "/x/a b&c/_", "internal /y?q=a+b%26c%2f_"),
        ("RewriteRule ^x/(.*)$ /y?q=$1 [B,BNP]", "/x/a b", "internal /y?q=a%20b"),
        ("RewriteRule ^x/(.*)$ /y?q=$1 [B=&]", "/x/a&b/c", "internal /y?q=a%26b/c"),
        ("RewriteRule ^x/(.*)$ /y?q=$1 [B,BNE=/]", "/x/a&b/c", "internal /y?q=a%26b/c"),
        ("RewriteRule ^x/(.*)$ /y?q=$1 [BCTLS]", "/x/a b&c%0ad", "internal /y?q=a+b&c%0ad"),
        ("RewriteRule ^x/(.*)$ /y?q=$1 [BCTLS]", "/x/a%7fb", "internal /y?q=a%7fb"),
        ("RewriteRule ^x/(.*)$ /y?q=$1 [BCTLS,B=&]", "/x/a&b", "internal /y?q=a%26b"),
        ("RewriteRule ^x/(.*)$ /y?q=$1 [BNE=/]", "/x/a&b", "internal /y?q=a&b"),
        ("RewriteRule ^x/(.*)$ /y?q=$1", "/x/a%20b", "403"),
        ("RewriteRule ^x/(.*)$ /y?q=$1", "/x/a%7fb", "403"),
        ("RewriteRule ^x/(.*)$ /y?q=$1 [R]", "/x/a%20b", "302 http://own.example/y?q=a%20b"),
        ("RewriteRule ^x/(.*)$ /y?q=$1 [R,NE]", "/x/a%20b", "403"),
    ]);
}

#[test]
fn a_question_mark_from_outside_begins_no_query() {
    check(&[
        ("RewriteRule ^x(.*)$ /y$1", "/x%3fq", "403"),
        ("RewriteRule ^x(.*)$ /y$1 [UnsafeAllow3F]", "/x%3fq", "internal /y?q"),
        ("RewriteRule ^x(.*)$ /y?a=$1", "/x%3fq", "internal /y?a=?q"),
        ("RewriteRule ^x(.*)$ /y?a=$1 [QSL]", "/x%3fq", "403"),
        (r"RewriteRule ^x(.*)$ /y\-?a=$1", "/x%3fq", "internal /y-?a=?q"),
        (r"RewriteRule ^x(.*)$ /y?a\-?b=$1", "/x%3fq", "internal /y?a-?b=?q"),
        ("RewriteRule ^x(.*)$ /y$1?", "/x%3fq", "403"),
        (r"RewriteRule ^x(.*)$ /y\?$1", "/x%3fq", "403"),
        (r"RewriteRule ^x$ /y\?q", "/x", "internal /y?q"),
        ("RewriteRule ^x$ /y${m:a|?b}", "/x", "403"),
    ]);
}

#[test]
fn chains_and_skips() {
    check(&[
        ("RewriteRule ^x$ - [C]\nRewriteRule ^ /y [L]\nRewriteRule ^ /z", "/x", "internal /y"),
        ("RewriteRule ^x$ - [C]\nRewriteRule ^ /y [L]\nRewriteRule ^ /z", "/w", "internal /z"),
        ("RewriteRule ^x$ - [C]\nRewriteRule ^n - [C]\nRewriteRule ^ /y [L]", "/x", "declined"),
        ("RewriteRule ^x$ - [C]", "/w", "declined"),
        ("RewriteRule ^x$ - [S=1]\nRewriteRule ^ /y [L]\nRewriteRule ^ /z", "/x", "internal /z"),
        ("RewriteRule ^x$ - [S=9]\nRewriteRule ^ /y", "/x", "declined"),
        ("RewriteRule ^x$ - [S=-1]\nRewriteRule ^ /y", "/x", "internal /y"),
        // The rule that is skipped to may follow a chain's head.
        ("RewriteRule ^x - [S=1]\nRewriteRule ^n - [C]\nRewriteRule ^ /y [L]", "/x", "internal /y"),
    ]);
}

#[test]
fn next_round() {
    check(&[
        ("RewriteRule ^(.*)a(.*)$ $1b$2 [N]\nRewriteRule ^bbb$ /done", "/aaa", "internal /done"),
        ("RewriteRule ^(.*)a(.*)$ $1b$2 [N=2]\nRewriteRule ^(.*)$ /$1", "/aaa", "500"),
        ("RewriteRule ^(.*)a(.*)$ $1b$2 [N=2]\nRewriteRule ^(.*)$ /$1", "/a", "500"),
        ("RewriteRule ^(.*)a(.*)$ $1b$2 [N=3]\nRewriteRule ^(.*)$ /$1", "/a", "internal /b"),
        ("RewriteRule ^ - [N]", "/x", "500"),
        ("RewriteRule ^(.*)$ $1$1 [N]", "/x", "500"),
        ("RewriteRule ^ /x?%{QUERY_STRING}%{QUERY_STRING}a [N]", "/x?q", "500"),
        ("RewriteRule ^ - [E=a:%{ENV:a}%{ENV:a}b,N]", "/x", "500"),
    ]);
}

#[test]
fn rounds_without_end_are_logged() {
    let answer = super::ask("RewriteEngine On\nRewriteRule ^ - [N=2]", "/x", "");
    let messages: Vec<_> = answer.state.complaints.iter().map(|(_, what)| &what[..]).collect();
    assert_eq!(
        messages,
        ["AH02596: RewriteRule '^' and URI '/x' exceeded maximum number of rounds (2) via the \
             [N] flag"]
    );
}

#[test]
fn variables_are_set_and_removed() {
    let table: &[(&str, &[&str])] = &[
        ("RewriteRule ^(.)(.)$ - [E=a:$2,E=b]", &["a=y", "b="]),
        ("RewriteRule ^x - [E=a:1]\nRewriteRule ^x - [E=!a,E=b:%{ENV:a}]", &["b="]),
        ("RewriteRule ^x - [E=a:b:c]", &["a=b:c"]),
        ("RewriteRule ^(.) - [E=$1:1]", &["x=1"]),
        ("RewriteRule ^(.) - [E=a:1,E=a:2]", &["a=2"]),
        (
            "RewriteCond %{REQUEST_URI} /(.)\nRewriteRule ^ - [E=a:%1%%{HTTP_HOST}]",
            &["a=x%own.example"],
        ),
        ("RewriteRule ^x - [E]", &[]),
        ("RewriteRule ^n - [E=a]", &[]),
    ];
    for (rules, expected) in table {
        assert_eq!(variables(rules, "/xy"), *expected, "{rules}");
    }
}

#[test]
fn cookies() {
    let table = [
        ("n:v:d.example", "n=v; path=/; domain=d.example"),
        ("n:v:d:0:/p", "n=v; path=/p; domain=d"),
        ("n:v:d:1", "n=v; path=/; domain=d; expires=Tue, 14-Nov-2023 22:14:20 GMT"),
        ("n:v:d:-1:/", "n=v; path=/; domain=d; expires=Tue, 14-Nov-2023 22:12:20 GMT"),
        ("n:v:d:0:/:secure:HttpOnly:lax", "n=v; path=/; domain=d; secure; HttpOnly; SameSite=lax"),
        ("n:v:d:0:/:true:1:None", "n=v; path=/; domain=d; secure; HttpOnly; SameSite=None"),
        ("n:v:d:0:/:no:no:false", "n=v; path=/; domain=d"),
        ("n:v:d:0:/:secure:no:0", "n=v; path=/; domain=d; secure"),
        // HttpOnly alone is lost, SameSite is not.
        ("n:v:d:0:/:no:HttpOnly:Lax", "n=v; path=/; domain=d; SameSite=Lax"),
        (";n;v:w;d;0;/", "n=v:w; path=/; domain=d"),
        ("n:$1:d", "n=x; path=/; domain=d"),
        ("n:v", ""),
        ("n::d:x", "n=d; path=/; domain=x"),
    ];
    for (flag, expected) in table {
        let answer = ask(&format!("{ON}RewriteRule ^(x) - [CO={flag}]"), "/x", "");
        let line = answer.state.error_fields.value(b"Set-Cookie").unwrap_or_default();
        assert_eq!(String::from_utf8_lossy(line), expected, "{flag}");
    }
    let twice = ask(&format!("{ON}RewriteRule ^ - [CO=n:1:d,CO=n:2:d,CO=m:3:d]"), "/x", "");
    let lines: Vec<_> = twice.state.error_fields.iter().map(|(_, line)| line).collect();
    assert_eq!(lines, [&b"n=1; path=/; domain=d"[..], b"m=3; path=/; domain=d"]);
}

#[test]
fn types_and_handlers() {
    let table = [
        ("RewriteRule ^a - [T=text/CSS]", "declined", Some("text/css"), None),
        ("RewriteRule ^a - [H=PHP-Script]", "declined", None, Some("php-script")),
        ("RewriteRule ^(a) - [T=x/$1]", "declined", Some("x/a"), None),
        ("RewriteRule ^a - [T=text/x;charset=utf-8]", "declined", Some("text/x"), None),
        ("RewriteRule ^a a.html [T=text/x]", "continue", Some("text/x"), None),
        ("RewriteRule ^a /y [T=text/x]", "internal /y", None, None),
        // The handler takes the place of the one that would begin the request anew, and gets a file
        // name that is none.
        ("RewriteRule ^a /y [H=x]", "403", None, None),
        ("RewriteRule ^a /y [R,T=text/x]", "302 http://own.example/y", None, None),
    ];
    for (rules, outcome, kind, handler) in table {
        let answer = ask(&format!("{ON}{rules}"), "/a.html", "");
        let text = |value: Option<Vec<u8>>| value.map(|value| String::from_utf8(value).unwrap());
        assert_eq!(answer.outcome, outcome, "{rules}");
        assert_eq!(text(answer.state.content_type).as_deref(), kind, "{rules}");
        assert_eq!(text(answer.state.handler).as_deref(), handler, "{rules}");
    }
}

/// The handler of `H=` takes the place of the one that would begin the request anew, and looks for
/// a file that is not there. A folder gets its slash first.
#[test]
fn a_handler_and_another_path() {
    let table = [
        ("^a", "x", "/a.html", "403", FileKind::File),
        ("^a", "php", "/a.html", "continue", FileKind::Missing),
        ("^a", "x", "/a.html/b", "continue", FileKind::Missing),
        ("^n", "x", "/none", "continue", FileKind::Missing),
        ("^s", "x", "/sub", "continue", FileKind::Directory),
        ("^s", "x", "/sub/", "continue", FileKind::Missing),
    ];
    for (pattern, handler, target, outcome, found) in table {
        let answer = ask(&format!("{ON}RewriteRule {pattern} /y [H={handler}]"), target, "");
        assert_eq!((&*answer.outcome, answer.state.found), (outcome, found), "{handler} {target}");
    }
}

#[test]
fn letters_in_any_case() {
    check(&[
        ("RewriteRule ^X$ /y [NC]", "/x", "internal /y"),
        ("RewriteRule ^X$ /y", "/x", "declined"),
        ("RewriteRule !^X$ /y [NC]", "/x", "declined"),
    ]);
}

#[test]
fn path_info_is_discarded() {
    check(&[
        ("RewriteRule ^a.html /y\nRewriteRule (.*) /$1", "/a.html/b", "internal /y/b"),
        ("RewriteRule ^a.html /y [DPI]\nRewriteRule (.*) /$1", "/a.html/b", "internal /y"),
    ]);
}

#[test]
fn pass_through_is_ignored_but_for_what_it_breaks() {
    check(&[
        ("RewriteRule ^x$ /y [PT]\nRewriteRule ^ /z", "/x", "internal /y"),
        ("RewriteRule ^a - [PT]", "/a.html", "continue"),
        ("RewriteRule ^x$ http://o.example/ [PT]", "/x", "400"),
        ("RewriteRule ^x$ /y [R,PT]", "/x", "400"),
    ]);
}

#[test]
fn proxies() {
    check(&[
        ("RewriteRule ^x$ http://o.example/a [P]", "/x?q", "proxy http://o.example/a?q"),
        ("RewriteRule ^x$ \"http://o.example/a b\" [P]", "/x", "proxy http://o.example/a%20b"),
        (
            "RewriteRule ^x(.*)$ http://o.example/$1 [P]",
            "/x\u{e4}^%1b",
            "proxy http://o.example/%C3%A4%5E%251b",
        ),
        (r"RewriteRule ^x$ http://\% [P]", "/x", "proxy http://%"),
        (r"RewriteRule ^x$ http://o.example/a\%20b [P,NE]", "/x", "proxy http://o.example/a%20b"),
        ("RewriteRule ^x$ /y [P]\nRewriteRule ^ /z", "/x", "proxy http://own.example/y"),
    ]);
}

#[test]
fn rules_for_sub_requests() {
    let table = [
        ("RewriteRule ^x$ /y", "internal /y"),
        ("RewriteRule ^x$ /y [NS]", "declined"),
        ("RewriteRule ^x$ /y [R]", "declined"),
        ("RewriteRule ^x$ - [R=404]", "declined"),
        ("RewriteRule ^x$ - [F]", "403"),
        ("RewriteRule ^x$ http://o.example/", "302 http://o.example/"),
    ];
    for (rules, expected) in table {
        let settings = crate::testing::settings(&format!("{ON}{rules}"));
        let answer = super::evaluate(&settings, "/x", "", |state| state.is_subrequest = true);
        assert_eq!(answer.outcome, expected, "{rules}");
    }
}

#[test]
fn slashes_at_the_beginning() {
    check(&[
        ("RewriteRule ^x(.*)$ /$1", "/x/y", "internal /y"),
        ("RewriteRule ^x(.*)$ /$1 [UNC]", "/x/y", "internal //y"),
        ("RewriteRule ^x(.*)$ //$1", "/xy", "internal //y"),
        ("RewriteRule ^x(.*)$ $1", "/x//y", "internal /y"),
    ]);
    assert_eq!(outcome("RewriteRule ^x/(.*)$ /$1 [R]", "/x/y"), "302 http://own.example/y");
}
