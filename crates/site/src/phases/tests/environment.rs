//! Variables: the phases that set them, and their names after redirects.

use std::rc::Rc;

use howdah_http::{Request, Scheme};

use super::tree::{Tree, client};
use crate::path::Scratch;

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
