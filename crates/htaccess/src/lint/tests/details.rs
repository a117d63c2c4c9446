//! Further rows of what `check` says, and whether a file protects.

use super::{assert_all, said_in};
use crate::lint::protects;
use crate::scope::CompileContext;

#[test]
fn a_file_that_denies_protects() {
    for (text, expected) in [
        ("Deny from all", true),
        ("AuthType Basic", true),
        ("Require valid-user", true),
        ("Require all denied", true),
        ("Require all granted", false),
        ("Require user granted", true),
        ("RewriteRule a - [F]", true),
        ("RewriteRule a - [R=404]", true),
        ("RewriteRule a b", false),
        ("Redirect 404 /a", true),
        ("Redirect gone /a", true),
        ("Redirect /a /b", false),
        ("RedirectMatch 403 a", true),
        ("Options -Indexes", false),
        ("<IfModule mod_foo.c>\nDeny from all\n</IfModule>", false),
    ] {
        let context = CompileContext::new("f", b"/site/");
        assert_eq!(protects(text.as_bytes(), &context, &mut |_| false), expected, "{text}");
    }
}

#[test]
fn rules_of_access_in_sections() {
    assert_all(&[
        ("<Files .ht*>\nRequire user granted\n</Files>", &[]),
        ("<Files .ht*>\nAllow from all\n</Files>", &["2:1 dangerous lets everybody read"]),
        ("<Files .ht*>\nAllow from 192.0.2.1\n</Files>", &[]),
        ("<Files .ht*>\nOrder allow,deny\nDeny from all\n</Files>", &[]),
        ("<Files .ht*>\nDeny from all\nAllow from all\n</Files>", &[]),
        ("<Limit GET>\nDeny from all\n</Limit>", &["1:1 dangerous protects only"]),
        ("<Limit GET>\nRequire all denied\n</Limit>", &["1:1 dangerous protects only"]),
        ("<Limit GET>\nRequire user granted\n</Limit>", &["1:1 dangerous protects only"]),
        ("<Limit GET>\nRequire all granted\n</Limit>", &[]),
        ("Require all granted\nRequire all denied", &[]),
    ]);
}

#[test]
fn satisfy_any_beside_passwords() {
    let asks = |rest: &str| format!("AuthType Basic\nRequire valid-user\n{rest}");
    for (rest, expected) in [
        ("Satisfy Any", &["3:1 dangerous no password is ever asked for"][..]),
        ("Satisfy All\nAllow from all", &["4:1 doubtful Allow"]),
        ("Satisfy Any\nDeny from all", &["4:1 doubtful Deny"]),
        (
            "Satisfy Any\nDeny from all\nAllow from all",
            &["3:1 dangerous no password is ever asked for", "4:1 doubtful Deny"],
        ),
    ] {
        assert_all(&[(&asks(rest), expected)]);
    }
    assert_all(&[("Satisfy Any\nRequire all granted", &[])]);
}

#[test]
fn listings_and_error_documents() {
    assert_all(&[
        ("Options Indexes FollowSymLinks", &["1:9 dangerous everybody sees"]),
        ("Options +Indexes\nOptions +FollowSymLinks", &["1:9 dangerous everybody sees"]),
        ("Options +Indexes\nOptions -FollowSymLinks", &["1:9 dangerous everybody sees"]),
        ("<Files a>\nOptions +Indexes\n</Files>", &[]),
        ("ErrorDocument 404 https://a/b", &["1:19 doubtful sends a redirect"]),
        ("ErrorDocument 401 http://a/b", &["1:19 doubtful has no effect"]),
    ]);
    // Of a file that belongs to no folder nothing is known.
    let nowhere = CompileContext::new("f", b"");
    let file = "AuthType Basic\nAuthUserFile /users\nRequire valid-user";
    assert_eq!(said_in("Options +Indexes", &nowhere), [""; 0]);
    assert_eq!(said_in(file, &nowhere), [""; 0]);
}

#[test]
fn names_of_phps_handlers_and_modules() {
    assert_all(&[
        ("AddType text/html .jpg", &[]),
        ("AddType application/x-httpd-php-source .jpg", &[]),
        ("AddHandler php5-script .php", &["1:12 dangerous runs every file that has"]),
        ("AddHandler x-httpd-php5 .php", &["1:12 dangerous runs every file that has"]),
        ("AddHandler php-x .php", &[]),
        ("AddHandler x-script .php", &[]),
        ("SetHandler default-handler", &[]),
        ("<If true>\nSetHandler application/x-httpd-php\n</If>", &[]),
        ("php_flag allow_url_include on", &["1:10 dangerous lets scripts run code"]),
        ("<IfModule php7_module>\n</IfModule>", &["1:1 ignored is skipped"]),
        ("<IfModule mod_php7x.c>\n</IfModule>", &[]),
    ]);
}

#[test]
fn patterns_of_all_directives() {
    assert_all(&[
        ("RewriteEngine On\nRewriteRule (a+)+$ /b", &["2:13 dangerous this pattern"]),
        (
            "RewriteEngine On\nRewriteCond %{QUERY_STRING} (a+)+$\nRewriteRule a b",
            &["2:29 dangerous this pattern"],
        ),
        ("RewriteEngine On\nRewriteCond %{QUERY_STRING} !=(a+)+\nRewriteRule a b", &[]),
        ("RedirectMatch (a+)+$ /b", &["1:15 dangerous this pattern"]),
        ("RedirectMatch 301 (a+)+$ /b", &["1:19 dangerous this pattern"]),
        ("RedirectMatch 410 (a+)+$", &["1:19 dangerous this pattern"]),
        ("BrowserMatch (a+)+$ x", &["1:14 dangerous this pattern"]),
        ("SetEnvIf Referer (a+)+$ x", &["1:18 dangerous this pattern"]),
        ("<Files ~ (a+)+$>\n</Files>", &["1:10 dangerous this pattern"]),
    ]);
}

#[test]
fn rules_and_headers_that_are_as_they_should_be() {
    assert_all(&[
        ("RewriteRule a b\n<If true>\nRewriteEngine On\n</If>", &[]),
        ("RewriteEngine On\nRewriteRule ^a=b c", &[]),
        ("Header set A b\nHeader set C d", &[]),
        ("Header onsuccess set A b\nHeader set A c", &["1:1 redundant line 2"]),
        ("RequestHeader set A b\nRequestHeader set A b", &[]),
        ("Redirect permanent /a /x\nRedirect /a /y", &["2:10 shadowed"]),
        ("Redirect gone /a\nRedirect /a /y", &["2:10 shadowed"]),
    ]);
}
