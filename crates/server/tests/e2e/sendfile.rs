//! Files that scripts ask the server to send.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::site::{Options, Site};
use crate::support::{has_php, wait_until};

/// Asks for the file in `f`, by the field `by`, with the fields of `h`.
const ASK: &str = "<?php foreach ((array) ($_GET['h'] ?? []) as $line) header($line, false);
    if (isset($_GET['s'])) http_response_code((int) $_GET['s']);
    header(($_GET['by'] ?? 'X-Sendfile') . ': ' . $_GET['f']); echo 'a page of its own';";

const LISTED: Options<'_> = Options {
    site: "sendfile = true\nsendfile_roots = [\"files\"]\naccel = { \"/protected/\" = \"files\" }",
    top: "",
    limits: "",
    log: "",
    php: "",
};

/// A site whose listed folder has a file of twenty digits, and one that is named like a script.
fn site(options: &Options<'_>) -> Site {
    let site = Site::with(
        &[
            ("get.php", ASK),
            ("own/page.txt", "own file"),
            ("own/.htaccess", "Require all denied\n"),
            ("own/.env", "secret"),
            ("library.php", "<?php // secret"),
        ],
        options,
    );
    site.file("../files/digits.pdf", "01234567890123456789");
    site.file("../files/source.php", "<?php // shown on purpose");
    site.file("../files/.hidden", "hidden");
    site
}

#[test]
fn a_script_has_a_file_sent_with_its_own_fields() {
    if !has_php() {
        return;
    }
    let site = site(&LISTED);
    let mut wire = site.connect();
    let name = "attachment; filename=x.pdf";
    let target = "/get.php?f=../files/digits.pdf&h[]=Content-Disposition:+attachment;+filename=x.pdf\
                  &h[]=Set-Cookie:+a=b&h[]=Set-Cookie:+c=d&h[]=Content-Length:+3";
    let reply = wire.get(target);
    assert_eq!((reply.status, reply.text()), (200, "01234567890123456789"));
    assert_eq!(reply.field("content-type"), Some("application/pdf"), "not the script's default");
    assert_eq!(reply.field("content-disposition"), Some(name));
    assert_eq!(reply.all("set-cookie"), ["a=b", "c=d"]);
    assert_eq!(reply.field("content-length"), Some("20"));
    assert_eq!(reply.field("x-sendfile"), None);
    assert_eq!(reply.field("accept-ranges"), Some("bytes"));
    let (tag, date) = (reply.field("etag").unwrap(), reply.field("last-modified").unwrap());

    for (field, value, status, body) in [
        ("Range", "bytes=2-4", 206, "234"),
        ("Range", "bytes=-2", 206, "89"),
        ("Range", "bytes=30-", 416, ""),
        ("If-None-Match", tag, 304, ""),
        ("If-Modified-Since", date, 304, ""),
        ("If-Match", "\"other\"", 412, ""),
    ] {
        let reply = wire.ask("GET", target, &[(field, value)], b"");
        assert_eq!(reply.status, status, "{field}: {value}");
        if status == 206 {
            assert_eq!(reply.text(), body);
            assert_eq!(reply.field("content-type"), Some("application/pdf"));
        }
        if status != 412 {
            assert_eq!(reply.all("set-cookie"), ["a=b", "c=d"], "{field}: {value}");
        }
    }
    let parts = wire.ask("GET", target, &[("Range", "bytes=0-0,19-")], b"");
    assert!(parts.field("content-type").unwrap().starts_with("multipart/byteranges"));
    assert!(parts.text().contains("Content-Type: application/pdf"), "{}", parts.text());
    assert_eq!(parts.all("set-cookie"), ["a=b", "c=d"]);
    site.file(".htaccess", "Header set Content-Type text/x-own\n");
    wait_until("the directives apply", || {
        wire.ask("GET", target, &[], b"").field("content-type") == Some("text/x-own")
    });
    let parts = wire.ask("GET", target, &[("Range", "bytes=0-0,19-")], b"");
    assert!(parts.field("content-type").unwrap().starts_with("multipart/byteranges"));
    assert_eq!(parts.text().matches("Content-Type: text/x-own\r\n").count(), 2);
    fs::remove_file(site.root().join(".htaccess")).unwrap();
    wait_until("the directives are gone", || {
        wire.ask("GET", target, &[], b"").field("content-type") == Some("application/pdf")
    });

    let head = wire.ask("HEAD", target, &[], b"");
    assert_eq!((head.status, head.field("content-length")), (200, Some("20")));
    let post = wire.ask("POST", target, &[("Range", "bytes=2-4")], b"x=y");
    assert_eq!((post.status, post.body.len()), (200, 20), "a range is for GET");
}

#[test]
fn what_the_script_says_of_the_file_counts() {
    if !has_php() {
        return;
    }
    let site = site(&LISTED);
    let mut wire = site.connect();
    let target = "/get.php?f=/protected/digits.pdf&by=X-Accel-Redirect&h[]=Content-Type:+video/mp4\
                  &h[]=ETag:+%22mine%22&h[]=Last-Modified:+Sat,+01+Jan+2000+00:00:00+GMT";
    let reply = wire.get(target);
    assert_eq!((reply.status, reply.body.len()), (200, 20));
    assert_eq!(reply.field("content-type"), Some("video/mp4"));
    assert_eq!(reply.field("etag"), Some("\"mine\""));
    assert_eq!(reply.field("last-modified"), Some("Sat, 01 Jan 2000 00:00:00 GMT"));
    let known = wire.ask("GET", target, &[("If-None-Match", "\"mine\"")], b"");
    assert_eq!(known.status, 304);
    let since = ("If-Modified-Since", "Sat, 01 Jan 2000 00:00:00 GMT");
    assert_eq!(wire.ask("GET", target, &[since], b"").status, 304);
    let page = "&h[]=Content-Type:+text/html";
    let reply = wire.get(&format!("/get.php?f=../files/digits.pdf{page}"));
    assert_eq!(reply.field("content-type"), Some("text/html;charset=UTF-8"), "asked for");
    // The page of an error is sent whole.
    let fields = [("Range", "bytes=2-4"), ("If-None-Match", "*")];
    let gone = wire.ask("GET", "/get.php?f=../files/digits.pdf&s=410", &fields, b"");
    assert_eq!((gone.status, gone.body.len()), (410, 20));
}

#[test]
fn a_script_reaches_listed_folders_and_nothing_else() {
    if !has_php() {
        return;
    }
    let site = site(&LISTED);
    site.file("../elsewhere/secret.txt", "secret");
    symlink(site.path().join("files/digits.pdf"), site.path().join("files/again")).unwrap();
    let pipe = site.path().join("files/pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let files = site.path().join("files").display().to_string();
    let mut wire = site.connect();
    let rows = [
        ("X-Sendfile", "../files/digits.pdf", 200),
        ("X-Sendfile", &format!("{files}/source.php"), 200),
        ("X-Sendfile", &format!("{files}/.hidden"), 200),
        ("X-Sendfile", &format!("{files}/again"), 200),
        // The script decides, not the folder's directives.
        ("X-Sendfile", "own/page.txt", 200),
        ("X-Accel-Redirect", "/own/page.txt", 200),
        ("X-Accel-Redirect", "/protected/digits.pdf?x", 200),
        ("X-Sendfile", "own/.env", 403),
        ("X-Sendfile", "own/.htaccess", 403),
        ("X-Sendfile", "library.php", 403),
        ("X-Accel-Redirect", "/library.php", 403),
        ("X-Sendfile", "../elsewhere/secret.txt", 403),
        ("X-Sendfile", "../files/../elsewhere/secret.txt", 403),
        ("X-Sendfile", "../files/%252e%252e/elsewhere/secret.txt", 403),
        ("X-Sendfile", "/etc/passwd", 403),
        ("X-Sendfile", "../files/pipe", 403),
        ("X-Sendfile", "../files", 403),
        ("X-Sendfile", "../files/none", 404),
        ("X-Sendfile", "/proc/self/environ", 403),
        ("X-Accel-Redirect", "/protected/../../etc/passwd", 403),
        ("X-Accel-Redirect", "/protected/", 404),
        ("X-Accel-Redirect", "@named", 403),
    ];
    // The first of all: of lines of one kind only some are written.
    assert_eq!(wire.get("/get.php?by=X-Sendfile&f=/etc/passwd").status, 403);
    for (by, file, status) in rows {
        let reply = wire.get(&format!("/get.php?by={by}&f={file}"));
        assert_eq!(reply.status, status, "{by}: {file}");
        if status != 200 {
            assert!(!reply.text().contains("secret") && !reply.text().contains("root:"), "{file}");
        }
    }
    wait_until("the refusal is logged", || {
        let told = site.log_lines("X-Sendfile: /etc/passwd is not sent: it is below no folder");
        told.iter().any(|line| line.contains("get.php"))
    });
    // A client reaches none of these folders by itself.
    assert_eq!(wire.get("/protected/digits.pdf").status, 404);
}

#[test]
fn the_fields_reach_a_proxy_in_front_unless_the_site_handles_them() {
    if !has_php() {
        return;
    }
    let site = site(&Options::default());
    let mut wire = site.connect();
    for by in ["X-Sendfile", "X-Accel-Redirect"] {
        let reply = wire.get(&format!("/get.php?by={by}&f=/etc/passwd"));
        assert_eq!(reply.field(by), Some("/etc/passwd"));
        assert_eq!(reply.text(), "a page of its own");
    }
}

#[test]
fn a_worker_is_free_while_its_file_is_sent() {
    if !has_php() {
        return;
    }
    let site = site(&Options { php: "workers = 1", ..LISTED });
    let large = site.file("../files/large.bin", vec![7; 32 << 20]);
    std::fs::set_permissions(large, PermissionsExt::from_mode(0o644)).unwrap();
    let mut slow = site.connect();
    slow.request("GET", "/get.php?f=../files/large.bin", &[], b"");
    let (status, _, fields) = slow.head();
    assert_eq!(status, 200, "{fields:?}");
    // The client takes nothing more, and the only worker serves others.
    for _ in 0..3 {
        assert_eq!(site.get("/get.php?f=own/page.txt").text(), "own file");
    }
    assert_eq!(slow.exactly(32 << 20), vec![7; 32 << 20]);
}

#[test]
fn directives_change_the_response_with_a_file() {
    if !has_php() {
        return;
    }
    let site = site(&LISTED);
    site.file(
        ".htaccess",
        "Header set X-Rule yes\nAddOutputFilterByType DEFLATE text/plain\n\
         ErrorDocument 404 \"gone\"\n",
    );
    site.file("../files/long.txt", "0123456789".repeat(1000));
    let mut wire = site.connect();
    let accept = ("Accept-Encoding", "gzip");
    let packed = wire.ask("GET", "/get.php?f=../files/long.txt", &[accept], b"");
    assert_eq!(packed.field("content-encoding"), Some("gzip"));
    assert_eq!(packed.field("x-rule"), Some("yes"));
    assert!(packed.body.len() < 1000);
    let both = [accept, ("Range", "bytes=0-9")];
    let packed = wire.ask("GET", "/get.php?f=../files/long.txt", &both, b"");
    assert_eq!((packed.status, packed.field("content-encoding")), (200, Some("gzip")));
    let part = wire.ask("GET", "/get.php?f=../files/long.txt", &both[1..], b"");
    assert_eq!((part.status, part.text()), (206, "0123456789"));
    assert_eq!(part.field("x-rule"), Some("yes"));
    let part = wire.ask("GET", "/get.php?f=../files/digits.pdf", &both, b"");
    assert_eq!((part.status, part.text()), (206, "0123456789"));
    assert_eq!(wire.get("/get.php?f=../files/none").text(), "gone");
}
