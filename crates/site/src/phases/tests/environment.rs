//! Variables: the phases that set them, and their names after redirects.

use std::collections::BTreeMap;
use std::rc::Rc;

use howdah_http::{Request, Scheme};

use super::tree::{Tree, client, request};
use crate::path::Scratch;
use crate::resolution::Resolution;

fn env(tree: &mut Tree, target: &str, fields: &str, name: &str) -> Option<String> {
    let resolved = tree.resolved("GET", target, fields);
    let state = Rc::unwrap_or_clone(resolved.ruled?).state;
    let value = state.env.value(name.as_bytes())?;
    Some(String::from_utf8_lossy(value).into_owned())
}

#[test]
fn variables_are_set_in_the_order_of_the_phases() {
    let mut tree = Tree::new(
        "index.php a.php sub/b.php",
        &[
            (
                "",
                "SetEnvIf User-Agent Good GOOD=yes\nSetEnv PLAIN one\nRequire env GOOD\n\
                 RewriteEngine On\n\
                 RewriteCond %{ENV:PLAIN} one\nRewriteRule ^a.php$ - [F]\n\
                 RewriteRule ^go$ /index.php [E=RULE:1]\n",
            ),
            ("sub/", "SetEnv PLAIN two\nUnsetEnv OTHER\n"),
        ],
    );
    let good = "User-Agent: Good";
    // SetEnvIf comes before access, SetEnv behind rewriting.
    assert_eq!(tree.request("GET", "/a.php", ""), "403");
    assert_eq!(tree.request("GET", "/a.php", good), "php a.php");
    assert_eq!(env(&mut tree, "/a.php", good, "PLAIN").as_deref(), Some("one"));
    assert_eq!(env(&mut tree, "/sub/b.php", good, "PLAIN").as_deref(), Some("two"));
    // The first round's variables are renamed, and set anew.
    assert_eq!(env(&mut tree, "/go", good, "REDIRECT_RULE").as_deref(), Some("1"));
    assert_eq!(env(&mut tree, "/go", good, "REDIRECT_GOOD").as_deref(), Some("yes"));
    assert_eq!(env(&mut tree, "/go", good, "REDIRECT_PLAIN").as_deref(), Some("one"));
    assert_eq!(env(&mut tree, "/go", good, "PLAIN").as_deref(), Some("one"));
    assert_eq!(env(&mut tree, "/go", good, "GOOD").as_deref(), Some("yes"));
    assert_eq!(env(&mut tree, "/go", good, "RULE"), None);
}

#[test]
fn a_script_sees_each_variable_once() {
    let rules = "RewriteEngine On\nRewriteRule ^ - [E=A:rule]\nDirectoryIndex index.php\n";
    for (more, target, expected) in [
        ("SetEnv A last\n", "/index.php", "last"),
        ("SetEnv A last\n", "/", "last"),
        ("", "/", "rule"),
    ] {
        let mut tree = Tree::new("index.php", &[("", &format!("{rules}{more}"))]);
        let ruled = tree.resolved("GET", target, "").ruled.unwrap();
        let values: Vec<_> = ruled.state.env.values(b"A").map(String::from_utf8_lossy).collect();
        assert_eq!(values, [expected], "{more}{target}");
    }
}

/// Everything that the script is told which answers.
fn told(tree: &mut Tree, target: &str, fields: &str) -> BTreeMap<String, String> {
    let resolved = tree.resolved("GET", target, fields);
    let Resolution::Php(script) = &resolved.resolution else {
        panic!("no script: {resolved:?}")
    };
    let request = request("GET", target, fields);
    let mut all = BTreeMap::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let ruled = resolved.ruled.as_deref();
    crate::server_variables(&client(&request), script, ruled, &mut |name, value| {
        assert!(all.insert(text(name), text(value)).is_none(), "{} twice", text(name));
    });
    all
}

fn check(found: &BTreeMap<String, String>, rows: &[(&str, Option<&str>)]) {
    for (name, expected) in rows {
        assert_eq!(found.get(*name).map(String::as_str), *expected, "{name} in {found:?}");
    }
}

#[test]
fn a_directive_does_not_change_what_the_server_says() {
    let rules = "SetEnvIf Remote_Addr . A=1 B=2 remote_addr=evil HTTPS=on SCRIPT_NAME=x a=3\n\
                 SetEnv SERVER_PROTOCOL y\nSetEnv C 4\n";
    let found = told(&mut Tree::new("index.php", &[("", rules)]), "/index.php?q", "");
    check(
        &found,
        &[
            ("A", Some("3")),
            ("a", None),
            ("B", Some("2")),
            ("C", Some("4")),
            ("REMOTE_ADDR", Some("192.0.2.1")),
            ("remote_addr", None),
            ("SCRIPT_NAME", Some("/index.php")),
            ("SERVER_PROTOCOL", Some("HTTP/1.1")),
            ("QUERY_STRING", Some("q")),
        ],
    );
}

#[test]
fn a_script_is_told_of_the_request_before_it() {
    let rules = "ErrorDocument 404 /index.php?two\n";
    for (more, url, uri) in [
        ("", "/one", "/one?q"),
        ("QualifyRedirectURL On\n", "http://example.org/one?q", "/one?q"),
        ("QualifyRedirectURL Off\n", "/one", "/one?q"),
        ("CGIVar REQUEST_URI current-uri\n", "/one", "/index.php"),
        ("CGIVar REQUEST_URI original-uri\n", "/one", "/one?q"),
    ] {
        let mut tree = Tree::new("index.php", &[("", &format!("{rules}{more}"))]);
        let found = told(&mut tree, "/one?q", "");
        check(
            &found,
            &[
                ("REDIRECT_URL", Some(url)),
                ("REDIRECT_QUERY_STRING", Some("q")),
                ("REDIRECT_STATUS", Some("404")),
                ("REQUEST_URI", Some(uri)),
                ("QUERY_STRING", Some("two")),
                ("REMOTE_USER", None),
            ],
        );
    }
}

#[test]
fn a_script_is_told_the_user() {
    let rules = "AuthType Basic\nAuthName N\nAuthUserFile /users\nRequire valid-user\n";
    let deny = "<Files index.php>\nRequire user eve\n</Files>\n<Files e.php>\n\
                Require all granted\n</Files>\nErrorDocument 401 /e.php\n";
    let joe = "Authorization: Basic am9lOnNlY3JldA==";
    for (more, user, before, auth_type) in
        [("", Some("joe"), None, Some("Basic")), (deny, None, Some("joe"), None)]
    {
        let mut tree = Tree::new("index.php e.php", &[("", &format!("{rules}{more}"))]);
        tree.put("/users", "joe:secret\n");
        let found = told(&mut tree, "/index.php", joe);
        check(
            &found,
            &[
                ("REMOTE_USER", user),
                ("REDIRECT_REMOTE_USER", before),
                ("AUTH_TYPE", auth_type),
                ("PHP_AUTH_USER", None),
            ],
        );
    }
}

#[test]
fn a_script_reads_fields_as_directives_have_changed_them() {
    let rules = "RequestHeader set X-A changed\nRequestHeader add X-B more\n\
                 RequestHeader unset X-C\n";
    let mut tree = Tree::new("index.php", &[("", rules)]);
    let sent = "X-A: 1\nX-B: 2\nX-C: 3\nX-D: 4\nX-D: 5";
    check(
        &told(&mut tree, "/index.php", sent),
        &[
            ("HTTP_X_A", Some("changed")),
            ("HTTP_X_B", Some("more")),
            ("HTTP_X_C", None),
            ("HTTP_X_D", Some("4, 5")),
        ],
    );
}

#[test]
fn two_redirects_have_two_prefixes() {
    let mut tree = Tree::new(
        "index.php",
        &[(
            "",
            "RewriteEngine On\nRewriteRule ^one$ /two [E=A:1]\n\
             RewriteRule ^two$ /index.php [E=B:2]\n",
        )],
    );
    for (name, value) in [
        ("REDIRECT_REDIRECT_A", Some("1")),
        ("REDIRECT_B", Some("2")),
        ("REDIRECT_STATUS", Some("200")),
        ("REDIRECT_REDIRECT_STATUS", Some("200")),
        ("A", None),
    ] {
        assert_eq!(env(&mut tree, "/one", "", name).as_deref(), value, "{name}");
    }
}

#[test]
fn named_groups_of_sections_are_variables() {
    let mut tree = Tree::new(
        "index-de.php",
        &[("", "<FilesMatch \"^index-(?<lang>..)\\.\">\nSetEnv A 1\n</FilesMatch>\n")],
    );
    assert_eq!(env(&mut tree, "/index-de.php", "", "MATCH_LANG").as_deref(), Some("de"));
}

#[test]
fn an_encrypted_request_keeps_what_directives_say_about_it() {
    for (lines, expected) in [("Options -Indexes", false), ("SetEnvIf Remote_Addr . A=on", true)] {
        let mut tree = Tree::new("index.php", &[("", lines)]);
        let request = Request {
            target: b"/index.php".to_vec(),
            scheme: Scheme::Https,
            ..Request::default()
        };
        let sites = tree.sites.clone();
        let site = sites.iter().next().unwrap();
        let found = crate::resolve(site, &client(&request), &mut tree, &mut Scratch::default());
        assert_eq!(found.ruled.is_some(), expected, "{lines}");
        if let Some(ruled) = &found.ruled {
            let variables = crate::EnvironmentNames::of(ruled);
            assert!(variables.has(b"A") && !variables.has(b"B"), "{lines}");
        }
    }
}

#[test]
fn encrypted_requests_have_a_variable() {
    let mut tree = Tree::new("index.php", &[("", "Header set A b\n")]);
    for (scheme, expected) in [(Scheme::Http, None), (Scheme::Https, Some(&b"on"[..]))] {
        let request = Request {
            target: b"/index.php".to_vec(),
            scheme,
            ..Request::default()
        };
        let sites = tree.sites.clone();
        let site = sites.iter().next().unwrap();
        let found = crate::resolve(site, &client(&request), &mut tree, &mut Scratch::default());
        assert_eq!(found.ruled.unwrap().state.env.value(b"HTTPS"), expected, "{scheme:?}");
    }
}
