//! Back-ups of PHP programs, which editors, package managers and people leave beside them.

use crate::site::{Options, Site};
use crate::support::has_php;

const SECRET: &str = "<?php $password = 'elephant'; echo 'ran';";

const BACKUPS: [&str; 17] = [
    "config.php~",
    "config.php.bak",
    "config.php.save",
    "config.php.swp",
    ".config.php.swp",
    "config.php.orig",
    "config.php.dpkg-old",
    "config.php_old",
    "config.php.1",
    "config.php,v",
    "config.php,t",
    "config.php.svn-base",
    "config.php.sik",
    "config.php$",
    "config.phar.gz",
    "config.inc",
    "%23config.php%23",
];

fn files(rules: &'static str) -> Vec<(&'static str, &'static str)> {
    let mut files: Vec<_> = BACKUPS.map(|name| (name, SECRET)).to_vec();
    files.pop();
    files.extend([("#config.php#", SECRET), ("report.php.html", "report"), ("a.txt", "content")]);
    if !rules.is_empty() {
        files.push((".htaccess", rules));
    }
    files
}

fn options(site: &str) -> Options<'_> {
    Options { site, ..Options::default() }
}

#[test]
fn the_source_of_a_program_does_not_leak_from_a_backup() {
    for rules in ["", "Header set X-Ruled 1\n", "ErrorDocument 404 /config.php.bak\n"] {
        let site = Site::with(&files(rules), &options("dot_names = [\".*\"]"));
        let mut wire = site.connect();
        for name in BACKUPS {
            for method in ["GET", "HEAD", "POST"] {
                let reply = wire.ask(method, &format!("/{name}"), &[], b"");
                assert_eq!(reply.status, 403, "{method} {name} with {rules:?}");
                assert!(!reply.text().contains("elephant"), "{name}");
            }
        }
        assert_eq!(wire.get("/report.php.html").text(), "report");
        assert!(!wire.get("/none").text().contains("elephant"), "an ErrorDocument");
    }
}

#[test]
fn one_line_allows_backups() {
    let site = Site::with(&files(""), &options("refuse_backups = false\ndot_names = [\".*\"]"));
    for name in BACKUPS {
        assert_eq!(site.get(&format!("/{name}")).text(), SECRET, "{name}");
    }
}

#[test]
fn a_backup_that_directives_make_a_script_runs() {
    if !has_php() {
        return;
    }
    let rows = [
        "<Files config.inc>\nSetHandler application/x-httpd-php\n</Files>\n",
        "AddType application/x-httpd-php .inc\n",
        "AddHandler application/x-httpd-php .inc\n",
    ];
    for rules in rows {
        let site = Site::new(&files(rules));
        assert_eq!(site.get("/config.inc").text(), "ran", "{rules}");
        assert_eq!(site.get("/config.php_old").status, 403, "{rules}");
    }
}

#[test]
fn no_other_way_leads_to_a_backup() {
    if !has_php() {
        return;
    }
    let sender = "<?php header($_GET['by'] . ': ' . $_GET['name']);";
    let rules = "RewriteEngine On\nRewriteRule ^rewritten$ config.php.bak\n\
                 Options +MultiViews\nDirectoryIndex config.php.bak a.txt\n";
    let files = [&files(rules)[..], &[("send.php", sender)]].concat();
    let site = Site::with(&files, &options("sendfile = true"));
    let targets = [
        "/rewritten",
        "/",
        "/config",
        "/config.php",
        "/send.php?by=X-Sendfile&name=config.php.bak",
        "/send.php?by=X-Accel-Redirect&name=/config.php.bak",
    ];
    for target in targets {
        let reply = site.get(target);
        assert!(reply.status >= 400 && !reply.text().contains("elephant"), "{target}: {reply:?}");
    }
}

#[test]
fn a_listing_leaves_backups_out() {
    let rules = ["", "Options +Indexes\nIndexOptions FancyIndexing\n"];
    for rules in rules {
        let site = Site::with(&files(rules), &options("listing = true"));
        let page = site.get("/");
        let text = page.text();
        assert!(text.contains("a.txt") && text.contains("report.php.html"), "{text}");
        for name in ["config.php.bak", "config.php~", "config.inc", "config.php_old"] {
            assert!(!text.contains(name), "{name} with {rules:?}: {text}");
        }
    }
}
