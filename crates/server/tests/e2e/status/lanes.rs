//! Requests that wait for a worker: `[[site.php.lane]]`, and the turns of clients.

use std::sync::mpsc;

use serde_json::{Value, json};

use super::{TOP, monitor, named, wait_for_status};
use crate::site::{HELD, Site};
use crate::support::{PATIENCE, Setup, has_php, wait_until};
use crate::wire::Wire;

/// A script that creates a file when it runs, and does not end before `end` is allowed.
const SLOW: (&str, &str) = (
    "slow.php",
    "<?php touch($_GET['in'] . '/begun-' . $_GET['n']);
     while (!file_exists($_GET['in'] . '/end')) usleep(1000); echo 'done';",
);
const ONE: (&str, &str) = ("a.php", "<?php echo 1;");

fn shop(php: &str) -> Site {
    let config = format!(
        "{TOP}[[site]]\nname = \"shop\"\nroot = \"public\"\n[site.php]\nstate_dir = \"state\"\n\
         request_timeout = \"5m\"\n{php}"
    );
    Site::configured(&[ONE, SLOW], &config)
}

/// Asks for [`SLOW`] this many times.
fn flood(site: &Site, count: usize) -> Vec<Wire> {
    let ask = |number| {
        let mut wire = site.connect();
        let target = format!("{}&n={number}", site.awaiting("/slow.php"));
        wire.request("GET", &target, &[], b"");
        wire
    };
    (0..count).map(ask).collect()
}

fn begun(site: &Site) -> usize {
    let names = std::fs::read_dir(site.scratch()).unwrap();
    names
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("begun-"))
        .count()
}

fn lane<'s>(status: &'s Value, name: &str) -> &'s Value {
    let lanes = named(status, "shop")["pool"]["lanes"].as_array().unwrap();
    lanes.iter().find(|lane| lane["name"] == name).unwrap()
}

#[test]
fn a_slow_page_in_a_lane_leaves_workers_to_the_others() {
    if !has_php() {
        return;
    }
    let site = shop(
        "mode = \"static\"\nworkers = 3\nqueue_timeout = \"5m\"\n[[site.php.lane]]\n\
         name = \"slow\"\npath = \"/slow.php\"\nworkers = 2\nqueue = 5\n",
    );
    let mut slow = flood(&site, 10);
    let status = wait_for_status(&site, "all have come", |status| {
        let slow = lane(status, "slow");
        slow["running"] == 2 && slow["queue"] == 5 && slow["refused"] == 3
    });
    assert_eq!(
        (&lane(&status, "slow")["workers"], &lane(&status, "-")["workers"]),
        (&json!(2), &json!(3))
    );
    for _ in 0..20 {
        assert_eq!(site.get("/a.php").text(), "1");
    }
    wait_until("two have begun", || begun(&site) == 2);
    site.allow("end");
    let mut replies: Vec<_> = slow.iter_mut().map(|wire| wire.reply("GET").status).collect();
    replies.sort_unstable();
    assert_eq!(replies, [200, 200, 200, 200, 200, 200, 200, 503, 503, 503]);

    let status = wait_for_status(&site, "all have ended", |status| {
        lane(status, "slow")["running"] == 0 && lane(status, "-")["running"] == 0
    });
    assert_eq!(
        (&lane(&status, "slow")["requests"], &lane(&status, "-")["requests"]),
        (&json!(7), &json!(20))
    );
    let told = || site.log_lines("503: the queue is full in the lane slow, ").len();
    wait_until("the log names the lane", || told() == 3);
    let metrics = monitor(&site, "/metrics", &[]);
    for line in [
        "howdah_lane_requests_total{site=\"shop\",lane=\"slow\"} 7",
        "howdah_lane_refused_total{site=\"shop\",lane=\"slow\"} 3",
        "howdah_lane_requests_total{site=\"shop\",lane=\"-\"} 20",
        "howdah_lane_workers_limit{site=\"shop\",lane=\"slow\"} 2",
    ] {
        assert!(metrics.text().lines().any(|found| found == line), "{line}\n{}", metrics.text());
    }
}

#[test]
fn a_lane_never_gets_the_last_worker_in_any_mode() {
    if !has_php() {
        return;
    }
    for mode in ["auto", "dynamic", "ondemand"] {
        let site = shop(&format!(
            "mode = \"{mode}\"\nworkers = 3\nqueue_timeout = \"5m\"\n\
             [[site.php.lane]]\nname = \"all\"\nparameter = \"n\"\n"
        ));
        let mut slow = flood(&site, 6);
        wait_until("two have begun", || begun(&site) == 2);
        wait_for_status(&site, "the others wait", |status| lane(status, "all")["queue"] == 4);
        for _ in 0..5 {
            assert_eq!(site.get("/a.php").text(), "1", "{mode}");
        }
        assert_eq!(begun(&site), 2, "{mode}");
        site.allow("end");
        slow.iter_mut().for_each(|wire| assert_eq!(wire.reply("GET").text(), "done"));
    }
}

#[test]
fn a_client_with_many_requests_makes_room_in_a_full_queue() {
    if !has_php() {
        return;
    }
    let config = "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\n\
                  trusted_proxies = [\"127.0.0.0/8\"]\n[[site]]\nroot = \"public\"\n[site.php]\n\
                  state_dir = \"state\"\nworkers = 1\nmode = \"static\"\nqueue = 4\n\
                  queue_timeout = \"5m\"\nrequest_timeout = \"5m\"\n";
    let site = Site::configured(&[HELD, ONE], config);
    let ask = |client: &str| {
        let mut wire = site.connect();
        wire.request("GET", "/a.php", &[("X-Forwarded-For", client)], b"");
        wire
    };
    let mut busy = site.hold_worker();
    let (sender, replies) = mpsc::channel();
    for mut wire in (0..12).map(|_| ask("192.0.2.1")) {
        let sender = sender.clone();
        std::thread::spawn(move || sender.send(wire.reply("GET").status));
    }
    (0..8).for_each(|_| assert_eq!(replies.recv_timeout(PATIENCE).unwrap(), 503));
    let mut other = ask("198.51.100.1");
    assert_eq!(replies.recv_timeout(PATIENCE).unwrap(), 503, "a request has made room");
    site.allow("end");
    assert_eq!(other.reply("GET").text(), "1");
    (0..3).for_each(|_| assert_eq!(replies.recv_timeout(PATIENCE).unwrap(), 200));
    assert_eq!(busy.reply("GET").text(), "done");
}

#[test]
fn requests_that_have_waited_for_too_long_are_not_in_the_queue() {
    if !has_php() {
        return;
    }
    let lane_of_all = "[[site.php.lane]]\nname = \"all\"\nparameter = \"n\"\n";
    for lanes in ["", lane_of_all] {
        let site = shop(&format!(
            "mode = \"static\"\nworkers = 2\nqueue = 4\nqueue_timeout = \"100ms\"\n{lanes}"
        ));
        let mut slow = flood(&site, 8);
        let is_over = |status: &Value| {
            let pool = &named(status, "shop")["pool"];
            let count = |key: &str| pool[key].as_u64().unwrap();
            count("queue_timeouts") + count("refused") == 8 - begun(&site) as u64
        };
        wait_for_status(&site, "all others are refused", is_over);
        wait_for_status(&site, "nobody waits", |status| {
            let pool = &named(status, "shop")["pool"];
            let empty = |lane: &Value| lane["queue"] == 0;
            pool["queue"] == 0 && pool["lanes"].as_array().is_none_or(|all| all.iter().all(empty))
        });
        let metrics = monitor(&site, "/metrics", &[]);
        let line = "howdah_pool_queue_length{site=\"shop\"} 0";
        assert!(metrics.text().lines().any(|found| found == line), "{}", metrics.text());
        site.allow("end");
        slow.iter_mut()
            .for_each(|wire| assert!([200, 503].contains(&wire.reply("GET").status)));
    }
}

#[test]
fn the_lane_of_a_request_is_explained() {
    if !has_php() {
        return;
    }
    let site = shop(
        "workers = 2\n[[site.php.lane]]\nname = \"find\"\npath = \"/a.php\"\nparameter = \"s\"\n",
    );
    let file = site.path().join("howdah.toml");
    let explain = |url| {
        let (code, out, err) =
            Setup::with(&["explain", url, "--config", file.to_str().unwrap()]).run();
        assert_eq!(code, Some(0), "{out}{err}");
        out
    };
    let words = "it waits for a worker in the lane find";
    let found = explain("http://localhost/a.php?s=1");
    assert!(found.contains(words), "{found}");
    let found = explain("http://localhost/a.php?t=1");
    assert!(!found.contains(words), "{found}");
}
