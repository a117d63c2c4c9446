//! Behind a proxy: who the client is, and that only trusted proxies may say so.

mod programs;
mod proxy_header;

use crate::site::{Options, Site};
use crate::support::{has_php, wait_until};
use crate::wire::Reply;

const TRUSTED: &str = "trusted_proxies = [\"127.0.0.1\", \"10.0.0.0/8\"]";

const SCRIPT: &str = "<?php foreach (['REMOTE_ADDR', 'HTTPS', 'REQUEST_SCHEME', 'SERVER_PORT', \
    'SERVER_NAME', 'HTTP_HOST', 'HTTP_X_FORWARDED_FOR', 'HTTP_FORWARDED'] as $name) \
    echo $name, '=', $_SERVER[$name] ?? '-', \"\\n\";";

/// Rules that show and use what they see of the client.
const RULES: &str = "RewriteEngine On
RewriteRule ^seen$ - \
[E=SEEN:%{REMOTE_ADDR}|%{HTTPS}|%{REQUEST_SCHEME}|%{SERVER_PORT}|%{HTTP_HOST}|%{CONN_REMOTE_ADDR}]
Header always set X-Seen %{SEEN}e env=SEEN
RewriteRule ^moved$ /there [R,L]
<Files inside.txt>
Require ip 192.0.2.0/24
</Files>
<Files outside.txt>
<RequireAll>
Require not ip 10.0.0.0/8
Require all granted
</RequireAll>
</Files>
";

fn site(top: &str) -> Site {
    let files = [("seen", "x"), ("inside.txt", "in"), ("outside.txt", "out"), ("a.php", SCRIPT)];
    let rules = format!("rules = '''{RULES}'''");
    let options = Options { top, site: &rules, ..Options::default() };
    Site::with(&files, &options)
}

fn seen(site: &Site, fields: &[(&str, &str)]) -> String {
    let fields = [&[("Host", "own.example")], fields].concat();
    let reply = site.ask("GET", "/seen", &fields, b"");
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.field("x-seen").unwrap().to_owned()
}

const EDGE: [(&str, &str); 4] = [
    ("X-Forwarded-For", "203.0.113.9, 192.0.2.7, 10.1.1.1"),
    ("X-Forwarded-Proto", "https"),
    ("X-Forwarded-Host", "shop.example"),
    ("X-Forwarded-Port", "8443"),
];

#[test]
fn a_trusted_proxy_names_the_client_the_scheme_the_host_and_the_port() {
    let site = site(TRUSTED);
    assert_eq!(seen(&site, &EDGE), "192.0.2.7|on|https|8443|shop.example:8443|127.0.0.1");
    assert_eq!(seen(&site, &EDGE[..2]), "192.0.2.7|on|https|443|own.example|127.0.0.1");
    assert_eq!(seen(&site, &[]), "127.0.0.1|off|http|80|own.example|127.0.0.1");
    let moved = site.ask("GET", "/moved", &EDGE[..3], b"");
    assert_eq!(moved.field("location"), Some("https://shop.example/there"));
    // Addresses decide what a client may see.
    let get = |target: &str, client: &str| -> Reply {
        site.ask("GET", target, &[("X-Forwarded-For", client)], b"")
    };
    assert_eq!(get("/inside.txt", "192.0.2.7").text(), "in");
    assert_eq!(get("/inside.txt", "198.51.100.1").status, 403);
    assert_eq!(get("/inside.txt", "192.0.2.7, 198.51.100.1").status, 403, "a forged first address");
    let lines = || {
        let log = site.access_log();
        let lines = log.lines().filter(|line| line.contains("/inside.txt"));
        lines.map(|line| line.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    wait_until("all are logged", || lines().len() == 3);
    let mut clients = lines();
    clients.sort();
    assert_eq!(clients, ["192.0.2.7", "198.51.100.1", "198.51.100.1"]);
}

#[test]
fn scripts_see_the_client_behind_the_proxy() {
    if !has_php() {
        return;
    }
    let site = site(TRUSTED);
    let fields = [&[("Host", "own.example:8080")], &EDGE[..]].concat();
    assert_eq!(
        site.ask("GET", "/a.php", &fields, b"").text(),
        "REMOTE_ADDR=192.0.2.7\nHTTPS=on\nREQUEST_SCHEME=https\nSERVER_PORT=8443\n\
         SERVER_NAME=shop.example\nHTTP_HOST=shop.example:8443\n\
         HTTP_X_FORWARDED_FOR=203.0.113.9, 192.0.2.7, 10.1.1.1\nHTTP_FORWARDED=-\n"
    );
}

#[test]
fn what_an_untrusted_client_claims_is_ignored_and_scripts_still_see_the_fields() {
    for top in ["", "trusted_proxies = [\"127.0.0.2\", \"unix\"]"] {
        let site = site(top);
        let expected = "127.0.0.1|off|http|80|own.example|127.0.0.1";
        assert_eq!(seen(&site, &EDGE), expected);
        assert_eq!(seen(&site, &[("X-Forwarded-For", "rubbish")]), expected);
        assert_eq!(site.ask("GET", "/inside.txt", &EDGE, b"").status, 403);
        if has_php() {
            let reply = site.ask("GET", "/a.php", &EDGE, b"");
            let text = reply.text();
            assert!(text.contains("REMOTE_ADDR=127.0.0.1\nHTTPS=-\n"), "{text}");
            assert!(text.contains("HTTP_X_FORWARDED_FOR=203.0.113.9, 192.0.2.7"), "{text}");
        }
    }
}

#[test]
fn requests_of_several_clients_on_one_connection_are_told_apart() {
    let site = site(TRUSTED);
    let mut wire = site.connect();
    for (fields, expected) in [
        (&EDGE[..], "192.0.2.7|on|https|8443|shop.example:8443|127.0.0.1"),
        (&[], "127.0.0.1|off|http|80|localhost|127.0.0.1"),
        (&[("X-Forwarded-For", "192.0.2.8")], "192.0.2.8|off|http|80|localhost|127.0.0.1"),
        (&[("X-Forwarded-Proto", "https")], "127.0.0.1|on|https|443|localhost|127.0.0.1"),
        (&[("X-Forwarded-Proto", "http")], "127.0.0.1|off|http|80|localhost|127.0.0.1"),
    ] {
        let reply = wire.ask("GET", "/seen", fields, b"");
        assert_eq!(reply.field("x-seen"), Some(expected));
    }
    // The scheme of a proxied request does not stay for the next connection.
    wire.ask("GET", "/seen", &EDGE, b"");
    assert_eq!(seen(&site, &[]), "127.0.0.1|off|http|80|own.example|127.0.0.1");
}

#[test]
fn only_the_chosen_fields_are_believed() {
    let forged = [
        ("Forwarded", "for=192.0.2.66;proto=https;host=evil.example"),
        ("CF-Connecting-IP", "192.0.2.67"),
        ("X-Real-IP", "192.0.2.68"),
    ];
    let mut both = EDGE[..2].to_vec();
    both.extend(forged);
    let usual = "192.0.2.7|on|https|443|own.example|127.0.0.1";
    assert_eq!(seen(&site(TRUSTED), &both), usual);
    let forwarded = site(&format!("{TRUSTED}\nforwarded_fields = [\"Forwarded\"]"));
    assert_eq!(
        seen(&forwarded, &both),
        "192.0.2.66|on|https|443|evil.example|127.0.0.1",
        "the one that was chosen"
    );
    assert_eq!(seen(&forwarded, &EDGE), "127.0.0.1|off|http|80|own.example|127.0.0.1");
    let single = site(&format!(
        "{TRUSTED}\nforwarded_fields = [\"X-Forwarded-Proto\"]\n\
         client_address_header = \"CF-Connecting-IP\""
    ));
    both.extend(EDGE);
    assert_eq!(seen(&single, &both), "192.0.2.67|on|https|443|own.example|127.0.0.1");
}

#[test]
fn rubbish_of_a_trusted_proxy_is_refused() {
    let site = site(TRUSTED);
    for field in [
        ("X-Forwarded-For", "rubbish"),
        ("X-Forwarded-For", "192.0.2.7, 999.1.1.1"),
        ("X-Forwarded-Proto", "gopher"),
        ("X-Forwarded-Host", "a/../b"),
        ("X-Forwarded-Port", "99999"),
    ] {
        // The proxy's own address may have rights that its clients do not have.
        assert_eq!(site.ask("GET", "/outside.txt", &[field], b"").status, 400, "{field:?}");
    }
    site.server.wait_for_log("400: a trusted proxy names a client");
}

#[test]
fn a_log_in_apaches_words_has_the_client_and_the_proxy() {
    let options = Options {
        top: TRUSTED,
        log: r#"format = '%v:%p %h %{c}a %l %u "%r" %>s %b "%{Referer}i" %{X-Forwarded-For}i'"#,
        ..Options::default()
    };
    let site = Site::with(&[("a.txt", "abc")], &options);
    let fields = [("Host", "a.example"), ("Referer", "x\"y"), ("X-Forwarded-For", "192.0.2.7")];
    site.ask("GET", "/a.txt?b", &fields, b"");
    let port = site.server.address().port();
    let expected = format!(
        "default:{port} 192.0.2.7 127.0.0.1 - - \"GET /a.txt?b HTTP/1.1\" 200 3 \"x\\\"y\" \
         192.0.2.7\n"
    );
    wait_until("the line is written", || !site.access_log().is_empty());
    assert_eq!(site.access_log(), expected);
}
