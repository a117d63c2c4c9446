//! The operator's `rules`, and the site's own `.htaccess` files.

use crate::site::{Options, Site};
use crate::support::{Setup, has_php};

const RULES: &str = r#"
rules = """
SetEnvIf Request_URI ^/flagged flagged=1
RewriteEngine On
RewriteCond %{HTTP_HOST} ^old[.]
RewriteRule ^/(.*)$ https://new.example/$1 [R=301,L]
RewriteRule ^/closed - [F]
RewriteRule ^short$ /long/page.txt
Redirect 302 /moved /a.txt
Header set X-Operator 1
"""
"#;

const FILES: [(&str, &str); 3] = [
    ("a.txt", "content"),
    ("long/page.txt", "page"),
    ("show.php", "<?php echo $_SERVER['flagged'] ?? '';"),
];

fn site(htaccess: &str) -> Site {
    let files = [&FILES[..], &[(".htaccess", htaccess)]].concat();
    Site::with(&files, &Options { site: RULES, ..Options::default() })
}

#[test]
fn a_site_cannot_switch_the_rules_of_its_operator_off() {
    let files = [
        "# nothing\n",
        "RewriteEngine On\nRewriteRule ^none$ /x\n",
        "RewriteEngine Off\n",
        "RewriteEngine On\nRewriteRule ^short$ /a.txt [END]\nRewriteRule ^closed /a.txt [END]\n\
         Redirect /moved /b\n",
        "AuthType Basic\nAuthName x\nAuthUserFile /none\nRequire valid-user\n",
    ];
    for htaccess in files {
        let site = site(htaccess);
        let mut wire = site.connect();
        let reply = wire.ask("GET", "/x/y?z", &[("Host", "old.example")], b"");
        assert_eq!(reply.status, 301, "{htaccess}");
        assert_eq!(reply.field("location"), Some("https://new.example/x/y?z"), "{htaccess}");
        assert_eq!(wire.get("/closed/x").status, 403, "{htaccess}");
        let reply = wire.get("/moved");
        assert_eq!(reply.status, 302, "{htaccess}");
        assert_eq!(reply.field("location"), Some("http://localhost/a.txt"), "{htaccess}");
        if !htaccess.contains("Require") {
            assert_eq!(wire.get("/short").text(), "page", "{htaccess}");
            assert_eq!(wire.get("/a.txt").field("x-operator"), Some("1"), "{htaccess}");
        }
    }
}

#[test]
fn a_script_sees_what_the_rules_have_set() {
    if !has_php() {
        return;
    }
    let rules = RULES.replace("SetEnvIf Request_URI ^/flagged", "SetEnvIf Request_URI show");
    let site = Site::with(&FILES, &Options { site: &rules, ..Options::default() });
    for _ in 0..3 {
        assert_eq!(site.get("/show.php").text(), "1");
    }
}

#[test]
fn check_and_explain_say_that_they_come_first() {
    let site = site("RewriteEngine Off\n");
    let config = site.path().join("howdah.toml");
    let run = |arguments: &[&str]| {
        let with = [arguments, &["--config", config.to_str().unwrap()]].concat();
        let (code, out, err) = Setup::with(&with).run();
        assert_eq!(code, Some(0), "{out}{err}");
        out
    };
    let out = run(&["check"]);
    let expected =
        "site default: SetEnvIf, RewriteRule, Redirect of `rules` act before every .htaccess file";
    assert!(out.contains(expected), "{out}");
    let out = run(&["explain", "http://localhost/short"]);
    let site_rules = out.find("before every .htaccess file").expect(&out);
    let file = out.find("public/.htaccess").expect(&out);
    assert!(site_rules < file, "{out}");
    assert!(out.contains("/long/page.txt"), "{out}");
    let out = run(&["explain", "http://old.example/x"]);
    assert!(out.contains("https://new.example/x") && !out.contains("public/.htaccess"), "{out}");
}

/// The keys that stand for directives, and `rules` that say otherwise.
const KEYS_AND_RULES: &str = r#"
listing = true
charset = "utf-8"
error_pages = { 404 = "/key.html" }
rules = '''
ErrorDocument 404 /rule.html
AddDefaultCharset iso-8859-15
Header set X-Who rules
Options -Indexes \
'''
[[site.fields]]
set = { X-Who = "fields", X-Key = "1" }
"#;

#[test]
fn rules_have_precedence_over_keys() {
    let files = [
        ("rule.html", "by rules"),
        ("key.html", "by the key"),
        ("a.txt", "x"),
        ("open/a.txt", "x"),
        ("open/.htaccess", "Options +Indexes\n"),
    ];
    let site = Site::with(
        &files,
        &Options {
            site: KEYS_AND_RULES,
            ..Options::default()
        },
    );
    let mut wire = site.connect();
    let missing = wire.get("/none");
    assert_eq!((missing.status, missing.text()), (404, "by rules"));
    assert_eq!(wire.get("/").status, 403, "rules close the listing");
    assert_eq!(wire.get("/open/").status, 200);
    let text = wire.get("/a.txt");
    assert_eq!(text.field("content-type"), Some("text/plain; charset=iso-8859-15"));
    assert_eq!((text.all("x-who"), text.field("x-key")), (vec!["rules"], Some("1")));
}

#[test]
fn check_and_explain_name_the_key_that_acts() {
    let keys = KEYS_AND_RULES.replace("Options -Indexes \\", "Header set X-Who \"rules %\"");
    let site = Site::with(
        &FILES,
        &Options {
            site: KEYS_AND_RULES,
            ..Options::default()
        },
    );
    let run = |config: &str, arguments: &[&str]| {
        let file = site.path().join("other.toml");
        std::fs::write(&file, config).unwrap();
        let with = [arguments, &["--config", file.to_str().unwrap()]].concat();
        let (_, out, err) = Setup::with(&with).run();
        out + &err
    };
    let config =
        |keys: &str| format!("[[site]]\nname = \"shop\"\nroot = \"public\"\nphp = false\n{keys}");
    let told = run(&config(KEYS_AND_RULES), &["check"]);
    assert!(!told.contains("sets this again"), "{told}");
    let told = run(&config(&keys), &["check"]);
    assert!(told.contains("rules of site shop:3:1: note: line 4 sets this again"), "{told}");
    let told = run(&config(KEYS_AND_RULES), &["explain", "http://localhost/a.txt"]);
    assert!(told.contains("`fields` of site shop"), "{told}");
    assert!(told.contains("rules of site shop:3"), "{told}");
    let only_fields = config("[[site.fields]]\nset = { X-Key = \"1\" }\n");
    let told = run(&only_fields, &["explain", "http://localhost/a.txt"]);
    assert!(told.contains("`fields` of site shop"), "{told}");
    assert!(!told.contains("rules of site"), "{told}");
}
