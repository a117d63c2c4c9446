//! Bytes beyond ASCII in a URL, as they are: old browsers, feed readers and links in e-mails send
//! them. Files and scripts see what they see under Apache; no log gets such a byte.

use std::fs;

use crate::site::{Options, Site};
use crate::support::{has_php, wait_until};

/// A request line with bytes as they are.
fn request(method: &str, target: &[u8]) -> Vec<u8> {
    [method.as_bytes(), b" ", target, b" HTTP/1.1\r\nHost: localhost\r\n\r\n"].concat()
}

#[test]
fn a_file_is_found_by_the_bytes_of_its_name() {
    let site = Site::new(&[("caf\u{e9}/men\u{fc}.txt", "menu"), ("\u{1f418}", "elephant")]);
    let mut wire = site.connect();
    let rows: [(&[u8], u16, &str); 5] = [
        (b"/caf\xc3\xa9/men\xc3\xbc.txt", 200, "menu"),
        (b"/caf%C3%A9/./men\xc3%bc.txt?q=\xff", 200, "menu"),
        (b"/\xf0\x9f\x90\x98", 200, "elephant"),
        // Latin 1: another name.
        (b"/caf\xe9/men\xfc.txt", 404, ""),
        (b"/caf\xc3\xa9/../../x", 400, ""),
    ];
    for (target, status, text) in rows {
        wire.send(request("GET", target));
        let reply = wire.reply("GET");
        assert_eq!(reply.status, status, "{}", target.escape_ascii());
        if status == 200 {
            assert_eq!(reply.text(), text, "{}", target.escape_ascii());
        }
    }
    wire.send(request("GET", b"/caf\xc3\xa9?a=\xc3\xa9"));
    let location = wire.reply("GET").field("location").map(str::to_owned);
    assert_eq!(location.as_deref(), Some("/caf%c3%a9/?a=%c3%a9"));
}

#[test]
fn a_script_sees_the_bytes() {
    if !has_php() {
        return;
    }
    let show = "<?php echo bin2hex($_SERVER['REQUEST_URI']), ' ', \
        bin2hex($_SERVER['QUERY_STRING']), ' ', bin2hex($_GET['q'] ?? ''), ' ', \
        bin2hex($_SERVER['PATH_INFO'] ?? ''), ' ', bin2hex($_SERVER['RULE'] ?? '');";
    let rules = "RewriteEngine On\nRewriteCond %{THE_REQUEST} \"^GET (\\S+) \"\n\
                 RewriteRule ^ - [E=RULE:%1]\n";
    let site = Site::new(&[("show.php", show), (".htaccess", rules)]);
    let mut wire = site.connect();
    wire.send(request("GET", b"/show.php/\xc3\xa9?q=\xe9%E9"));
    let expected = "2f73686f772e7068702fc3a93f713de9254539 713de9254539 e9e9 2fc3a9 \
                    2f73686f772e7068702fc3a93f713de9254539";
    assert_eq!(wire.reply("GET").text(), expected);
}

#[test]
fn no_log_gets_a_byte_beyond_ascii() {
    if !has_php() {
        return;
    }
    let files = [
        ("index.html", "front"),
        ("loop/.htaccess", "RewriteEngine On\nRewriteRule ^(.*)$ $1 [N=2]\n"),
        ("closed/.htaccess", "Require all denied\n"),
        ("p.php", "<?php error_log('asked'); trigger_error('trouble');"),
    ];
    for format in ["combined", "json", "%h %r %U %q"] {
        let log = format!("format = \"{format}\"");
        let site = Site::with(&files, &Options { log: &log, ..Options::default() });
        let targets: [&[u8]; 6] = [
            b"/none\xc3\xa9?\xe9",
            b"/loop/\xe9\xc3\xa9",
            b"/closed/\xc3\xa9\xc2\x9b",
            b"/.git\xc3\xa9/\xff",
            b"/p.php/\xe2\x80\xae?\x80",
            b"/index.html?\xf0\x9f\x90\x98",
        ];
        let mut wire = site.connect();
        for target in targets {
            wire.send(request("GET", target));
            wire.reply("GET");
        }
        let access = || site.access_log();
        wait_until("every request is in the log", || access().lines().count() == targets.len());
        for what in ["trouble", "maximum number of rounds", "/closed/"] {
            site.server.wait_for_log(what);
        }
        let raw = fs::read(site.path().join("access.log")).unwrap();
        assert!(raw.is_ascii(), "{format}: {}", raw.escape_ascii());
        assert!(site.server.log().is_ascii(), "{}", site.server.log().escape_debug());
    }
}
