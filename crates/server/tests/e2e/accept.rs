//! Connections and the threads that accept them.

use std::time::Instant;

use crate::site::Site;

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
        return eprintln!("skipped: this system does not count how often threads sleep");
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
