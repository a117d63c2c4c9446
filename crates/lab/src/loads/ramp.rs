//! A growing number of clients, evenly over the time, each with a new connection for every request.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tokio::time::{Instant, sleep_until, timeout};

use super::client::{Client, Prepared, Reply};
use super::{Measured, Wrong, on_a_loop};
use crate::load::{Question, Ramp};
use crate::record::Figure;

struct Shared {
    ramp: Ramp,
    prepared: Prepared,
    began: Instant,
    counts: [Cell<u64>; 3],
    /// Second by second: hits, errors, time-outs.
    seconds: RefCell<Vec<[u64; 3]>>,
}

pub(super) fn put(ramp: Ramp, question: &Question, port: u16) -> Result<Measured, Wrong> {
    on_a_loop(async move {
        let shared = Rc::new(Shared {
            ramp,
            prepared: Prepared::new(question, port, false)?,
            began: Instant::now(),
            counts: Default::default(),
            seconds: RefCell::default(),
        });
        let tasks: Vec<_> = (0..ramp.clients)
            .map(|number| tokio::task::spawn_local(come_and_stay(shared.clone(), number)))
            .collect();
        for task in tasks {
            task.await.map_err(|error| Wrong(error.to_string()))?;
        }
        let [hits, errors, timeouts] = [0, 1, 2].map(|at: usize| shared.counts[at].get() as f64);
        let seconds = ramp.time.as_secs_f64();
        let series = |at: usize| {
            shared
                .seconds
                .borrow()
                .iter()
                .zip(0u32..)
                .map(|(counts, second)| (f64::from(second), counts[at] as f64))
                .collect()
        };
        let clients = (0..=seconds as u32)
            .map(|second| (f64::from(second), clients_at(&ramp, f64::from(second))))
            .collect();
        Ok(Measured {
            requests: hits as u64,
            seconds,
            figures: [
                (Figure::Hits, hits),
                (Figure::Errors, errors),
                (Figure::Timeouts, timeouts),
                (Figure::RequestsPerSecond, hits / seconds),
            ]
            .into(),
            series: [
                (Figure::Hits, series(0)),
                (Figure::Errors, series(1)),
                (Figure::Timeouts, series(2)),
                (Figure::Clients, clients),
            ]
            .into(),
            ..Measured::default()
        })
    })
}

impl Shared {
    fn count(&self, at: usize) {
        self.counts[at].set(self.counts[at].get() + 1);
        let mut seconds = self.seconds.borrow_mut();
        let second = self.began.elapsed().as_secs() as usize;
        if seconds.len() <= second {
            seconds.resize(second + 1, [0; 3]);
        }
        seconds[second][at] += 1;
    }
}

/// Number of clients after that many seconds.
fn clients_at(ramp: &Ramp, seconds: f64) -> f64 {
    let share = (seconds / ramp.time.as_secs_f64()).min(1.0);
    (1.0 + (ramp.clients.saturating_sub(1)) as f64 * share).floor()
}

/// Runs one client from the moment at which the ramp reaches its number until the end. A request
/// without an answer by then is not counted, unless its own time-out has passed.
async fn come_and_stay(shared: Rc<Shared>, number: usize) {
    let ramp = &shared.ramp;
    let share = number as f64 / (ramp.clients.saturating_sub(1).max(1)) as f64;
    sleep_until(shared.began + ramp.time.mul_f64(share)).await;
    let end = shared.began + ramp.time;
    while Instant::now() < end {
        let Ok(reply) = tokio::time::timeout_at(end, ask(&shared)).await else {
            return;
        };
        let at = match reply {
            Reply::Hit => 0,
            Reply::Error => 1,
            Reply::Timeout => 2,
        };
        shared.count(at);
        if reply == Reply::Error {
            // A refused connection is not retried at once.
            tokio::time::sleep(PAUSE).await;
        }
    }
}

async fn ask(shared: &Shared) -> Reply {
    let limit = shared.ramp.timeout;
    match timeout(limit, Client::connect(&shared.prepared)).await {
        Ok(Ok(mut client)) => client.ask(&shared.prepared, limit).await,
        Ok(Err(_)) => Reply::Error,
        Err(_) => Reply::Timeout,
    }
}

const PAUSE: std::time::Duration = std::time::Duration::from_millis(100);
