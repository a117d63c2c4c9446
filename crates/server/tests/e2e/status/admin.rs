//! The admin listener.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use howdah_sys::signal::{SIGHUP, SIGTERM};

use super::{TOP, admin_address, is_installed, judged_by, monitor, named};
use crate::site::{HELD, Site};
use crate::support::{Folder, HOWDAH, Process, Setup, has_php, wait_until};
use crate::wire::Wire;

const PLAIN: &str = "[[site]]\nname = \"blog\"\nroot = \"public\"\nphp = false\n";

fn plain() -> Site {
    Site::configured(&[("f.txt", "content")], &format!("{TOP}{PLAIN}"))
}

#[test]
fn each_page_has_its_type() {
    let site = plain();
    for (target, status, kind, part) in [
        ("/", 200, "text/html; charset=utf-8", "<title>Howdah</title>"),
        ("/status", 200, "application/json", "\"sites\":[{\"name\":\"blog\""),
        ("/metrics", 200, "text/plain; version=0.0.4; charset=utf-8", "# EOF\n"),
        ("/healthz", 200, "text/plain; charset=utf-8", "ok\n"),
        ("/readyz", 200, "text/plain; charset=utf-8", "ready\n"),
        ("/f.txt", 404, "text/plain; charset=utf-8", "404 Not Found\n"),
    ] {
        let reply = monitor(&site, target, &[]);
        assert_eq!((reply.status, reply.field("content-type")), (status, Some(kind)), "{target}");
        assert!(reply.text().contains(part), "{target}: {}", reply.text());
    }
    let status: serde_json::Value = monitor(&site, "/status", &[]).json();
    assert_eq!(named(&status, "blog")["pool"], serde_json::Value::Null);
    let accept = [("Accept", "application/openmetrics-text;version=1.0.0,*/*;q=0.1")];
    let reply = monitor(&site, "/metrics", &accept);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(reply.field("content-type"), Some(kind));
    assert!(reply.text().ends_with("\n# EOF\n"));
    // Visitors do not find any of it.
    assert_eq!(site.get("/metrics").status, 404);
}

#[test]
fn pages_of_other_sites_and_writing_methods_are_refused() {
    let site = plain();
    let address = admin_address(&site);
    let ask = |method: &str, fields: &[(&str, &str)]| {
        Wire::connect(address).ask(method, "/status", fields, b"").status
    };
    assert_eq!(ask("GET", &[("Host", "localhost:9180")]), 200);
    assert_eq!(ask("GET", &[("Host", "attacker.example")]), 403);
    // A health check of HAProxy names no host.
    for (target, expected) in [("/healthz", 200), ("/readyz", 200), ("/status", 200)] {
        let mut wire = Wire::connect(address);
        wire.send(format!("GET {target} HTTP/1.0\r\n\r\n"));
        assert_eq!(wire.reply("GET").status, expected, "{target}");
    }
    let origin = ("Origin", "http://attacker.example");
    assert_eq!(ask("GET", &[("Host", "localhost"), origin]), 403);
    assert_eq!(ask("OPTIONS", &[("Host", "localhost"), origin]), 403);
    assert_eq!(ask("POST", &[("Host", "localhost")]), 405);
    let mut wire = Wire::connect(address);
    wire.send(format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}", "x".repeat(40_000)));
    assert_eq!(wire.reply("GET").status, 431);
}

#[test]
fn the_store_of_files_shows_what_it_knows() {
    let site = plain();
    for _ in 0..3 {
        assert_eq!(site.get("/f.txt").body, b"content");
    }
    wait_until("the figures of the last second", || {
        let status: serde_json::Value = monitor(&site, "/status", &[]).json();
        let figure = |key: &str| status["file_cache"][key].as_u64().unwrap();
        figure("lookups") >= 3 && figure("entries") >= 1 && figure("memory") >= 7
    });
    let reply = monitor(&site, "/metrics", &[]);
    let metrics = reply.text();
    let value = |name: &str| -> f64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse().unwrap()
    };
    assert!(value("howdah_file_cache_loads_total ") >= 1.0, "{metrics}");
    assert!(value("howdah_file_cache_bytes ") >= 7.0, "{metrics}");
}

#[test]
fn options_tells_the_methods_with_the_status_of_get() {
    let site = plain();
    for (target, expected) in [
        ("/", 200),
        ("*", 200),
        ("/readyz", 200),
        ("/readyz?site=blog", 200),
        ("/readyz?site=none", 404),
        ("/f.txt", 404),
    ] {
        let mut wire = Wire::connect(admin_address(&site));
        wire.send(format!("OPTIONS {target} HTTP/1.0\r\n\r\n"));
        let reply = wire.reply("OPTIONS");
        let found = (reply.status, reply.field("allow"));
        assert_eq!(found, (expected, Some("GET, HEAD, OPTIONS")), "{target}");
    }
}

#[test]
fn promtool_accepts_the_metrics() {
    if !has_php() || !is_installed("promtool") {
        return;
    }
    let config = format!(
        "{TOP}[[site]]\nname = \"shop\"\nroot = \"public\"\n[site.php]\nworkers = 1\n\
         state_dir = \"state\"\n"
    );
    let files = [("a.php", "<?php echo 1;"), ("die.php", "<?php posix_kill(getmypid(), 9);")];
    let site = Site::configured(&files, &config);
    for target in ["/a.php", "/die.php", "/a.php", "/none"] {
        site.get(target);
    }
    let metrics = monitor(&site, "/metrics", &[]);
    let (is_good, said) = judged_by("promtool", &["check", "metrics"], &metrics.body);
    assert!(is_good && said.trim().is_empty(), "{said}\n{}", metrics.text());
}

#[test]
fn a_socket_in_the_file_system_can_be_the_admin_listener() {
    let config =
        format!("{TOP}{PLAIN}").replace("127.0.0.1:0\"\n[log]", "unix:admin.sock\"\n[log]");
    let site = Site::configured(&[], &config);
    let socket = site.path().join("admin.sock");
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "pools could read the URLs of visitors");
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: anything\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nok\n"),
        "{answer}"
    );
}

#[test]
fn the_admin_listener_stays_at_its_address_across_a_reload() {
    let site = plain();
    let address = admin_address(&site);
    site.server.signal(SIGHUP);
    wait_until("the new generation answers monitors", || {
        monitor(&site, "/status", &[]).json()["generation"] == 2
    });
    assert_eq!(admin_address(&site), address);
}

#[test]
fn a_server_that_stops_is_not_ready() {
    if !has_php() {
        return;
    }
    let config = format!(
        "{TOP}[[site]]\nname = \"shop\"\nroot = \"public\"\n[site.php]\nworkers = 1\n\
         state_dir = \"state\"\n"
    );
    let mut site = Site::configured(&[HELD], &config);
    let mut holding = site.hold_worker();
    site.server.signal(SIGTERM);
    wait_until("monitors are told", || monitor(&site, "/readyz", &[]).status == 503);
    assert_eq!(monitor(&site, "/healthz", &[]).status, 200);
    assert_eq!(monitor(&site, "/status", &[]).json()["state"], "draining");
    site.allow("end");
    assert_eq!(holding.reply("GET").status, 200);
    assert!(site.server.wait().success());
}

/// A `program` of `[site.php]` that runs these lines of a shell and becomes PHP.
fn php_after(folder: &Folder, lines: &str) -> PathBuf {
    let php = Path::new(HOWDAH).with_file_name("howdah-php");
    folder.program("howdah-php", format!("#!/bin/sh\n{lines}\nexec {} \"$@\"\n", php.display()))
}

#[test]
fn a_pool_without_workers_is_not_ready_and_leaves_the_others_in_service() {
    if !has_php() {
        return;
    }
    // PHP that does not start while a file is there.
    let folder = Folder::new();
    let hold = folder.path().join("hold");
    let program =
        php_after(&folder, &format!("while [ -e {} ]; do sleep 0.05; done", hold.display()));
    let config = format!(
        "{TOP}[[site]]\nname = \"shop\"\nroot = \"public\"\n[site.php]\nworkers = 1\n\
         standby = false\nsandbox = \"off\"\nstate_dir = \"state\"\nprogram = \"{}\"\n",
        program.display()
    );
    for others in [
        "",
        "[[site]]\nname = \"blog\"\nhosts = [\"blog.example\"]\n\
                        root = \"public\"\nphp = false\n",
    ] {
        let site = Site::configured(&[("a.php", "<?php echo 1;")], &format!("{config}{others}"));
        look_without_worker(&site, &hold, !others.is_empty());
    }
}

/// `hold` keeps PHP from starting while it is there.
fn look_without_worker(site: &Site, hold: &Path, has_others: bool) {
    let ready = |query: &str| {
        let answer = monitor(site, &format!("/readyz{query}"), &[]);
        (answer.status, answer.text().to_owned())
    };
    let serves = (200, "ready\n".to_owned());
    assert_eq!((ready(""), ready("?site=shop")), (serves.clone(), serves.clone()));
    std::fs::write(hold, "").unwrap();
    let children = site.server.supervisor().children();
    // The script above has replaced itself by PHP, whose name has a path.
    let is_zygote = |child: &Process| child.arguments().contains("howdah-php zygote");
    children.into_iter().find(is_zygote).unwrap().signal(9);
    let why = "site shop is not ready: it has no worker\n";
    wait_until("the pool is not ready", || ready("?site=shop") == (503, why.to_owned()));
    let expected = match has_others {
        true => (200, format!("ready\n{why}")),
        false => (503, why.to_owned()),
    };
    assert_eq!(ready(""), expected);
    if has_others {
        assert_eq!(ready("?x=1&site=blog"), serves);
    }
    assert_eq!(ready("?site=none"), (404, "there is no site none\n".to_owned()));
    assert_eq!(monitor(site, "/healthz", &[]).status, 200);
    std::fs::remove_file(hold).unwrap();
    wait_until("the pool is ready again", || ready("?site=shop").0 == 200);
    assert_eq!(ready(""), serves);
    let status = monitor(site, "/status", &[]).json();
    assert_eq!(named(&status, "shop")["pool"]["zygotes_lost"], 1, "{status:#}");
}

#[test]
fn an_admin_listener_for_other_machines_is_warned_of() {
    let folder = Folder::new();
    folder.folder("public");
    let config =
        format!("{TOP}{PLAIN}").replace("admin = \"127.0.0.1:0\"", "admin = \"0.0.0.0:9180\"");
    let file = folder.file("howdah.toml", &config);
    let (code, _, told) = Setup::with(&["check", "--config", file.to_str().unwrap()]).run();
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("warning: `admin` listens on 0.0.0.0:9180"), "{told}");
}

/// PHP reports nothing where opcache lacks memory: it prints a line, and ends.
#[test]
fn the_reason_why_php_does_not_start_is_told_everywhere() {
    if !has_php() {
        return;
    }
    let folder = Folder::new();
    let hold = folder.path().join("hold");
    let fails = format!(
        "if [ -e {} ]; then echo 'Fatal Error Insufficient shared memory!' >&2; exit 254; fi",
        hold.display()
    );
    let program = php_after(&folder, &fails);
    let config = format!(
        "{TOP}{PLAIN}hosts = [\"blog.example\"]\n[[site]]\nname = \"good\"\nroot = \"public\"\n\
         [site.php]\nworkers = 1\nstate_dir = \"good\"\n[[site]]\nname = \"shop\"\n\
         hosts = [\"shop.example\"]\nroot = \"public\"\n[site.php]\nworkers = 1\n\
         standby = false\nsandbox = \"off\"\nstate_dir = \"state\"\nprogram = \"{}\"\n",
        program.display()
    );
    std::fs::write(&hold, "").unwrap();
    let site = Site::configured(&[("a.php", "<?php echo 1;")], &config);
    let why = |text: &str| {
        text.contains("ended with status 254 while PHP started; its last message: ")
            && text.contains("Fatal Error Insufficient shared memory!")
    };
    let ready = || monitor(&site, "/readyz?site=shop", &[]).text().to_owned();
    wait_until("/readyz tells it", || {
        let told = ready();
        told.starts_with("site shop is not ready: the zygote ") && why(&told)
    });
    let status = || crate::support::status(&site.path().join("howdah.toml"));
    wait_until("the status tells it", || {
        let told = status();
        told.lines()
            .any(|line| line.starts_with("site shop: has no PHP: ") && why(line))
    });
    wait_until("an error tells it", || {
        site.server
            .log()
            .lines()
            .any(|line| line.contains(" error shop: ") && why(line))
    });
    std::fs::remove_file(hold).unwrap();
    wait_until("the pool is ready", || ready() == "ready\n");
    assert!(!status().contains("has no PHP"), "{}", status());
}

#[test]
fn clients_that_ask_and_read_nothing_keep_no_monitor_waiting() {
    let sites: String = (0..200)
        .map(|number| {
            format!(
                "[[site]]\nname = \"s{number}\"\nhosts = [\"s{number}.example\"]\n\
                 root = \"public\"\nphp = false\n"
            )
        })
        .collect();
    // The buffers of such a socket are smaller than the answer, and do not grow.
    let top = TOP.replace("127.0.0.1:0\"\n[log]", "unix:admin.sock\"\n[log]");
    let site = Site::configured(&[("f.txt", "content")], &format!("{top}{sites}"));
    let asking = |target: &str| {
        let mut stream = UnixStream::connect(site.path().join("admin.sock")).unwrap();
        write!(stream, "GET {target} HTTP/1.0\r\n\r\n").unwrap();
        stream
    };
    let _deaf: Vec<UnixStream> = (0..200).map(|_| asking("/metrics")).collect();
    for (target, least) in [("/readyz", 20), ("/healthz", 20), ("/metrics", 250_000)] {
        let since = Instant::now();
        let mut answer = String::new();
        asking(target).read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.0 200 ") || answer.starts_with("HTTP/1.1 200 "));
        assert!(answer.len() > least, "{target}: {}", answer.len());
        let took = since.elapsed();
        assert!(took < Duration::from_secs(7), "{target} took {took:?}");
    }
}
