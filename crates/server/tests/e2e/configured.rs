//! Keys of the configuration that act without a word of `.htaccess`: fields, charset, error pages
//! and listings. And the examples of the manual.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::site::{Options, Site};
use crate::support::{Folder, Setup, has_php, wait_until};

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
fn fields_make_no_error_and_no_private_page_cacheable() {
    let lines = r#"
error_pages = { 404 = "/e404.html" }
[[site.fields]]
type = "text/html"
set = { Cache-Control = "public, max-age=3600", X-Page = "1" }
[[site.fields]]
match = "*.css"
set = { Cache-Control = "public, max-age=60" }
[[site.fields]]
set = { Expires = "Thu, 01 Jan 2037 00:00:00 GMT" }
unset = "X-Powered-By"
"#;
    let fields = "header($_GET['field'] ?? 'X-None: 1'); header('X-Powered-By: me'); ";
    let script = format!("<?php {fields} http_response_code((int)($_GET['status'] ?? 200));");
    let site = site(
        &[
            ("a.html", "a"),
            ("a.css", "a"),
            ("e404.html", "nothing here"),
            ("expires/a.css", "a"),
            ("expires/.htaccess", "ExpiresActive On\nExpiresDefault A7\n"),
            ("own/a.css", "a"),
            ("own/.htaccess", "Header set Cache-Control no-cache\n"),
            ("page.php", &script),
            ("session.php", "<?php session_start(); echo 'private';"),
        ],
        lines,
    );
    let mut wire = site.connect();
    let (public, day) = (Some("public, max-age=3600"), Some("Thu, 01 Jan 2037 00:00:00 GMT"));
    for (target, status, cache, expires) in [
        ("/a.html", 200, public, day),
        ("/a.css", 200, Some("public, max-age=60"), day),
        ("/none.html", 404, None, None),
        ("/e404.html", 200, public, day),
        ("/own/a.css", 200, Some("no-cache"), day),
    ] {
        for round in 0..2 {
            let reply = wire.get(target);
            assert_eq!(reply.status, status, "{target}, round {round}");
            assert_eq!(reply.field("cache-control"), cache, "{target}, round {round}");
            assert_eq!(reply.field("expires"), expires, "{target}, round {round}");
        }
    }
    let kept = wire.get("/expires/a.css");
    assert_eq!(kept.all("cache-control"), ["max-age=7"], "that file's own directives count");
    assert_ne!(kept.field("expires"), day);
    if !has_php() {
        return;
    }
    let private = "field=Cache-Control:+private,+no-store";
    for (query, cache, expires, page) in [
        ("", public, day, true),
        ("status=201", public, day, true),
        ("status=303", public, day, true),
        ("status=205", None, None, false),
        ("status=404", None, None, false),
        ("status=500", None, None, false),
        (private, Some("private, no-store"), None, true),
        ("field=Expires:+0", None, Some("0"), true),
    ] {
        for round in 0..2 {
            let reply = wire.get(&format!("/page.php?{query}"));
            assert_eq!(reply.field("cache-control"), cache, "{query}, round {round}");
            assert_eq!(reply.field("expires"), expires, "{query}, round {round}");
            assert_eq!(reply.field("x-page").is_some(), page, "{query}, round {round}");
            assert_eq!(reply.field("x-powered-by"), None, "{query}, round {round}");
        }
    }
    let session = wire.get("/session.php");
    assert!(session.field("set-cookie").is_some());
    assert_eq!(session.all("cache-control"), ["no-store, no-cache, must-revalidate"]);
    assert_eq!(session.all("expires"), ["Thu, 19 Nov 1981 08:52:00 GMT"]);
}

#[test]
fn a_broken_file_of_directives_leaves_the_operator_s_error_page() {
    let site = site(
        &[
            ("sorry.html", "the operator is sorry"),
            ("two/.htaccess", "Bogus directive\n"),
            ("two/a.txt", "a"),
            ("own/.htaccess", "ErrorDocument 500 \"of the folder\"\n"),
            ("own/below/.htaccess", "Bogus directive\n"),
            ("own/below/a.txt", "a"),
            (
                "long.php",
                "<?php for ($i = 0; $i < 600; $i++) header(\"X-$i: \" . \
                str_repeat('x', 1000)); echo 'page';",
            ),
        ],
        "error_pages = { 500 = \"/sorry.html\" }",
    );
    let mut wire = site.connect();
    for target in ["/two/a.txt", "/two/", "/two/none", "/own/below/a.txt", "/long.php"] {
        if target == "/long.php" && !has_php() {
            continue;
        }
        for round in 0..2 {
            let reply = wire.get(target);
            let expected = (500, "the operator is sorry");
            assert_eq!((reply.status, reply.text()), expected, "{target}, round {round}");
        }
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

/// The pages of errors whose request is refused before its path has a meaning.
const EARLY: &str = "error_pages = { 400 = \"/early.html\", 404 = \"/early.html\", \
    413 = \"/early.html\", 417 = \"/early.html\", 429 = \"/early.html\", 414 = \"/early.html\" }\n";

#[test]
fn a_refused_request_gets_the_site_s_page() {
    let site = Site::with(
        &[
            ("early.html", "of the site"),
            ("own/a.txt", "x"),
            ("own/.htaccess", "ErrorDocument 413 \"of the folder\"\n"),
            ("shut/.htaccess", "Require all denied\n"),
        ],
        &Options {
            site: EARLY,
            limits: "body = 1000",
            ..Options::default()
        },
    );
    for (target, fields, status, text, closes) in [
        ("GET /%zz", "", 400, "of the site", false),
        ("GET /../x", "", 400, "of the site", false),
        ("GET /a%2fb", "", 404, "of the site", false),
        ("GET /", "Expect: more\r\n", 417, "of the site", true),
        ("POST /x", "Content-Length: 1001\r\n", 413, "of the site", true),
        ("POST /own/a.txt", "Content-Length: 1001\r\n", 413, "of the folder", true),
        ("POST /own/none", "Content-Length: 1001\r\n", 413, "of the site", true),
        ("POST /shut/x", "Content-Length: 1001\r\n", 413, "of the site", true),
        ("HEAD /x", "Content-Length: 1001\r\n", 413, "", true),
    ] {
        for _ in 0..2 {
            let mut wire = site.connect();
            wire.send(format!("{target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
            let reply = wire.reply(target.split(' ').next().unwrap());
            assert_eq!((reply.status, reply.text()), (status, text), "{target}");
            assert_eq!(reply.is_last(), closes, "{target}");
        }
    }
    // Nobody knows the site of a request line without an end.
    let mut wire = site.connect();
    wire.send(format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(9000)));
    let reply = wire.reply("GET");
    assert_eq!(reply.status, 414);
    assert!(reply.text().contains("longer than this site accepts"), "{}", reply.text());
    let log = || site.log_lines("over the body limit");
    wait_until("the refusals are logged", || !log().is_empty());
    assert!(log().iter().all(|line| line.contains("413: ")), "{:?}", log());
}

#[test]
fn check_warns_of_pages_that_are_never_used() {
    let pages = "error_pages = { 404 = \"/a.html\", 429 = \"/b.php?x=1\", 414 = \"/c.html\" }";
    let folder = Folder::new();
    folder.file("public/a.html", "x");
    let text = format!("[[site]]\nname = \"shop\"\nroot = \"public\"\nphp = false\n{pages}\n");
    let file = folder.file("howdah.toml", text);
    let (status, _, told) = Setup::with(&["check", "--config", file.to_str().unwrap()]).run();
    assert_eq!(status, Some(0), "{told}");
    for what in [
        "site shop: `error_pages` has /b.php?x=1 for 429: no script is run",
        "site shop: `error_pages` has /c.html for 414: the server gives this answer before",
    ] {
        assert!(told.contains(what), "{told}");
    }
    assert!(!told.contains("/a.html"), "{told}");
}

#[test]
fn a_client_that_asks_too_often_gets_the_site_s_page_but_no_script() {
    for (page, text) in [("/early.html", "slower"), ("/early.php", "Too Many Requests")] {
        let lines = format!(
            "client_requests = \"1/h\"\nclient_burst = 1\nerror_pages = {{ 429 = \"{page}\" }}"
        );
        let site = site(
            &[("early.html", "slower"), ("early.php", "<?php echo 'a script';"), ("a.txt", "x")],
            &lines,
        );
        let mut wire = site.connect();
        assert_eq!(wire.get("/a.txt").status, 200);
        for _ in 0..2 {
            let reply = wire.get("/a.txt");
            assert_eq!(reply.status, 429, "{page}");
            assert!(reply.text().contains(text), "{page}: {}", reply.text());
            let wait: u64 = reply.field("retry-after").unwrap().parse().unwrap();
            assert!(wait > 1000 && reply.all("retry-after").len() == 1, "{page}: {wait}");
        }
    }
}

#[test]
fn an_error_page_keeps_the_fields_that_the_error_must_have() {
    let documents =
        |document: &str| format!("ErrorDocument 405 {document}\nErrorDocument 416 {document}\n");
    let site = site(
        &[
            ("text/.htaccess", &documents("\"a text\"")),
            ("file/.htaccess", &documents("/page.html")),
            ("script/.htaccess", &documents("/page.php")),
            ("lost/.htaccess", &documents("/none.html")),
            ("away/.htaccess", &documents("http://elsewhere.example/")),
            ("text/a.txt", "content"),
            ("file/a.txt", "content"),
            ("script/a.txt", "content"),
            ("lost/a.txt", "content"),
            ("away/a.txt", "content"),
            ("set/a.txt", "content"),
            ("page.html", "a page"),
            ("page.php", "<?php header('Allow: GET'); echo 'a script';"),
        ],
        "error_pages = { 405 = \"/page.html\", 416 = \"/page.html\" }",
    );
    let mut wire = site.connect();
    let usual = "GET,POST,OPTIONS,HEAD";
    for (folder, text, allow) in [
        ("set", "a page", usual),
        ("text", "a text", usual),
        ("file", "a page", usual),
        ("script", "a script", "GET"),
        ("lost", "This page cannot be used that way.", usual),
    ] {
        if folder == "script" && !has_php() {
            continue;
        }
        let refused = wire.ask("DELETE", &format!("/{folder}/a.txt"), &[], b"");
        assert_eq!(refused.status, 405, "{folder}");
        assert!(refused.text().contains(text), "{folder}: {}", refused.text());
        assert_eq!(refused.all("allow"), [allow], "{folder}");
        let range = wire.ask("GET", &format!("/{folder}/a.txt"), &[("Range", "bytes=50-60")], b"");
        assert_eq!(range.status, 416, "{folder}");
        assert_eq!(range.all("content-range"), ["bytes */7"], "{folder}");
        assert_eq!(range.field("allow"), (folder == "script").then_some("GET"), "{folder}");
    }
    for (method, range) in [("DELETE", "bytes=0-1"), ("GET", "bytes=50-60")] {
        let away = wire.ask(method, "/away/a.txt", &[("Range", range)], b"");
        assert_eq!((away.status, away.field("location")), (302, Some("http://elsewhere.example/")));
        assert_eq!((away.field("allow"), away.field("content-range")), (None, None), "{method}");
    }
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

/// The other examples name users that a machine has or not.
#[test]
fn howdah_check_accepts_the_examples() {
    if !has_php() {
        return;
    }
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    let folder = Folder::new();
    let roots = ["srv/example.org/public", "srv/shop/public", "srv/intranet", "srv/welcome"];
    for root in roots {
        folder.folder(root);
    }
    let srv = format!("{}/srv", folder.path().display());
    for (name, said) in [
        ("one-site", "is good: sites 1, of which with PHP 1"),
        ("mass-hosting", "is good: sites 1, of which with PHP 1"),
        ("https", "is good: sites 5, of which with PHP 3"),
    ] {
        let text = std::fs::read_to_string(examples.join(format!("{name}.toml"))).unwrap();
        let file = folder.file(&format!("{name}.toml"), text.replace("/srv", &srv));
        let (status, told, errors) =
            Setup::with(&["check", "--config", &file.display().to_string()]).run();
        assert_eq!(status, Some(0), "{name}: {told}{errors}");
        assert!(told.contains(said) && !errors.contains("its root"), "{name}: {told}{errors}");
        let orders = "certificates for *.customers.example.org: on demand";
        assert_eq!(errors.contains(orders), name == "https", "{told}{errors}");
    }
}
