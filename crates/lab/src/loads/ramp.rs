//! A growing number of clients, evenly over the time, and how long the server needs afterwards.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use super::client::{LoadClient, PreparedRequest, RequestResult};
use super::{Measured, Wrong, on_a_loop};
use crate::load::{Question, Ramp};
use crate::record::Figure;

struct RampState {
    ramp: Ramp,
    prepared: PreparedRequest,
    began: Instant,
    counts: [Cell<u64>; 3],
    /// Second by second: hits, errors, time-outs.
    seconds: RefCell<Vec<[u64; 3]>>,
}

/// Lets more and more clients come, and measures the recovery after them.
///
/// # Errors
/// The request cannot be prepared.
pub(super) fn put(ramp: Ramp, question: &Question, port: u16) -> Result<Measured, Wrong> {
    on_a_loop(async move {
        let shared = Rc::new(RampState {
            ramp,
            prepared: PreparedRequest::new(question, port, ramp.keeps)?,
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
        let recovery = recover(ramp, question, port).await?;
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
        let mut figures: BTreeMap<Figure, f64> = [
            (Figure::Hits, hits),
            (Figure::Errors, errors),
            (Figure::Timeouts, timeouts),
            (Figure::RequestsPerSecond, hits / seconds),
        ]
        .into();
        figures.extend(recovery.map(|time| (Figure::Recovery, time.as_secs_f64())));
        Ok(Measured {
            requests: hits as u64,
            seconds,
            figures,
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

impl RampState {
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
async fn come_and_stay(shared: Rc<RampState>, number: usize) {
    let ramp = &shared.ramp;
    let share = number as f64 / (ramp.clients.saturating_sub(1).max(1)) as f64;
    sleep_until(shared.began + ramp.time.mul_f64(share)).await;
    let end = shared.began + ramp.time;
    let mut client = None;
    while Instant::now() < end {
        let Ok(reply) = tokio::time::timeout_at(end, ask(&shared, &mut client)).await else {
            return;
        };
        // The server has closed a kept connection between two requests.
        let Some(reply) = reply else { continue };
        let at = match reply {
            RequestResult::Hit => 0,
            RequestResult::Error => 1,
            RequestResult::Timeout => 2,
        };
        shared.count(at);
        match reply {
            RequestResult::Hit => tokio::time::sleep(ramp.reads).await,
            // A refused connection is not retried at once.
            RequestResult::Error => tokio::time::sleep(PAUSE).await,
            RequestResult::Timeout => {}
        }
    }
}

/// Asks once, on the kept connection if there is one. `None` where that one was closed.
async fn ask(shared: &RampState, kept: &mut Option<LoadClient>) -> Option<RequestResult> {
    let limit = shared.ramp.timeout;
    let was_kept = kept.is_some();
    let mut client = match kept.take() {
        Some(client) => client,
        None => match timeout(limit, LoadClient::connect(&shared.prepared)).await {
            Ok(Ok(client)) => client,
            Ok(Err(_)) => return Some(RequestResult::Error),
            Err(_) => return Some(RequestResult::Timeout),
        },
    };
    let reply = client.ask(&shared.prepared, limit).await;
    if reply == RequestResult::Error && was_kept && client.got_nothing() {
        return None;
    }
    *kept = Some(client).filter(|_| shared.ramp.keeps && reply == RequestResult::Hit);
    Some(reply)
}

/// Measures the time until the server gives right answers again, several in a row. The limit where
/// it does not; `None` where nobody asks for it.
async fn recover(ramp: Ramp, question: &Question, port: u16) -> Result<Option<Duration>, Wrong> {
    if ramp.recovery.is_zero() {
        return Ok(None);
    }
    let prepared = PreparedRequest::new(question, port, false)?;
    let began = Instant::now();
    let (mut good, mut since) = (0, Duration::ZERO);
    while began.elapsed() < ramp.recovery {
        let asked = began.elapsed();
        let left = ramp.recovery.saturating_sub(asked).max(PAUSE);
        let answered = timeout(left, async {
            let mut client = LoadClient::connect(&prepared).await.ok()?;
            Some(client.ask(&prepared, left).await)
        });
        if answered.await == Ok(Some(RequestResult::Hit)) {
            since = if good == 0 { began.elapsed() } else { since };
            good += 1;
        } else {
            good = 0;
            tokio::time::sleep(PAUSE).await;
        }
        if good == GOOD {
            return Ok(Some(since));
        }
    }
    Ok(Some(ramp.recovery))
}

/// Right answers in a row after which a server has recovered.
const GOOD: u32 = 3;

const PAUSE: Duration = Duration::from_millis(100);
