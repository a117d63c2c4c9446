//! Requests that have no room among the others.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::{Arc, mpsc};

use tokio::task::{JoinHandle, spawn_local, yield_now};

use super::cold::ask;
use super::site::{on_thread, peer};
use crate::crew::{ClientNetwork, JobOrigin};
use crate::front::FrontThread;

#[test]
fn a_listing_that_has_to_wait_for_too_many_others_is_no_error_of_the_site() {
    on_thread(|thread| async move {
        let listed = ask(Rc::clone(&thread), "x /listed/").await;
        assert!(listed.starts_with("200 "), "{listed}");
        assert_eq!(judged(&thread), (1, 0));
        let broken = ask(Rc::clone(&thread), "x /broken/").await;
        assert!(broken.starts_with("500 "), "{broken}");
        assert_eq!(judged(&thread), (2, 1), "an error of the site's own");
        let held: Vec<_> = (0..300).map(|_| occupy(&thread, peer().remote.ip())).collect();
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

/// Keeps a place of a client in the crew that evaluates directives until the sender is dropped. The
/// task ends before where there is no place.
fn occupy(thread: &Rc<FrontThread>, client: IpAddr) -> (mpsc::Sender<()>, JoinHandle<()>) {
    let (release, held) = mpsc::channel();
    let shared = Arc::clone(&thread.shared);
    let origin = JobOrigin {
        site: 0,
        network: ClientNetwork::of(client),
    };
    let place = spawn_local(async move {
        let _ = shared.evaluators.run(origin, move |_: &mut _| held.recv()).await;
    });
    (release, place)
}

/// The responses of the site that a probation judges, and the errors among them.
fn judged(thread: &FrontThread) -> (u64, u64) {
    let all = thread.shared.counters.server_errors()[0].of_all();
    (all.responses, all.errors)
}
