//! Workers and their requests in `howdah status`.

use serde_json::Value;

use super::{TOP, named, wait_for_status};
use crate::site::{HELD, Site};
use crate::support::{Setup, has_php, wait_until};

fn shop(files: &[(&str, &str)], php: &str) -> Site {
    let config = format!(
        "{TOP}[[site]]\nname = \"shop\"\nroot = \"public\"\n[site.php]\nworkers = 1\n\
         request_timeout = \"5m\"\nqueue_timeout = \"5m\"\n\
         state_dir = \"state\"\n{php}"
    );
    Site::configured(files, &config)
}

#[test]
fn a_running_request_is_shown_with_its_url_and_script() {
    if !has_php() {
        return;
    }
    let site = shop(&[HELD], "");
    let mut holding = site.hold_worker();
    let mut waiting = site.connect();
    waiting.request("GET", &site.awaiting("/held.php"), &[], b"");
    let status = wait_for_status(&site, "the second request waits", |status| {
        named(status, "shop")["pool"]["queue"] == 1
    });
    let pool = &named(&status, "shop")["pool"];
    let worker = &pool["workers"][0];
    assert_eq!((&worker["state"], &worker["method"]), (&"running".into(), &"GET".into()));
    let url = worker["url"].as_str().unwrap();
    assert!(url.starts_with("/held.php?in="), "{worker:#}");
    assert!(worker["script"].as_str().unwrap().ends_with("/public/held.php"), "{worker:#}");
    assert!(worker["time"].as_f64().unwrap() > 0.0, "{worker:#}");
    assert_eq!(worker["pid"], site.server.workers()[0].number(), "{worker:#}");
    assert_eq!((&pool["active"], &pool["idle"]), (&1.into(), &0.into()));

    let control = site.path().join("control");
    let (_, table, _) = Setup::with(&["status", "--control", control.to_str().unwrap()]).run();
    assert!(table.contains("pool shop: 1 workers, 0 idle, 1 requests waiting"), "{table}");
    site.allow("end");
    assert_eq!((holding.reply("GET").status, waiting.reply("GET").status), (200, 200));
}

#[test]
fn an_idle_worker_is_shown_with_its_memory_and_its_last_request() {
    if !has_php() {
        return;
    }
    let script = "<?php $a = str_repeat('x', 6 << 20); echo strlen($a);";
    let site = shop(&[("a.php", script)], "");
    assert_eq!(site.get("/a.php?x=%22%3Cb%3E\u{1}").status, 400);
    assert_eq!(site.get("/a.php?x=%22%3Cb%3E\\").status, 200);
    let status = wait_for_status(&site, "the worker has told its memory", |status| {
        named(status, "shop")["pool"]["memory"].as_u64() > Some(0)
    });
    let pool = &named(&status, "shop")["pool"];
    let worker = &pool["workers"][0];
    assert_eq!((&worker["state"], &worker["requests"]), (&"idle".into(), &1.into()));
    assert_eq!(worker["url"], "/a.php?x=%22%3Cb%3E\\");
    assert!(worker["rss"].as_u64() >= worker["pss"].as_u64(), "{worker:#}");
    assert!(worker["cpu"].as_f64() > Some(0.0), "{worker:#}");
    assert!(worker["last_peak"].as_u64() >= Some(6 << 20), "{worker:#}");
    assert!(pool["php"].as_str().unwrap().starts_with("8."), "{pool:#}");
    assert!(pool["opcache"].is_string(), "{pool:#}");
}

#[test]
fn a_running_worker_is_shown_with_the_memory_that_its_script_has_taken() {
    if !has_php() {
        return;
    }
    let (_, held) = HELD;
    let held = held.replacen("<?php", "<?php $a = str_repeat('x', 64 << 20);", 1);
    let site = shop(&[("held.php", &held)], "");
    let _holding = site.hold_worker();
    wait_for_status(&site, "its memory is told", |status| {
        named(status, "shop")["pool"]["workers"][0]["rss"].as_u64() >= Some(64 << 20)
    });
    site.allow("end");
}

#[test]
fn a_worker_without_requests_gives_the_memory_of_its_scripts_back() {
    if !has_php() {
        return;
    }
    // Many small blocks, which PHP keeps for the next request.
    let script = "<?php for ($i = 0; $i < 300000; $i++) { $all[] = \"block $i of a script\"; }";
    let site = shop(&[("a.php", script)], "");
    let memory = |status: &Value| {
        named(status, "shop")["pool"]["workers"][0]["pss"].as_u64().unwrap_or_default()
    };
    for _ in 0..6 {
        assert_eq!(site.get("/a.php").status, 200);
    }
    let status =
        wait_for_status(&site, "the worker has told its memory", |status| memory(status) > 0);
    let peak = named(&status, "shop")["pool"]["workers"][0]["last_peak"].as_u64().unwrap();
    assert!(peak > 20 << 20, "{peak}");
    wait_for_status(&site, "the memory is given back", |status| memory(status) < peak / 2);
    // PHP takes it again.
    assert_eq!(site.get("/a.php").status, 200);
}

#[test]
fn a_new_worker_does_not_have_the_figures_of_the_former_one() {
    if !has_php() {
        return;
    }
    let files = [
        ("a.php", "<?php $a = str_repeat('x', 6 << 20); echo strlen(md5($a));"),
        ("crash.php", "<?php posix_kill(getmypid(), 11); sleep(600);"),
    ];
    let site = shop(&files, "");
    let of_first = |status: &Value| named(status, "shop")["pool"]["workers"][0].clone();
    assert_eq!(site.get("/a.php").text(), "32");
    let is_told = |status: &Value| of_first(status)["last_peak"].as_u64() >= Some(6 << 20);
    let former = of_first(&wait_for_status(&site, "the peak is told", is_told));
    assert_eq!(site.get("/crash.php").status, 502);
    let is_new = |status: &Value| {
        let worker = of_first(status);
        worker["pid"].is_u64() && worker["pid"] != former["pid"]
    };
    let new = of_first(&wait_for_status(&site, "a new worker is there", is_new));
    assert_eq!((&new["requests"], &new["last_peak"]), (&0.into(), &0.into()), "{new:#}");
    assert!(new["last_cpu"].as_f64().is_none_or(|seconds| seconds == 0.0), "{new:#}");
}

#[test]
fn workers_that_end_after_their_requests_are_counted_as_recycled() {
    if !has_php() {
        return;
    }
    let site = shop(&[("a.php", "<?php echo 1;")], "max_requests = 2\n");
    for _ in 0..4 {
        assert_eq!(site.get("/a.php").status, 200);
    }
    let status = wait_for_status(&site, "two workers were recycled", |status| {
        named(status, "shop")["pool"]["recycled"] == 2
    });
    let pool = &named(&status, "shop")["pool"];
    assert_eq!((&pool["requests"], &pool["deaths"]), (&4.into(), &serde_json::json!({})));
}

#[test]
fn a_worker_that_has_grown_is_replaced_after_its_request() {
    if !has_php() {
        return;
    }
    // PHP keeps compiled patterns as long as the process lives.
    let grow = "<?php for ($i = 0; $i < 1500; $i++) preg_match(\"/$i\" . str_repeat('ab', 15000) \
        . '/', '');
                echo getmypid();";
    let files = [("grow.php", grow), ("pid.php", "<?php echo getmypid();")];
    let site = shop(&files, "max_memory = \"40M\"\nini = { \"pcre.jit\" = \"0\" }\n");
    let pid = |target: &str| site.get(target).text().to_owned();
    let first = pid("/pid.php");
    assert_eq!(pid("/pid.php"), first, "a small worker stays");
    assert_eq!(pid("/grow.php"), first, "its request is answered");
    assert_ne!(pid("/pid.php"), first);
    let status = wait_for_status(&site, "the worker was recycled", |status| {
        named(status, "shop")["pool"]["recycled"] == 1
    });
    assert_eq!(named(&status, "shop")["pool"]["lost"], 0);
}

#[test]
fn workers_that_die_before_their_first_request_are_started_more_and_more_slowly() {
    if !has_php() {
        return;
    }
    let site = shop(&[("a.php", "<?php echo 1;")], "");
    const SLOWER: &str = "workers die before their first request; the next start is in";
    wait_until("the next start is delayed", || {
        for worker in site.server.workers() {
            worker.signal(howdah_sys::signal::SIGKILL);
        }
        site.server.log().contains(SLOWER)
    });
    assert_eq!(site.get("/a.php").text(), "1");
}
