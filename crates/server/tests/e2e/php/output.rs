//! The standard output and error of scripts, and of the programs that they start.

use crate::site::{AWAIT, Options, Site};
use crate::support::{has_php, wait_until};
use crate::wire::Wire;

/// The texts of the log's lines about a worker of the site `shop`, without time and site.
fn texts(site: &Site, worker: &str) -> Vec<String> {
    let label = format!(" shop: worker {worker}: ");
    let log = site.server.log();
    let texts = log.lines().filter_map(|line| Some(line.split_once(&label)?.1.to_owned()));
    texts.collect()
}

fn shop(files: &[(&str, &str)], php: &str) -> Site {
    let options = Options {
        site: "name = \"shop\"",
        php,
        ..Options::default()
    };
    Site::with(files, &options)
}

#[test]
fn lines_on_standard_error_and_output_come_with_the_worker_that_wrote_them() {
    if !has_php() {
        return;
    }
    let site = shop(
        &[(
            "write.php",
            "<?php file_put_contents('php://stderr', \"to stderr\\n\");
             file_put_contents('php://stdout', \"to stdout\\n\");
             system('echo a program >&2');
             proc_close(proc_open(['echo', 'an inherited', 'stdout'], [], $pipes));
             file_put_contents('php://stderr', \"error: with a level\\n\");
             echo getmypid();",
        )],
        "workers = 1",
    );
    let reply = site.get("/write.php");
    let expected = ["to stderr", "to stdout", "a program", "an inherited stdout", "with a level"];
    wait_until("all lines are there", || texts(&site, reply.text()).len() >= expected.len());
    let found = texts(&site, reply.text());
    let of = |stream: fn(&&str) -> bool| {
        let lines: Vec<&str> = expected.into_iter().filter(stream).collect();
        let found: Vec<&str> = found.iter().map(String::as_str).filter(stream).collect();
        assert_eq!(found, lines);
    };
    // Each stream has its lines in order.
    of(|line| line.contains("stdout"));
    of(|line| !line.contains("stdout"));
    assert_eq!(found.len(), expected.len(), "{found:?}");
    let levels = |level: &str| site.log_lines(&format!(" {level} shop: worker ")).len();
    assert_eq!((levels("notice"), levels("error")), (4, 1), "{}", site.server.log());
}

#[test]
fn halves_of_lines_on_standard_error_and_output_do_not_share_a_line() {
    if !has_php() {
        return;
    }
    let script = "<?php [$out, $errors] = [fopen('php://stdout', 'w'), fopen('php://stderr', 'w')];
        fwrite($errors, 'to stderr, begun,'); fwrite($out, \"line to stdout\\n\");
        fwrite($out, 'no end'); fwrite($errors, \" and ended\\n\"); echo getmypid();";
    let site = shop(&[("write.php", script)], "workers = 1\nmode = \"static\"");
    let mut wire = site.connect();
    let mut worker = String::new();
    for _ in 0..3 {
        worker = wire.get("/write.php").text().to_owned();
    }
    wait_until("all lines are there", || texts(&site, &worker).len() >= 9);
    let mut found = texts(&site, &worker);
    found.sort_unstable();
    let expected = ["line to stdout", "no end", "to stderr, begun, and ended"];
    assert_eq!(found, expected.map(|line| [line; 3]).concat());
}

#[test]
fn lines_of_two_workers_that_write_at_once_do_not_mix() {
    if !has_php() {
        return;
    }
    let script = format!(
        "<?php {AWAIT} $say = fn($text) => file_put_contents('php://stderr', $text);
         $me = $_GET['me']; $say(\"$me begins, \"); touch(\"$_GET[in]/$me\"); await('go');
         $say(\"$me ends\\n\"); echo getmypid();"
    );
    let site = shop(&[("slow.php", &script)], "workers = 2\nmode = \"static\"");
    let ask = |me: &str| -> Wire {
        let mut wire = site.connect();
        wire.request("GET", &format!("{}&me={me}", site.awaiting("/slow.php")), &[], b"");
        wait_until("the script has begun", || site.scratch().join(me).exists());
        wire
    };
    let wires = [ask("one"), ask("two")];
    site.allow("go");
    for (mut wire, me) in wires.into_iter().zip(["one", "two"]) {
        let worker = wire.reply("GET").text().to_owned();
        // A machine that stops for seconds between the two parts makes two lines of them.
        let whole = || texts(&site, &worker).concat();
        wait_until("the line has ended", || whole().ends_with("ends"));
        assert_eq!(whole(), format!("{me} begins, {me} ends"));
    }
}

#[test]
fn a_program_that_outlives_its_worker_still_has_a_log() {
    if !has_php() {
        return;
    }
    let site = shop(
        &[(
            "start.php",
            "<?php file_put_contents('php://stderr', 'no end');
             $wait = 'while [ ! -e \"$0\" ]; do sleep 0.02; done; echo late >&2';
             proc_open(['sh', '-c', \"($wait) &\", $_GET['in'] . '/go'], [], $pipes);
             echo getmypid();",
        )],
        "workers = 1\nmax_requests = 1",
    );
    let worker = site.get(&site.awaiting("/start.php")).text().to_owned();
    // The program is a child of the zygote from then on, as workers are.
    wait_until("the worker has ended", || {
        !site
            .server
            .workers()
            .iter()
            .any(|process| process.number().to_string() == worker)
    });
    site.allow("go");
    wait_until("the line is there", || texts(&site, &worker).concat().ends_with("late"));
    assert_eq!(texts(&site, &worker), ["no end", "late"]);
}

#[test]
fn text_without_a_line_feed_is_a_line_of_its_request_alone() {
    if !has_php() {
        return;
    }
    let site = shop(
        &[(
            "write.php",
            "<?php $say = fn($text) => file_put_contents('php://stderr', $text);
             $say('request '); $say($_GET['n']);
             if ($_GET['n'] % 2) error_log(' of two', 3, 'php://stderr');
             if ($_GET['n'] % 5 == 0) system('printf \" of sh\" >&2');
             echo getmypid();",
        )],
        "workers = 1\nmode = \"static\"",
    );
    let mut wire = site.connect();
    let mut worker = String::new();
    for number in 0..50 {
        worker = wire.get(&format!("/write.php?n={number}")).text().to_owned();
    }
    let expected: Vec<String> = (0..50)
        .map(|number| {
            let of_two = if number % 2 == 1 { " of two" } else { "" };
            let of_shell = if number % 5 == 0 { " of sh" } else { "" };
            format!("request {number}{of_two}{of_shell}")
        })
        .collect();
    // At once, though the worker lives on and says nothing more.
    wait_until("the last line is there", || {
        texts(&site, &worker).iter().any(|text| text.contains("request 49"))
    });
    assert_eq!(texts(&site, &worker), expected);
}

/// The zygote is stopped while the script writes, so that it reads nothing of it.
#[test]
fn lines_that_a_killed_zygote_has_not_read_are_in_the_log() {
    if !has_php() {
        return;
    }
    let site = shop(
        &[(
            "write.php",
            "<?php $zygote = posix_getppid(); posix_kill($zygote, 19);
             while (!str_contains(file_get_contents(\"/proc/$zygote/stat\"), ') T')) usleep(1000);
             file_put_contents('php://stderr', \"error: the last words\\nwithout an end\");
             file_put_contents($_GET['in'] . '/worker', getmypid());
             posix_kill($zygote, 9); sleep(60);",
        )],
        "workers = 2\nmode = \"static\"\nstandby = false\nsandbox = \"off\"",
    );
    let mut wire = site.connect();
    wire.request("GET", &site.awaiting("/write.php"), &[], b"");
    assert_eq!(wire.reply("GET").status, 502);
    let worker = std::fs::read_to_string(site.scratch().join("worker")).unwrap();
    wait_until("both lines are there", || texts(&site, &worker).len() >= 2);
    assert_eq!(texts(&site, &worker), ["the last words", "without an end"]);
}
