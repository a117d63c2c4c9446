//! The limit of open files: a server that cannot work with it is not started, and one that has none
//! left refuses nothing that is allowed and shows nothing that is protected.

use std::time::Duration;

use crate::site::{Options, Site};
use crate::support::{Folder, HOWDAH, Process, Setup, wait_until};
use crate::wire::Wire;

/// Two sites without PHP, on one thread.
fn config(threads: usize) -> String {
    format!(
        "listen = [\"127.0.0.1:0\"]\nthreads = {threads}\n[log]\naccess = \"off\"\n\
         [[site]]\nroot = \"public\"\nphp = false\n"
    )
}

/// A setup of the program, as an ordinary user with this limit of open files, soft and hard.
fn limited(folder: &Folder, limit: u32, setup: Setup) -> Setup {
    let script = format!("#!/bin/sh\nulimit -n {limit}\nexec \"$HOWDAH\" \"$@\"\n");
    let program = folder.program(&format!("limited-{limit}"), &script);
    let setup = setup.environment("HOWDAH", HOWDAH).program(&program);
    // Root may raise the limit.
    if Process::own().uid() == 0 {
        setup.user(65_534)
    } else {
        setup
    }
}

#[test]
fn a_server_with_too_few_open_files_is_not_started() {
    let folder = Folder::new();
    folder.file("public/a.txt", "content");
    let file = folder.file("howdah.toml", config(2));
    let path = file.to_str().unwrap();
    for task in ["check", "serve"] {
        let setup = Setup::with(&[task, "--config", path]);
        let (code, _, told) = limited(&folder, 64, setup).run();
        assert_ne!(code, Some(0), "{task}: {told}");
        for part in [
            "the limit of open files is 64, and the server needs at least ",
            "(threads 2, listeners 1, sites 1); raise the limit with `ulimit -n`",
        ] {
            assert!(told.contains(part), "{task}: {part} in {told}");
        }
    }
    // With the number that the message names, it serves 16 clients; one address has three quarters
    // of the connections.
    let (_, _, told) = limited(&folder, 64, Setup::with(&["check", "--config", path])).run();
    let least = told.split("at least ").nth(1).and_then(|rest| rest.split(' ').next());
    let least: u32 = least.unwrap().parse().unwrap();
    let server = limited(&folder, least, Setup::config(&file)).start();
    let mut clients: Vec<Wire> = (0..12).map(|_| Wire::connect(server.address())).collect();
    for client in &mut clients {
        assert_eq!(client.get("/a.txt").text(), "content", "{}", server.log());
    }
    for client in &mut clients {
        assert_eq!(client.get("/none").status, 404, "{}", server.log());
    }
    assert!(!server.log().contains("open files as it may"), "{}", server.log());
}

#[test]
fn a_reload_that_needs_more_open_files_than_there_may_be_keeps_the_former_configuration() {
    let folder = Folder::new();
    folder.file("public/a.txt", "content");
    let file = folder.file("howdah.toml", config(1));
    let server = limited(&folder, 160, Setup::config(&file)).start();
    folder.file("howdah.toml", config(64));
    server.signal(howdah_sys::signal::SIGHUP);
    server.wait_for_log("the limit of open files is 160, and the server needs at least ");
    let mut client = Wire::connect(server.address());
    assert_eq!(client.get("/a.txt").text(), "content", "{}", server.log());
}

#[test]
fn without_a_free_descriptor_nothing_is_forbidden_and_nothing_protected_is_shown() {
    let files = [
        ("open/a.txt", "open"),
        ("open/large.bin", &"l".repeat(100_000)),
        ("closed/.htaccess", "Require all denied\nErrorDocument 403 \"closed\"\n"),
        ("closed/a.txt", "secret"),
        (
            "rules/.htaccess",
            "RewriteEngine On\nRewriteCond /etc/passwd !-f\nRewriteRule ^ /shown [R]\n",
        ),
        ("rules/a.txt", "as it is"),
        ("known.txt", "known"),
    ];
    let options = Options {
        top: "threads = 1",
        log: "access = \"off\"",
        ..Options::default()
    };
    let site = Site::with(&files, &options);
    let front = site.server.front();
    let mut wire = site.connect();
    assert_eq!(wire.get("/known.txt").text(), "known");
    if !front.limit_open_files(3) {
        return howdah_skip::skip!("prlimit of util-linux cannot limit the front's open files");
    }
    for path in ["/open/a.txt", "/open/large.bin", "/closed/a.txt", "/rules/a.txt", "/open/none"] {
        let reply = wire.get(path);
        assert_eq!(reply.status, 503, "{path}: {}", reply.text());
        assert_eq!(reply.field("retry-after"), Some("2"), "{path}");
    }
    for _ in 0..50 {
        wire.get("/closed/a.txt");
    }
    // The server looks at a known file once a second.
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(wire.get("/known.txt").text(), "known", "{}", site.server.log());
    assert!(front.limit_open_files(1000));
    for (path, status, text) in [
        ("/open/a.txt", 200, "open"),
        ("/closed/a.txt", 403, "closed"),
        ("/rules/a.txt", 200, "as it is"),
        ("/open/none", 404, ""),
    ] {
        let reply = wire.get(path);
        assert_eq!(reply.status, status, "{path}: {}", reply.text());
        assert!(reply.text().contains(text), "{path}: {}", reply.text());
    }
    let lines = site.log_lines("the server has as many files open as it may");
    assert!((1..=10).contains(&lines.len()), "{lines:#?}");
    wait_until("the connection is as before", || wire.get("/known.txt").text() == "known");
}
