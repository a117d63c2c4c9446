//! More requests than workers.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::site::{HELD, Options, Site};
use crate::support::load::Raised;
use crate::support::{PATIENCE, has_php, wait_until};
use crate::wire::{Reply, Wire};

const SLOW: (&str, &str) = ("slow.php", "<?php usleep(1000 * (int) $_GET['ms']); echo 'done';");
const OK: (&str, &str) = ("ok.php", "<?php echo 'ok';");

fn ask(site: &Site, target: &str, count: usize) -> Vec<Wire> {
    (0..count)
        .map(|_| {
            let mut wire = site.connect();
            wire.request("GET", target, &[], b"");
            wire
        })
        .collect()
}

/// Returns on how many of the connections something has come.
fn answered(wires: &[Wire]) -> usize {
    wires
        .iter()
        .filter(|wire| !wire.is_silent_for(Duration::from_millis(1)))
        .count()
}

fn is_busy(reply: &Reply) -> bool {
    reply.status == 503
        && reply.field("retry-after").is_some_and(|seconds| seconds.parse::<u32>().is_ok())
}

#[test]
fn scripts_are_answered_while_other_clients_keep_the_threads_busy() {
    if !has_php() {
        return;
    }
    let busy = ("busy/.htaccess", "SetOutputFilter DEFLATE\n");
    let site = Site::with_php(&[OK, busy], "workers = 2");
    let huge = File::create(site.root().join("busy/huge.txt")).unwrap();
    huge.set_len(1 << 36).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = Raised(&over);
        let (sender, begun) = mpsc::channel();
        for _ in 0..4 {
            let (over, sender, address) = (&over, sender.clone(), site.server.address());
            scope.spawn(move || {
                let mut client = TcpStream::connect(address).unwrap();
                client
                    .write_all(
                        b"GET /busy/huge.txt HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n",
                    )
                    .unwrap();
                let mut content = vec![0; 1 << 16];
                let mut read = || client.read(&mut content).unwrap();
                read();
                sender.send(()).unwrap();
                while !over.load(Ordering::Relaxed) && read() > 0 {}
                assert!(over.load(Ordering::Relaxed), "the file has an end");
            });
        }
        (0..4).for_each(|_| begun.recv_timeout(PATIENCE).unwrap());
        for _ in 0..20 {
            assert_eq!(site.get("/ok.php").text(), "ok");
        }
    });
}

#[test]
fn requests_beyond_the_workers_wait_their_turn() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(&[SLOW], "workers = 2");
    let began = Instant::now();
    for mut wire in ask(&site, "/slow.php?ms=50", 40) {
        assert_eq!(wire.reply("GET").text(), "done");
    }
    assert!(began.elapsed() >= Duration::from_millis(1000), "{:?}: two at a time", began.elapsed());
}

/// A site of a front with several threads, which look at the queue at once.
fn many_threads(files: &[(&str, &str)], php: &str) -> Site {
    Site::with(
        files,
        &Options {
            top: "threads = 4",
            php,
            ..Options::default()
        },
    )
}

#[test]
fn a_full_queue_is_told_at_once() {
    if !has_php() {
        return;
    }
    let site = many_threads(&[HELD, OK], "workers = 1\nqueue = 3");
    let mut busy = site.hold_worker();
    let (sender, replies) = mpsc::channel();
    for mut wire in ask(&site, "/ok.php", 20) {
        let sender = sender.clone();
        std::thread::spawn(move || sender.send(wire.reply("GET")));
    }
    // All but as many as may wait, while the only worker is still busy.
    for _ in 0..17 {
        let reply = replies.recv_timeout(PATIENCE).unwrap();
        assert!(is_busy(&reply), "{reply:?}");
    }
    site.allow("end");
    for _ in 0..3 {
        assert_eq!(replies.recv_timeout(PATIENCE).unwrap().text(), "ok");
    }
    assert_eq!(busy.reply("GET").text(), "done");
    site.server.wait_for_log("queue");
    assert_eq!(site.get("/ok.php").text(), "ok");
}

#[test]
fn no_request_waits_longer_than_the_queue_timeout() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(&[HELD, OK], "workers = 1\nqueue_timeout = \"1s\"");
    let mut busy = site.hold_worker();
    let began = Instant::now();
    for mut wire in ask(&site, "/ok.php", 12) {
        let reply = wire.reply("GET");
        assert!(is_busy(&reply), "{reply:?}");
    }
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(990), "{took:?}");
    site.allow("end");
    assert_eq!(busy.reply("GET").text(), "done");
    wait_until("there is room again", || site.get("/ok.php").text() == "ok");
}

#[test]
fn the_time_in_the_queue_is_not_the_scripts() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(&[SLOW], "workers = 1\nrequest_timeout = \"2s\"");
    // Each takes less than its time; the last ones begin later than that. A machine that stands
    // still may take all of a script's time: then they are asked for again.
    wait_until("all of them end in time", || {
        let mut wires = ask(&site, "/slow.php?ms=900", 4);
        wires.iter_mut().all(|wire| wire.reply("GET").text() == "done")
    });
}

#[test]
fn a_stuck_script_whose_client_has_left_is_ended_too() {
    if !has_php() {
        return;
    }
    let stuck = "ignore_user_abort(true); set_time_limit(0); while (true) usleep(1000);";
    let site = Site::with_php(
        &[
            ("stuck.php", &format!("<?php {stuck}")),
            ("behind.php", &format!("<?php echo 'answered'; fastcgi_finish_request(); {stuck}")),
            OK,
        ],
        "workers = 1\nrequest_terminate_timeout = \"1s\"",
    );
    for target in ["/stuck.php", "/behind.php"] {
        if target == "/behind.php" {
            wait_until("it answers in time", || site.get(target).text() == "answered");
        } else {
            let mut wire = site.connect();
            wire.request("GET", target, &[], b"");
            std::thread::sleep(Duration::from_millis(100));
        }
        // It would hold the only worker for ever.
        wait_until("the worker is free again", || site.get("/ok.php").text() == "ok");
    }
}

#[test]
fn a_request_that_leaves_the_queue_is_not_run() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[
            HELD,
            ("mark.php", "<?php file_put_contents($_GET['out'], 'x', FILE_APPEND); echo 'marked';"),
        ],
        "workers = 1",
    );
    let out = site.scratch().join("marks");
    let mut busy = site.hold_worker();
    let target = format!("/mark.php?out={}", out.display());
    // Many more than there are slots, so that some wait in each of the queues.
    let leaving = ask(&site, &target, 30);
    wait_until("they wait", || site.connections() == 31);
    drop(leaving);
    // Those that have a slot already may have ended their own side alone.
    wait_until("the others have left", || site.connections() < 10);
    let mut stays = ask(&site, &target, 1);
    site.allow("end");
    assert_eq!(stays[0].reply("GET").text(), "marked");
    assert_eq!(busy.reply("GET").text(), "done");
    let ran = std::fs::read_to_string(&out).unwrap().len();
    assert!(ran <= 10, "{ran} requests were run for clients that were gone");
}

#[test]
fn files_are_served_while_every_worker_is_busy() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(&[HELD, ("a.txt", "file")], "workers = 1");
    let mut busy = site.hold_worker();
    let mut waiting = ask(&site, &site.awaiting("/held.php"), 2);
    for _ in 0..100 {
        assert_eq!(site.get("/a.txt").text(), "file");
    }
    site.allow("end");
    assert_eq!(busy.reply("GET").text(), "done");
    for wire in &mut waiting {
        assert_eq!(wire.reply("GET").text(), "done");
    }
}

#[test]
fn one_pools_load_is_not_anothers() {
    if !has_php() {
        return;
    }
    let entry = |name: &str| {
        format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.example\"]\nroot = \"public\"\n\
             [site.php]\nworkers = 1\nqueue = 1\nqueue_timeout = \"5m\"\n\
             request_timeout = \"5m\"\nstate_dir = \"state-{name}\"\n"
        )
    };
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nthreads = 4\ncontrol = \"control\"\n[log]\n\
         access = \"off\"\n{}{}",
        entry("one"),
        entry("two")
    );
    let site = Site::configured(&[HELD, OK], &config);
    let target = site.awaiting("/held.php");
    let mut busy: Vec<Wire> = (0..10)
        .map(|_| {
            let mut wire = site.connect();
            wire.request("GET", &target, &[("Host", "one.example")], b"");
            wire
        })
        .collect();
    wait_until("a script has begun", || site.scratch().join("begun").exists());
    for _ in 0..20 {
        assert_eq!(site.ask("GET", "/ok.php", &[("Host", "two.example")], b"").text(), "ok");
    }
    wait_until("all but two are refused", || answered(&busy) == 8);
    site.allow("end");
    let replies: Vec<Reply> = busy.iter_mut().map(|wire| wire.reply("GET")).collect();
    let done = replies.iter().filter(|reply| reply.text() == "done").count();
    let refused = replies.iter().filter(|reply| is_busy(reply)).count();
    assert_eq!((done, refused), (2, 8), "one runs and one waits");
}

#[test]
fn many_connections_at_once_are_all_answered() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(&[OK], "mode = \"static\"\nworkers = 4");
    let mut wires: Vec<Wire> = (0..300).map(|_| site.connect()).collect();
    for _ in 0..3 {
        wires.iter_mut().for_each(|wire| wire.request("GET", "/ok.php", &[], b""));
        for wire in &mut wires {
            assert_eq!(wire.reply("GET").text(), "ok");
        }
    }
    wait_until("the workers rest", || site.server.workers().len() == 4);
}

#[test]
fn a_full_queue_has_its_page_and_says_when_to_come_again() {
    if !has_php() {
        return;
    }
    let rules = |what: &str| format!("ErrorDocument 503 {what}\nHeader always set X-Seen yes\n");
    for (document, text) in [
        ("/busy.html", "busy"),
        ("\"come back later", "come back later"),
        ("/ok.php", "503 Service Unavailable"),
        ("/none.html", "503 Service Unavailable"),
    ] {
        let rules = rules(document);
        let site = many_threads(
            &[HELD, OK, (".htaccess", &rules), ("busy.html", "busy")],
            "workers = 1\nqueue = 1",
        );
        let waiting = ask(&site, &site.awaiting("/held.php"), 8);
        wait_until("all but two are refused", || answered(&waiting) == 6);
        let reply = site.get("/ok.php");
        assert!(is_busy(&reply), "{document}: {reply:?}");
        assert_eq!(reply.all("retry-after").len(), 1, "{document}");
        assert!(reply.text().contains(text), "{document}: {}", reply.text());
        assert_eq!(reply.field("x-seen"), Some("yes"), "{document}");
        drop(waiting);
    }
}
