//! The meaning of a substitution's result.

use super::check;

#[test]
fn paths() {
    check(&[
        ("RewriteRule ^x$ /y", "/x", "internal /y"),
        ("RewriteRule ^x$ y", "/x", "internal /y"),
        ("RewriteRule ^x$ sub/y", "/x", "internal /sub/y"),
        ("RewriteRule ^x$ \"\"", "/x", "internal /"),
        ("RewriteRule ^x$ %{DOCUMENT_ROOT}/y", "/x", "internal /y"),
        ("RewriteRule ^x$ /srv/y", "/x", "internal /y"),
        ("RewriteRule ^x$ /srvy", "/x", "internal /srvy"),
        ("RewriteRule ^x$ ../y", "/x", "internal /../y"),
        ("RewriteRule ^a.html$ a.html", "/a.html", "continue"),
        ("RewriteRule ^a.html$ %{REQUEST_FILENAME}", "/a.html", "continue"),
        ("RewriteRule ^a.html$ /a.html", "/a.html", "internal /a.html"),
        (r"RewriteRule ^x\ y.html$ /z", "/x%20y.html", "internal /z"),
        ("RewriteRule \"^x y\" \"/z w\"", "/x%20y.html", "internal /z w"),
        ("RewriteRule ^(.*)$ /index.php/$1", "/sub/y/z", "internal /index.php/sub/y/z"),
    ]);
}

#[test]
fn bases() {
    check(&[
        ("RewriteBase /b/\nRewriteRule ^x$ y", "/x", "internal /b/y"),
        ("RewriteBase /b\nRewriteRule ^x$ y", "/x", "internal /b/y"),
        ("RewriteBase /\nRewriteRule ^x$ y", "/x", "internal /y"),
        ("RewriteBase /b/\nRewriteRule ^x$ /y", "/x", "internal /y"),
        ("RewriteBase /b/\nRewriteRule ^x$ /srv/y", "/x", "internal /b/y"),
        (
            "RewriteBase /b/\nRewriteRule ^x$ http://o.example/srv/y",
            "/x",
            "302 http://o.example/b/y",
        ),
        ("RewriteBase /\nRewriteRule ^x$ y [R]", "/x", "302 http://own.example/y"),
    ]);
}

#[test]
fn absolute_urls() {
    check(&[
        ("RewriteRule ^x$ http://own.example/y", "/x", "302 http://own.example/y"),
        ("RewriteRule ^x$ http://OWN.example:80/y", "/x", "302 http://OWN.example:80/y"),
        ("RewriteRule ^x$ http://own.example:81/y", "/x", "302 http://own.example:81/y"),
        ("RewriteRule ^x$ https://own.example/y", "/x", "302 https://own.example/y"),
        ("RewriteRule ^x$ http://own.example/y [R]", "/x", "302 http://own.example/y"),
        ("RewriteRule ^x$ http://o.example/y?a=b", "/x?q", "302 http://o.example/y?a=b"),
        ("RewriteRule ^x$ http://o.example/y", "/x?q", "302 http://o.example/y?q"),
        ("RewriteRule ^x$ ftp://o.example/y?a", "/x?q", "302 ftp://o.example/y%3fa"),
        ("RewriteRule ^x$ mailto:a@b", "/x", "302 mailto:a@b"),
        // No scheme that mod_rewrite knows: a path.
        ("RewriteRule ^x$ file:/y", "/x", "internal /file:/y"),
        ("RewriteRule ^x$ http://[::1]/y [R]", "/x", "302 http://[::1]/y"),
    ]);
}

#[test]
fn a_redirect_that_another_rule_undoes_leaves_its_status() {
    let rules = "RewriteEngine On\nRewriteRule ^x$ /y [R=301]\nRewriteRule y /z";
    let answer = super::ask(rules, "/x", "");
    assert_eq!(answer.outcome, "internal /z");
    assert_eq!(answer.state.status.code(), 301);
}

#[test]
fn a_pattern_that_tries_too_much_is_an_error() {
    let target = format!("/{}b", "a".repeat(200));
    let answer = super::ask("RewriteEngine On\nRewriteRule ^(a+)+$ /y", &target, "");
    assert_eq!(answer.outcome, "500");
    let (_, message) = &answer.state.complaints[0];
    assert_eq!(message, "mod_rewrite: a pattern takes too many steps on this request");
    assert_eq!(answer.state.complaints.len(), 1);
}

#[test]
fn no_line_of_the_head_can_be_forged() {
    check(&[
        ("RewriteRule ^(.*)$ http://o.example/$1 [R,NE]", "/a%0ab", "500"),
        ("RewriteRule ^(.*)$ http://o.example/$1 [R,NE]", "/a%7fb", "500"),
        ("RewriteRule ^(.*)$ http://o.example/$1 [R]", "/a%0ab", "302 http://o.example/a%0ab"),
        ("RewriteRule ^(.*)$ - [CO=n:$1:d]", "/a%0ab", "500"),
        ("RewriteRule ^(.*)$ - [T=$1]", "/a%0ab", "500"),
    ]);
}

#[test]
fn no_result_is_longer_than_the_limits() {
    let long = "a".repeat(8_189);
    let path = "RewriteRule ^(.*)$ /$1$1b";
    check(&[
        (path, &format!("/{long}"), &format!("internal /{long}{long}b")),
        (&format!("{path}b"), &format!("/{long}"), "500"),
    ]);
    let long = "q".repeat(65_534);
    let query = "RewriteRule ^x$ /y?a [QSA]";
    check(&[
        (query, &format!("/x?{long}"), &format!("internal /y?a&{long}")),
        (query, &format!("/x?{long}q"), "500"),
    ]);
    let eighth = format!("/{}", "a".repeat(8_192));
    let value = "RewriteRule ^(.*)$ - [E=v:$1$1$1$1$1$1$1$1";
    check(&[(&format!("{value}]"), &eighth, "declined"), (&format!("{value}b]"), &eighth, "500")]);
}
