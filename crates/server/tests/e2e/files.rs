//! Files: types, parts, validators, and files that are never sent.

use std::fs;

use crate::http2::client::Http2;
use crate::site::{Options, Site};
use crate::support::{has_php, wait_until};
use crate::wire::Framing;

/// A date that no copy can have.
const FUTURE: &str = "Fri, 31 Dec 2100 23:59:59 GMT";

#[test]
fn index_files_stand_for_folders() {
    if !has_php() {
        return;
    }
    let site = Site::new(&[
        ("index.php", "<?php echo 'php index';"),
        ("index.html", "html index"),
        ("plain/index.html", "plain"),
        ("old/index.htm", "old"),
        ("bare/x.txt", "x"),
    ]);
    let mut wire = site.connect();
    assert_eq!(wire.get("/").text(), "php index");
    assert_eq!(wire.get("/plain/").text(), "plain");
    assert_eq!(wire.get("/old/").text(), "old");
    for (target, location) in
        [("/plain", "/plain/"), ("/plain?a=b&c", "/plain/?a=b&c"), ("/bare", "/bare/")]
    {
        let reply = wire.get(target);
        assert_eq!(reply.status, 301, "{target}");
        let to = reply.field("location").unwrap();
        assert!(to == location || to == format!("http://localhost{location}"), "{target}: {to}");
    }
    assert!(matches!(wire.get("/bare/").status, 403 | 404), "no listing unless it is asked for");
    assert_eq!(wire.get("/none/").status, 404);
    assert_eq!(wire.get("/plain/index.html/").status, 404, "a file has nothing below it");
    let site = Site::with(
        &[("home.txt", "home")],
        &Options {
            site: "index = [\"home.txt\"]",
            ..Options::default()
        },
    );
    assert_eq!(site.get("/").text(), "home");
}

#[test]
fn a_redirect_leads_to_no_other_host() {
    let site = Site::new(&[("evil.example/index.html", "x")]);
    for target in [
        "//evil.example",
        "///evil.example",
        "/%2fevil.example",
        "//evil.example/..//evil.example",
        "/\\evil.example",
    ] {
        let reply = site.get(target);
        if let Some(location) = reply.field("location") {
            assert!(
                !location.starts_with("//") && !location.starts_with("/\\"),
                "{target} → {location}"
            );
        }
    }
}

#[test]
fn content_types_follow_the_names() {
    let names = [
        ("a.html", "text/html"),
        ("a.css", "text/css"),
        ("a.js", "text/javascript"),
        ("a.mjs", "text/javascript"),
        ("a.json", "application/json"),
        ("a.svg", "image/svg+xml"),
        ("a.png", "image/png"),
        ("a.JPG", "image/jpeg"),
        ("a.webp", "image/webp"),
        ("a.avif", "image/avif"),
        ("a.woff2", "font/woff2"),
        ("a.wasm", "application/wasm"),
        ("a.pdf", "application/pdf"),
        ("a.mp4", "video/mp4"),
        ("a.txt", "text/plain"),
        ("a.xml", "application/xml"),
    ];
    let files: Vec<(&str, &str)> = names.iter().map(|(name, _)| (*name, "content")).collect();
    let site = Site::new(&files);
    let mut wire = site.connect();
    for (name, kind) in names {
        let reply = wire.get(&format!("/{name}"));
        let said = reply.field("content-type").unwrap_or("none");
        let right =
            said.starts_with(kind) || (name == "a.xml" && said.starts_with("application/xml"));
        assert!(right, "{name} is {said}");
    }
    site.file("unknown", "x");
    assert_eq!(wire.get("/unknown").status, 200);
}

#[test]
fn names_with_any_letters_are_found() {
    let site =
        Site::new(&[("ä ö+%.txt", "umlauts"), ("a;b=c.txt", "semicolon"), ("日本.txt", "日")]);
    let mut wire = site.connect();
    assert_eq!(wire.get("/%C3%A4%20%C3%B6+%25.txt").text(), "umlauts");
    assert_eq!(wire.get("/a;b=c.txt?x").text(), "semicolon");
    assert_eq!(wire.get("/%E6%97%A5%e6%9c%ac.txt").text(), "日");
    assert_eq!(wire.get("/%C3%A4%20%C3%B6%20%25.txt").status, 404, "a plus is no space");
}

#[test]
fn an_unchanged_file_is_not_sent_again() {
    let site = Site::new(&[("a.txt", "content")]);
    let mut wire = site.connect();
    let first = wire.get("/a.txt");
    let (tag, modified) =
        (first.field("etag").unwrap().to_owned(), first.field("last-modified").unwrap().to_owned());
    for (field, value, status) in [
        ("If-None-Match", tag.as_str(), 304),
        ("If-None-Match", "*", 304),
        ("If-None-Match", &format!("\"x\", W/{}", tag.trim_start_matches("W/")), 304),
        ("If-None-Match", "\"other\"", 200),
        ("If-Modified-Since", &modified, 304),
        ("If-Modified-Since", "Thu, 01 Jan 1998 00:00:00 GMT", 200),
        ("If-Modified-Since", "nonsense", 200),
        ("If-Modified-Since", FUTURE, 200),
        ("If-Match", "\"other\"", 412),
        ("If-Unmodified-Since", "Thu, 01 Jan 1998 00:00:00 GMT", 412),
    ] {
        let reply = wire.ask("GET", "/a.txt", &[(field, value)], b"");
        assert_eq!(reply.status, status, "{field}: {value}");
        if status == 304 {
            assert_eq!(reply.field("etag"), Some(tag.as_str()));
            assert!(reply.body.is_empty());
        }
    }
    let both = wire.ask(
        "GET",
        "/a.txt",
        &[("If-None-Match", "\"other\""), ("If-Modified-Since", &modified)],
        b"",
    );
    assert_eq!(both.status, 200, "the tag is the better witness");
}

#[test]
fn a_date_in_the_future_tells_of_no_copy() {
    let options = Options {
        site: "compress = [\"gzip\"]",
        ..Options::default()
    };
    let plain = Site::new(&[("a.txt", "content")]);
    let ruled = Site::new(&[("a.txt", "content"), (".htaccess", "Header set X-A b\n")]);
    let coded = Site::with(&[("a.txt", "content")], &options);
    for site in [&plain, &ruled, &coded] {
        let (mut http1, http2) = (site.connect(), Http2::connect(site));
        let modified = site.get("/a.txt").field("last-modified").unwrap().to_owned();
        for (date, status) in [(FUTURE, 200), (modified.as_str(), 304)] {
            for method in ["GET", "HEAD"] {
                let field = ("If-Modified-Since", date);
                let reply = http1.ask(method, "/a.txt", &[field], b"");
                assert_eq!(reply.status, status, "{method} {date}");
                let field = ("if-modified-since", date);
                let reply = http2.ask(method, "/a.txt", &[field], b"");
                assert_eq!(reply.status, status, "{method} {date} over HTTP/2");
            }
        }
    }
}

#[test]
fn a_412_tells_which_version_of_the_file_there_is() {
    let rules = "Header set X-A b\nErrorDocument 412 /page.html\n";
    let files = [("a.txt", "content"), ("page.html", "page")];
    let plain = Site::new(&files);
    let ruled = Site::new(&[files[0], files[1], (".htaccess", rules)]);
    for (site, added) in [(&plain, None), (&ruled, Some("b"))] {
        let mut wire = site.connect();
        let whole = wire.get("/a.txt");
        for method in ["GET", "HEAD", "POST"] {
            let reply = wire.ask(method, "/a.txt", &[("If-Match", "\"other\"")], b"");
            assert_eq!((reply.status, reply.text()), (412, ""), "{method}");
            for name in ["etag", "last-modified", "content-type", "accept-ranges"] {
                assert_eq!(reply.field(name), whole.field(name), "{method} {name}");
            }
            assert_eq!(reply.field("x-a"), added, "{method}");
        }
        assert_eq!(wire.get("/a.txt").text(), "content", "the connection goes on");
    }
}

#[test]
fn a_range_of_an_empty_file_is_ignored() {
    let site = Site::new(&[("empty.mp4", "")]);
    for range in ["bytes=0-", "bytes=0-0", "bytes=-5", "bytes=7-"] {
        let reply = site.connect().ask("GET", "/empty.mp4", &[("Range", range)], b"");
        assert_eq!((reply.status, reply.field("content-length")), (200, Some("0")), "{range}");
    }
}

#[test]
fn each_part_has_the_type_of_the_file() {
    let digits = "01234567890123456789";
    let rules = "AddDefaultCharset utf-8\nExpiresActive On\nExpiresDefault A10\n\
                 ExpiresByType text/plain A60\n";
    let plain = Site::new(&[("a.txt", digits)]);
    let ruled = Site::new(&[("a.txt", digits), (".htaccess", rules)]);
    for (site, age, kind) in
        [(&plain, None, "text/plain"), (&ruled, Some("max-age=60"), "text/plain; charset=utf-8")]
    {
        let whole = site.get("/a.txt");
        assert_eq!(whole.field("content-type"), Some(kind));
        assert_eq!(whole.field("cache-control"), age);
        let mut wire = site.connect();
        let reply = wire.ask("GET", "/a.txt", &[("Range", "bytes=0-1,5-6")], b"");
        assert_eq!((reply.status, reply.field("cache-control")), (206, age));
        let own = reply.field("content-type").unwrap();
        let boundary = own.strip_prefix("multipart/byteranges; boundary=").unwrap();
        let part = |range: &str, content: &str| {
            format!(
                "\r\n--{boundary}\r\nContent-Type: {kind}\r\nContent-Range: bytes \
                 {range}/20\r\n\r\n{content}"
            )
        };
        let expected = [part("0-1", "01"), part("5-6", "56"), format!("\r\n--{boundary}--\r\n")];
        assert_eq!(reply.text(), expected.concat());
        let head = wire.ask("HEAD", "/a.txt", &[("Range", "bytes=0-1,5-6")], b"");
        assert_eq!((head.status, head.field("cache-control")), (206, age));
        assert_eq!(head.field("content-length"), reply.field("content-length"));
    }
}

#[test]
fn a_part_is_sent_when_a_part_is_asked_for() {
    let content: String = (0..1000).map(|n| char::from(b'a' + (n % 26) as u8)).collect();
    let site = Site::new(&[("a.txt", &content)]);
    let mut wire = site.connect();
    for (range, from, to) in [
        ("bytes=0-0", 0, 1),
        ("bytes=10-19", 10, 20),
        ("bytes=990-", 990, 1000),
        ("bytes=-5", 995, 1000),
        ("bytes=500-99999", 500, 1000),
    ] {
        let reply = wire.ask("GET", "/a.txt", &[("Range", range)], b"");
        assert_eq!((reply.status, reply.text()), (206, &content[from..to]), "{range}");
        assert_eq!(
            reply.field("content-range"),
            Some(format!("bytes {from}-{}/1000", to - 1).as_str())
        );
    }
    for range in ["bytes=1000-", "bytes=-0", "bytes=5000-6000"] {
        let reply = wire.ask("GET", "/a.txt", &[("Range", range)], b"");
        assert_eq!(
            (reply.status, reply.field("content-range")),
            (416, Some("bytes */1000")),
            "{range}"
        );
    }
    for range in ["bytes=5-2", "lines=1-2", "bytes=x-y", "bytes", "bytes=1-2-3"] {
        let reply = wire.ask("GET", "/a.txt", &[("Range", range)], b"");
        assert!(matches!(reply.status, 200 | 416), "{range}: {}", reply.status);
    }
    let tag = wire.get("/a.txt").field("etag").unwrap().to_owned();
    assert_eq!(
        wire.ask("GET", "/a.txt", &[("Range", "bytes=0-1"), ("If-Range", &tag)], b"")
            .status,
        206
    );
    assert_eq!(
        wire.ask("GET", "/a.txt", &[("Range", "bytes=0-1"), ("If-Range", "\"old\"")], b"")
            .status,
        200
    );
    let several = wire.ask("GET", "/a.txt", &[("Range", "bytes=0-1,500-501")], b"");
    assert!(matches!(several.status, 200 | 206), "{}", several.status);
    if several.status == 206 {
        assert!(several.field("content-type").unwrap().starts_with("multipart/byteranges"));
        assert!(several.text().contains("Content-Range: bytes 500-501/1000"));
    }
}

#[test]
fn head_of_a_file_has_its_length() {
    let site = Site::new(&[("a.txt", "content")]);
    let mut wire = site.connect();
    let head = wire.ask("HEAD", "/a.txt", &[], b"");
    let get = wire.get("/a.txt");
    assert_eq!(head.field("content-length"), Some("7"));
    for name in ["etag", "last-modified", "content-type"] {
        assert_eq!(head.field(name), get.field(name), "{name}");
    }
}

#[test]
fn large_files_arrive_byte_for_byte() {
    let site = Site::new(&[]);
    for size in [0, 1, 4096, 65_536, 1_000_003, 30_000_000] {
        let content: Vec<u8> =
            (0..size as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        site.file(&format!("{size}.bin"), &content);
        let mut wire = site.connect();
        let reply = wire.get(&format!("/{size}.bin"));
        assert_eq!((reply.framing, reply.body.len()), (Framing::Length, size));
        assert!(reply.body == content, "{size} bytes, but others");
        assert!(wire.get(&format!("/{size}.bin")).body == content, "{size} bytes the second time");
    }
}

#[test]
fn a_file_that_changes_is_seen_to_change() {
    let site = Site::new(&[("a.txt", "one"), ("b.txt", "one")]);
    let mut wire = site.connect();
    let first = wire.get("/a.txt");
    assert_eq!((first.text(), wire.get("/b.txt").text()), ("one", "one"));
    site.file("a.txt", "the second");
    wait_until("the new content is sent", || wire.get("/a.txt").text() == "the second");
    // Replaced as editors and deployments do it.
    fs::rename(site.file("b.new", "replaced"), site.root().join("b.txt")).unwrap();
    wait_until("the new file is sent", || wire.get("/b.txt").text() == "replaced");
    fs::remove_file(site.root().join("a.txt")).unwrap();
    wait_until("the file is gone", || wire.get("/a.txt").status == 404);
    site.file("a.txt", "back");
    wait_until("the file is back", || wire.get("/a.txt").text() == "back");
    fs::rename(site.root().join("a.txt"), site.root().join("c.txt")).unwrap();
    wait_until("the file has moved", || {
        wire.get("/a.txt").status == 404 && wire.get("/c.txt").text() == "back"
    });
    assert_ne!(first.field("etag"), wire.get("/c.txt").field("etag"));
}

#[test]
fn a_whole_folder_may_be_exchanged() {
    let site = Site::new(&[("v1/a.txt", "first"), ("v2/a.txt", "second")]);
    let link = site.root().join("current");
    std::os::unix::fs::symlink("v1", &link).unwrap();
    let mut wire = site.connect();
    assert_eq!(wire.get("/current/a.txt").text(), "first");
    let new = site.root().join("new");
    std::os::unix::fs::symlink("v2", &new).unwrap();
    fs::rename(&new, &link).unwrap();
    wait_until("the other version is served", || wire.get("/current/a.txt").text() == "second");
}

/// The source of a script does not leave the server, with any name and any request.
#[test]
fn php_source_is_never_sent() {
    if !has_php() {
        return;
    }
    let source = "<?php /* the source */ echo 'ran';";
    let names = [
        "a.php",
        "a.phtml",
        "a.phar",
        "a.phps",
        "a.PHP",
        "a.Php",
        "a.php5",
        "a.php7",
        "a.pht",
        "x.html.php",
        "a.inc.php",
    ];
    let files: Vec<(&str, &str)> = names.iter().map(|name| (*name, source)).collect();
    let site = Site::new(&files);
    let mut targets: Vec<String> = names.iter().map(|name| format!("/{name}")).collect();
    targets.extend(
        [
            "/a.php/",
            "/a.php/x",
            "/a%2ephp",
            "/a.ph%70",
            "//a.php",
            "/./a.php",
            "/x/../a.php",
            "/a.php?x",
            "/a.php;x",
            "/a.php%20",
            "/a.php.",
            "/a.php%00",
            "/a.php%00.txt",
            "/a.php~",
            "/A.php",
            "/a.php\\",
            "/a.php::$DATA",
            "/a.php%2f",
        ]
        .map(str::to_owned),
    );
    for target in &targets {
        for (method, fields) in [
            ("GET", &[][..]),
            ("GET", &[("Range", "bytes=0-10")][..]),
            ("HEAD", &[][..]),
            ("POST", &[][..]),
        ] {
            let reply = site.ask(method, target, fields, b"");
            assert!(
                !String::from_utf8_lossy(&reply.body).contains("<?php"),
                "{method} {target}: {reply:?}"
            );
            assert!(
                matches!(reply.status, 200 | 206 | 400 | 403 | 404 | 405),
                "{method} {target}: {}",
                reply.status
            );
        }
    }
    for name in ["a.php", "a.phtml", "a.phar", "x.html.php", "a.inc.php"] {
        assert_eq!(site.get(&format!("/{name}")).text(), "ran", "{name}");
    }
    // As Debian's Apache: what ends otherwise is no script. Its name says what it is, and editors'
    // copies are backups.
    site.file("b.php.bak", "a copy");
    assert!(matches!(site.get("/b.php.bak").status, 200 | 403 | 404));
}

#[test]
fn serving_a_folder_needs_no_configuration() {
    let folder = crate::support::Folder::new();
    folder.file("index.html", "just a page");
    let server = crate::support::Setup::folder(&folder).and(&["--no-php"]).start();
    assert_eq!(
        server.announcement().trim(),
        format!("howdah: listening on http://{}", server.address())
    );
    assert_eq!(crate::wire::Wire::connect(server.address()).get("/").text(), "just a page");
    server.stop();
}
