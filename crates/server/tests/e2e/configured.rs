//! Keys of the configuration that act without a word of `.htaccess`: fields, charset, error pages
//! and listings.

use std::fs::File;
use std::time::{Duration, SystemTime};

use crate::site::{Options, Site};
use crate::support::has_php;

fn site(files: &[(&str, &str)], lines: &str) -> Site {
    Site::with(files, &Options { site: lines, ..Options::default() })
}

#[test]
fn fields_are_set_by_name_and_by_type() {
    let lines = r#"
charset = "utf-8"
[[site.fields]]
set = { X-Everywhere = "100% \"yes\"" }
[[site.fields]]
match = ["*.css", "/assets/**"]
set = { Cache-Control = "public, max-age=31536000, immutable" }
[[site.fields]]
type = "image/*"
set = { Cache-Control = "max-age=60" }
unset = ["X-Everywhere"]
[[site.fields]]
match = "*.php"
set = { X-Script = "yes" }
unset = "X-Powered-By"
"#;
    let site = site(
        &[
            ("a.css", "a"),
            ("assets/deep/a.js", "b"),
            ("a.png", "c"),
            ("a.txt", "d"),
            ("own/a.css", "e"),
            ("own/.htaccess", "Header set Cache-Control no-store\nAddDefaultCharset iso-8859-15\n"),
            ("own/a.txt", "f"),
            ("acss", "g"),
            ("page.php", "<?php header('X-Powered-By: me'); echo 'page';"),
        ],
        lines,
    );
    let mut wire = site.connect();
    let long = Some("public, max-age=31536000, immutable");
    for (target, cache, everywhere) in [
        ("/a.css", long, true),
        ("/assets/deep/a.js", long, true),
        ("/a.png", Some("max-age=60"), false),
        ("/a.txt", None, true),
        ("/acss", None, true),
        ("/own/a.css", Some("no-store"), true),
    ] {
        for round in 0..2 {
            let reply = wire.get(target);
            assert_eq!(reply.field("cache-control"), cache, "{target}, round {round}");
            let value = everywhere.then_some("100% \"yes\"");
            assert_eq!(reply.field("x-everywhere"), value, "{target}, round {round}");
        }
    }
    assert_eq!(wire.get("/a.txt").field("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(
        wire.get("/own/a.txt").field("content-type"),
        Some("text/plain; charset=iso-8859-15")
    );
    assert_eq!(wire.get("/a.css").field("content-type"), Some("text/css"));
    let tag = wire.get("/a.css").field("etag").unwrap().to_owned();
    let known = wire.ask("GET", "/a.css", &[("If-None-Match", &tag)], b"");
    assert_eq!((known.status, known.field("cache-control")), (304, long));
    assert_eq!(
        wire.get("/none.css").field("cache-control"),
        None,
        "an error is not kept for a year"
    );
    if has_php() {
        let page = wire.get("/page.php");
        assert_eq!((page.field("x-script"), page.field("x-powered-by")), (Some("yes"), None));
    }
}

#[test]
fn a_site_has_error_pages_of_its_own() {
    if !has_php() {
        return;
    }
    let told = "<?php echo implode(' ', array_map(fn($name) => $_SERVER[$name] ?? '-', \
        ['REDIRECT_STATUS', 'REDIRECT_URL', 'REDIRECT_QUERY_STRING', 'REQUEST_URI', \
        'REQUEST_METHOD']));";
    let files = [
        ("404.html", "nothing here"),
        ("oops.php", told),
        ("closed/.htaccess", "Require all denied\n"),
        ("closed/a.txt", "x"),
        ("own/.htaccess", "ErrorDocument 404 \"of the folder\"\n"),
        ("killed.php", "<?php posix_kill(getmypid(), 9);"),
        ("long.php", "<?php sleep(600);"),
        ("said.php", "<?php http_response_code(404); echo 'of the script';"),
    ];
    let pages = "error_pages = { 404 = \"/404.html\", 403 = \"/oops.php\", 502 = \"/oops.php\", \
                 504 = \"/404.html\", 500 = \"/none.html\" }";
    let site = Site::with(&files, &Options { site: pages, ..Options::default() });
    let mut wire = site.connect();
    for round in 0..2 {
        let missing = wire.get("/none?x=1");
        assert_eq!((missing.status, missing.text()), (404, "nothing here"), "round {round}");
        assert_eq!(missing.field("content-type"), Some("text/html"));
    }
    let closed = wire.ask("POST", "/closed/a.txt?x=1", &[], b"body");
    assert_eq!(closed.status, 403);
    assert_eq!(closed.text(), "403 /closed/a.txt x=1 /closed/a.txt?x=1 GET");
    assert_eq!(wire.get("/own/none").text(), "of the folder");
    assert_eq!(wire.get("/said.php").text(), "of the script");
    let killed = wire.get("/killed.php");
    assert_eq!(killed.status, 502);
    assert!(killed.text().starts_with("502 /killed.php"), "{}", killed.text());
    let php = "request_timeout = \"1s\"";
    let impatient = Site::with(&files, &Options { site: pages, php, ..Options::default() });
    let long = impatient.get("/long.php");
    assert_eq!((long.status, long.text()), (504, "nothing here"));
}

#[test]
fn a_folder_is_listed_for_people_and_programs() {
    let site = site(
        &[
            ("files/b <i>.txt", "12345"),
            ("files/a.txt", "123456789"),
            ("files/.hidden", "x"),
            ("files/secret.txt", "x"),
            ("files/.htaccess", "<Files secret.txt>\nRequire all denied\n</Files>\n"),
            ("files/sub/index.html", "index"),
            ("shut/.htaccess", "Options -Indexes\n"),
            ("apache/.htaccess", "IndexOptions FancyIndexing\n"),
            ("apache/a.txt", "x"),
        ],
        "listing = true",
    );
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    let file = File::options().write(true).open(site.root().join("files/a.txt")).unwrap();
    file.set_modified(old).unwrap();
    let mut wire = site.connect();
    let page = wire.get("/files/");
    assert_eq!((page.status, page.field("content-type")), (200, Some("text/html; charset=utf-8")));
    assert_eq!(page.field("vary"), Some("Accept"));
    let text = page.text();
    for part in [
        "a.txt",
        "href=\"./b%20%3Ci%3E.txt\"",
        "b &lt;i&gt;.txt",
        "1994-11-06",
        "9 B",
        "href=\"./sub/\"",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(
        !text.contains("hidden") && !text.contains("secret") && !text.contains("<script"),
        "{text}"
    );
    let place = |text: &str, name: &str| text.find(name).unwrap();
    assert!(place(text, "./a.txt") < place(text, "./b%20"));
    let by_size = wire.get("/files/?sort=size&order=asc");
    assert!(place(by_size.text(), "./b%20") < place(by_size.text(), "./a.txt"));
    assert!(by_size.text().contains("href=\"?sort=size&amp;order=desc\""));

    let json = wire.ask("GET", "/files/", &[("Accept", "application/json")], b"");
    assert_eq!(json.field("content-type"), Some("application/json"));
    let rows = json.json();
    let names: Vec<&str> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["sub", "a.txt", "b <i>.txt"]);
    assert_eq!((&rows[0]["type"], &rows[1]["size"]), (&"directory".into(), &9.into()));
    assert_eq!(rows[1]["modified"], "1994-11-06T08:49:37Z");

    assert_eq!(wire.get("/files").status, 301);
    assert_eq!(wire.get("/files/sub/").text(), "index");
    assert_eq!(wire.get("/shut/").status, 403);
    assert!(wire.get("/apache/").text().contains("Index of /apache"), "as with Apache");
    let head = wire.ask("HEAD", "/files/", &[], b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
}
