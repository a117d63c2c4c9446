//! A front that no longer answers is replaced, even if only one of its threads hangs.

use std::fs;
use std::time::{Duration, Instant};

use crate::config;
use crate::support::{Client, Folder, PATIENCE, Process, Server, Setup, wait_until};

const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;

/// A site of files, with two threads.
fn site() -> Folder {
    let folder = Folder::new();
    folder.file("a.txt", "hello");
    folder
}

/// The front takes the order to hang that it finds at `hang`. The folder of that file is its folder
/// for temporary files, because it may write to no other.
fn start(folder: &Folder, hang: &str) -> Server {
    let temporary = match std::path::Path::new(hang).parent() {
        Some(folder) if !hang.is_empty() => folder.display().to_string(),
        _ => std::env::temp_dir().display().to_string(),
    };
    Setup::config(&config(folder, "threads = 2\n[limits]\nhead_timeout = \"5m\"", "php = false"))
        .environment("HOWDAH_TEST_HANG", hang)
        .environment("TMPDIR", &temporary)
        .start()
}

/// Returns whether a signal has stopped all threads of the process.
fn are_stopped(process: Process) -> bool {
    let tasks = fs::read_dir(format!("/proc/{}/task", process.number())).unwrap();
    tasks.flatten().all(|task| {
        let text = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        text.lines().any(|line| line.starts_with("State:\tT"))
    })
}

#[test]
fn a_stopped_front_is_replaced() {
    let folder = site();
    let server = start(&folder, "");
    let front = server.front();
    front.signal(SIGSTOP);
    // Until then a thread could accept the connection, which would end with the front.
    wait_until("all threads are stopped", || are_stopped(front));
    // The connection waits for the next front.
    assert_eq!(server.get("/a.txt").text(), "hello");
    assert!(!front.lives());
    server.wait_for_log("has not answered for 5 s: a signal has stopped it");
    server.wait_for_log(&format!("the front {} was killed by SIGKILL", front.number()));
    server.stop();
}

#[test]
fn the_front_that_replaces_a_stopped_one_tells_the_state() {
    let folder = site();
    let server = start(&folder, "");
    let front = server.front();
    front.signal(SIGSTOP);
    wait_until("all threads are stopped", || are_stopped(front));
    let file = folder.path().join("howdah.toml").display().to_string();
    let (code, told, errors) = Setup::with(&["status", "--json", "--config", &file]).run();
    assert_eq!(code, Some(0), "{told}{errors}{}", server.log());
    let asked = format!("\"front\":{}", server.front().number());
    assert!(told.replace(' ', "").contains(&asked), "{told}");
    assert!(!front.lives());
    server.stop();
}

#[test]
fn one_thread_that_hangs_is_enough() {
    if !cfg!(debug_assertions) {
        return howdah_skip::skip!("only debug builds can make one thread hang");
    }
    for (how, why) in
        [("loop", "it uses a processor without end"), ("sleep", "a system call does not return")]
    {
        let (folder, orders) = (site(), Folder::writable());
        fs::set_permissions(orders.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777))
            .unwrap();
        let order = orders.path().join("hang");
        let server = start(&folder, order.to_str().unwrap());
        let front = server.front();
        // The front deletes the order as soon as it is there.
        let unseen = orders.path().join("unseen");
        fs::write(&unseen, how).unwrap();
        fs::set_permissions(&unseen, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        fs::rename(&unseen, &order).unwrap();
        wait_until("the front is replaced", || !front.lives());
        assert_eq!(server.get("/a.txt").text(), "hello");
        server.wait_for_log("its thread 1 (task ");
        server.wait_for_log(why);
        server.stop();
    }
}

#[test]
fn a_machine_that_was_asleep_keeps_its_front() {
    let until = Instant::now() + PATIENCE;
    // The supervisor may replace a front that is stopped for much longer than here.
    while !survives_a_sleep(Duration::from_secs(3)) {
        assert!(Instant::now() < until, "this test was too slow to wake the front in time");
    }
}

/// Returns whether the front went on so soon after the supervisor that it must not be replaced.
fn survives_a_sleep(soon: Duration) -> bool {
    let folder = site();
    let server = start(&folder, "");
    let (supervisor, front) = (server.supervisor(), server.front());
    let mut client = Client::connect(server.address());
    supervisor.signal(SIGSTOP);
    front.signal(SIGSTOP);
    std::thread::sleep(Duration::from_secs(7));
    // As after a suspension, in the worse order.
    let woken = Instant::now();
    supervisor.signal(SIGCONT);
    std::thread::sleep(Duration::from_millis(200));
    front.signal(SIGCONT);
    let is_soon = woken.elapsed() < soon;
    if is_soon {
        std::thread::sleep(Duration::from_secs(2));
        assert_eq!(client.get("/a.txt").text(), "hello");
        assert_eq!(server.front(), front, "{}", server.log());
    }
    server.stop();
    is_soon
}
