//! Pools whose workers come and go: `mode` in `[site.php]`.

use serde_json::Value;

use super::{TOP, monitor, named, wait_for_status};
use crate::site::Site;
use crate::support::{Setup, has_php, wait_until};
use crate::wire::Wire;

/// A script that creates a file when it runs, and does not end before `end` is allowed.
const HOLD: (&str, &str) = (
    "hold.php",
    "<?php touch($_GET['in'] . '/begun-' . $_GET['n']);
     while (!file_exists($_GET['in'] . '/end')) usleep(1000); echo 'done';",
);
const ONE: (&str, &str) = ("a.php", "<?php echo 1;");

fn config(php: &str) -> String {
    format!(
        "{TOP}[[site]]\nname = \"shop\"\nroot = \"public\"\n[site.php]\nstate_dir = \"state\"\n\
         queue_timeout = \"5m\"\nrequest_timeout = \"5m\"\n{php}"
    )
}

fn shop(php: &str) -> Site {
    Site::configured(&[ONE, HOLD], &config(php))
}

/// Asks for [`HOLD`] with these numbers.
fn ask(site: &Site, numbers: std::ops::Range<u32>) -> Vec<Wire> {
    let ask = |number| {
        let mut wire = site.connect();
        let target = format!("{}&n={number}", site.awaiting("/hold.php"));
        wire.request("GET", &target, &[], b"");
        wire
    };
    numbers.map(ask).collect()
}

fn wait_until_begun(site: &Site, numbers: std::ops::Range<u32>) {
    let begun = |number| site.scratch().join(format!("begun-{number}")).exists();
    wait_until("the scripts have begun", || numbers.clone().all(begun));
}

fn wait_for_pool(site: &Site, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let status = wait_for_status(site, what, |status| is_so(&named(status, "shop")["pool"]));
    named(&status, "shop")["pool"].clone()
}

/// Number of workers of a pool in a status.
fn count(pool: &Value) -> usize {
    pool["workers"].as_array().unwrap().len()
}

#[test]
fn a_pool_on_demand_has_workers_only_while_there_are_requests() {
    if !has_php() {
        return;
    }
    let site = shop("mode = \"ondemand\"\nworkers = 3\nidle_timeout = \"200ms\"\n");
    assert!(site.server.workers().is_empty());
    assert_eq!(monitor(&site, "/readyz", &[]).status, 200);
    let pool = wait_for_pool(&site, "the pool is ready", |pool| pool["state"] == "ready");
    assert_eq!((&pool["mode"], count(&pool)), (&"ondemand".into(), 0));
    for _ in 0..2 {
        assert_eq!(site.get("/a.php").text(), "1");
        wait_until("no worker is left", || site.server.workers().is_empty());
    }
    // Every worker that was started is counted at its end as well.
    let pool = wait_for_pool(&site, "all have ended", |pool| pool["spawned"] == pool["dismissed"]);
    assert!(pool["spawned"].as_u64() >= Some(2), "{pool:#}");
    assert_eq!(
        (&pool["recycled"], &pool["failed"], &pool["lost"]),
        (&0.into(), &0.into(), &0.into())
    );
}

#[test]
fn a_pool_on_demand_starts_a_worker_for_each_request_that_runs_and_not_more_than_workers() {
    if !has_php() {
        return;
    }
    let site = shop("mode = \"ondemand\"\nworkers = 3\nidle_timeout = \"5m\"\n");
    let mut wires = ask(&site, 0..2);
    wait_until_begun(&site, 0..2);
    wires.extend(ask(&site, 2..3));
    wait_until_begun(&site, 2..3);
    wires.extend(ask(&site, 3..5));
    let pool = wait_for_pool(&site, "two requests wait", |pool| pool["queue"] == 2);
    assert_eq!((count(&pool), &pool["active"]), (3, &3.into()), "{pool:#}");
    assert_eq!(&pool["most_workers"], 3);
    site.allow("end");
    for wire in &mut wires {
        assert_eq!(wire.reply("GET").text(), "done");
    }
}

#[test]
fn a_pool_on_demand_outlives_the_death_of_its_zygote_and_its_workers() {
    if !has_php() {
        return;
    }
    let site = shop("mode = \"ondemand\"\nworkers = 2\nidle_timeout = \"5m\"\n");
    assert_eq!(site.get("/a.php").text(), "1");
    let zygote = site.server.kill_zygote();
    assert_eq!(site.get("/a.php").text(), "1");
    assert!(!zygote.lives());
    let worker = site.server.workers()[0];
    worker.signal(howdah_sys::signal::SIGKILL);
    wait_until("the worker has ended", || !worker.lives());
    assert_eq!(site.get("/a.php").text(), "1");
}

#[test]
fn a_dynamic_pool_keeps_spare_workers_between_the_limits() {
    if !has_php() {
        return;
    }
    let numbers = "start_workers = 2\nmin_spare_workers = 2\nmax_spare_workers = 3\n";
    let site = shop(&format!("mode = \"dynamic\"\nworkers = 6\n{numbers}"));
    let pool = wait_for_pool(&site, "the pool has started", |pool| {
        (2..=3).contains(&pool["idle"].as_u64().unwrap())
    });
    assert_eq!(pool["mode"], "dynamic", "{pool:#}");
    let mut wires = ask(&site, 0..3);
    wait_until_begun(&site, 0..3);
    let pool = wait_for_pool(&site, "two are free again", |pool| {
        pool["active"] == 3 && pool["idle"].as_u64() >= Some(2)
    });
    assert!(count(&pool) <= 6, "{pool:#}");
    wires.extend(ask(&site, 3..6));
    wait_until_begun(&site, 3..6);
    wait_for_pool(&site, "all work", |pool| pool["active"] == 6 && pool["idle"] == 0);
    site.allow("end");
    for wire in &mut wires {
        assert_eq!(wire.reply("GET").text(), "done");
    }
    wait_for_pool(&site, "three are left", |pool| {
        let of = |key: &str| pool[key].as_u64().unwrap();
        count(pool) == 3 && of("idle") == 3 && of("spawned") - of("dismissed") == 3
    });
}

#[test]
fn free_workers_of_a_dynamic_pool_end_after_idle_timeout_if_it_is_set() {
    if !has_php() {
        return;
    }
    let numbers = "start_workers = 4\nmin_spare_workers = 1\nmax_spare_workers = 4\n";
    let site =
        shop(&format!("mode = \"dynamic\"\nworkers = 4\nidle_timeout = \"200ms\"\n{numbers}"));
    wait_for_pool(&site, "one is left", |pool| {
        let of = |key: &str| pool[key].as_u64().unwrap();
        count(pool) == 1 && of("dismissed") >= 3 && of("spawned") - of("dismissed") == 1
    });
    assert_eq!(site.get("/a.php").text(), "1");
}

#[test]
fn a_pool_without_a_mode_grows_with_its_load_and_explains_itself() {
    if !has_php() {
        return;
    }
    let site = shop("workers = 5\n");
    let pool = wait_for_pool(&site, "the pool has started", |pool| {
        pool["idle"].as_u64() >= Some(1) && pool["memory_sum"]["room"].as_u64() >= Some(1)
    });
    assert_eq!((&pool["mode"], &pool["most_workers"]), (&"auto".into(), &5.into()));
    let mut wires = ask(&site, 0..5);
    wait_until_begun(&site, 0..5);
    let pool = wait_for_pool(&site, "all work", |pool| pool["active"] == 5);
    let sum = |key: &str| pool["memory_sum"][key].as_u64().unwrap();
    assert!(sum("available") > sum("reserve") && sum("room") >= 5, "{pool:#}");
    assert!(sum("per_worker") > 0 && sum("share") > 0, "{pool:#}");
    let control = site.path().join("control");
    let (_, table, _) = Setup::with(&["status", "--control", control.to_str().unwrap()]).run();
    assert!(table.contains("; mode auto, at most 5 workers, memory for "), "{table}");
    site.allow("end");
    for wire in &mut wires {
        assert_eq!(wire.reply("GET").text(), "done");
    }
}

#[test]
fn an_automatic_pool_has_no_more_workers_than_its_memory_has_room_for() {
    if !has_php() {
        return;
    }
    // As long as no request has ended, a worker is thought to need 64 MiB, and 170 are for workers.
    let site = shop("workers = 6\nmemory = \"200M\"\n");
    let mut wires = ask(&site, 0..4);
    let pool = wait_for_pool(&site, "two run and two wait", |pool| {
        pool["active"] == 2 && pool["queue"] == 2
    });
    assert_eq!((count(&pool), &pool["memory_sum"]["room"]), (2, &2.into()), "{pool:#}");
    site.allow("end");
    for wire in &mut wires {
        assert_eq!(wire.reply("GET").text(), "done");
    }
}

#[test]
fn an_automatic_pool_without_work_keeps_one_worker() {
    if !has_php() {
        return;
    }
    let site = shop("workers = 4\nidle_timeout = \"200ms\"\n");
    let mut wires = ask(&site, 0..4);
    site.allow("end");
    for wire in &mut wires {
        assert_eq!(wire.reply("GET").text(), "done");
    }
    let pool = wait_for_pool(&site, "one is left", |pool| {
        let of = |key: &str| pool[key].as_u64().unwrap();
        count(pool) == 1 && of("spawned") - of("dismissed") == 1
    });
    assert_eq!((&pool["idle"], &pool["wanted_workers"]), (&1.into(), &1.into()), "{pool:#}");
    assert_eq!(site.get("/a.php").text(), "1");
}

#[test]
fn a_reload_changes_the_mode_and_loses_nothing() {
    if !has_php() {
        return;
    }
    let site = shop("mode = \"static\"\nworkers = 3\n");
    let pool = wait_for_pool(&site, "the pool has started", |pool| count(pool) == 3);
    assert_eq!(pool["mode"], "static");
    let mut wires = ask(&site, 0..1);
    wait_until_begun(&site, 0..1);
    site.reconfigure(&config("mode = \"ondemand\"\nworkers = 2\n"));
    wait_for_pool(&site, "the mode has changed", |pool| pool["mode"] == "ondemand");
    site.allow("end");
    assert_eq!(wires[0].reply("GET").text(), "done");
    assert_eq!(site.get("/a.php").text(), "1");
}

#[test]
fn as_few_workers_as_are_needed_at_once_get_all_requests_and_the_others_rest() {
    if !has_php() {
        return;
    }
    let site = shop("mode = \"static\"\nworkers = 6\n");
    let at_rest = |pool: &Value| count(pool) == 6 && pool["idle"] == 6;
    for round in 0..5 {
        wait_for_pool(&site, "all workers rest", at_rest);
        let numbers = 2 * round..2 * round + 2;
        let mut wires = ask(&site, numbers.clone());
        wait_until_begun(&site, numbers);
        site.allow("end");
        for wire in &mut wires {
            assert_eq!(wire.reply("GET").text(), "done");
        }
        std::fs::remove_file(site.scratch().join("end")).unwrap();
    }
    let pool = wait_for_pool(&site, "all workers rest", at_rest);
    let requests = |worker: &Value| worker["requests"].as_u64().unwrap();
    let workers = pool["workers"].as_array().unwrap();
    let mut requests: Vec<u64> = workers.iter().map(requests).collect();
    requests.sort_unstable();
    // A worker that a busy machine lets wait for seconds has another one in its place. If workers
    // took turns, two of them would have four.
    assert!(requests[4] + requests[5] >= 8, "{pool:#}");
}
