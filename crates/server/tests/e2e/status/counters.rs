//! The counters say what clients saw.

use std::collections::BTreeMap;

use howdah_sys::signal::SIGHUP;
use serde_json::Value;

use super::{TOP, monitor, named, status, wait_for_status};
use crate::site::{HELD, Site};
use crate::support::{has_php, wait_until};

const DIE: &str = "<?php posix_kill(getmypid(), 9); sleep(60);";

fn two_sites() -> Site {
    let entry = |name: &str| {
        format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.example\"]\nroot = \"public\"\n\
             [site.php]\nworkers = 1\nrequest_timeout = \"5m\"\nqueue_timeout = \"5m\"\n\
             state_dir = \"state-{name}\"\n"
        )
    };
    let config = format!("{TOP}{}{}", entry("blog"), entry("shop"));
    let files = [
        ("a.php", "<?php echo 'four';"),
        ("e.php", "<?php http_response_code(500); echo 'error';"),
        ("die.php", DIE),
        ("f.txt", "content"),
    ];
    Site::configured(&files, &config)
}

/// Counts of a client for a site: responses by status, and bytes of content.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    codes: BTreeMap<String, u64>,
    bytes: u64,
}

impl Seen {
    fn ask(&mut self, site: &Site, name: &str, target: &str) {
        let host = format!("{name}.example");
        let reply = site.ask("GET", target, &[("Host", &host)], b"");
        *self.codes.entry(reply.status.to_string()).or_default() += 1;
        self.bytes += reply.body.len() as u64;
    }

    fn of(status: &Value, name: &str) -> Seen {
        let site = named(status, name);
        let codes = site["codes"].as_object().unwrap();
        Seen {
            codes: codes
                .iter()
                .map(|(code, count)| (code.clone(), count.as_u64().unwrap()))
                .collect(),
            bytes: site["bytes"].as_u64().unwrap(),
        }
    }
}

#[test]
fn counters_add_up_to_what_clients_saw_across_deaths_and_a_reload() {
    if !has_php() {
        return;
    }
    let site = two_sites();
    let (mut blog, mut shop) = (Seen::default(), Seen::default());
    for round in 0..2 {
        for target in ["/a.php", "/a.php?again", "/f.txt", "/none"] {
            blog.ask(&site, "blog", target);
        }
        for target in ["/a.php", "/e.php", "/die.php", "/a.php"] {
            shop.ask(&site, "shop", target);
        }
        if round == 0 {
            site.server.signal(SIGHUP);
            wait_until("the new generation serves", || status(&site)["generation"] == 2);
        }
    }
    assert_eq!((blog.codes["200"], blog.codes["404"], shop.codes["502"]), (6, 2, 2));
    // A request is counted when its response has been sent.
    let status =
        wait_for_status(&site, "all requests are counted", |status| status["requests"] == 16);
    assert_eq!((Seen::of(&status, "blog"), Seen::of(&status, "shop")), (blog, shop));
    assert_eq!(status["codes"]["2xx"], 10, "{status:#}");
    let pool = &named(&status, "shop")["pool"];
    assert_eq!((&pool["requests"], &pool["lost"]), (&8.into(), &2.into()), "{pool:#}");
    assert_eq!(pool["deaths"]["SIGKILL"], 2, "{pool:#}");
    let ended = &pool["duration"]["count"];
    assert_eq!((ended, &pool["queue_wait"]["count"]), (&6.into(), &6.into()), "{pool:#}");

    let metrics = monitor(&site, "/metrics", &[]);
    for line in [
        "howdah_requests_total{site=\"blog\",code=\"404\"} 2",
        "howdah_requests_total{site=\"shop\",code=\"502\"} 2",
        "howdah_pool_worker_deaths_total{site=\"shop\",signal=\"SIGKILL\"} 2",
        "howdah_script_duration_seconds_count{site=\"shop\"} 6",
    ] {
        assert!(metrics.text().lines().any(|found| found == line), "{line} in {}", metrics.text());
    }
}

#[test]
fn requests_of_clients_that_are_gone_are_not_run_and_add_up() {
    if !has_php() {
        return;
    }
    let config = format!(
        "{}[[site]]\nname = \"shop\"\nroot = \"public\"\n[site.php]\nmode = \"static\"\n\
         workers = 1\nrequest_timeout = \"5m\"\nqueue_timeout = \"5m\"\nstate_dir = \"state\"\n",
        TOP.replace("\"off\"", "\"access.log\"")
    );
    let late = "<?php touch($_GET['in'] . '/run'); echo 'late';";
    let site = Site::configured(&[HELD, ("late.php", late)], &config);
    let mut first = site.hold_worker();
    let pool = |status: &Value| named(status, "shop")["pool"].clone();
    const GONE: usize = 5;
    let leaving: Vec<_> = (0..GONE)
        .map(|_| {
            let mut wire = site.connect();
            wire.request("GET", &site.awaiting("/late.php"), &[], b"");
            wire
        })
        .collect();
    wait_for_status(&site, "all others wait", |status| pool(status)["queue"] == GONE);
    drop(leaving);
    let status = wait_for_status(&site, "all others are given up", |status| {
        pool(status)["abandoned"] == GONE
    });
    assert_eq!(pool(&status)["queue"], 0, "{status:#}");
    site.allow("end");
    assert_eq!(first.reply("GET").text(), "done");
    let status = wait_for_status(&site, "all are counted", |status| status["requests"] == GONE + 1);
    assert_eq!(pool(&status)["requests"], GONE + 1, "{status:#}");
    assert_eq!(pool(&status)["duration"]["count"], 1, "{status:#}");
    assert!(!site.scratch().join("run").exists());
    assert_eq!(named(&status, "shop")["codes"], serde_json::json!({"200": 1, "499": GONE}));
    let lines = || site.access_log().lines().filter(|line| line.contains(" 499 -")).count();
    wait_until("each has a line in the access log", || lines() == GONE);
}

#[test]
fn a_client_that_has_only_ended_its_side_is_answered() {
    if !has_php() {
        return;
    }
    let site = two_sites();
    for _ in 0..20 {
        let mut wire = site.connect();
        wire.request("GET", "/a.php", &[("Host", "blog.example")], b"");
        wire.finish_sending();
        assert_eq!(wire.reply("GET").text(), "four");
    }
}

#[test]
fn the_processor_time_of_a_script_is_seen_while_it_runs() {
    if !has_php() {
        return;
    }
    let config = format!(
        "{TOP}[[site]]\nname = \"shop\"\nroot = \"public\"\n[site.php]\nmode = \"static\"\n\
         workers = 1\nrequest_timeout = \"5m\"\nqueue_timeout = \"5m\"\nstate_dir = \"state\"\n"
    );
    let burn = "<?php while (!file_exists($_GET['in'] . '/end')) {} echo 'done';";
    let site = Site::configured(&[("burn.php", burn)], &config);
    let mut busy = site.connect();
    busy.request("GET", &site.awaiting("/burn.php"), &[], b"");
    let pool = |status: &Value| named(status, "shop")["pool"].clone();
    let seconds = |value: &Value| value["cpu"].as_f64().unwrap();
    let of_worker = |status: &Value| seconds(&pool(status)["workers"][0]);
    let first = wait_for_status(&site, "the worker burns", |status| of_worker(status) > 0.3);
    assert_eq!(pool(&first)["workers"][0]["state"], "running", "{first:#}");
    let before = of_worker(&first);
    wait_for_status(&site, "it goes on", |status| of_worker(status) > before + 0.1);
    wait_for_status(&site, "the pool's figure as well", |status| seconds(&pool(status)) > 0.3);
    site.allow("end");
    assert_eq!(busy.reply("GET").text(), "done");
}

#[test]
fn the_figures_of_workers_stay_in_the_sums_when_their_zygote_and_their_generation_end() {
    if !has_php() {
        return;
    }
    let config = format!(
        "{TOP}[[site]]\nname = \"shop\"\nroot = \"public\"\n[site.php]\nmode = \"static\"\n\
         workers = 2\nqueue_timeout = \"5m\"\nstate_dir = \"state\"\n"
    );
    // Each request is 30 ms on a processor.
    let busy = "<?php function spent() { $now = getrusage(); return $now['ru_utime.tv_sec'] + \
                $now['ru_utime.tv_usec'] / 1e6; } $end = spent() + 0.03; while (spent() < $end); \
                echo 'busy';";
    let site = Site::configured(&[("busy.php", busy), ("die.php", DIE)], &config);
    let cpu = |status: &Value| named(status, "shop")["pool"]["cpu"].as_f64().unwrap();
    for _ in 0..3 {
        assert_eq!(site.get("/busy.php").text(), "busy");
    }
    // The rest is told when the worker ends.
    assert_eq!(site.get("/die.php").status, 502);
    let has_successor = |status: &Value| {
        let pool = &named(status, "shop")["pool"];
        cpu(status) >= 0.03 && pool["spawned"] == 3 && pool["deaths"]["SIGKILL"] == 1
    };
    let before =
        wait_for_status(&site, "a worker has told its time and is replaced", has_successor);
    site.server.kill_zygote();
    let counted = |status: &Value| named(status, "shop")["pool"]["zygotes_lost"] == 1;
    let after = wait_for_status(&site, "the zygote's end is counted", counted);
    let pool = &named(&after, "shop")["pool"];
    assert_eq!(pool["workers_lost"], 2, "{pool:#}");
    assert!(cpu(&after) >= cpu(&before), "{before:#} {after:#}");

    site.server.signal(SIGHUP);
    let reloaded = wait_for_status(&site, "a reload", |status| status["generation"] == 2);
    assert!(cpu(&reloaded) >= cpu(&after), "{after:#} {reloaded:#}");
    assert_eq!(named(&reloaded, "shop")["pool"]["workers_lost"], 2, "{reloaded:#}");
    let metrics = monitor(&site, "/metrics", &[]);
    let metrics = metrics.text();
    for name in
        ["howdah_pool_cpu_seconds_total{site=\"shop\"} 0.", "howdah_pool_workers_lost_total"]
    {
        assert!(metrics.lines().any(|line| line.starts_with(name)), "{name} in {metrics}");
    }
}

#[test]
fn counters_survive_the_front() {
    let config = format!("{TOP}[[site]]\nname = \"blog\"\nroot = \"public\"\nphp = false\n");
    let site = Site::configured(&[("f.txt", "content")], &config);
    site.get("/f.txt");
    wait_for_status(&site, "the request is counted", |status| status["requests"] == 1);
    site.server.kill_front();
    wait_until("another front serves", || site.server.log().contains("started anew; serving"));
    site.get("/f.txt");
    let status =
        wait_for_status(&site, "both requests are counted", |status| status["requests"] == 2);
    assert_eq!(named(&status, "blog")["bytes"], 14);
}

#[test]
fn requests_of_no_site_are_counted_apart() {
    let config = format!(
        "strict_hosts = true\n{TOP}[[site]]\nname = \"blog\"\nhosts = [\"blog.example\"]\n\
         root = \"public\"\nphp = false\n"
    );
    let site = Site::configured(&[], &config);
    let mut wire = site.connect();
    wire.send("NONSENSE\r\n\r\n");
    wire.rest();
    site.ask("GET", "/", &[("Host", "other.example")], b"");
    let status = wait_for_status(&site, "both are counted", |status| status["requests"] == 2);
    let codes = &status["unassigned"]["codes"];
    assert_eq!((&codes["400"], &codes["421"]), (&1.into(), &1.into()), "{status:#}");
    assert_eq!(named(&status, "blog")["requests"], 0);
}

#[test]
fn refused_and_late_requests_are_counted() {
    if !has_php() {
        return;
    }
    let config = format!(
        "{TOP}[[site]]\nname = \"shop\"\nroot = \"public\"\n[site.php]\nworkers = 1\nqueue = 0\n\
         state_dir = \"state\"\n"
    );
    let held = crate::site::HELD;
    let site = Site::configured(&[held, ("a.php", "<?php echo 1;")], &config);
    let mut holding = site.hold_worker();
    assert_eq!(site.get("/a.php").status, 503);
    let status = wait_for_status(&site, "the refusal is counted", |status| {
        named(status, "shop")["pool"]["refused"] == 1
    });
    assert_eq!(named(&status, "shop")["codes"]["503"], 1, "{status:#}");
    site.allow("end");
    assert_eq!(holding.reply("GET").status, 200);
}

/// Writes the highest numbers over all figures of the first worker, which follow the words of a
/// queue with eight entries, and the set of idle workers.
const LIES: &str = "<?php
    foreach (file('/proc/self/maps') as $line)
        if (preg_match('/^([0-9a-f]+)-[0-9a-f]+ rw.*howdah-pool/', $line, $found))
            $first = hexdec($found[1]);
    $memory = fopen('/proc/self/mem', 'r+');
    stream_set_write_buffer($memory, 0);
    // Without the word by which the worker is woken.
    fseek($memory, $first + 384 + 8);
    fwrite($memory, str_repeat(chr(255), 56));
    touch($_GET['in'] . '/begun');
    while (!file_exists($_GET['in'] . '/end')) usleep(1000);
    echo 'done';";

#[test]
fn a_worker_that_lies_about_itself_is_believed_no_more_than_the_machine_can_do() {
    if !has_php() {
        return;
    }
    let config = format!(
        "{TOP}[[site]]\nname = \"shop\"\nroot = \"public\"\n[site.php]\nmode = \"static\"\n\
         workers = 1\nqueue_timeout = \"5m\"\nrequest_timeout = \"5m\"\nstate_dir = \"state\"\n\
         sandbox = \"off\"\nstatus_path = \"/fpm\"\n"
    );
    let site = Site::configured(&[("lies.php", LIES)], &config);
    let mut wire = site.connect();
    wire.request("GET", &site.awaiting("/lies.php"), &[], b"");
    wait_until("the script has lied", || site.scratch().join("begun").exists());
    let cpu = |status: &Value| named(status, "shop")["pool"]["cpu"].as_f64().unwrap();
    let status = wait_for_status(&site, "its time is counted", |status| cpu(status) > 0.1);
    let machine = howdah_sys::usage::Machine::present();
    let most = status["uptime"].as_f64().unwrap() * machine.processors as f64;
    let worker = &named(&status, "shop")["pool"]["workers"][0];
    assert!(cpu(&status) <= most && worker["cpu"].as_f64().unwrap() <= most, "{status:#}");
    assert_eq!(worker["requests"], 1, "{status:#}");
    for size in ["pss", "rss", "last_peak"] {
        assert!(worker[size].as_u64().unwrap() <= machine.memory, "{size} in {status:#}");
    }
    assert!(site.get("/fpm?full").text().contains("\nrequests:             2\n"));
    let later = wait_for_status(&site, "time has passed", |later| cpu(later) > cpu(&status));
    let most = later["uptime"].as_f64().unwrap() * machine.processors as f64;
    assert!(cpu(&later) <= most, "{later:#}");
    site.allow("end");
    assert_eq!(wire.reply("GET").text(), "done");
}

/// Monitors keep each series that they have seen once.
#[test]
fn a_script_that_answers_every_status_makes_a_bounded_number_of_series() {
    if !has_php() {
        return;
    }
    let config = format!(
        "{TOP}[[site]]\nname = \"shop\"\nroot = \"public\"\n[site.php]\nworkers = 1\n\
         state_dir = \"state\"\n"
    );
    let answer = "<?php http_response_code((int) $_GET['code']); echo 'x';";
    let site = Site::configured(&[("answer.php", answer)], &config);
    let mut wire = site.connect();
    let mut answered = BTreeMap::<String, u64>::new();
    for code in 200..1000 {
        let reply = wire.ask("GET", &format!("/answer.php?code={code}"), &[], b"");
        assert_eq!(reply.status, code);
        let class = if code < 600 {
            format!("{}xx", code / 100)
        } else {
            "other".to_owned()
        };
        *answered.entry(class).or_default() += 1;
    }
    let status = wait_for_status(&site, "all are counted", |status| status["requests"] == 800);
    let shop = named(&status, "shop");
    assert_eq!(shop["classes"], serde_json::json!(answered), "{shop:#}");
    assert_eq!(status["codes"], shop["classes"]);
    let codes = shop["codes"].as_object().unwrap();
    let number = |name: &str| codes.get(name).and_then(Value::as_u64);
    assert!(codes.len() < 80, "{codes:?}");
    assert_eq!(codes.values().filter_map(Value::as_u64).sum::<u64>(), 800);
    assert_eq!([number("404"), number("503"), number("520")], [Some(1), Some(1), None]);
    assert_eq!([number("other"), number("999"), number("599")], [Some(400), None, None]);
    let metrics = monitor(&site, "/metrics", &[]);
    let series = |line: &&str| line.starts_with("howdah_requests_total{site=\"shop\",code=");
    let counts = metrics.text().lines().filter(series);
    let counts: Vec<u64> =
        counts.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
    assert_eq!((counts.len(), counts.iter().sum::<u64>()), (codes.len(), 800));
    let table = site.try_status(&[]).unwrap();
    assert!(table.contains("other 400"), "{table}");
}
