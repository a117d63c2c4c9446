mod details;

use super::check;
use super::regex::is_explosive;
use crate::mistake::MistakeKind;
use crate::scope::CompileContext;

/// The remarks, as `line:column kind message` up to the first colon or comma.
fn said(text: &str) -> Vec<String> {
    said_in(text, &CompileContext::new("f", b"/site/"))
}

fn said_in(text: &str, context: &CompileContext) -> Vec<String> {
    check(text.as_bytes(), context, &mut |path| path == b"/site/home.html")
        .iter()
        .map(|remark| {
            let message = remark.message.split([':', ',']).next().unwrap();
            format!(
                "{}:{} {} {message}",
                remark.place.line,
                remark.place.column,
                remark.kind.name()
            )
        })
        .collect()
}

fn assert_all(rows: &[(&str, &[&str])]) {
    for (text, expected) in rows {
        let found = said(text);
        let fits = found.len() == expected.len()
            && found.iter().zip(*expected).all(|(found, expected)| found.starts_with(expected));
        assert!(fits, "{text}\nfound {found:#?}\nexpected {expected:#?}");
    }
}

#[test]
fn what_is_said_twice() {
    assert_all(&[
        ("AddDefaultCharset utf-8\nAddDefaultCharset utf-8", &["2:1 redundant repeats line 1"]),
        (
            "AddDefaultCharset utf-8\nadddefaultcharset off",
            &["1:1 redundant line 2 sets this again"],
        ),
        ("AddType a/b .x .y\nAddType a/c .Y", &["1:1 redundant line 2"]),
        ("AddType a/b .x\nAddType a/b .y", &[]),
        (
            "ErrorDocument 404 /a\nErrorDocument 403 /a\nErrorDocument 404 /b",
            &["1:1 redundant line 3"],
        ),
        ("php_value memory_limit 1M\nphp_value memory_limit 2M", &["1:1 redundant line 2"]),
        ("Header set A b\nHeader set a c", &["1:1 redundant line 2"]),
        ("Header set A b\nHeader always set A c\nHeader add A b\nHeader add A b", &[]),
        ("AddDefaultCharset off\n<Files a>\nAddDefaultCharset utf-8\n</Files>", &[]),
        ("<IfModule !core.c>\nAddDefaultCharset off\n</IfModule>\nAddDefaultCharset utf-8", &[]),
    ]);
}

#[test]
fn rules_that_never_act() {
    let on = |rules: &str| format!("RewriteEngine On\n{rules}");
    for (rules, expected) in [
        ("RewriteRule ^ - [L]\nRewriteRule a b", &["3:13 shadowed never acts"][..]),
        (
            "RewriteRule ^(.*)$ index.php [QSA,L]\nRewriteRule a b\nRewriteRule c d",
            &["3:13 shadowed", "4:13 shadowed"],
        ),
        ("RewriteRule .* - [F]\nRewriteRule a b", &["3:13 shadowed"]),
        ("RewriteRule .* - [R=404]\nRewriteRule a b", &["3:13 shadowed"]),
        ("RewriteRule .* /b [R=301]\nRewriteRule a b", &[]),
        ("RewriteRule .* - [E=a:b]\nRewriteRule a b", &[]),
        ("RewriteCond %{HTTPS} on\nRewriteRule ^ - [L]\nRewriteRule a b", &[]),
        ("RewriteRule x - [C]\nRewriteRule ^ - [L]\nRewriteRule a b", &[]),
        ("RewriteRule x - [S=2]\nRewriteRule ^ - [L]\nRewriteRule ^ - [L]\nRewriteRule a b", &[]),
        (
            "RewriteRule x - [S=1]\nRewriteRule ^ - [L]\nRewriteRule ^ - [L]\nRewriteRule a b",
            &["5:13 shadowed"],
        ),
        ("RewriteRule ^a$ b [L]\nRewriteRule ^a$ c [L]", &["3:13 shadowed"]),
        ("RewriteRule ^a$ b [L]\nRewriteRule ^a$ c [L,NC]", &[]),
        ("RewriteRule ^a$ b [L,NC]\nRewriteRule ^a$ c [L]", &["3:13 shadowed"]),
        ("RewriteRule ^/a b", &["2:13 shadowed never matches"]),
        ("RewriteRule ^/?a b\nRewriteRule ^/a|b c", &[]),
        ("RewriteRule ^a\\?b=1 c", &["2:13 shadowed never matches"]),
        ("RewriteCond %{HTTPS} on", &["2:1 doubtful this condition has no effect"]),
        (
            "RewriteCond %{REQUEST_FILENAME} !-f [OR]\nRewriteCond %{REQUEST_FILENAME} !-d\n\
             RewriteRule a b",
            &["3:1 doubtful always holds"],
        ),
        (
            "RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\n\
             RewriteRule a b",
            &[],
        ),
    ] {
        assert_all(&[(&on(rules), expected)]);
    }
    assert_all(&[
        ("RewriteRule a b", &["1:1 doubtful RewriteEngine is not switched on"]),
        ("RewriteEngine On\nRewriteRule a b\nRewriteEngine Off", &["3:1 doubtful switches off"]),
    ]);
}

/// Rules of a site's configuration act as in `<VirtualHost>`.
#[test]
fn rules_of_the_configuration() {
    let rows = [
        ("RewriteRule ^/a$ /b", None, Some("3:13 shadowed never matches")),
        (
            "RewriteCond %{REMOTE_USER} !=a\nRewriteRule ^ - [F]",
            Some("3:13 doubtful is empty here"),
            None,
        ),
        (
            "RewriteRule ^(.*)$ https://www.example.org$1 [R]",
            Some("3:20 dangerous joins the path to the host's name"),
            Some("3:20 dangerous joins the path to the host's name"),
        ),
        ("RewriteRule ^(.*)$ https://www.example.org/$1 [R]", None, None),
        ("RewriteRule ^(.*)$ https://$1 [R]", None, None),
        ("RewriteRule ^(.*)$ https://www.example.org%{REQUEST_URI} [R]", None, None),
        ("RewriteCond %{LA-U:REMOTE_USER} a\nRewriteRule ^ - [F]", None, None),
    ];
    for (rule, of_server, of_folder) in rows {
        let text = format!("# one\nRewriteEngine On\n{rule}");
        for (is_server, expected) in [(true, of_server), (false, of_folder)] {
            let context = CompileContext {
                is_server,
                ..CompileContext::new("f", b"/site/")
            };
            let found = said_in(&text, &context);
            let expected: Vec<&str> = expected.into_iter().collect();
            assert_eq!(found, expected, "{rule} {is_server}");
        }
    }
}

#[test]
fn redirects_that_never_act() {
    assert_all(&[
        ("Redirect /a /x\nRedirect /a/b /y", &["2:10 shadowed never acts"]),
        ("Redirect 301 /a/ /x\nRedirectPermanent /a/b /y", &["2:19 shadowed"]),
        ("Redirect /a /x\nRedirect 302 /a /y", &["2:14 shadowed"]),
        ("Redirect /a/b /x\nRedirect /a /y\nRedirect /ab /z", &[]),
        ("RedirectMatch ^/a$ /x\nRedirectMatch 301 ^/a$ /y", &["2:19 shadowed"]),
        ("Redirect /a?b=c /x", &["1:10 shadowed never acts"]),
    ]);
}

#[test]
fn holes_in_protections() {
    assert_all(&[
        ("<Limit GET POST>\nRequire valid-user\n</Limit>", &["1:1 dangerous protects only"]),
        ("<Limit POST PUT>\nDeny from all\n</Limit>", &[]),
        ("<Limit GET POST>\nOrder allow,deny\nAllow from all\n</Limit>", &[]),
        ("<LimitExcept GET>\nRequire all denied\n</LimitExcept>", &[]),
        ("<Files .ht*>\nRequire all granted\n</Files>", &["2:1 dangerous lets everybody read"]),
        ("<FilesMatch \"^\\.ht\">\nRequire all denied\n</FilesMatch>", &[]),
        ("Require all granted\nRequire ip 192.0.2.1", &["1:1 dangerous lets everybody in"]),
        ("<RequireAll>\nRequire all granted\nRequire ip 192.0.2.1\n</RequireAll>", &[]),
        (
            "Order deny,allow\nDeny from all\nRequire all denied",
            &["1:1 doubtful Order and the Require of line 3"],
        ),
        (
            "<IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>\n\
             <IfModule !mod_authz_core.c>\nDeny from all\n</IfModule>",
            &[],
        ),
        (
            "AuthType Basic\nAuthName a\nAuthUserFile /etc/users",
            &["1:1 dangerous no password is asked for"],
        ),
        (
            "AuthType Basic\nAuthUserFile /site/users\nRequire valid-user",
            &["2:14 dangerous anyone may fetch"],
        ),
        ("AuthType Basic\nAuthUserFile /site/.htpasswd\nRequire valid-user", &[]),
        (
            "AuthType Basic\nRequire valid-user\nSatisfy Any\nAllow from all",
            &["3:1 dangerous no password is ever asked for", "4:1 doubtful Allow"],
        ),
    ]);
}

#[test]
fn listings_errors_and_expiry() {
    assert_all(&[
        ("Options +Indexes", &["1:9 dangerous everybody sees"]),
        ("Options +FollowSymLinks +Indexes\nOptions -Indexes", &[]),
        ("Options Indexes\nOptions FollowSymLinks", &[]),
        ("Options +Indexes\nDirectoryIndex home.html", &[]),
        ("ErrorDocument 404 http://a/b", &["1:19 doubtful sends a redirect"]),
        ("ErrorDocument 404 /b", &[]),
        ("ExpiresDefault A1", &["1:1 doubtful has no effect"]),
        ("ExpiresActive On\nExpiresDefault A1", &[]),
    ]);
}

#[test]
fn php_that_tells_or_runs_too_much() {
    assert_all(&[
        ("php_flag display_errors on", &["1:10 dangerous shows everybody"]),
        ("php_value display_errors 0", &[]),
        ("SetHandler application/x-httpd-php", &["1:12 dangerous runs every file"]),
        ("<FilesMatch \\.php$>\nSetHandler application/x-httpd-php\n</FilesMatch>", &[]),
        (
            "<FilesMatch \\.(php|jpg)$>\nSetHandler application/x-httpd-php\n</FilesMatch>",
            &["2:12 dangerous runs files"],
        ),
        ("AddType application/x-httpd-php .php .jpg", &["1:38 dangerous runs files"]),
        ("AddType application/x-httpd-php .php .html", &[]),
        ("AddHandler application/x-httpd-php .php", &["1:12 dangerous runs every file that has"]),
        ("<IfModule mod_php7.c>\nphp_flag a on\n</IfModule>", &["1:1 ignored is skipped"]),
        ("<IfModule mod_brotli.c>\n</IfModule>", &["1:1 ignored is skipped"]),
        ("<IfModule !mod_brotli.c>\n</IfModule>", &[]),
        ("<IfModule mod_pagespeed.c>\n</IfModule>", &[]),
        (
            "<IfModule mod_php7.c>\n</IfModule>\n<IfModule mod_php.c>\nphp_flag a on\n</IfModule>",
            &[],
        ),
    ]);
}

#[test]
fn patterns_that_try_for_ages() {
    for (pattern, explosive) in [
        ("^(a+)+$", true),
        ("(.*)*", true),
        (r"(\w+\s?)*x", true),
        ("((a*))+", true),
        ("(a|b+)*", true),
        ("([a-z]+)*", true),
        ("(?:a+){2,}", true),
        ("(a+)+?b", true),
        (r"^(/[^/]+)*$", false),
        ("(a+)?", false),
        ("(a+){3}", false),
        ("(a++)+", false),
        ("(ab)+", false),
        ("^(.*)$", false),
        ("(a)(b+)(c*)", false),
        ("(a+|b+)*", true),
        ("((a+)?(b+)?)*", true),
        ("(^a+$)*", true),
        ("(a+?)*", true),
        ("(b{1,})*", true),
        ("(a{0,5}b+)*", true),
        ("(a{2}b+)*", false),
        ("(a+)++", false),
        ("(?<=a+)*", true),
        ("(?<name>a+)*", true),
        ("(?P<name>a+)*", true),
        ("[^](a+)+]", false),
        ("[](a+)+]", false),
        (r"[\](a+)+]", false),
        ("[[:alpha:](a+)+]", false),
        ("[[:alpha:]](a+)+", true),
        ("[[](a+)+:]", true),
        (r"\(a+\)+", false),
        ("[(a+)+]", false),
        ("[]+)]+(a", false),
        ("", false),
        (")", false),
        ("(", false),
        ("[", false),
        ("a{", false),
        ("\\", false),
    ] {
        assert_eq!(is_explosive(pattern.as_bytes()), explosive, "{pattern}");
    }
    assert_all(&[("<FilesMatch (a+)+$>\n</FilesMatch>", &["1:13 dangerous this pattern"])]);
}

#[test]
fn mistakes_and_remarks_come_in_the_order_of_lines() {
    let context = CompileContext::new("f", b"/site/");
    let text = b"php_flag display_errors on\nBogus\nDefaultType a/b\n";
    let kinds: Vec<MistakeKind> =
        check(text, &context, &mut |_| false).iter().map(|remark| remark.kind).collect();
    assert_eq!(kinds, [MistakeKind::Dangerous, MistakeKind::Unknown, MistakeKind::Ignored]);
}

#[test]
fn servers_that_the_configuration_lacks() {
    let rows = [
        ("http://127.0.0.1:3000/$1 [P]", true),
        ("http://127.0.0.1:80/$1 [L,P]", true),
        ("unix:/run/a.sock|http://app/$1 [proxy]", true),
        ("http://App/$1 [P]", true),
        ("http://%{HTTP_HOST}/$1 [P]", true),
        ("http://127.0.0.1:3001/$1 [P]", false),
        ("unix:/run/b.sock|http://app/ [P]", false),
        ("https://127.0.0.1/ [P]", false),
        ("ws://127.0.0.1:3000/$1 [P]", true),
        ("WS://127.0.0.1:80/$1 [P]", true),
        ("wss://127.0.0.1:3443/$1 [P]", true),
        ("https://127.0.0.1:443/ [P]", false),
        ("http://127.0.0.1:3001/$1 [R]", true),
    ];
    for (rule, is_known) in rows {
        let text = format!("RewriteEngine On\nRewriteRule ^x/(.*)$ {rule}\n");
        let upstreams = [
            "http://127.0.0.1:3000",
            "http://127.0.0.1",
            "https://127.0.0.1:3443",
            "unix:/run/a.sock|http://app",
        ];
        let mut context = CompileContext::new("f", b"/site/");
        assert!(check(text.as_bytes(), &context, &mut |_| true).is_empty(), "{rule}");
        context.upstreams = Some(upstreams.map(Box::from).to_vec());
        let found = check(text.as_bytes(), &context, &mut |_| true);
        assert_eq!(found.is_empty(), is_known, "{rule}: {found:?}");
        assert!(found.iter().all(|remark| remark.message.contains("`upstreams`")), "{found:?}");
    }
}
