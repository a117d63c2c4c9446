//! Parts of the output of scripts.

use crate::site::{AWAIT, Options, Site};
use crate::support::{has_php, wait_until};
use crate::wire::{Framing, Reply, Wire};

fn ask(wire: &mut Wire, target: &str, range: &str) -> Reply {
    wire.ask("GET", target, &[("Range", range)], b"")
}

#[test]
fn a_part_of_a_script_s_output_can_be_asked_for() {
    if !has_php() {
        return;
    }
    let site = Site::new(&[("text.php", "<?php echo '0123456789';")]);
    let mut wire = site.connect();
    for (range, status, content_range, body) in [
        ("bytes=1-2", 206, Some("bytes 1-2/10"), "12"),
        ("bytes=-3", 206, Some("bytes 7-9/10"), "789"),
        ("bytes=7-", 206, Some("bytes 7-9/10"), "789"),
        ("bytes=0-", 206, Some("bytes 0-9/10"), "0123456789"),
        ("bytes=4-100", 206, Some("bytes 4-9/10"), "456789"),
        ("bytes=3-2", 200, None, "0123456789"),
        ("lines=1-2", 200, None, "0123456789"),
    ] {
        let reply = ask(&mut wire, "/text.php", range);
        assert_eq!((reply.status, reply.text()), (status, body), "{range}");
        assert_eq!(reply.field("content-range"), content_range, "{range}");
        assert_eq!(reply.framing, Framing::Length, "{range}");
    }
    let reply = ask(&mut wire, "/text.php", "bytes=10-");
    assert_eq!((reply.status, reply.field("content-range")), (416, Some("bytes */10")));
    let head = wire.ask("HEAD", "/text.php", &[("Range", "bytes=1-2")], b"");
    assert_eq!((head.status, head.field("content-range")), (200, None));
    assert_eq!(wire.ask("POST", "/text.php", &[("Range", "bytes=1-2")], b"x").status, 200);
}

#[test]
fn directives_choose_the_part_of_a_script_s_output() {
    if !has_php() {
        return;
    }
    let script = "<?php echo '0123456789';";
    let site = Site::new(&[
        ("set/.htaccess", "RequestHeader set Range bytes=0-4\n"),
        ("set/text.php", script),
        ("unset/.htaccess", "RequestHeader unset Range\n"),
        ("unset/text.php", script),
    ]);
    let mut wire = site.connect();
    for (target, range, status, body) in [
        ("/set/text.php", None, 206, "01234"),
        ("/set/text.php", Some(("Range", "bytes=2-5")), 206, "01234"),
        ("/unset/text.php", Some(("Range", "bytes=2-5")), 200, "0123456789"),
    ] {
        // Twice: the second answer may be a cached one.
        for _ in 0..2 {
            let reply = wire.ask("GET", target, range.as_slice(), b"");
            assert_eq!((reply.status, reply.text()), (status, body), "{target} {range:?}");
        }
    }
}

#[test]
fn a_part_that_is_not_there_is_answered_as_directives_say() {
    if !has_php() {
        return;
    }
    let script = "<?php header('X-Own: yes'); echo '0123456789';";
    let site = Site::new(&[
        (
            "always/.htaccess",
            "Header always set X-Always yes\nHeader set X-Set no\nRewriteEngine On\n\
             RewriteRule ^ - [CO=name:value:.example.org]\n",
        ),
        ("always/text.php", script),
        ("page/.htaccess", "ErrorDocument 416 /page/error.php\nHeader always set X-Always yes\n"),
        ("page/text.php", script),
        (
            "page/error.php",
            "<?php echo $_SERVER['REDIRECT_STATUS'], ' ', $_SERVER['REDIRECT_URL'];",
        ),
    ]);
    let mut wire = site.connect();
    // Twice: the second answer may be a cached one.
    for _ in 0..2 {
        let reply = ask(&mut wire, "/always/text.php", "bytes=10-");
        assert_eq!((reply.status, reply.field("content-range")), (416, Some("bytes */10")));
        assert_eq!((reply.field("x-always"), reply.field("x-set")), (Some("yes"), None));
        assert_eq!(reply.field("x-own"), None, "the script's own fields");
        assert!(reply.field("set-cookie").is_some_and(|cookie| cookie.starts_with("name=value")));
        let reply = ask(&mut wire, "/page/text.php", "bytes=10-");
        assert_eq!((reply.status, reply.text()), (416, "416 /page/text.php"));
        assert_eq!(reply.all("x-always"), ["yes"]);
    }
}

#[test]
fn a_recording_that_a_script_sends_can_be_sought_in() {
    if !has_php() {
        return;
    }
    const LENGTH: usize = 40_000_000;
    // More than a ring and more than the spool holds in memory; each eight bytes tell their place.
    let code = format!(
        "<?php header('Content-Type: audio/ogg'); header('Content-Length: {LENGTH}');
         for ($i = 0; $i < {LENGTH}; $i += 80_000) {{
             $s = ''; for ($j = $i; $j < $i + 80_000; $j += 8) $s .= sprintf('%08d', $j); echo \
             $s; }}"
    );
    let site = Site::new(&[("sound.php", &code)]);
    let mut wire = site.connect();
    let late = ask(&mut wire, "/sound.php", "bytes=39999992-");
    assert_eq!((late.status, late.text()), (206, "39999992"));
    assert_eq!(late.field("content-range"), Some("bytes 39999992-39999999/40000000"));
    assert_eq!(late.field("content-type"), Some("audio/ogg"));
    let early = ask(&mut wire, "/sound.php", "bytes=8-23");
    assert_eq!((early.status, early.text()), (206, "0000000800000016"));
    // Two parts in the order in which they pass.
    let both = ask(&mut wire, "/sound.php", "bytes=20000000-20000007,800-807");
    let kind = both.field("content-type").unwrap().to_owned();
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap();
    let part = |range: &str, body: &str| {
        format!(
            "\r\n--{boundary}\r\nContent-Type: audio/ogg\r\n\
             Content-Range: bytes {range}/{LENGTH}\r\n\r\n{body}"
        )
    };
    let expected = [
        part("800-807", "00000800"),
        part("20000000-20000007", "20000000"),
        format!("\r\n--{boundary}--\r\n"),
    ];
    assert_eq!((both.status, both.text()), (206, expected.concat().as_str()));
    let all = wire.get("/sound.php");
    assert_eq!((all.status, all.body.len()), (200, LENGTH));
    let none = ask(&mut wire, "/sound.php", "bytes=40000000-");
    assert_eq!((none.status, none.field("content-range")), (416, Some("bytes */40000000")));
}

#[test]
fn the_reader_of_a_part_does_not_wait_for_the_end_of_the_script() {
    if !has_php() {
        return;
    }
    let code = format!(
        "<?php {AWAIT} header('Content-Length: 20'); while (ob_get_level()) ob_end_flush();
         echo '0123456789'; flush(); await('end');
         echo 'abcdefghij'; touch($_GET['in'] . '/ended');"
    );
    let site = Site::new(&[("slow.php", &code)]);
    let mut wire = site.connect();
    let reply = ask(&mut wire, &site.awaiting("/slow.php"), "bytes=2-4");
    assert_eq!((reply.status, reply.text()), (206, "234"));
    assert!(!site.scratch().join("ended").exists());
    // The script goes on to its end.
    site.allow("end");
    wait_until("the script has ended", || site.scratch().join("ended").exists());
}

#[test]
fn a_part_is_sent_only_where_the_script_leaves_that_to_the_server() {
    if !has_php() {
        return;
    }
    let code = format!(
        "<?php {AWAIT}
        foreach (explode('|', $_GET['h'] ?? '') as $line) if ($line !== '') header($line);
        if (isset($_GET['status'])) http_response_code((int) $_GET['status']);
        echo '0123';
        if (isset($_GET['flush'])) {{ ob_flush(); flush(); await($_GET['flush']); }}
        echo '456789';"
    );
    let site = Site::new(&[("h.php", &code)]);
    let target = |query: &str| format!("{}&{query}", site.awaiting("/h.php"));
    let mut wire = site.connect();
    for query in [
        "h=Accept-Ranges:none",
        "h=Content-Range:bytes%200-9/100&status=206",
        "status=201",
        "status=404",
    ] {
        let reply = ask(&mut wire, &target(query), "bytes=1-2");
        assert_ne!(reply.field("content-range"), Some("bytes 1-2/10"), "{query}");
        assert_eq!(reply.text(), "0123456789", "{query}");
    }
    // The length is not known when the head is sent.
    let fields = [("Range", "bytes=1-2"), ("Connection", "close")];
    let mut wire = site.connect();
    wire.request("GET", &target("flush=unknown"), &fields, b"");
    let (status, _, fields) = wire.head();
    assert_eq!(status, 200, "{fields:?}");
    site.allow("unknown");
    let rest = String::from_utf8(wire.rest()).unwrap();
    assert!(rest.contains("0123") && rest.contains("456789"), "{rest}");
    site.allow("known");
    let target = target("flush=known&h=Content-Length:10");
    let reply = ask(&mut site.connect(), &target, "bytes=3-5");
    assert_eq!((reply.status, reply.text()), (206, "345"));
}

#[test]
fn a_part_is_sent_only_of_the_version_that_the_client_has() {
    if !has_php() {
        return;
    }
    let code =
        "<?php header('ETag: \"a\"'); header('Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT');
                echo '0123456789';";
    let site = Site::new(&[("tag.php", code)]);
    let mut wire = site.connect();
    for (validator, status) in [
        ("\"a\"", 206),
        ("\"b\"", 200),
        ("W/\"a\"", 200),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 206),
        ("Sun, 06 Nov 1994 08:49:38 GMT", 200),
    ] {
        let fields = [("Range", "bytes=1-2"), ("If-Range", validator)];
        let reply = wire.ask("GET", "/tag.php", &fields, b"");
        assert_eq!(reply.status, status, "{validator}");
        assert_eq!(reply.field("etag"), Some("\"a\""));
    }
}

#[test]
fn no_part_of_compressed_output_is_sent() {
    if !has_php() {
        return;
    }
    let site = Site::with(
        &[("text.php", "<?php echo str_repeat('0123456789', 100);")],
        &Options {
            site: "compress = [\"gzip\"]\ncompress_scripts = true",
            ..Options::default()
        },
    );
    let mut wire = site.connect();
    let fields = [("Range", "bytes=1-2"), ("Accept-Encoding", "gzip")];
    let reply = wire.ask("GET", "/text.php", &fields, b"");
    assert_eq!((reply.status, reply.field("content-encoding")), (200, Some("gzip")));
    let reply = ask(&mut wire, "/text.php", "bytes=1-2");
    assert_eq!((reply.status, reply.text()), (206, "12"));
}

#[test]
fn a_script_that_ends_early_does_not_complete_a_part() {
    if !has_php() {
        return;
    }
    let code = format!(
        "<?php {AWAIT} header('Content-Length: 1000'); while (ob_get_level()) ob_end_flush();
         echo '0123456789'; flush(); await('end');"
    );
    let site = Site::new(&[("short.php", &code)]);
    let mut wire = site.connect();
    wire.request("GET", &site.awaiting("/short.php"), &[("Range", "bytes=5-20")], b"");
    let (status, _, fields) = wire.head();
    assert_eq!(status, 206, "{fields:?}");
    site.allow("end");
    assert_eq!(wire.rest(), b"56789");
    site.server.wait_for_log("Content-Length");
}
