//! php-fpm's status page and ping.

mod beside;

use std::collections::BTreeSet;

use serde_json::Value;

use super::{is_installed, judged_by};
use crate::site::{HELD, Options, Site};
use crate::support::has_php;

const PHP: &str = "workers = 2\nstatus_path = \"/fpm-status\"\nping_path = \"/fpm-ping\"\n";

/// The words of php-fpm 8.2 in its JSON, of the pool and of a process.
const POOL_WORDS: &[&str] = &[
    "pool",
    "process manager",
    "start time",
    "start since",
    "accepted conn",
    "listen queue",
    "max listen queue",
    "listen queue len",
    "idle processes",
    "active processes",
    "total processes",
    "max active processes",
    "max children reached",
    "slow requests",
];
const PROCESS_WORDS: &[&str] = &[
    "pid",
    "state",
    "start time",
    "start since",
    "requests",
    "request duration",
    "request method",
    "request uri",
    "content length",
    "user",
    "script",
    "last request cpu",
    "last request memory",
];

fn words(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn the_status_page_has_php_fpms_words() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(&[HELD, ("a.php", "<?php echo 1;")], PHP);
    assert_eq!(site.get("/a.php?x=%3Cb%3E").status, 200);
    let mut holding = site.hold_worker();
    let page = site.get("/fpm-status?json&full").json();
    let mut expected: BTreeSet<&str> = POOL_WORDS.iter().copied().collect();
    expected.insert("processes");
    assert_eq!(words(&page), expected, "{page:#}");
    let processes = page["processes"].as_array().unwrap();
    for process in processes {
        assert_eq!(words(process), PROCESS_WORDS.iter().copied().collect(), "{page:#}");
    }
    assert_eq!((&page["accepted conn"], &page["active processes"]), (&2.into(), &1.into()));
    assert_eq!((processes.len(), &page["total processes"]), (2, &2.into()));
    let running = processes.iter().find(|process| process["state"] == "Running").unwrap();
    let url = running["request uri"].as_str().unwrap();
    assert!(url.starts_with("/held.php?in="), "{page:#}");

    let text = site.get("/fpm-status");
    assert_eq!(text.field("content-type"), Some("text/plain;charset=UTF-8"));
    for word in POOL_WORDS {
        assert!(text.text().contains(&format!("\n{word}:")) || *word == "pool", "{}", text.text());
    }
    assert!(text.text().starts_with("pool:                 default\n"), "{}", text.text());
    let xml = site.get("/fpm-status?xml&full");
    assert!(xml.text().contains("<listen-queue>0</listen-queue>"), "{}", xml.text());
    let html = site.get("/fpm-status?html");
    assert!(html.text().contains("<tr><th>pool</th><td>default</td></tr>"), "{}", html.text());
    let metrics = site.get("/fpm-status?openmetrics");
    assert!(metrics.text().contains("\nphpfpm_active_processes 1\n"), "{}", metrics.text());
    site.allow("end");
    assert_eq!(holding.reply("GET").status, 200);
}

#[test]
fn the_metrics_of_the_status_page_are_metrics() {
    if !has_php() || !is_installed("promtool") {
        return;
    }
    let site = Site::with_php(&[], PHP);
    let metrics = site.get("/fpm-status?openmetrics");
    // php-fpm's names break rules of style, which promtool says with status 3.
    let (_, said) = judged_by("promtool", &["check", "metrics"], &metrics.body);
    assert!(!said.contains("error while linting"), "{said}");
}

#[test]
fn ping_answers_without_php() {
    if !has_php() {
        return;
    }
    let php = format!("{PHP}ping_response = \"here I am\"\n").replace("workers = 2", "workers = 1");
    let site = Site::with_php(&[HELD], &php);
    let mut holding = site.hold_worker();
    let reply = site.get("/fpm-ping");
    assert_eq!((reply.status, reply.text()), (200, "here I am"));
    assert_eq!(reply.field("content-type"), Some("text/plain;charset=UTF-8"));
    site.allow("end");
    holding.reply("GET");
}

#[test]
fn the_page_is_for_addresses_that_are_allowed_and_directives_can_close_it() {
    if !has_php() {
        return;
    }
    let trusted = "trusted_proxies = [\"127.0.0.1\"]\n";
    let options = Options {
        top: trusted,
        php: PHP,
        ..Options::default()
    };
    let site = Site::with(&[("index.php", "<?php echo 1;")], &options);
    let from = |site: &Site, client: &str, target: &str| {
        site.ask("GET", target, &[("X-Forwarded-For", client)], b"").status
    };
    assert_eq!(from(&site, "127.0.0.1", "/fpm-status"), 200);
    assert_eq!(from(&site, "192.0.2.1", "/fpm-status"), 403);
    assert_eq!(from(&site, "192.0.2.1", "/fpm-ping"), 403);
    let php = format!("{PHP}status_allow = [\"192.0.2.0/24\"]\n");
    let site = Site::with(
        &[],
        &Options {
            top: trusted,
            php: &php,
            ..Options::default()
        },
    );
    assert_eq!(from(&site, "192.0.2.1", "/fpm-status"), 200);
    // A front controller does not hide the page; a refusal does.
    site.file(".htaccess", "RewriteEngine on\nRewriteRule !^index /index.php");
    site.file("index.php", "<?php echo 1;");
    assert_eq!(from(&site, "192.0.2.1", "/fpm-status"), 200);
    site.file(".htaccess", "<Files fpm-status>\nRequire ip 10.0.0.1\n</Files>");
    assert_eq!(from(&site, "192.0.2.1", "/fpm-status"), 403);
    assert_eq!(from(&site, "192.0.2.1", "/fpm-ping"), 200);
}
