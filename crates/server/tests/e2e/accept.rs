//! Connections and the threads that accept them.

use std::time::{Duration, Instant};

use crate::site::{Options, Site, far_limits};

/// Threads of the front.
const THREADS: usize = 8;
/// Connections, one after the other.
const CONNECTIONS: u64 = 200;

#[test]
fn a_connection_wakes_one_thread() {
    let config = "listen = [\"127.0.0.1:0\"]\nthreads = 8\n[log]\naccess = \"off\"\n\
                  [[site]]\nroot = \"public\"\nphp = false\n";
    let site = Site::configured(&[("a.txt", "content")], config);
    let front = site.server.front();
    // Every thread is there, and has nothing left to do from the start.
    for _ in 0..THREADS {
        site.get("/a.txt");
    }
    let Some(before) = front.sleeps() else {
        return howdah_skip::skip!("this system does not count how often threads sleep");
    };
    let began = Instant::now();
    for _ in 0..CONNECTIONS {
        assert_eq!(site.get("/a.txt").text(), "content");
    }
    let after = front.sleeps().unwrap();
    // Every thread looks after its own connections twice a second.
    let by_themselves = THREADS as f64 * 2.0 * (began.elapsed().as_secs_f64() + 1.0);
    assert!(after.len() >= THREADS, "{after:?}");
    let woken: Vec<u64> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    // A thread that serves a connection wakes for accepting it, for its request and for its end.
    let total: u64 = woken.iter().sum();
    let most = CONNECTIONS * THREADS as u64 / 2 + by_themselves as u64;
    assert!(total < most, "{total} in all, by thread {woken:?}");
}

/// The limit of open files of a front that runs out of them.
const DESCRIPTORS: usize = 128;

#[test]
fn without_free_descriptors_clients_are_served_and_others_wait_for_the_next_free_one() {
    let options = Options {
        limits: &far_limits(""),
        ..Options::default()
    };
    let site = Site::with(&[("a.txt", "content")], &options);
    // From now on the file is open already.
    assert_eq!(site.get("/a.txt").text(), "content");
    let front = site.server.front();
    if !front.limit_open_files(DESCRIPTORS) {
        return howdah_skip::skip!("prlimit of util-linux cannot limit the front's open files");
    }
    let begin = |_| {
        let mut wire = site.connect();
        wire.send("GET /a.txt HTTP/1.1\r\nHost: x\r\n");
        wire
    };
    let mut wires: Vec<_> = (0..DESCRIPTORS).map(begin).collect();
    site.server.wait_for_log("cannot accept connections");

    let before = (front.time_of_threads(|_| true), Instant::now());
    std::thread::sleep(Duration::from_millis(500));
    if let (Some(after), Some(before), passed) =
        (front.time_of_threads(|_| true), before.0, before.1.elapsed())
    {
        let busy = after - before;
        assert!(busy < passed / 2, "busy for {busy:?} of {passed:?}");
    }

    let (mut first, mut last) = (wires.remove(0), wires.pop().unwrap());
    for wire in [&mut first, &mut last] {
        wire.send("\r\n");
    }
    assert_eq!(first.reply("GET").text(), "content", "a connection that was accepted before");
    wires.truncate(DESCRIPTORS / 2);
    assert_eq!(last.reply("GET").text(), "content", "a connection that waited");
    assert_eq!(site.get("/a.txt").text(), "content", "a further one");
    assert_eq!(site.log_lines("cannot accept connections").len(), 1);
}
