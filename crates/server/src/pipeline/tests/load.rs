//! Requests that have no room among the others.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use tokio::task::{JoinHandle, spawn_local, yield_now};

use super::cold::ask;
use super::site::{on_thread, peer};
use crate::crew::{ClientNetwork, JobOrigin};
use crate::descriptor_needs::LEAST_EVALUATORS;
use crate::front::{FrontThread, processors};

#[test]
fn a_listing_that_has_to_wait_for_too_many_others_is_no_error_of_the_site() {
    on_thread(|thread| async move {
        let listed = ask(Rc::clone(&thread), "x /listed/").await;
        assert!(listed.starts_with("200 "), "{listed}");
        assert_eq!(judged(&thread), (1, 0));
        let broken = ask(Rc::clone(&thread), "x /broken/").await;
        assert!(broken.starts_with("500 "), "{broken}");
        assert_eq!(judged(&thread), (2, 1), "an error of the site's own");
        // First those threads that a site may have: they take no further job.
        let begun = Arc::new(AtomicUsize::new(0));
        let at_a_time = processors().div_ceil(2).max(LEAST_EVALUATORS) - 1;
        let occupy = || occupy(&thread, peer().remote.ip(), &begun);
        let mut held: Vec<_> = (0..at_a_time).map(|_| occupy()).collect();
        while begun.load(Ordering::Relaxed) < at_a_time {
            yield_now().await;
        }
        held.extend((0..300).map(|_| occupy()));
        while !held.iter().any(|(_, place)| place.is_finished()) {
            yield_now().await; // until a place is refused
        }
        for _ in 0..20 {
            let refused = ask(Rc::clone(&thread), "x /listed/").await;
            assert!(refused.starts_with("503 "), "{refused}");
        }
        assert_eq!(judged(&thread), (2, 1));
        drop(held);
    });
}

/// Keeps a place of a client in the crew that evaluates directives until the sender is dropped, and
/// counts in `begun` that a thread has taken it. The task ends before where there is no place.
fn occupy(
    thread: &Rc<FrontThread>,
    client: IpAddr,
    begun: &Arc<AtomicUsize>,
) -> (mpsc::Sender<()>, JoinHandle<()>) {
    let (release, held) = mpsc::channel();
    let (shared, begun) = (Arc::clone(&thread.shared), Arc::clone(begun));
    let origin = JobOrigin {
        site: 0,
        network: ClientNetwork::of(client),
    };
    let place = spawn_local(async move {
        let hold = move |_: &mut _| {
            begun.fetch_add(1, Ordering::Relaxed);
            held.recv()
        };
        let _ = shared.evaluators.run(origin, hold).await;
    });
    (release, place)
}

/// The responses of the site that a probation judges, and the errors among them.
fn judged(thread: &FrontThread) -> (u64, u64) {
    let all = thread.shared.counters.server_errors()[0].of_all();
    (all.responses, all.errors)
}
