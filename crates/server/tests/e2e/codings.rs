//! Content codings that the site's configuration asks for.

mod broken;
mod gone;
mod unpack;

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use self::unpack::{readable, unpacked};
use crate::http2::client::Http2;
use crate::http3::{Served, Special};
use crate::site::{AWAIT, Options, Site};
use crate::support::has_php;
use crate::wire::{Framing, Reply, Wire};

const ALL: (&str, &str) = ("Accept-Encoding", "gzip, deflate, br, zstd");
const GZIP: (&str, &str) = ("Accept-Encoding", "gzip");

fn ask(wire: &mut Wire, target: &str, fields: &[(&str, &str)]) -> Reply {
    wire.ask("GET", target, fields, b"")
}

fn site(lines: &str) -> Site {
    let site = Site::with(
        &[
            ("a.css", "as it is"),
            ("a.css.br", "in brotli"),
            ("a.css.zst", "in zstandard"),
            ("a.css.gz", "in gzip"),
            ("only.js", "only gzip"),
            ("only.js.gz", "0123456789"),
            ("none.txt", "nothing beside"),
        ],
        &Options { site: lines, ..Options::default() },
    );
    let now = SystemTime::now();
    for name in ["a.css", "a.css.br", "a.css.zst", "a.css.gz", "only.js", "only.js.gz"] {
        File::options()
            .write(true)
            .open(site.root().join(name))
            .unwrap()
            .set_modified(now)
            .unwrap();
    }
    site
}

#[test]
fn a_compressed_file_beside_another_is_sent_in_its_place() {
    for rules in ["", "\nrules = \"Header set X-Rule yes\""] {
        let site = site(&format!("precompressed = [\"br\", \"zstd\", \"gzip\"]{rules}"));
        let mut wire = site.connect();
        let plain = ask(&mut wire, "/a.css", &[]);
        assert_eq!(plain.text(), "as it is");
        assert_eq!(
            (plain.field("content-encoding"), plain.field("vary")),
            (None, Some("Accept-Encoding"))
        );
        let mut tags = vec![plain.field("etag").unwrap().to_owned()];
        for (accept, coding, body) in [
            ("gzip, deflate, br, zstd", "br", "in brotli"),
            ("br;q=0.5, zstd;q=0.9, gzip;q=0.1", "zstd", "in zstandard"),
            ("gzip", "gzip", "in gzip"),
        ] {
            let accept = ("Accept-Encoding", accept);
            let reply = ask(&mut wire, "/a.css", &[accept]);
            assert_eq!((reply.status, reply.text()), (200, body));
            assert_eq!(reply.field("content-encoding"), Some(coding));
            assert_eq!(reply.field("content-type"), Some("text/css"));
            assert_eq!(reply.field("vary"), Some("Accept-Encoding"));
            assert_eq!(reply.field("x-rule"), (!rules.is_empty()).then_some("yes"));
            let tag = reply.field("etag").unwrap().to_owned();
            assert!(!tag.starts_with("W/") && !tags.contains(&tag), "{tag} of {tags:?}");

            let known = ask(&mut wire, "/a.css", &[accept, ("If-None-Match", &tag)]);
            assert_eq!((known.status, known.field("vary")), (304, Some("Accept-Encoding")));
            let other = ask(&mut wire, "/a.css", &[accept, ("If-None-Match", &tags[0])]);
            assert_eq!(other.status, 200, "a tag of another form");
            let part = ask(&mut wire, "/a.css", &[accept, ("Range", "bytes=3-4")]);
            assert_eq!((part.status, part.body.as_slice()), (206, &body.as_bytes()[3..5]));
            assert_eq!(part.field("content-encoding"), Some(coding));
            assert_eq!(part.field("etag"), Some(tag.as_str()));
            let mixed = [accept, ("Range", "bytes=3-4"), ("If-Range", &tags[0])];
            assert_eq!(ask(&mut wire, "/a.css", &mixed).status, 200, "no part of another form");
            let head = wire.ask("HEAD", "/a.css", &[accept], b"");
            assert_eq!(head.field("content-encoding"), Some(coding));
            assert_eq!(head.field("content-length"), Some(body.len().to_string().as_str()));
            tags.push(tag);
        }
        let refused = ask(&mut wire, "/a.css", &[("Accept-Encoding", "br;q=0, identity")]);
        assert_eq!(refused.text(), "as it is");
        // By its own name such a file has no coding and does not vary.
        assert_eq!(ask(&mut wire, "/a.css.gz", &[ALL]).field("content-encoding"), None);
        assert_eq!(ask(&mut wire, "/none.txt", &[ALL]).field("vary"), None);
        assert_eq!(ask(&mut wire, "/only.js", &[ALL]).field("content-encoding"), Some("gzip"));
    }
}

#[test]
fn a_compressed_file_that_is_out_of_date_is_not_sent() {
    let site = site("precompressed = [\"gzip\"]");
    let mut wire = site.connect();
    assert_eq!(ask(&mut wire, "/only.js", &[GZIP]).text(), "0123456789");
    let later = SystemTime::now() + Duration::from_secs(1);
    let set = |name: &str| {
        let file = File::options().write(true).open(site.root().join(name)).unwrap();
        file.set_modified(later).unwrap();
    };
    set("only.js");
    assert_eq!(ask(&mut wire, "/only.js", &[GZIP]).text(), "only gzip");
    set("only.js.gz");
    assert_eq!(ask(&mut wire, "/only.js", &[GZIP]).text(), "0123456789");
    fs::remove_file(site.root().join("only.js.gz")).unwrap();
    assert_eq!(ask(&mut wire, "/only.js", &[GZIP]).text(), "only gzip");
    fs::remove_file(site.root().join("only.js")).unwrap();
    site.file("only.js.gz", "alone");
    assert_eq!(ask(&mut wire, "/only.js", &[GZIP]).status, 404);
}

#[test]
fn what_is_closed_is_not_opened_by_its_compressed_file() {
    let files = [
        (".htaccess", "<Files closed.txt>\nRequire all denied\n</Files>\n"),
        ("closed.txt", "closed"),
        ("closed.txt.gz", "closed"),
        ("page.php", "<?php // source"),
        ("page.php.gz", "compressed source"),
        ("secret.txt", "open"),
        ("secret.txt.gz", "refused"),
    ];
    let config = "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\n[log]\n\
        access = \"access.log\"\n[[site]]\n\
        root = \"public\"\nphp = false\nprecompressed = [\"gzip\"]\n\
        refuse = [\"secret.txt.*\"]\n";
    let site = Site::configured(&files, config);
    let mut wire = site.connect();
    assert_eq!(ask(&mut wire, "/closed.txt", &[GZIP]).status, 403);
    assert_eq!(ask(&mut wire, "/page.php", &[GZIP]).status, 403);
    assert_eq!(ask(&mut wire, "/secret.txt", &[GZIP]).text(), "open");
}

#[test]
fn files_are_compressed_by_the_client_s_preference() {
    let text = "a line of text\n".repeat(100);
    let large: String = (0..170_000).map(|number| format!("{number}\n")).collect();
    for rules in ["", "\nrules = \"Header set X-Rule yes\""] {
        let options = format!("compress = [\"zstd\", \"br\", \"gzip\"]{rules}");
        let site = Site::with(
            &[("a.txt", &text), ("large.txt", &large), ("short.txt", "short"), ("a.png", &text)],
            &Options { site: &options, ..Options::default() },
        );
        let mut wire = site.connect();
        for round in 0..3 {
            for (accept, coding) in [
                ("gzip, deflate, br, zstd", "zstd"),
                ("gzip, br", "br"),
                ("gzip;q=1, br;q=0.5", "gzip"),
                ("gzip;q=0.5, br;q=0.8, zstd;q=0.7", "br"),
                ("br;q=0.8, zstd;q=0.9", "zstd"),
                ("*", "zstd"),
                ("*, zstd;q=0", "br"),
                ("zstd, identity;q=0", "zstd"),
                ("GZIP", "gzip"),
            ] {
                let accept = ("Accept-Encoding", accept);
                let reply = ask(&mut wire, "/a.txt", &[accept]);
                assert_eq!(reply.field("content-encoding"), Some(coding), "round {round}");
                assert_eq!((unpacked(&reply), reply.framing), (text.clone(), Framing::Length));
                assert_eq!(reply.field("vary"), Some("Accept-Encoding"));
                assert_eq!(reply.field("x-rule"), (!rules.is_empty()).then_some("yes"));
                let tag = reply.field("etag").unwrap().to_owned();
                assert!(tag.starts_with("W/") && tag.ends_with(&format!("-{coding}\"")), "{tag}");
                let known = ask(&mut wire, "/a.txt", &[accept, ("If-None-Match", &tag)]);
                assert_eq!((known.status, known.field("etag")), (304, Some(tag.as_str())));
                let head = wire.ask("HEAD", "/a.txt", &[accept], b"");
                assert_eq!((head.status, head.field("content-encoding")), (200, Some(coding)));
                assert_eq!(head.field("etag"), Some(tag.as_str()));
            }
            for accept in ["", "identity", "zstd;q=0", "deflate", "zstd;q=0.5, identity"] {
                let plain = ask(&mut wire, "/a.txt", &[("Accept-Encoding", accept)]);
                assert_eq!(
                    (plain.text(), plain.field("vary"), plain.field("content-encoding")),
                    (text.as_str(), Some("Accept-Encoding"), None)
                );
            }
            for accept in [GZIP, ALL] {
                let part = ask(&mut wire, "/a.txt", &[accept, ("Range", "bytes=2-5")]);
                assert_eq!((part.status, part.text()), (206, "line"));
            }
        }
        for accept in [GZIP, ("Accept-Encoding", "br"), ("Accept-Encoding", "zstd")] {
            let reply = ask(&mut wire, "/large.txt", &[accept]);
            assert_eq!(reply.field("content-encoding"), Some(accept.1));
            assert!(unpacked(&reply) == large && reply.framing == Framing::Chunked);
        }
        let mut old = site.connect();
        old.send("GET /large.txt HTTP/1.0\r\nHost: x\r\nAccept-Encoding: zstd\r\n\r\n");
        assert!(unpacked(&old.reply("GET")) == large);
        assert_eq!(ask(&mut wire, "/short.txt", &[GZIP]).field("content-encoding"), None);
        assert_eq!(ask(&mut wire, "/a.png", &[GZIP]).field("content-encoding"), None);
    }
}

#[test]
fn the_output_of_scripts_is_compressed_only_on_request_and_arrives_as_it_is_made() {
    if !has_php() {
        return;
    }
    let page = "<?php echo str_repeat('a line of text ', 100);";
    let long = "<?php for ($i = 0; $i < 40000; $i++) echo $i, \"\\n\";";
    let fixed = "<?php header('Cache-Control: no-transform'); echo str_repeat('text ', 100);";
    let events = "<?php header('Content-Type: text/event-stream'); echo str_repeat('text ', 100);";
    let files = [
        ("page.php", page),
        ("long.php", long),
        ("short.php", "<?php echo 'short';"),
        ("fixed.php", fixed),
        ("events.php", events),
    ];
    let off = Site::with(
        &files,
        &Options {
            site: "compress = [\"zstd\", \"gzip\"]",
            ..Options::default()
        },
    );
    assert_eq!(ask(&mut off.connect(), "/page.php", &[ALL]).field("content-encoding"), None);
    let site = Site::with(&files, &COMPRESSED);
    let numbers: String = (0..40_000).map(|number| format!("{number}\n")).collect();
    let mut wire = site.connect();
    for coding in ["gzip", "br", "zstd"] {
        let accept = ("Accept-Encoding", coding);
        let reply = ask(&mut wire, "/page.php", &[accept]);
        assert_eq!(reply.field("content-encoding"), Some(coding));
        assert_eq!(unpacked(&reply), "a line of text ".repeat(100));
        assert_eq!(reply.field("vary"), Some("Accept-Encoding"));
        assert!(unpacked(&ask(&mut wire, "/long.php", &[accept])) == numbers, "{coding}");
        assert_eq!(wire.ask("HEAD", "/page.php", &[accept], b"").status, 200);
        for name in ["/short.php", "/fixed.php", "/events.php"] {
            assert_eq!(ask(&mut wire, name, &[accept]).field("content-encoding"), None, "{name}");
        }
    }
    assert_eq!(ask(&mut wire, "/page.php", &[]).field("vary"), Some("Accept-Encoding"));
}

/// RFC 9110 §9.3.2: a cache may use the fields of HEAD for what it keeps of GET.
#[test]
fn head_of_a_compressed_script_has_the_fields_of_get() {
    if !has_php() {
        return;
    }
    let script = "<?php header('ETag: \"abc\"'); \
        header('Content-Type: ' . ($_GET['t'] ?? 'text/html')); \
        if (isset($_GET['l'])) header('Content-Length: ' . $_GET['l']); \
        echo str_repeat('x', (int) ($_GET['l'] ?? 3000));";
    let files =
        [("page.php", script), ("off/.htaccess", "SetEnv no-gzip 1"), ("off/page.php", script)];
    let site = Site::with(&files, &COMPRESSED);
    let mut wire = site.connect();
    let names = ["vary", "etag", "content-encoding", "content-type", "accept-ranges"];
    let fields = |reply: &Reply| names.map(|name| reply.field(name).map(str::to_owned));
    for target in
        ["/page.php", "/page.php?l=3000", "/page.php?l=3", "/page.php?t=image/png", "/off/page.php"]
    {
        for coding in ["gzip", "br;q=1, gzip;q=0.5", "zstd", "identity"] {
            let accept = ("Accept-Encoding", coding);
            let get = ask(&mut wire, target, &[accept]);
            let head = wire.ask("HEAD", target, &[accept], b"");
            assert_eq!(fields(&head), fields(&get), "{target} {coding}");
            if let Some(tag) = get.field("etag").filter(|tag| tag.starts_with("W/")) {
                let known = [accept, ("If-None-Match", tag)];
                let [get, head] =
                    ["GET", "HEAD"].map(|method| wire.ask(method, target, &known, b""));
                assert_eq!((get.status, head.status), (304, 304), "{target} {coding}");
                assert_eq!(fields(&head), fields(&get), "{target} {coding}");
            }
        }
    }
    let head = wire.ask("HEAD", "/page.php", &[("Accept-Encoding", "gzip")], b"");
    assert_eq!(head.field("vary"), Some("Accept-Encoding"));
    assert_eq!(head.field("etag"), Some("W/\"abc-gzip\""));
    assert_eq!(head.field("content-length"), None);
}

/// Files and scripts are compressed in each coding.
const COMPRESSED: Options<'_> = Options {
    top: "",
    limits: "",
    log: "",
    site: "compress = [\"br\", \"zstd\", \"gzip\"]\ncompress_scripts = true",
    php: "",
};

#[test]
fn compressed_text_that_a_script_flushes_can_be_read_at_once() {
    if !has_php() {
        return;
    }
    let steps = format!(
        "<?php {AWAIT} while (ob_get_level()) ob_end_flush(); echo str_repeat('first ', 100); \
         flush(); await($_GET['step']); echo 'second';"
    );
    let site = Site::with(&[("steps.php", &steps)], &COMPRESSED);
    let mut wire = site.connect();
    for coding in ["gzip", "br", "zstd"] {
        let target = format!("{}&step={coding}", site.awaiting("/steps.php"));
        wire.request("GET", &target, &[("Accept-Encoding", coding)], b"");
        let (status, _, fields) = wire.head();
        assert_eq!(status, 200, "{fields:?}");
        let mut packed = wire.chunk().unwrap();
        // The stream has not ended, and all that the script has flushed can be read.
        while readable(coding, &packed).0.len() < 600 {
            packed.extend(wire.chunk().unwrap());
        }
        assert_eq!(readable(coding, &packed), ("first ".repeat(100), false), "{coding}");
        site.allow(coding);
        while let Some(chunk) = wire.chunk() {
            packed.extend(chunk);
        }
        assert_eq!(readable(coding, &packed), ("first ".repeat(100) + "second", true), "{coding}");
    }
}

#[test]
fn compressed_output_of_a_script_that_dies_is_not_taken_for_whole() {
    if !has_php() {
        return;
    }
    let code = format!(
        "<?php {AWAIT} while (ob_get_level()) ob_end_flush(); echo str_repeat('first ', 100); \
         flush(); await($_GET['step']); posix_kill(getmypid(), 9);"
    );
    let site = Site::with(&[("dies.php", &code)], &COMPRESSED);
    for coding in ["gzip", "br", "zstd"] {
        let mut wire = site.connect();
        let target = format!("{}&step={coding}", site.awaiting("/dies.php"));
        wire.request("GET", &target, &[("Accept-Encoding", coding)], b"");
        let (status, _, fields) = wire.head();
        assert_eq!(status, 200, "{fields:?}");
        let mut packed = wire.chunk().unwrap();
        while readable(coding, &packed).0.len() < 600 {
            packed.extend(wire.chunk().unwrap());
        }
        site.allow(coding);
        let rest = wire.rest();
        assert!(!rest.ends_with(b"0\r\n\r\n"), "{coding}: {rest:?}");
    }
}

#[test]
fn a_site_s_directives_can_forbid_compression() {
    let text = "a line of text\n".repeat(100);
    let page = "<?php echo str_repeat('a line of text ', 100);";
    let rules = "SetEnvIf Request_URI /plain no-gzip\nHeader set X-Rule yes\n";
    let files = [
        (".htaccess", rules),
        ("a.txt", &text),
        ("plain.txt", &text),
        ("a.php", page),
        ("plain.php", page),
    ];
    let site = Site::with(&files, &COMPRESSED);
    let mut wire = site.connect();
    for _ in 0..3 {
        let plain = ask(&mut wire, "/plain.txt", &[ALL]);
        assert_eq!((plain.text(), plain.field("x-rule")), (text.as_str(), Some("yes")));
        assert_eq!((plain.field("content-encoding"), plain.field("vary")), (None, None));
        let date = plain.field("last-modified").unwrap();
        let known = ask(&mut wire, "/plain.txt", &[ALL, ("If-Modified-Since", date)]);
        assert_eq!((known.status, known.field("vary")), (304, None));
        assert_eq!(unpacked(&ask(&mut wire, "/a.txt", &[ALL])), text);
        if has_php() {
            let plain = ask(&mut wire, "/plain.php", &[ALL]);
            assert_eq!((plain.field("content-encoding"), plain.field("vary")), (None, None));
            assert_eq!(unpacked(&ask(&mut wire, "/a.php", &[ALL])), "a line of text ".repeat(100));
        }
    }
}

#[test]
fn a_script_can_forbid_compression_of_its_own_output() {
    if !has_php() {
        return;
    }
    let page = |set: &str| {
        format!("<?php {set} header('Content-Type: text/plain'); echo str_repeat('a line ', 100);")
    };
    let (gzip, brotli) =
        (page("apache_setenv('NO-gzip', 1);"), page("apache_setenv('no-brotli', '');"));
    let late = page("apache_setenv('other', \"a\\nb\");");
    let late = format!("{late} flush(); apache_setenv('no-gzip', 1);");
    let filter = "SetOutputFilter DEFLATE\nHeader append Vary User-Agent env=!dont-vary\n\
                  Header set X-Known %{known}e env=known\n";
    let files = [
        ("gzip.php", &*gzip),
        ("brotli.php", &brotli),
        ("late.php", &late),
        ("ruled/.htaccess", filter),
        ("ruled/gzip.php", &gzip),
        ("ruled/vary.php", &page("apache_setenv('dont-vary', 1); apache_setenv('Known', 'it');")),
        ("ruled/plain.php", &page("")),
    ];
    let site = Site::with(&files, &COMPRESSED);
    let mut wire = site.connect();
    // The name is Apache's in any case, and a request does not inherit what another has set.
    for _ in 0..2 {
        for (target, coding, vary, known) in [
            ("/gzip.php", None, None, None),
            ("/brotli.php", Some("zstd"), Some("Accept-Encoding"), None),
            // A response that has begun cannot be changed any more.
            ("/late.php", Some("br"), Some("Accept-Encoding"), None),
            ("/ruled/gzip.php", None, Some("User-Agent"), None),
            ("/ruled/vary.php", Some("gzip"), Some("Accept-Encoding"), Some("it")),
            ("/ruled/plain.php", Some("gzip"), Some("Accept-Encoding,User-Agent"), None),
        ] {
            let reply = ask(&mut wire, target, &[("Accept-Encoding", "br, zstd, gzip")]);
            let content = match coding {
                Some(_) => unpacked(&reply),
                None => reply.text().to_owned(),
            };
            assert_eq!(content, "a line ".repeat(100), "{target}");
            let found = (reply.field("content-encoding"), reply.field("x-known"));
            assert_eq!(found, (coding, known), "{target}");
            let listed = reply.field("vary").map(|vary| vary.replace(' ', ""));
            assert_eq!(listed.as_deref(), vary, "{target}");
        }
    }
}

#[test]
fn compressed_content_passes_every_protocol() {
    let text = "a line of text\n".repeat(100);
    let large: String = (0..170_000).map(|number| format!("{number}\n")).collect();
    let options = Options {
        site: "compress = [\"br\", \"zstd\", \"gzip\"]",
        ..Options::default()
    };
    let site = Site::with(&[("a.txt", &text), ("large.txt", &large)], &options);
    let client = Http2::connect(&site);
    for coding in ["gzip", "br", "zstd"] {
        for (target, content) in [("/a.txt", &text), ("/large.txt", &large)] {
            let reply = client.ask("GET", target, &[("accept-encoding", coding)], b"");
            assert_eq!(reply.field("content-encoding"), Some(coding));
            assert!(readable(coding, &reply.body) == (content.clone(), true), "{coding} {target}");
        }
    }
    let special = Special { site: options.site, ..Special::default() };
    let served = Served::with(&[("a.txt", &text)], &special);
    let client = served.connect();
    let reply = client.ask("GET", "/a.txt", &[("accept-encoding", "zstd")], b"");
    assert_eq!(reply.field("content-encoding"), Some("zstd"));
    assert_eq!(readable("zstd", &reply.body), (text, true));
}

#[test]
fn a_304_has_the_fields_that_the_200_would_have() {
    let text = "a line of text\n".repeat(100);
    let rules = "rules = \"\"\"\nHeader set Cache-Control no-cache\n\
        Header set Content-Location /b.txt\n\
        ExpiresActive On\nExpiresByType text/plain 'access plus 1 hour'\n\"\"\"";
    for (lines, has_rules) in [
        ("compress = [\"br\", \"gzip\"]", false),
        (&format!("compress = [\"br\", \"gzip\"]\n{rules}"), true),
        ("precompressed = [\"gzip\"]", false),
    ] {
        let site = Site::with(
            &[("a.txt", &text), ("a.txt.gz", "zipped"), ("a.png", &text)],
            &Options { site: lines, ..Options::default() },
        );
        let now = SystemTime::now();
        for name in ["a.txt", "a.txt.gz"] {
            let file = File::options().write(true).open(site.root().join(name)).unwrap();
            file.set_modified(now).unwrap();
        }
        let mut wire = site.connect();
        for accept in [&[][..], &[GZIP]] {
            let whole = ask(&mut wire, "/a.txt", accept);
            let modified = whole.field("last-modified").unwrap().to_owned();
            let since = [accept, &[("If-Modified-Since", modified.as_str())]].concat();
            let known = ask(&mut wire, "/a.txt", &since);
            assert_eq!((known.status, known.field("content-type")), (304, None), "{lines}");
            let names = ["vary", "etag", "cache-control", "content-location"];
            for name in names {
                assert_eq!(known.field(name), whole.field(name), "{name} of {lines} {accept:?}");
            }
            assert_eq!(whole.field("vary"), Some("Accept-Encoding"), "{lines}");
            assert!(known.field("date").is_some());
            assert_eq!(known.field("expires").is_some(), has_rules);
            assert_eq!(known.field("cache-control").is_some(), has_rules);
        }
        let part = ask(&mut wire, "/a.txt", &[("Range", "bytes=2-5")]);
        assert_eq!((part.status, part.field("vary")), (206, Some("Accept-Encoding")), "{lines}");
        // No coding is negotiated for pictures.
        let picture = ask(&mut wire, "/a.png", &[]);
        let modified = picture.field("last-modified").unwrap();
        let known = ask(&mut wire, "/a.png", &[("If-Modified-Since", modified)]);
        assert_eq!((known.status, known.field("vary")), (304, None), "{lines}");
    }
}
