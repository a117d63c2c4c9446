//! Scripts that attack the server, and workers that break the protocol.

use std::time::{Duration, Instant};

use howdah_sys::signal::SIGKILL;

use crate::site::Site;
use crate::support::{Process, Server, has_php, wait_until};
use crate::wire::Wire;

/// `SIGSTOP` and `SIGCONT` of Linux.
const STOP_AND_CONTINUE: (i32, i32) = (19, 18);

/// Writes over the memory that the pool shares with the front: `zero`, `ones` or `noise`, from the
/// start or everywhere.
const SCRIBBLE: (&str, &str) = (
    "scribble.php",
    "<?php foreach (file('/proc/self/maps') as $line)
         if (str_contains($line, 'howdah-pool') && preg_match('/^([0-9a-f]+)-([0-9a-f]+) rw/', \
         $line, $m)) {
             $from = hexdec($m[1]); $length = min(hexdec($m[2]) - $from, (int) ($_GET['most'] ?? \
             1 << 30));
             $memory = fopen('/proc/self/mem', 'r+'); stream_set_write_buffer($memory, 0); \
             fseek($memory, $from);
             for ($done = 0; $done < $length; $done += $step) {
                 $step = min(4096, $length - $done);
                 $bytes = match ($_GET['how']) { 'zero' => str_repeat(chr(0), $step), 'ones' => \
                 str_repeat(chr(255), $step),
                     default => random_bytes($step) };
                 fwrite($memory, $bytes);
             }
             $hit = true;
         }
     echo isset($hit) ? 'scribbled' : 'not found';",
);
const OK: (&str, &str) = ("ok.php", "<?php echo 'ok ', str_repeat('x', 5000);");
const SLOW: (&str, &str) = ("slow.php", "<?php usleep(500_000); echo 'slow';");
/// Stops its worker while the script runs.
const STOPS: (&str, &str) = ("stops.php", "<?php posix_kill(getmypid(), 19); echo 'went on';");

/// Two pools without a sandbox, which would keep a script from its own memory as a file. Native
/// code needs no such file.
fn two_pools() -> Site {
    let entry = |name: &str, request_timeout: &str| {
        format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.example\"]\nroot = \"public\"\n\
             [site.php]\nworkers = 2\n\
             request_timeout = \"{request_timeout}\"\nrequest_terminate_timeout = \
             \"{request_timeout}\"\nqueue_timeout = \"{request_timeout}\"\n\
             state_dir = \"state-{name}\"\nsandbox = \"off\"\n"
        )
    };
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nthreads = 2\ncontrol = \"control\"\n[log]\naccess = \"off\"\n\
         {}{}",
        entry("evil", "3s"),
        entry("good", "5m")
    );
    Site::configured(&[SCRIBBLE, OK, SLOW], &config)
}

fn ask(site: &Site, host: &str, target: &str) -> u16 {
    let mut wire = site.connect();
    let reply = wire.ask("GET", target, &[("Host", host)], b"");
    assert!(reply.status != 200 || target != "/ok.php" || reply.body.len() == 5003, "{reply:?}");
    reply.status
}

/// The front survives, the other pool is not affected, and the pool itself is replaced and serves
/// again.
#[test]
fn a_script_that_scribbles_on_shared_memory_harms_its_own_pool_alone() {
    if !has_php() {
        return;
    }
    for how in ["zero", "ones", "noise"] {
        let site = two_pools();
        let front = site.server.front();
        for most in [600, 4096, 1_000_000_000] {
            // One of each pool runs meanwhile.
            let [mut hurt, mut unharmed] = ["evil.example", "good.example"].map(|host| {
                let mut wire = site.connect();
                wire.request("GET", "/slow.php", &[("Host", host)], b"");
                wire
            });
            std::thread::sleep(Duration::from_millis(20));
            let mut evil = site.connect();
            let target = format!("/scribble.php?how={how}&most={most}");
            evil.request("GET", &target, &[("Host", "evil.example")], b"");
            for _ in 0..20 {
                assert_eq!(ask(&site, "good.example", "/ok.php"), 200, "{target}");
            }
            // These get an answer or an end, in bounded time.
            evil.rest_or_reply();
            hurt.rest_or_reply();
            assert_eq!(unharmed.reply("GET").text(), "slow", "{target}");
            wait_until("the pool serves again", || ask(&site, "evil.example", "/ok.php") == 200);
        }
        assert_eq!(site.server.front(), front, "the front is the same process");
        wait_until("both pools are complete", || workers(&site.server) == 4);
    }
}

fn workers(server: &Server) -> usize {
    server.zygotes().iter().map(|zygote| zygote.children().len()).sum()
}

#[test]
fn a_script_that_kills_its_zygote_ends_with_it_and_no_other_pool_does() {
    if !has_php() {
        return;
    }
    let site = Site::new(&[("index.php", "<?php posix_kill(posix_getppid(), 9); sleep(60);"), OK]);
    let front = site.server.front();
    for _ in 0..3 {
        assert_eq!(site.get("/").status, 502);
        wait_until("the pool serves again", || site.get("/ok.php").status == 200);
    }
    assert_eq!(site.server.front(), front);
    wait_until("no worker of a dead zygote is left", || workers(&site.server) == 2);
    wait_until("no other process is left", || site.server.processes().len() == 5);
}

#[test]
fn an_idle_worker_that_is_stopped_is_passed_over() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(&[OK], "workers = 2");
    wait_until("both workers are there", || site.server.workers().len() == 2);
    assert_eq!(site.get("/ok.php").status, 200);
    for worker in site.server.workers() {
        worker.signal(STOP_AND_CONTINUE.0);
        // A request that waited for this worker would wait for longer than the test does.
        for _ in 0..3 {
            assert_eq!(site.get("/ok.php").status, 200);
        }
        worker.signal(STOP_AND_CONTINUE.1);
    }
}

#[test]
fn a_busy_worker_that_is_stopped_is_replaced() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(&[OK, STOPS], "workers = 1\nrequest_timeout = \"1s\"");
    wait_until("the worker is there", || site.server.workers().len() == 1);
    let worker = site.server.workers()[0];
    assert_eq!(site.get("/stops.php").status, 504);
    // A busy machine may take the time limit of this one, too.
    wait_until("SIGKILL has made room", || site.get("/ok.php").status == 200);
    assert_ne!(site.server.workers()[0], worker);
}

#[test]
fn a_stopped_zygote_is_no_obstacle_to_requests() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(&[OK], "workers = 2");
    wait_until("both workers are there", || site.server.workers().len() == 2);
    let zygote = site.server.zygote();
    zygote.signal(STOP_AND_CONTINUE.0);
    for _ in 0..20 {
        assert_eq!(site.get("/ok.php").status, 200);
    }
    // A worker that dies meanwhile affects only the requests that wait for a worker.
    site.server.workers()[0].signal(SIGKILL);
    for _ in 0..20 {
        assert_eq!(site.get("/ok.php").status, 200);
    }
    zygote.signal(STOP_AND_CONTINUE.1);
    wait_until("the dead worker is replaced", || {
        let workers = site.server.workers();
        workers.len() == 2 && workers.iter().all(|worker| worker.lives())
    });
}

#[test]
fn a_pool_that_is_stopped_as_a_whole_is_replaced() {
    if !has_php() {
        return;
    }
    // Workers that are idle, also after others have died in a request, and workers that run
    // scripts.
    for (is_idle, have_died, lines) in [
        (true, false, "workers = 2\nqueue_timeout = \"1s\""),
        (true, true, "workers = 2\nqueue_timeout = \"1s\""),
        (false, false, "workers = 2\nrequest_timeout = \"1s\""),
    ] {
        let site = Site::with_php(&[OK, STOPS], lines);
        wait_until("both workers are there", || site.server.workers().len() == 2);
        if have_died {
            die_in_requests(&site);
        }
        let (front, zygote) = (site.server.front(), site.server.zygote());
        let workers = site.server.workers();
        let mut wires: Vec<Wire> = (0..2).map(|_| site.connect()).collect();
        zygote.signal(STOP_AND_CONTINUE.0);
        if is_idle {
            workers.iter().for_each(|worker| worker.signal(STOP_AND_CONTINUE.0));
        } else {
            wires.iter_mut().for_each(|wire| wire.request("GET", "/stops.php", &[], b""));
        }
        wait_until("the pool serves again", || {
            site.get("/ok.php").status == 200 && !workers.iter().any(|worker| worker.lives())
        });
        // A zygote that the supervisor lets go on may have replaced its workers by itself.
        let goes_on = || {
            !site
                .log_lines(&format!("its zygote {} was stopped", zygote.number()))
                .is_empty()
        };
        wait_until("the zygote goes on or has gone", || goes_on() || !zygote.lives());
        assert_eq!(site.server.front(), front);
    }
}

/// Kills both workers of a site while each runs a script, and waits for the next two.
fn die_in_requests(site: &Site) {
    let workers = site.server.workers();
    let mut wires: Vec<Wire> = (0..2).map(|_| site.connect()).collect();
    wires.iter_mut().for_each(|wire| wire.request("GET", "/stops.php", &[], b""));
    let is_stopped =
        |worker: &Process| worker.status("State").is_some_and(|state| state.starts_with('T'));
    wait_until("both run a script", || workers.iter().all(is_stopped));
    workers.iter().for_each(|worker| worker.signal(SIGKILL));
    wires.iter_mut().for_each(|wire| assert_eq!(wire.reply("GET").status, 502));
    wait_until("both have successors", || {
        let successors = site.server.workers();
        successors.len() == 2 && !successors.iter().any(|worker| workers.contains(worker))
    });
    assert_eq!(site.get("/ok.php").status, 200);
}

/// On a busy machine workers may take longer to start than a short `queue_timeout`.
#[test]
fn a_pool_whose_workers_start_slowly_is_not_replaced() {
    if !has_php() {
        return;
    }
    for _ in 0..5 {
        let began = Instant::now();
        let site = Site::with_php(&[OK], "workers = 2\nqueue_timeout = \"500ms\"");
        let zygote = site.server.zygote();
        // None is started from now on.
        zygote.signal(STOP_AND_CONTINUE.0);
        wait_until("the zygote is stopped", || {
            zygote.status("State").is_some_and(|state| state.starts_with('T'))
        });
        let workers = site.server.workers();
        workers.iter().for_each(|worker| worker.signal(STOP_AND_CONTINUE.0));
        let status = site.get("/ok.php").status;
        let took = began.elapsed();
        for process in workers.iter().chain([&zygote]) {
            process.signal(STOP_AND_CONTINUE.1);
        }
        wait_until("the pool serves", || site.get("/ok.php").status == 200);
        // Such a pool may be replaced after five seconds.
        if took < Duration::from_millis(4500) {
            assert_eq!((status, site.log_lines("the pool has failed")), (503, Vec::new()));
            assert_eq!(site.server.zygote(), zygote);
            return;
        }
    }
    howdah_skip::skip!("this machine is too slow");
}

#[test]
fn a_client_that_reads_nothing_is_given_up() {
    if !has_php() {
        return;
    }
    let files =
        [("big.php", "<?php for ($i = 0; $i < 3000; $i++) echo str_repeat('x', 10000);"), OK];
    let limits = "send_timeout = \"1s\"\nspill_memory = \"64K\"\nspill_file = \"1M\"";
    let site = Site::with(
        &files,
        &crate::site::Options {
            limits,
            php: "workers = 1",
            ..Default::default()
        },
    );
    site.file("big.bin", vec![b'y'; 30_000_000]);
    site.ask_at_once("/ok.php", 60);
    // Every thread keeps the file open from now on.
    let mut wires: Vec<Wire> = (0..60).map(|_| site.connect()).collect();
    for wire in &mut wires {
        assert_eq!(wire.ask("HEAD", "/big.bin", &[], b"").status, 200);
    }
    drop(wires);
    wait_until("the connections before are closed", || {
        let descriptors = site.server.front().descriptors();
        descriptors.len() < 60
    });
    let before = site.server.front().descriptors().len();
    let mut lazy: Vec<Wire> = ["/big.php", "/big.bin"]
        .into_iter()
        .map(|target| {
            let mut wire = site.connect();
            wire.request("GET", target, &[], b"");
            wire
        })
        .collect();
    // The script has to wait for its reader, and so has this one for the script, until the reader
    // is given up.
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(site.get("/ok.php").status, 200);
    wait_until("both connections are closed", || site.server.front().descriptors().len() <= before);
    for wire in &mut lazy {
        assert!(wire.rest().len() < 30_000_000, "it broke off");
    }
}
