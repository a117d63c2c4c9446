//! Figures of a script's run in the access log and in the response.

use crate::site::{Options, Site};
use crate::support::{has_php, wait_until};

/// The figures of the last one of `count` requests for `path`.
fn figures(site: &Site, path: &str, count: usize) -> Vec<String> {
    let mut found = Vec::new();
    wait_until(&format!("the access log has {path} {count} times"), || {
        let log = site.access_log();
        let lines = log.lines().filter_map(|line| line.strip_prefix(path)?.strip_prefix(' '));
        found = lines.map(|line| line.split(' ').map(str::to_owned).collect()).collect();
        found.len() == count
    });
    found.pop().unwrap_or_default()
}

#[test]
fn the_access_log_tells_time_queue_memory_processor_and_worker_of_a_script() {
    if !has_php() {
        return;
    }
    let files = [
        (
            "works.php",
            "<?php usleep(30_000); $a = str_repeat('x', 24 << 20);
            for ($i = 0; $i < 300_000; $i++) md5('x'); echo getmypid();",
        ),
        ("head.php", "<?php header('X-Pid: ' . getmypid());"),
        ("none.php", "<?php http_response_code(204); header('X-Pid: ' . getmypid());"),
        ("long.php", "<?php header('X-Pid: ' . getmypid()); echo str_repeat('x', 3_000_000);"),
        ("a.txt", "a"),
    ];
    let options = Options {
        log: "format = \"%U %^pt %^pq %^pm %^pc %^pw %s\"",
        ..Options::default()
    };
    let site = Site::with(&files, &options);
    let mut wire = site.connect();
    let pid = wire.get("/works.php").text().to_owned();
    let [time, queue, memory, processor, worker, status] = &figures(&site, "/works.php", 1)[..]
    else {
        panic!("{}", site.access_log())
    };
    let number = |text: &String| text.parse::<u64>().unwrap_or_else(|_| panic!("{text}"));
    assert!(number(time) >= 30_000, "{time}");
    assert!(number(queue) < 3_600_000_000, "{queue}");
    assert!(number(memory) >= 24 << 20, "{memory}");
    // Not the time in which it slept.
    assert!((1..number(time) - 29_000).contains(&number(processor)), "{processor} of {time}");
    assert_eq!((worker, status.as_str()), (&pid, "200"));

    for (method, path) in [("HEAD", "/head.php"), ("GET", "/none.php"), ("GET", "/long.php")] {
        let mut count = 0;
        // A response without content may end a moment before its script.
        wait_until(&format!("the figures of {path} are known"), || {
            let reply = wire.ask(method, path, &[], b"");
            count += 1;
            let line = figures(&site, path, count);
            assert_eq!(reply.field("x-pid"), Some(line[4].as_str()), "{path} {line:?}");
            line[..4].iter().all(|number| number.parse::<u64>().is_ok())
        });
    }
    wire.get("/a.txt");
    assert_eq!(figures(&site, "/a.txt", 1), ["-", "-", "-", "-", "-", "200"]);
}

/// The worker's place belongs to another process by the time at which the line is written.
#[test]
fn the_logs_name_the_worker_that_died_with_a_script() {
    if !has_php() {
        return;
    }
    let crash = "<?php file_put_contents($_GET['in'] . '/pid', getmypid()); \
                 posix_kill(getmypid(), 11); sleep(600);";
    let options = Options {
        log: "format = \"%U %^pw\"",
        php: "workers = 1",
        ..Options::default()
    };
    let site = Site::with(&[("crash.php", crash)], &options);
    for count in 1..=3 {
        assert_eq!(site.get(&site.awaiting("/crash.php")).status, 502);
        let pid = std::fs::read_to_string(site.scratch().join("pid")).unwrap();
        assert_eq!(figures(&site, "/crash.php", count), [pid.as_str()]);
        let told = format!("its worker {pid} was killed by SIGSEGV, while ");
        wait_until("the error log names it beside the URL", || {
            let log = site.server.log();
            let mut told = log.lines().filter(|line| line.contains(&told));
            told.any(|line| line.contains("/crash.php?in="))
        });
    }
}

#[test]
fn the_access_log_tells_how_long_a_request_ran_and_waited_that_timed_out() {
    if !has_php() {
        return;
    }
    let options = Options {
        log: "format = \"%U %^pt %^pq %^pm %^pc %^pw %s\"",
        php: "workers = 1\nrequest_timeout = \"1s\"",
        ..Options::default()
    };
    let endless = "<?php file_put_contents($_GET['in'] . '/pid', getmypid()); sleep(600);";
    let site = Site::with(&[("endless.php", endless)], &options);
    assert_eq!(site.get(&site.awaiting("/endless.php")).status, 504);
    let line = figures(&site, "/endless.php", 1);
    let pid = std::fs::read_to_string(site.scratch().join("pid")).unwrap();
    let number = |at: usize| line[at].parse::<u64>().unwrap_or_else(|_| panic!("{line:?}"));
    assert!(number(0) >= 900_000, "{line:?}");
    assert!(number(1) < 3_600_000_000, "{line:?}");
    assert_eq!(line[2..], ["-", "-", pid.as_str(), "504"]);

    let held = "<?php touch($_GET['in'] . '/begun'); while (!file_exists($_GET['in'] . '/end')) \
        usleep(1000); echo 'done';";
    let options = Options {
        php: "workers = 1\nqueue_timeout = \"1s\"",
        ..options
    };
    let files = [("held.php", held), ("last.php", "<?php echo 'last';")];
    let site = Site::with(&files, &options);
    let mut first = site.hold_worker();
    // Some have a place before the worker, and some wait for one.
    let mut waiting: Vec<_> = (0..5).map(|_| site.connect()).collect();
    waiting.iter_mut().for_each(|wire| wire.request("GET", "/last.php", &[], b""));
    waiting.iter_mut().for_each(|wire| assert_eq!(wire.reply("GET").status, 503));
    site.allow("end");
    assert_eq!(first.reply("GET").text(), "done");
    wait_until("all have a line", || site.access_log().matches("/last.php ").count() == 5);
    for line in site.access_log().lines().filter(|line| line.starts_with("/last.php ")) {
        let words: Vec<_> = line.split(' ').collect();
        assert!(words[2].parse::<u64>().is_ok_and(|queue| queue >= 900_000), "{line}");
        assert_eq!((words[1], &words[3..]), ("-", &["-", "-", "-", "503"][..]), "{line}");
    }
}

/// The wait counts from the request's arrival in the queue, not from the moment in which one of
/// the few places before the workers was free.
#[test]
fn the_time_in_the_queue_is_all_of_the_wait() {
    if !has_php() {
        return;
    }
    let held = "<?php touch($_GET['in'] . '/begun'); while (!file_exists($_GET['in'] . '/end')) \
        usleep(1000); echo 'done';";
    let options = Options {
        log: "format = \"%U %^pq %^pt\"",
        php: "workers = 1",
        ..Options::default()
    };
    let site = Site::with(&[("held.php", held), ("last.php", "<?php echo 'last';")], &options);
    let mut first = site.hold_worker();
    // More than there are places before the worker.
    let mut waiting: Vec<_> = (0..20).map(|_| site.connect()).collect();
    waiting.iter_mut().for_each(|wire| wire.request("GET", "/last.php", &[], b""));
    wait_until("they wait", || {
        crate::support::status(&site.path().join("howdah.toml")).contains("20 requests waiting")
    });
    std::thread::sleep(std::time::Duration::from_millis(300));
    site.allow("end");
    assert_eq!(first.reply("GET").text(), "done");
    waiting.iter_mut().for_each(|wire| assert_eq!(wire.reply("GET").text(), "last"));
    wait_until("all have a line", || site.access_log().matches("/last.php ").count() == 20);
    for line in site.access_log().lines().filter(|line| line.starts_with("/last.php ")) {
        let queue: u64 = line.split(' ').nth(1).unwrap().parse().unwrap();
        assert!(queue >= 300_000, "{line}");
    }
}

#[test]
fn server_timing_is_on_the_responses_of_a_site_that_wants_it() {
    if !has_php() {
        return;
    }
    let files = [("a.php", "<?php usleep(20_000); echo 'a';"), ("a.txt", "a")];
    let on = Site::with(
        &files,
        &Options {
            site: "server_timing = true",
            ..Options::default()
        },
    );
    let reply = on.get("/a.php");
    let value = reply.field("server-timing").unwrap_or_else(|| panic!("{reply:?}"));
    let times: Vec<(&str, f64)> = value
        .split(", ")
        .map(|metric| metric.split_once(";dur=").unwrap())
        .map(|(name, time)| (name, time.parse().unwrap()))
        .collect();
    let [("queue", queue), ("php", php), ("total", total)] = times[..] else {
        panic!("{value}")
    };
    assert!(php >= 20.0 && queue >= 0.0 && total >= php, "{value}");
    let mut wire = on.connect();
    for target in ["/a.txt", "/a.txt", "/none"] {
        let reply = wire.get(target);
        let value = reply.field("server-timing").unwrap_or_else(|| panic!("{reply:?}"));
        assert!(value.starts_with("total;dur=") && !value.contains(','), "{value}");
    }
    let off = Site::new(&files);
    for target in ["/a.php", "/a.txt"] {
        assert_eq!(off.get(target).field("server-timing"), None);
    }
}
