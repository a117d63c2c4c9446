//! Scripts that fail, and the effects on other scripts.

use std::time::{Duration, Instant};

use howdah_sys::signal::SIGKILL;

use crate::site::{AWAIT, HELD, Site};
use crate::support::{has_php, wait_until};
use crate::wire::Wire;

const OK: (&str, &str) = ("ok.php", "<?php echo 'ok ', getmypid();");
/// `SIGSTOP` of Linux.
const SIGSTOP: i32 = 19;
const QUIET: &str = "ini = { display_errors = \"0\", log_errors = \"1\", html_errors = \"0\" }";

/// Waits until the site of [`OK`] answers. With a short `request_timeout`, a busy machine may take
/// all of a script's time.
fn serves_again(site: &Site) {
    wait_until("the pool serves again", || site.get("/ok.php").text().starts_with("ok"));
}

/// The log must have a line with all of these.
pub(super) fn wait_for_line(site: &Site, words: &[&str]) {
    wait_until(&format!("a line of the log says {words:?}"), || {
        site.server
            .log()
            .lines()
            .any(|line| words.iter().all(|word| line.contains(word)))
    });
}

#[test]
fn errors_become_500_and_a_line_that_names_script_and_url() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[
            ("exception.php", "<?php throw new RuntimeException('out of elephants');"),
            ("fatal.php", "<?php undefined_function();"),
            ("parse.php", "<?php this is no php"),
            ("type.php", "<?php declare(strict_types=1); function f(int $a) {} f('x');"),
            (
                "memory.php",
                "<?php ini_set('memory_limit', '8M'); $s = str_repeat('x', 64 << 20); echo \
                 strlen($s);",
            ),
            (
                "recursion.php",
                "<?php ini_set('memory_limit', '16M'); function f($n) { return [f($n + 1)]; } \
                 f(0);",
            ),
            ("in_shutdown.php", "<?php register_shutdown_function(fn() => undefined_too());"),
            OK,
        ],
        QUIET,
    );
    let mut wire = site.connect();
    for (name, word) in [
        ("exception", "out of elephants"),
        ("fatal", "undefined_function"),
        ("parse", "syntax error"),
        ("type", "must be of type int"),
        ("memory", "Allowed memory size"),
        ("recursion", "Allowed memory size"),
        ("in_shutdown", "undefined_too"),
    ] {
        let reply = wire.get(&format!("/{name}.php?q=1"));
        assert_eq!((reply.status, reply.text()), (500, ""), "{name}");
        let (script, url) =
            (format!("{}/{name}.php", site.root().display()), format!("/{name}.php?q=1"));
        wait_for_line(&site, &["error", "default", word, &script, &url]);
        assert!(wire.get("/ok.php").text().starts_with("ok"), "after {name}");
    }
}

/// A value of a `.htaccess` file that PHP ends with a fatal error over.
#[test]
fn a_request_that_php_cannot_start_is_500_and_names_the_reason() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[("a/.htaccess", "php_value session.save_handler user"), ("a/ok.php", OK.1), OK],
        &format!("workers = 1\n{QUIET}"),
    );
    for _ in 0..3 {
        let reply = site.get("/a/ok.php");
        assert_eq!(reply.status, 500);
        assert!(reply.text().contains("500 Internal Server Error"), "{}", reply.text());
        wait_for_line(&site, &["Session save handler", "/a/ok.php"]);
        wait_for_line(&site, &["could not start the request", "/a/ok.php"]);
        assert!(site.get("/ok.php").text().starts_with("ok"));
    }
    assert!(!site.server.log().contains("nonsense"));
}

/// PHP goes on with another value, and the administrator learns it.
#[test]
fn a_value_of_the_configuration_that_php_refuses_is_named_in_the_log() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[("a.php", "<?php echo ini_get('session.save_handler');")],
        "workers = 1\nini = { session.save_handler = \"user\", display_errors = \"0\", log_errors \
         = \"1\" }",
    );
    assert_eq!(site.get("/a.php").text(), "files");
    wait_for_line(
        &site,
        &["error default:", "PHP Fatal error", "Session save handler \"user\" cannot be set"],
    );
    wait_for_line(
        &site,
        &[
            "error default:",
            "refuses the value \"user\"",
            "session.save_handler",
            "correct the site's",
        ],
    );
    assert!(!site.server.log().contains("nonsense"));
}

#[test]
fn a_page_that_shows_its_errors_is_the_pages_own_output() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[
            ("shown.php", "<?php echo 'before '; throw new Exception('shown to all');"),
            (
                "handled.php",
                "<?php set_exception_handler(function ($e) { http_response_code(503); echo 'sorry: \
                 ', $e->getMessage(); }); throw new Exception('x');",
            ),
            ("warning.php", "<?php echo $undefined; echo 'after';"),
        ],
        "ini = { display_errors = \"1\", html_errors = \"0\" }",
    );
    let shown = site.get("/shown.php");
    assert!(
        shown.text().starts_with("before ") && shown.text().contains("shown to all"),
        "{shown:?}"
    );
    let handled = site.get("/handled.php");
    assert_eq!((handled.status, handled.text()), (503, "sorry: x"));
    let warning = site.get("/warning.php");
    assert_eq!(warning.status, 200);
    assert!(
        warning.text().contains("Undefined variable") && warning.text().ends_with("after"),
        "{warning:?}"
    );
}

#[test]
fn a_page_that_fails_halfway_ends_where_it_failed() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[("half.php", "<?php echo str_repeat('x', 100000); flush(); undefined_function();"), OK],
        QUIET,
    );
    let mut wire = site.connect();
    let reply = wire.get("/half.php");
    assert_eq!((reply.status, reply.body.len()), (200, 100_000));
    assert!(wire.get("/ok.php").text().starts_with("ok"));
}

#[test]
fn max_execution_time_ends_a_busy_script() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[("busy.php", "<?php set_time_limit(1); while (true) $a = md5('x');"), OK],
        QUIET,
    );
    let reply = site.get("/busy.php");
    assert_eq!(reply.status, 500);
    wait_for_line(&site, &["Maximum execution time", "/busy.php"]);
    assert!(site.get("/ok.php").text().starts_with("ok"));
}

#[test]
fn request_timeout_ends_a_script_whatever_it_does() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[
            ("sleeps.php", "<?php sleep(600); echo 'never';"),
            ("busy.php", "<?php set_time_limit(0); while (true) $a = md5('x');"),
            // One that goes on when it is told to end; SIGKILL it does not survive.
            (
                "deaf.php",
                "<?php register_shutdown_function(function () { while (true) usleep(1000); }); \
                 sleep(600);",
            ),
            (
                "shut.php",
                "<?php register_shutdown_function(function () { file_put_contents($_GET['out'], \
                    'ran'); }); set_time_limit(0);
                 while (true) $a = md5('x');",
            ),
            OK,
        ],
        "workers = 1\nrequest_timeout = \"1s\"\nrequest_terminate_timeout = \"2s\"",
    );
    let out = site.scratch().join("shutdown");
    for (target, limit, least) in [
        ("/sleeps.php", "request_timeout", 1),
        // Without a limit of their own, nothing but the last one ends them.
        ("/busy.php", "request_terminate_timeout", 2),
        ("/deaf.php", "request_timeout", 1),
        (&format!("/shut.php?out={}", out.display()), "request_terminate_timeout", 2),
    ] {
        let began = Instant::now();
        let reply = site.get(target);
        assert_eq!(reply.status, 504, "{target}");
        assert!(began.elapsed() >= Duration::from_secs(least), "{target}: {:?}", began.elapsed());
        let path = target.split('?').next().unwrap();
        wait_for_line(&site, &[limit, path]);
        serves_again(&site);
    }
    wait_until("what a script has to put in order, it may", || {
        let has_run = out.exists();
        if !has_run {
            site.get(&format!("/shut.php?out={}", out.display()));
        }
        has_run
    });
}

/// Imports, backups and updates ask for more time, or show their progress.
#[test]
fn a_script_that_shows_signs_of_life_outlives_request_timeout() {
    if !has_php() {
        return;
    }
    let sleeps = "<?php usleep(4_200_000); echo 'done';";
    let site = Site::with_php(
        &[
            ("asks.php", "<?php set_time_limit(600); usleep(4_200_000); echo 'done';"),
            (
                "asks_for_all.php",
                "<?php ini_set('max_execution_time', 0); usleep(4_200_000); echo 'done';",
            ),
            (
                "prints.php",
                "<?php for ($i = 0; $i < 84; $i++) { usleep(50_000); echo ' '; flush(); } echo \
                 'done';",
            ),
            (
                "leaves.php",
                "<?php fastcgi_finish_request(); set_time_limit(600); usleep(4_200_000); \
                 touch($_GET['in'] . '/left');",
            ),
            ("buffers/.htaccess", "php_value output_buffering 4096"),
            (
                "buffers/flushes.php",
                "<?php for ($i = 0; $i < 84; $i++) { usleep(50_000); echo ' '; flush(); } echo \
                 'done';",
            ),
            (
                "buffers/prints_to_nobody.php",
                "<?php ignore_user_abort(true); while (ob_get_level()) ob_end_flush(); for ($i = \
                 0; $i < 84; $i++) { usleep(50_000); echo ' '; } touch($_GET['in'] . '/nobody');",
            ),
            (
                "buffers/prints_when_finished.php",
                "<?php fastcgi_finish_request(); while (ob_get_level()) ob_end_flush(); for ($i = \
                 0; $i < 84; $i++) { usleep(50_000); echo ' '; } touch($_GET['in'] . '/finished');",
            ),
            ("htaccess/.htaccess", "php_value max_execution_time 600"),
            ("htaccess/sleeps.php", sleeps),
            ("user_ini/.user.ini", "max_execution_time = 600"),
            ("user_ini/sleeps.php", sleeps),
            ("sleeps.php", sleeps),
        ],
        "workers = 12\nrequest_timeout = \"2s\"\nini = { output_buffering = 0, max_execution_time \
         = 600 }",
    );
    // A machine that stands still may end a script before it has asked; a script that is not
    // believed never gets to its end.
    std::thread::scope(|scope| {
        for target in [
            "/asks.php",
            "/asks_for_all.php",
            "/prints.php",
            "/buffers/flushes.php",
            "/htaccess/sleeps.php",
            "/user_ini/sleeps.php",
        ] {
            let ends = || {
                let mut wire = site.connect();
                wire.request("GET", target, &[], b"");
                wire.rest_or_reply().trim_ascii_start() == b"done"
            };
            scope.spawn(move || wait_until(&format!("{target} gets to its end"), ends));
        }
        for (script, file) in [
            ("/leaves.php", "left"),
            ("/buffers/prints_to_nobody.php", "nobody"),
            ("/buffers/prints_when_finished.php", "finished"),
        ] {
            let (target, file) = (site.awaiting(script), site.scratch().join(file));
            let site = &site;
            scope.spawn(move || {
                wait_until("what goes on without a client gets to its end", || {
                    site.connect().request("GET", &target, &[], b"");
                    std::thread::sleep(Duration::from_secs(5)); // It has a worker for that long.
                    file.exists()
                });
            });
        }
        // The value of the configuration, which also has the site's `request_timeout`.
        assert_eq!(site.get("/sleeps.php").status, 504);
    });
    wait_for_line(&site, &["request_timeout", "/sleeps.php"]);
}

#[test]
fn a_stream_that_runs_too_long_is_broken_off() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[("stream.php", "<?php while (true) { echo 'x'; flush(); usleep(50_000); }"), OK],
        "workers = 1\nrequest_terminate_timeout = \"1s\"\nini = { output_buffering = 0 }",
    );
    wait_until("it has begun in time", || {
        let mut wire = site.connect();
        wire.request("GET", "/stream.php", &[], b"");
        if wire.head().0 != 200 {
            return false;
        }
        assert!(!wire.rest().ends_with(b"0\r\n\r\n"), "it must not look whole");
        true
    });
    wait_for_line(&site, &["request_terminate_timeout", "/stream.php"]);
    serves_again(&site);
}

#[test]
fn a_worker_that_crashes_is_replaced() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[
            ("segv.php", "<?php posix_kill(getmypid(), 11); sleep(5);"),
            ("abort.php", "<?php posix_kill(getmypid(), 6); sleep(5);"),
            ("kill.php", "<?php posix_kill(getmypid(), 9); sleep(5);"),
            (
                "half.php",
                &format!(
                    "<?php {AWAIT} echo str_repeat('x', 200000); flush(); await('seen'); \
                     posix_kill(getmypid(), 11); sleep(5);"
                ),
            ),
            ("other.php", "<?php usleep(700_000); echo 'untouched';"),
            OK,
        ],
        "workers = 2",
    );
    let before: Vec<_> = site.server.workers();
    // One that runs meanwhile is not touched.
    let mut other = site.connect();
    other.request("GET", "/other.php", &[], b"");
    std::thread::sleep(Duration::from_millis(100));
    let mut wire = site.connect();
    for (target, signal) in
        [("/segv.php", "SIGSEGV"), ("/abort.php", "SIGABRT"), ("/kill.php", "SIGKILL")]
    {
        let reply = wire.get(target);
        assert_eq!(reply.status, 502, "{target}");
        wait_for_line(
            &site,
            &[
                signal,
                &format!("{}{target}", site.root().display()),
                &format!("http://localhost{target}"),
            ],
        );
    }
    assert_eq!(other.reply("GET").text(), "untouched");
    let mut half = site.connect();
    half.request("GET", &site.awaiting("/half.php"), &[], b"");
    assert_eq!(half.head().0, 200);
    site.allow("seen");
    let rest = half.rest();
    assert!(!rest.ends_with(b"0\r\n\r\n"), "{} bytes", rest.len());
    wait_for_line(&site, &["SIGSEGV", "/half.php"]);
    wait_until("both workers are there again", || site.server.workers().len() == 2);
    assert_ne!(site.server.workers(), before);
    for _ in 0..10 {
        assert!(wire.get("/ok.php").text().starts_with("ok"));
    }
}

#[test]
fn a_request_that_no_worker_had_begun_is_given_to_another() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(&[HELD, OK], "workers = 1");
    let mut first = site.hold_worker();
    // They wait behind the first.
    let mut waiting: Vec<Wire> = (0..5).map(|_| site.connect()).collect();
    waiting.iter_mut().for_each(|wire| wire.request("GET", "/ok.php", &[], b""));
    std::thread::sleep(Duration::from_millis(100));
    site.server.workers()[0].signal(SIGKILL);
    assert_eq!(first.reply("GET").status, 502);
    for wire in &mut waiting {
        assert!(wire.reply("GET").text().starts_with("ok"));
    }
}

#[test]
fn a_request_that_a_worker_was_woken_for_is_given_to_another_where_that_one_dies() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(&[OK], "workers = 2\nmode = \"static\"");
    wait_until("both workers are there", || site.server.workers().len() == 2);
    let former = site.server.workers();
    // They are woken for the request, and do not begin it.
    former.iter().for_each(|worker| worker.signal(SIGSTOP));
    let mut wire = site.connect();
    wire.request("GET", "/ok.php", &[], b"");
    wait_until("the pool has the request", || {
        let status = site.try_status(&["--json"]).unwrap_or_default();
        let status = serde_json::from_str(&status).unwrap_or(serde_json::Value::Null);
        status["sites"][0]["pool"]["requests"] == 1
    });
    former.iter().for_each(|worker| worker.signal(SIGKILL));
    let reply = wire.reply("GET");
    let by = reply.text().strip_prefix("ok ").unwrap_or_else(|| panic!("{reply:?}"));
    assert!(former.iter().all(|worker| worker.number().to_string() != by), "{by}");
}

#[test]
fn a_killed_zygote_comes_back_with_its_pool() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(&[HELD, OK], "workers = 2");
    let mut busy = site.hold_worker();
    site.server.zygote().signal(SIGKILL);
    // The front knows then.
    assert_eq!(busy.reply("GET").status, 502);
    assert!(
        site.get("/ok.php").text().starts_with("ok"),
        "who comes meanwhile waits for the new one"
    );
    wait_until("the workers are there again", || site.server.workers().len() == 2);
}

#[test]
fn a_worker_is_replaced_after_its_number_of_requests() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(&[OK], "workers = 1\nmax_requests = 5");
    let mut wire = site.connect();
    let mut pids: Vec<String> = (0..23).map(|_| wire.get("/ok.php").text().to_owned()).collect();
    pids.dedup();
    assert_eq!(pids.len(), 5, "{pids:?}");
}
