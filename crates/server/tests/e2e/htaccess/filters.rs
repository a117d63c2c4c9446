//! Content that is changed on its way out, and heads that are kept.

use std::fs;
use std::io::Read;
use std::time::Duration;

use crate::site::{AWAIT, Options, Site};
use crate::support::has_php;
use crate::wire::{Framing, Reply, Wire};

const GZIP: (&str, &str) = ("Accept-Encoding", "gzip, deflate");

fn unzipped(reply: &Reply) -> String {
    assert_eq!(reply.field("content-encoding"), Some("gzip"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(&reply.body[..]).read_to_string(&mut text).unwrap();
    text
}

fn ask(wire: &mut Wire, target: &str, fields: &[(&str, &str)]) -> Reply {
    wire.ask("GET", target, fields, b"")
}

#[test]
fn a_client_that_has_a_file_learns_that_its_content_varies() {
    let site = Site::new(&[
        (
            ".htaccess",
            "AddOutputFilterByType DEFLATE text/css\nHeader append Vary Cookie\n\
             Header append X-Once yes\n",
        ),
        ("small.css", &"p { color: red }\n".repeat(100)),
        ("plain.txt", "plain"),
    ]);
    let mut wire = site.connect();
    for round in 0..3 {
        for accepted in ["gzip", "identity"] {
            let accept = ("Accept-Encoding", accepted);
            let whole = ask(&mut wire, "/small.css", &[accept]);
            let date = whole.field("last-modified").unwrap().to_owned();
            let tag = whole.field("etag").unwrap().to_owned();
            let vary = whole.field("vary").unwrap();
            assert!(vary.contains("Accept-Encoding") && vary.contains("Cookie"), "{vary}");
            for condition in [("If-Modified-Since", &date), ("If-None-Match", &tag)] {
                let known = ask(&mut wire, "/small.css", &[accept, (condition.0, condition.1)]);
                let told = ["vary", "etag", "x-once"].map(|name| known.field(name));
                let expected = [Some(vary), Some(tag.as_str()), Some("yes")];
                assert_eq!(
                    (known.status, told),
                    (304, expected),
                    "{round} {accepted} {condition:?}"
                );
                assert_eq!(known.field("content-encoding"), None);
            }
        }
        let plain = ask(&mut wire, "/plain.txt", &[]);
        let date = plain.field("last-modified").unwrap().to_owned();
        let known = ask(&mut wire, "/plain.txt", &[("If-Modified-Since", &date)]);
        assert_eq!((known.status, known.field("vary")), (304, Some("Cookie")));
    }
}

#[test]
fn files_are_compressed_for_who_can_read_it() {
    let small = "p { color: red }\n".repeat(100);
    let large: String = (0..400_000).map(|number| format!("{number}\n")).collect();
    let site = Site::new(&[
        (".htaccess", "AddOutputFilterByType DEFLATE text/css text/plain\n"),
        ("small.css", &small),
        ("large.txt", &large),
        ("empty.css", ""),
        ("image.png", &small),
    ]);
    let mut wire = site.connect();
    for round in 0..3 {
        let reply = ask(&mut wire, "/small.css", &[GZIP]);
        assert_eq!((reply.status, unzipped(&reply)), (200, small.clone()), "round {round}");
        assert!(reply.framing == Framing::Length && reply.body.len() < 500, "{:?}", reply.framing);
        assert_eq!(reply.field("vary"), Some("Accept-Encoding"));
        let tag = reply.field("etag").unwrap().to_owned();
        assert!(tag.ends_with("-gzip\""), "{tag}");
        let again = ask(&mut wire, "/small.css", &[GZIP, ("If-None-Match", &tag)]);
        assert_eq!((again.status, again.field("etag")), (304, Some(tag.as_str())));
        let part = [GZIP, ("If-None-Match", &tag), ("Range", "bytes=0-9")];
        assert_eq!(ask(&mut wire, "/small.css", &part).status, 304, "RFC 9110, 13.2.2");

        let plain = ask(&mut wire, "/small.css", &[]);
        assert_eq!((plain.text(), plain.field("content-encoding")), (small.as_str(), None));
        assert_eq!(plain.field("vary"), Some("Accept-Encoding"));

        let reply = ask(&mut wire, "/large.txt", &[GZIP]);
        assert_eq!(reply.framing, Framing::Chunked, "of what is long the new length is not known");
        assert!(unzipped(&reply) == large);
    }
    assert_eq!(ask(&mut wire, "/image.png", &[GZIP]).field("content-encoding"), None);
    let head = wire.ask("HEAD", "/small.css", &[GZIP], b"");
    assert_eq!((head.status, head.field("content-encoding")), (200, Some("gzip")));
    assert_eq!(ask(&mut wire, "/empty.css", &[GZIP]).status, 200);
    let part = ask(&mut wire, "/small.css", &[GZIP, ("Range", "bytes=0-3")]);
    assert_eq!(
        (part.status, unzipped(&part)),
        (200, small.clone()),
        "a part of what is compressed is not had"
    );
    let part = ask(&mut wire, "/small.css", &[("Range", "bytes=0-3")]);
    assert_eq!((part.status, part.text()), (206, "p { "));
    let part = ask(&mut wire, "/image.png", &[GZIP, ("Range", "bytes=0-3")]);
    assert_eq!((part.status, part.text()), (206, "p { "));

    let another = "another ".repeat(100);
    fs::write(site.root().join("small.css"), &another).unwrap();
    assert_eq!(unzipped(&ask(&mut wire, "/small.css", &[GZIP])), another);
    let mut old = site.connect();
    old.send("GET /large.txt HTTP/1.0\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n");
    assert!(unzipped(&old.reply("GET")) == large);
}

#[test]
fn output_of_scripts_is_compressed_as_it_is_made() {
    if !has_php() {
        return;
    }
    let site = Site::new(&[
        (".htaccess", "AddOutputFilterByType DEFLATE text/html\n"),
        ("short.php", "<?php echo str_repeat('short ', 1000);"),
        ("long.php", "<?php for ($i = 0; $i < 200000; $i++) echo $i, \"\\n\";"),
        (
            "slow.php",
            &format!(
                "<?php {AWAIT} while (ob_get_level()) ob_end_flush(); echo 'first'; flush(); \
                 await('first'); echo 'second';"
            ),
        ),
        ("length.php", "<?php header('Content-Length: 1000'); echo str_repeat('hello', 200);"),
        ("none.php", "<?php http_response_code(204);"),
    ]);
    let mut wire = site.connect();
    let reply = ask(&mut wire, "/short.php", &[GZIP]);
    assert!(reply.framing == Framing::Length && unzipped(&reply) == "short ".repeat(1000));
    let long: String = (0..200_000).map(|number| format!("{number}\n")).collect();
    assert!(unzipped(&ask(&mut wire, "/long.php", &[GZIP])) == long);
    assert!(ask(&mut wire, "/long.php", &[]).text() == long);
    assert_eq!(unzipped(&ask(&mut wire, "/length.php", &[GZIP])), "hello".repeat(200));
    assert_eq!(ask(&mut wire, "/none.php", &[GZIP]).status, 204);
    let head = wire.ask("HEAD", "/long.php", &[GZIP], b"");
    assert_eq!((head.status, head.body.len()), (200, 0));

    wire.request("GET", &site.awaiting("/slow.php"), &[GZIP], b"");
    let (status, _, _) = wire.head();
    let first = wire.chunk().unwrap();
    assert!(status == 200 && !first.is_empty());
    site.allow("first");
    let mut all = first;
    while let Some(chunk) = wire.chunk() {
        all.extend(chunk);
    }
    let mut text = String::new();
    flate2::read::GzDecoder::new(&all[..]).read_to_string(&mut text).unwrap();
    assert_eq!(text, "firstsecond");
    assert_eq!(wire.get("/length.php").text(), "hello".repeat(200), "the connection goes on");
}

#[test]
fn a_slow_reader_of_compressed_content_keeps_no_worker() {
    if !has_php() {
        return;
    }
    let site = Site::with(
        &[
            (".htaccess", "SetOutputFilter DEFLATE\n"),
            ("big.php", "<?php for ($i = 0; $i < 300; $i++) echo random_bytes(10000);"),
            ("ok.php", "<?php echo 'ok';"),
        ],
        &Options { php: "workers = 1", ..Options::default() },
    );
    let mut lazy = site.connect();
    lazy.request("GET", "/big.php", &[GZIP], b"");
    std::thread::sleep(Duration::from_millis(300));
    // A worker that waited for the slow reader would wait for longer than this test does.
    assert_eq!(site.get("/ok.php").status, 200);
    let reply = lazy.reply("GET");
    let mut content = Vec::new();
    flate2::read::GzDecoder::new(&reply.body[..]).read_to_end(&mut content).unwrap();
    assert_eq!(content.len(), 3_000_000);
}

#[test]
fn text_is_replaced() {
    let site = Site::new(&[
        (
            ".htaccess",
            "AddOutputFilterByType SUBSTITUTE text/html\nSubstitute \"s/http:/https:/n\"\n",
        ),
        ("page.html", "<a href=http://x>\n<a href=http://y>\n"),
        ("page.txt", "http://x"),
    ]);
    let reply = site.get("/page.html");
    assert_eq!(reply.text(), "<a href=https://x>\n<a href=https://y>\n");
    assert_eq!(site.get("/page.txt").text(), "http://x");
}

#[test]
fn a_head_that_is_kept_is_the_head_that_would_be_made() {
    let site = Site::new(&[
        (
            ".htaccess",
            "Header always set X-Content-Type-Options nosniff\nExpiresActive On\n\
             ExpiresByType text/css \"access plus 1 hour\"\n\
             AddType text/x-own .own\nFileETag None\nAddDefaultCharset utf-8\n",
        ),
        ("a.css", "p {}"),
        ("b.own", "own"),
        ("c.html", "page"),
        ("d.html", "page"),
    ]);
    let mut wires = [site.connect(), site.connect()];
    for round in 0..6 {
        let wire = &mut wires[round % 2];
        let css = wire.get("/a.css");
        assert_eq!((css.text(), css.field("content-length")), ("p {}", Some("4")));
        assert_eq!(css.field("x-content-type-options"), Some("nosniff"));
        assert_eq!(css.field("cache-control"), Some("max-age=3600"));
        assert_eq!((css.field("etag"), css.field("content-type")), (None, Some("text/css")));
        assert_eq!(css.all("date").len() + css.all("server").len(), 2);
        assert!(css.field("expires").is_some());
        let own = wire.get("/b.own");
        assert_eq!((own.field("content-type"), own.field("expires")), (Some("text/x-own"), None));
        assert_eq!(wire.get("/c.html").field("content-type"), Some("text/html; charset=utf-8"));
        let head = wire.ask("HEAD", "/a.css", &[], b"");
        assert_eq!((head.field("content-length"), head.body.len()), (Some("4"), 0));
        let modified = css.field("last-modified").unwrap();
        let same = ask(wire, "/a.css", &[("If-Modified-Since", modified)]);
        assert_eq!((same.status, same.field("x-content-type-options")), (304, Some("nosniff")));
    }
    fs::write(site.root().join("a.css"), "p { }").unwrap();
    for wire in &mut wires {
        let css = wire.get("/a.css");
        assert_eq!((css.text(), css.field("content-length")), ("p { }", Some("5")));
    }
    fs::write(site.root().join(".htaccess"), "Header set X-New yes\n").unwrap();
    for wire in &mut wires {
        let css = wire.get("/a.css");
        assert_eq!((css.field("x-new"), css.field("x-content-type-options")), (Some("yes"), None));
        assert!(css.field("etag").is_some());
    }
}
