//! The zygote and its workers, driven over the real shared memory by a test that plays supervisor
//! and front.
#![cfg(not(no_php))]
#![allow(clippy::unwrap_used)] // A step that cannot be done fails the test.

mod ini;
mod launch;
mod pool;
mod warmup;

use std::time::{Duration, Instant};

use howdah_ipc::control::{BUILD, FromZygote, PoolSettings, ToZygote};
use howdah_ipc::worker_set::WorkerSet;

use crate::launch::refusal;
use crate::pool::{Pool, Site, wait_until};

const SIGKILL: u64 = 9;
const SIGSEGV: u64 = 11;
const SIGUSR1: u64 = 10;

#[test]
fn a_pool_answers() {
    let site = Site::new(&[(
        "a.php",
        "echo 'Hello ', $_SERVER['HOWDAH_POOL'], $_SERVER['HOWDAH_WORKER_REQUESTS'];",
    )]);
    let mut pool = Pool::start(PoolSettings::default(), 1);
    assert!(pool.php_version.starts_with("8."), "{}", pool.php_version);
    assert_eq!(pool.opcache, "on");
    for served in 0..3 {
        let answer = pool.get(&site, "a.php");
        assert_eq!((answer.status, answer.text()), (200, format!("Hello test{served}")));
    }
    assert_eq!(pool.stop(), "");
}

#[test]
fn a_program_of_other_sources_says_so() {
    let mut first = ToZygote::Settings(Box::default()).encode();
    let build = &mut first[1..9];
    build.copy_from_slice(&(BUILD ^ 1).to_ne_bytes());
    let reason = refusal(&first);
    assert!(reason.contains("install the same version of both"), "{reason}");
}

#[test]
fn a_large_response_streams_through_the_ring() {
    let site = Site::new(&[(
        "a.php",
        "for ($i = 0; $i < 4000; $i++) echo str_repeat(chr(97 + $i % 26), 1000);",
    )]);
    let mut pool = Pool::start(PoolSettings::default(), 1);
    let answer = pool.get(&site, "a.php");
    assert_eq!(answer.body.len(), 4_000_000);
    assert!(
        answer
            .body
            .chunks(1000)
            .enumerate()
            .all(|(i, chunk)| chunk.iter().all(|&b| b == b'a' + (i % 26) as u8))
    );
}

#[test]
fn content_comes_inline_or_as_a_file() {
    let site = Site::new(&[(
        "a.php",
        "$in = file_get_contents('php://input'); echo strlen($in), md5($in);",
    )]);
    let mut pool = Pool::start(PoolSettings::default(), 2);
    let by_file = pool.post(&site, "a.php", &vec![b'x'; 3_000_000], true);
    assert_eq!(by_file.text(), "30000008e32e22642bddc89698e25a4e9bf528b");
    assert_eq!(
        pool.post(&site, "a.php", b"abc", false).text(),
        "3900150983cd24fb0d6963f7d28e17f72"
    );
    assert_eq!(pool.post(&site, "a.php", b"abc", true).text(), "3900150983cd24fb0d6963f7d28e17f72");
    assert_eq!(pool.stop(), "");
}

#[test]
fn a_head_that_does_not_fit_is_a_500() {
    let site = Site::new(&[("a.php", "header('X-A: ' . str_repeat('x', 600_000)); echo 'body';")]);
    let mut pool = Pool::start(PoolSettings::default(), 1);
    let answer = pool.get(&site, "a.php");
    assert_eq!((answer.status, &*answer.text()), (500, ""));
    assert!(pool.stop().contains("header fields have more than 512 KB"));
}

#[test]
fn workers_are_replaced_whatever_ends_them() {
    let site = Site::new(&[("pid.php", "echo getmypid();")]);
    let mut pool = Pool::start(PoolSettings::default(), 1);
    for signal in [SIGKILL, SIGSEGV] {
        let first: u64 = pool.get(&site, "pid.php").text().parse().unwrap();
        pool.send(&ToZygote::Kill { worker: 0, pid: first + 1, signal });
        pool.send(&ToZygote::Kill { worker: 0, pid: first, signal });
        let died = pool.expect(|message| matches!(message, FromZygote::Died { .. }));
        let FromZygote::Died { worker: 0, pid, status, .. } = died else {
            panic!("{died:?}")
        };
        assert_eq!((pid, status & 0x7F), (first, signal));
        let second: u64 = pool.get(&site, "pid.php").text().parse().unwrap();
        assert_ne!(first, second);
    }
}

#[test]
fn a_worker_ends_after_its_requests() {
    let site = Site::new(&[("pid.php", "echo getmypid();")]);
    let mut pool = Pool::start(
        PoolSettings {
            max_requests: 3,
            ..PoolSettings::default()
        },
        1,
    );
    let pids: Vec<_> = (0..9).map(|_| pool.get(&site, "pid.php").text()).collect();
    for pids in pids.chunks(3) {
        assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
    }
    assert!(pids[0] != pids[3] && pids[3] != pids[6], "{pids:?}");
    assert_eq!(pool.stop(), "");
}

#[test]
fn a_pool_grows_and_shrinks() {
    let site = Site::new(&[("a.php", "echo 1;")]);
    let mut pool = Pool::start(PoolSettings::default(), 4);
    pool.send(&ToZygote::Keep(WorkerSet::first(1)));
    let mut dead = Vec::new();
    while dead.len() < 3 {
        if let FromZygote::Died { worker, status, .. } =
            pool.expect(|message| matches!(message, FromZygote::Died { .. }))
        {
            dead.push((worker, status));
        }
    }
    dead.sort_unstable();
    assert_eq!(dead, [(1, 0), (2, 0), (3, 0)]);
    assert_eq!(pool.get(&site, "a.php").text(), "1");
    pool.send(&ToZygote::Keep([0, 2].into_iter().collect()));
    pool.expect(|message| matches!(message, FromZygote::Started { worker: 2, .. }));
    pool.send(&ToZygote::Keep(WorkerSet::default()));
    let dead =
        [(); 2].map(|()| match pool.expect(|message| matches!(message, FromZygote::Died { .. })) {
            FromZygote::Died { worker, .. } => worker,
            other => panic!("{other:?}"),
        });
    assert!(dead == [0, 2] || dead == [2, 0], "{dead:?}");
}

#[test]
fn a_time_out_lets_the_script_clean_up() {
    let site = Site::new(&[
        (
            "busy.php",
            "register_shutdown_function(fn() => print('shut')); ignore_user_abort(true); \
             touch('busy.php.begun'); while (true) { }",
        ),
        (
            "sleep.php",
            "register_shutdown_function(fn() => print('shut')); touch('sleep.php.begun'); while \
             (true) { sleep(60); }",
        ),
        ("fast.php", "echo 'fast';"),
    ]);
    let mut pool = Pool::start(PoolSettings::default(), 1);
    let pid = pool.worker_pid(0);
    // A signal for a request that has ended by now does not hit the next one.
    pool.send(&ToZygote::Kill { worker: 0, pid, signal: SIGUSR1 });
    assert_eq!(pool.get(&site, "fast.php").text(), "fast");
    for script in ["busy.php", "sleep.php"] {
        let running = pool.submit(&site, script);
        wait_until(|| site.root.join(format!("{script}.begun")).exists());
        // A younger request is spared.
        std::thread::sleep(Duration::from_millis(300));
        pool.send(&ToZygote::Kill { worker: 0, pid, signal: SIGUSR1 });
        let answer = pool.finish(running);
        assert_eq!((answer.status, answer.text()), (500, "shut".to_owned()), "{script}");
    }
    assert_eq!(pool.worker_pid(0), pid);
    assert!(pool.stop().contains("Maximum request time exceeded in "));
}

#[test]
fn stopping_lets_the_running_request_finish() {
    let php = "touch('begun'); while (!file_exists('go')) { usleep(1000); clearstatcache(); } echo \
        'done';";
    let site = Site::new(&[("slow.php", php)]);
    let mut pool = Pool::start(PoolSettings::default(), 1);
    let running = pool.submit(&site, "slow.php");
    wait_until(|| site.root.join("begun").exists());
    pool.send(&ToZygote::Stop);
    std::thread::sleep(Duration::from_millis(100));
    std::fs::write(site.root.join("go"), "").unwrap();
    assert_eq!(pool.finish(running).text(), "done");
    pool.wait_for_end();
}

#[test]
fn without_the_front_or_the_supervisor_everything_ends() {
    for drop_front in [true, false] {
        let php = "ignore_user_abort(true); touch('begun'); while (true) { }";
        let site = Site::new(&[("stuck.php", php)]);
        let mut pool = Pool::start(PoolSettings::default(), 2);
        let _running = pool.submit(&site, "stuck.php");
        wait_until(|| site.root.join("begun").exists());
        let workers = [pool.worker_pid(0), pool.worker_pid(1)];
        if drop_front {
            pool.close_front();
        } else {
            pool.close_supervisor();
        }
        pool.wait_for_end();
        for pid in workers {
            wait_until(|| !pool::runs(pid));
        }
    }
}

#[test]
fn workers_die_with_a_zygote_that_is_killed() {
    let mut pool = Pool::start(PoolSettings::default(), 2);
    let workers = [pool.worker_pid(0), pool.worker_pid(1)];
    pool.kill_zygote();
    for pid in workers {
        wait_until(|| !pool::runs(pid));
    }
}

#[test]
fn workers_that_cannot_live_do_not_eat_the_machine() {
    let site = Site::new(&[("a.php", "echo 1;")]);
    let mut pool = Pool::start(PoolSettings::default(), 1);
    let begun = Instant::now();
    for _ in 0..250 {
        let pid = pool.worker_pid(0);
        // One that dies before its first request is replaced more slowly still.
        assert_eq!(pool.get(&site, "a.php").text(), "1");
        pool.send(&ToZygote::Kill { worker: 0, pid, signal: SIGKILL });
        pool.expect(|message| matches!(message, FromZygote::Died { .. }));
        pool.expect(|message| matches!(message, FromZygote::Started { .. }));
    }
    // A hundred of them at once, and as many in each second that follows.
    assert!(begun.elapsed() > Duration::from_millis(990), "{:?}", begun.elapsed());
}

#[test]
fn the_pool_has_folders_and_an_environment_of_its_own() {
    let site = Site::new(&[(
        "a.php",
        "session_start(); $file = tmpfile(); echo json_encode([sys_get_temp_dir(), \
            session_save_path(), ini_get('upload_tmp_dir'),
            getenv('APP_ENV'), $_SERVER['APP_ENV'], getenv('HOME'), getenv('PHP_INI_SCAN_DIR')], \
            JSON_UNESCAPED_SLASHES);",
    )]);
    let state = site.root.join("state").display().to_string();
    let settings = PoolSettings {
        state_dir: state.clone(),
        environment: vec![("APP_ENV".into(), "live".into())],
        admin_ini: vec![
            ("upload_tmp_dir".into(), "/elsewhere".into()),
            ("no.such".into(), "1".into()),
        ],
        ..PoolSettings::default()
    };
    let mut pool = Pool::start(settings, 1);
    let expected =
        format!(r#"["{state}/tmp","{state}/sessions","/elsewhere","live","live",false,false]"#);
    assert_eq!(pool.get(&site, "a.php").text(), expected);
    assert_eq!(std::fs::read_dir(site.root.join("state/sessions")).unwrap().count(), 1);
    let warning = "warning: an ini setting has no effect: this PHP has no setting \"no.such\"; \
                   check the name, or install the extension\n";
    assert_eq!(pool.stop(), warning);
}

#[test]
fn settings_that_cannot_work_are_reported() {
    let settings = PoolSettings {
        ini_file: "/nowhere/php.ini".into(),
        ..PoolSettings::default()
    };
    let reason = Pool::start_in_vain(settings);
    assert_eq!(reason, "cannot read /nowhere/php.ini: No such file or directory (os error 2)");
}

#[test]
fn opcache_that_is_off_is_reported() {
    let site = Site::new(&[("a.php", "echo 1;")]);
    let settings = PoolSettings {
        ini: vec![("opcache.enable".into(), "0".into())],
        ..PoolSettings::default()
    };
    let mut pool = Pool::start(settings, 1);
    assert_eq!(pool.opcache, "off: opcache.enable is off");
    assert_eq!(pool.get(&site, "a.php").text(), "1");
}

#[test]
fn workers_share_what_opcache_has_compiled() {
    let php = "echo opcache_get_status(true)['scripts'][__FILE__]['hits'];";
    let site = Site::new(&[("a.php", php)]);
    let settings = PoolSettings {
        ini: vec![("opcache.file_update_protection".into(), "0".into())],
        ..PoolSettings::default()
    };
    let mut pool = Pool::start(PoolSettings { max_requests: 1, ..settings }, 1);
    let hits: Vec<_> = (0..4).map(|_| pool.get(&site, "a.php").text()).collect();
    assert_eq!(hits, ["0", "1", "2", "3"]);
}

#[test]
fn scripts_have_no_descriptor_to_the_front_or_the_supervisor() {
    let php = "foreach (glob('/proc/self/fd/*') as $fd) { $links[] = basename($fd) . ' ' . \
        @readlink($fd); } echo implode(\"\\n\", $links);";
    let site = Site::new(&[("a.php", php)]);
    let mut pool = Pool::start(PoolSettings::default(), 1);
    let links = pool.get(&site, "a.php").text();
    let numbers: Vec<_> = links.lines().filter_map(|line| line.split_once(' ')).collect();
    assert!(!links.contains("signalfd"), "{links}");
    assert!(
        numbers
            .iter()
            .all(|(number, link)| !["3", "4"].contains(number) || !link.starts_with("socket")),
        "{links}"
    );
}

#[test]
fn what_is_flushed_arrives_while_the_script_runs() {
    let php = "ob_end_flush(); echo 'one'; flush(); while (!file_exists('go')) { usleep(1000); \
        clearstatcache(); } echo 'two';";
    let site = Site::new(&[("a.php", php)]);
    let mut pool = Pool::start(PoolSettings::default(), 1);
    let mut running = pool.submit(&site, "a.php");
    let first = pool.read_some(&mut running, b"one");
    assert!(first.ends_with(b"one"));
    std::fs::write(site.root.join("go"), "").unwrap();
    let rest = pool.finish_raw(running);
    assert_eq!(rest, b"two");
}

#[test]
fn a_script_whose_client_is_gone_ends_at_its_next_flush() {
    let php = "register_shutdown_function(function () { file_put_contents(__DIR__ . '/end', \
        connection_status()); });
        ob_end_flush(); while (true) { echo 'x'; flush(); usleep(1000); }";
    let site = Site::new(&[("a.php", php)]);
    let mut pool = Pool::start(PoolSettings::default(), 1);
    let mut running = pool.submit(&site, "a.php");
    pool.read_some(&mut running, b"x");
    pool.abort(&running);
    pool.finish_raw(running);
    assert_eq!(std::fs::read_to_string(site.root.join("end")).unwrap(), "1");
    assert_eq!(pool.stop(), "");
}

#[test]
fn a_writer_without_room_notices_that_the_client_is_gone() {
    let site = Site::new(&[("a.php", "while (true) echo str_repeat('x', 100000);")]);
    let mut pool = Pool::start(PoolSettings::default(), 1);
    let mut running = pool.submit(&site, "a.php");
    pool.read_some(&mut running, b"x");
    std::thread::sleep(Duration::from_millis(100)); // The ring is full now.
    pool.abort(&running);
    pool.finish_raw(running);
}

#[test]
fn the_response_can_end_before_the_script() {
    let php = "echo 'sent'; fastcgi_finish_request(); while (!file_exists('go')) { usleep(1000); \
        clearstatcache(); } echo 'never';";
    let site = Site::new(&[("a.php", php)]);
    let mut pool = Pool::start(PoolSettings::default(), 1);
    let mut running = pool.submit(&site, "a.php");
    pool.read_some(&mut running, b"sent");
    pool.wait_for_response_end(&mut running);
    std::fs::write(site.root.join("go"), "").unwrap();
    assert_eq!(pool.finish_raw(running), b"");
}

#[test]
fn a_form_beyond_the_memory_limit_costs_a_worker_and_no_more() {
    let site = Site::new(&[("a.php", "echo count($_POST);"), ("b.php", "echo 'fine';")]);
    let settings = PoolSettings {
        ini: [("memory_limit", "4M"), ("post_max_size", "64M"), ("max_input_vars", "1000000")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
        ..PoolSettings::default()
    };
    let mut pool = Pool::start(settings, 1);
    let form: String = (0..100_000).map(|number| format!("a{number}=1&")).collect();
    let answer = pool.post_form(&site, "a.php", form.as_bytes());
    assert_eq!((answer.status, answer.text()), (500, String::new()));
    assert_eq!(pool.get(&site, "b.php").text(), "fine");
    assert!(pool.stop().contains("Allowed memory size of 4194304 bytes exhausted"));
}

#[test]
fn a_worker_whose_scripts_left_too_many_files_open_is_replaced() {
    let leak = "posix_setrlimit(POSIX_RLIMIT_NOFILE, 64, 64); \
        for ($port = 1; @pfsockopen('udp://127.0.0.1', $port); $port++); \
        posix_setrlimit(POSIX_RLIMIT_NOFILE, 3, 3); echo getmypid();";
    // The script's own file is closed behind it, and would leave room for another one.
    let site = Site::new(&[("leak.php", leak), ("pid.php", "echo getmypid();")]);
    let mut pool = Pool::start(PoolSettings::default(), 1);
    let first = pool.get(&site, "leak.php").text();
    let refused = pool.get(&site, "pid.php");
    assert_eq!((refused.status, refused.text()), (503, "Service Unavailable.\n".to_owned()));
    let second = pool.get(&site, "pid.php");
    assert_eq!(second.status, 200);
    assert_ne!(first, second.text());
    assert!(pool.stop().contains("too many files are open"));
}

#[test]
fn thousands_of_requests_on_two_workers() {
    let site = Site::new(&[("a.php", "echo str_repeat($_GET['n'], 10);")]);
    let mut pool = Pool::start(
        PoolSettings {
            max_requests: 500,
            ..PoolSettings::default()
        },
        2,
    );
    for number in 0..3000 {
        let answer = pool.get(&site, &format!("a.php?n={number}"));
        assert_eq!((answer.status, answer.text()), (200, number.to_string().repeat(10)));
    }
    assert_eq!(pool.stop(), "");
}
