//! The backtraces of slow scripts in the error log.

use std::fs::OpenOptions;
use std::io::{self, Write};

use super::failures::wait_for_line;
use crate::site::Site;
use crate::support::{has_php, wait_until};

/// `block()` waits in a function of PHP's until the test writes into a pipe, `spin()` computes
/// until a file is there.
const LIBRARY: &str = "<?php namespace Shop;
function block() {
    posix_mkfifo($_GET['in'] . '/pipe', 0600);
    return file_get_contents($_GET['in'] . '/pipe');
}
class Cart {
    public static function spin() {
        while (!file_exists($_GET['in'] . '/end')) {
            $a = md5('x');
        }
    }
    public function total($how) { return $how(); }
}
";

const BLOCKS: &str = "<?php require 'library.php';
echo (new Shop\\Cart)->total('Shop\\block');
";

const SPINS: &str = "<?php require 'library.php';
array_map([new Shop\\Cart, 'total'], ['Shop\\Cart::spin']);
echo 'spun';
";

/// Writes into the pipe that a script reads.
fn unblock(site: &Site) {
    let pipe = site.scratch().join("pipe");
    wait_until("the script has made its pipe", || pipe.exists());
    OpenOptions::new().write(true).open(pipe).unwrap().write_all(b"read").unwrap();
}

fn slow_lines(site: &Site, url: &str) -> Vec<String> {
    let log = site.server.log();
    let lines = log.lines().filter(|line| line.contains("slow script: ") && line.contains(url));
    lines.map(str::to_owned).collect()
}

#[test]
fn a_slow_script_is_logged_once_with_its_backtrace_wherever_it_is() {
    if !has_php() {
        return;
    }
    let files = [
        ("library.php", LIBRARY),
        ("blocks.php", BLOCKS),
        ("spins.php", SPINS),
        ("sleeps.php", "<?php echo 'left: ', sleep(1);"),
        ("quick.php", "<?php echo 'quick';"),
    ];
    let php = "workers = 2\nslow_after = \"200ms\"\nstatus_path = \"/fpm\"";
    let site = Site::with_php(&files, php);
    let root = site.root().display().to_string();

    // In a function of PHP's.
    let blocks = site.awaiting("/blocks.php");
    let mut wire = site.connect();
    wire.request("GET", &blocks, &[], b"");
    let library = format!("{root}/library.php");
    let backtrace = format!(
        "backtrace: #0 file_get_contents() #1 Shop\\block() {library}:4 \
         #2 Shop\\Cart::total() {library}:12 #3 {{main}} {root}/blocks.php:2, \
         while running {root}/blocks.php for GET localhost/blocks.php?in="
    );
    wait_for_line(&site, &["warning default: slow script: ", " s in PHP, ", &backtrace]);
    unblock(&site);
    assert_eq!(wire.reply("GET").text(), "read");

    // In a loop of its own.
    wire.request("GET", &site.awaiting("/spins.php"), &[], b"");
    wait_for_line(
        &site,
        &[
            "slow script: ",
            &format!("Shop\\Cart::spin() {library}:"),
            &format!(" Shop\\Cart::total() {library}:12 #"),
            " array_map() #",
            &format!(" {{main}} {root}/spins.php:2, while running "),
            " KiB of memory, worker ",
        ],
    );
    site.allow("end");
    assert_eq!(wire.reply("GET").text(), "spun");

    // It does not notice.
    assert_eq!(wire.get("/sleeps.php").text(), "left: 0");
    assert_eq!(wire.get("/quick.php").text(), "quick");
    for url in ["/blocks.php", "/spins.php"] {
        assert_eq!(slow_lines(&site, url).len(), 1, "{url}");
    }
    wait_until("the slow scripts are counted", || {
        let page = wire.get("/fpm").text().to_owned();
        let count = page.lines().find_map(|line| line.strip_prefix("slow requests:"));
        // A busy machine may add the quick one.
        count.is_some_and(|count| (3..5).contains(&count.trim().parse::<u32>().unwrap()))
    });
}

#[test]
fn a_script_that_waits_after_its_end_is_logged_as_slow() {
    if !has_php() {
        return;
    }
    let shutdown = "<?php require 'library.php';
        register_shutdown_function('Shop\\block'); echo 'body';";
    let destructor = "<?php require 'library.php';
        class Last { function __destruct() { Shop\\block(); } }
        $last = new Last; echo 'body';";
    let buffer = "<?php require 'library.php';
        ob_start(function ($text) { Shop\\block(); return $text; }); echo 'body';";
    let session = "<?php require 'library.php';
        class Last extends SessionHandler {
            function close(): bool { Shop\\block(); return parent::close(); }
        }
        session_set_save_handler(new Last, false); session_start(); echo 'body';";
    let files = [
        ("library.php", LIBRARY),
        ("shutdown.php", shutdown),
        ("destructor.php", destructor),
        ("buffer.php", buffer),
        ("session.php", session),
    ];
    for script in ["/shutdown.php", "/destructor.php", "/buffer.php", "/session.php"] {
        let site = Site::with_php(&files, "workers = 1\nslow_after = \"100ms\"");
        let target = site.awaiting(script);
        let mut wire = site.connect();
        wire.request("GET", &target, &[], b"");
        let backtrace = "backtrace: #0 file_get_contents() #1 Shop\\block() ";
        wait_for_line(&site, &["slow script: ", backtrace, &format!("{script} for GET ")]);
        unblock(&site);
        assert_eq!(wire.reply("GET").text(), "body");
    }
}

#[test]
fn a_backtrace_goes_on_below_a_fiber() {
    if !has_php() {
        return;
    }
    let script = "<?php require 'library.php';
        $fiber = new Fiber(function () { echo Shop\\block(); });
        $fiber->start();";
    let files = [("library.php", LIBRARY), ("fiber.php", script)];
    let site = Site::with_php(&files, "workers = 1\nslow_after = \"100ms\"");
    let target = site.awaiting("/fiber.php");
    let mut wire = site.connect();
    wire.request("GET", &target, &[], b"");
    wait_for_line(
        &site,
        &["#2 {closure}() ", "fiber.php:2 #3 {fiber} #4 Fiber::start() #5 {main} ", "fiber.php:3,"],
    );
    unblock(&site);
    assert_eq!(wire.reply("GET").text(), "read");
}

#[test]
fn a_backtrace_has_as_many_functions_as_configured() {
    if !has_php() {
        return;
    }
    let deep =
        "<?php function f($n) { if ($n) f($n - 1); else file_get_contents($_GET['in'] . '/pipe'); }
                posix_mkfifo($_GET['in'] . '/pipe', 0600);
                f(9);";
    let php = "workers = 1\nslow_after = \"100ms\"\nslow_trace_depth = 3";
    let site = Site::with_php(&[("deep.php", deep)], php);
    let target = site.awaiting("/deep.php");
    let mut wire = site.connect();
    wire.request("GET", &target, &[], b"");
    wait_for_line(
        &site,
        &[
            "backtrace: #0 file_get_contents() #1 f() ",
            "/deep.php:1 #2 f() ",
            "/deep.php:1 and more,",
        ],
    );
    unblock(&site);
    assert_eq!(wire.reply("GET").status, 200);
}

/// Also without a slow log.
#[test]
fn a_script_that_a_time_out_ends_is_logged_with_its_backtrace() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[
            ("library.php", LIBRARY),
            ("blocks.php", BLOCKS),
            ("spins.php", SPINS),
            // It never calls a function, and so never notes where it is.
            ("loops.php", "<?php\nfunction endless() {\n  for (;;);\n}\nendless();"),
        ],
        "workers = 1\nrequest_timeout = \"1s\"\nrequest_terminate_timeout = \"1s\"",
    );
    for (script, innermost) in [
        ("/blocks.php", "#0 file_get_contents() #1 Shop\\block() "),
        ("/spins.php", "Shop\\Cart::spin() "),
        ("/loops.php", "/loops.php:3 #1 {main} "),
    ] {
        let words = ["the script is ended because it ran for too long: ", innermost, script];
        // On a busy machine the worker's start may take all of the time.
        wait_until("the backtrace is logged", || {
            assert_eq!(site.get(&site.awaiting(script)).status, 504);
            site.server
                .log()
                .lines()
                .any(|line| words.iter().all(|word| line.contains(word)))
        });
    }
    assert!(slow_lines(&site, "/").is_empty());
}

/// Its output is refused in the same moment in which its time is over.
#[test]
fn a_script_that_prints_without_end_is_logged_before_a_time_out_ends_it() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[
            ("prints.php", "<?php while (true) echo str_repeat('x', 8192);"),
            ("flushes.php", "<?php while (true) { echo 'x'; flush(); }"),
            ("copies.php", "<?php readfile('/dev/zero');"),
        ],
        "workers = 1\nrequest_terminate_timeout = \"1s\"",
    );
    for script in ["/prints.php", "/flushes.php", "/copies.php"] {
        let backtrace = format!("{script}:1, while running ");
        let fatal = format!("Maximum request time exceeded in {}{script}", site.root().display());
        // On a busy machine the worker's start may take all of the time.
        wait_until("the backtrace and the fatal error are logged", || {
            let mut wire = site.connect();
            wire.request("GET", script, &[], b"");
            let _ = io::copy(&mut wire.stream(), &mut io::sink());
            let log = site.server.log();
            let mut ended = log.lines().filter(|line| line.contains("it ran for too long: "));
            ended.any(|line| line.contains(&backtrace)) && log.contains(&fatal)
        });
    }
}
