//! Clients that send requests all the time, and count the failures.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use super::{Client, Response, wait_until};

/// Raises a flag at the end, also if the test fails: threads that go on until then would keep the
/// failure from being told.
#[derive(Debug)]
pub struct Raised<'f>(pub &'f AtomicBool);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A few clients, every other on a kept connection, the rest on a new one for each request. A
/// connection that was announced to close is opened anew; everything else that is not the expected
/// answer is a failure.
#[derive(Debug)]
pub struct Load {
    over: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    /// `clients` that ask `address` for `target` and expect what `is_right` says.
    pub fn start(
        address: SocketAddr,
        clients: usize,
        target: &'static str,
        is_right: fn(&Response) -> bool,
    ) -> Load {
        let over = Arc::new(AtomicBool::new(false));
        let answered = Arc::new(AtomicU64::new(0));
        let run = |number: usize| {
            let keeps = number.is_multiple_of(2);
            let (over, answered) = (over.clone(), answered.clone());
            std::thread::spawn(move || {
                let mut failures = Vec::new();
                let mut client = None;
                while !over.load(Ordering::Relaxed) && failures.len() < MOST_FAILURES {
                    client.take_if(|_| !keeps);
                    match turn(&mut client, address, target) {
                        Ok(response) if is_right(&response) => {
                            answered.fetch_add(1, Ordering::Relaxed);
                        }
                        Ok(response) => failures.push(format!("client {number}: {response:?}")),
                        Err(error) => {
                            failures.push(format!("client {number}: {error}"));
                            client = None;
                        }
                    }
                }
                failures
            })
        };
        let clients = (0..clients).map(run).collect();
        Load { over, answered, clients }
    }

    /// Waits until this many more requests were answered, or a client has given up: then the end
    /// tells why.
    pub fn go_on(&self, requests: u64) {
        let goal = self.answered.load(Ordering::Relaxed) + requests;
        wait_until("more requests are answered", || {
            self.answered.load(Ordering::Relaxed) >= goal
                || self.clients.iter().any(JoinHandle::is_finished)
        });
    }

    /// Ends it: how many requests were answered, and what went wrong.
    pub fn end(mut self) -> (u64, Vec<String>) {
        self.over.store(true, Ordering::Relaxed);
        let clients = std::mem::take(&mut self.clients);
        let failures = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        (self.answered.load(Ordering::Relaxed), failures)
    }

    /// Ends it, and nothing may have gone wrong.
    pub fn end_without_failure(self) {
        let (answered, failures) = self.end();
        assert!(
            failures.is_empty(),
            "{} of {answered} requests failed: {failures:#?}",
            failures.len()
        );
    }
}

/// Failures after which a client gives up.
const MOST_FAILURES: usize = 1000;

impl Drop for Load {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

fn turn(client: &mut Option<Client>, address: SocketAddr, target: &str) -> io::Result<Response> {
    let mut open = match client.take() {
        Some(open) => open,
        None => Client::try_connect(address)?,
    };
    let response = open.try_get(target)?;
    if !response.is_last() {
        *client = Some(open);
    }
    Ok(response)
}
