//! The server's own name and port: what a client named, never where the server happens to listen.

use crate::site::{Options, Site};
use crate::support::{has_php, wait_until};

/// Redirects of every kind, and the variables of rules.
const RULES: &str = "RewriteEngine On
RewriteRule ^rewritten$ /target [R,L]
RewriteRule ^seen$ - [E=SEEN:%{SERVER_PORT}:%{SERVER_NAME}:%{REQUEST_SCHEME}]
Header always set X-Seen %{SEEN}e env=SEEN
Redirect /redirected /there
ErrorDocument 404 /error.txt
";

fn answer(site: &Site, head: &str) -> crate::wire::Reply {
    let mut wire = site.connect();
    wire.send(format!("{head}\r\n"));
    wire.reply("GET")
}

/// Each row was asked of Apache 2.4 as well, with the same answers where the client names a host.
#[test]
fn the_listening_port_does_not_leak() {
    let rules = format!("rules = '''{RULES}'''");
    let options = Options { site: &rules, ..Options::default() };
    let site = Site::with(&[("error.txt", "gone"), ("seen", "x"), ("folder/x.txt", "x")], &options);
    let own = site.server.address().port();
    let rows = [
        ("GET {} HTTP/1.1\r\nHost: a.example\r\n", "a.example".to_owned(), 80),
        ("GET {} HTTP/1.1\r\nHost: A.Example:1234\r\n", "a.example:1234".to_owned(), 1234),
        ("GET {} HTTP/1.1\r\nHost: a.example:80\r\n", "a.example".to_owned(), 80),
        ("GET {} HTTP/1.1\r\nHost: a.example:\r\n", "a.example".to_owned(), 80),
        ("GET {} HTTP/1.1\r\nHost: [::1]\r\n", "[::1]".to_owned(), 80),
        ("GET http://b.example:99{} HTTP/1.1\r\nHost: a:1\r\n", "b.example:99".to_owned(), 99),
        ("GET http://b.example{} HTTP/1.1\r\nHost: a:1\r\n", "b.example".to_owned(), 80),
        ("GET {} HTTP/1.0\r\nHost: a.example\r\n", "a.example".to_owned(), 80),
        // The address that the client reached is all that is known of the server's name. Apache
        // has a ServerName.
        ("GET {} HTTP/1.0\r\n", format!("127.0.0.1:{own}"), own),
    ];
    for (head, origin, port) in rows {
        for (path, target) in [("/rewritten", "/target"), ("/redirected", "/there")] {
            let reply = answer(&site, &head.replace("{}", path));
            assert_eq!(
                reply.field("location"),
                Some(format!("http://{origin}{target}").as_str()),
                "{head}: {reply:?}"
            );
        }
        let reply = answer(&site, &head.replace("{}", "/seen"));
        let name = origin.split(':').next().unwrap();
        let name = if origin.starts_with('[') { "[::1]" } else { name };
        assert_eq!(
            reply.field("x-seen"),
            Some(format!("{port}:{name}:http").as_str()),
            "{head}: {reply:?}"
        );
        // The folder's own URL is a path, which is right everywhere.
        let reply = answer(&site, &head.replace("{}", "/folder"));
        assert_eq!(reply.field("location"), Some("/folder/"), "{head}: {reply:?}");
    }
}

/// Proxies are looked for with such targets, and rules refuse these requests.
#[test]
fn rules_and_logs_see_a_target_in_absolute_form_as_it_was_sent() {
    let site = Site::new(&[
        (
            ".htaccess",
            "RewriteEngine on\nRewriteCond %{THE_REQUEST} ^[A-Z]+\\ https?:// [NC]\n\
             RewriteRule ^ - [F]\nHeader set X-Line \"expr=%{THE_REQUEST}\"\n",
        ),
        ("a.txt", "text"),
    ]);
    for (target, status) in [("/a.txt?x", 200), ("http://B.example:81/a.txt?x", 403)] {
        let reply = answer(&site, &format!("GET {target} HTTP/1.1\r\nHost: b.example:81\r\n"));
        assert_eq!(reply.status, status, "{target}");
        if status == 200 {
            assert_eq!(reply.field("x-line"), Some(format!("GET {target} HTTP/1.1").as_str()));
        }
        let line = format!("\"GET {target} HTTP/1.1\" {status} ");
        wait_until("the request is in the log", || site.access_log().contains(&line));
    }
}

#[test]
fn scripts_see_the_port_that_the_client_named() {
    if !has_php() {
        return;
    }
    let script = "<?php echo $_SERVER['SERVER_PORT'], ' ', $_SERVER['SERVER_NAME'], ' ',
        $_SERVER['HTTP_HOST'] ?? '-', ' ', $_SERVER['REQUEST_SCHEME'];";
    let site = Site::new(&[("seen.php", script)]);
    let own = site.server.address().port();
    for (head, seen) in [
        ("GET /seen.php HTTP/1.1\r\nHost: a.example\r\n", "80 a.example a.example http".to_owned()),
        (
            "GET /seen.php HTTP/1.1\r\nHost: a.example:81\r\n",
            "81 a.example a.example:81 http".into(),
        ),
        (
            "GET http://b.example/seen.php HTTP/1.1\r\nHost: b.example\r\n",
            "80 b.example b.example http".into(),
        ),
        ("GET /seen.php HTTP/1.0\r\nHost: a.example\r\n", "80 a.example a.example http".into()),
        ("GET /seen.php HTTP/1.0\r\n", format!("{own} 127.0.0.1 - http")),
    ] {
        assert_eq!(answer(&site, head).text(), seen, "{head}");
    }
}
