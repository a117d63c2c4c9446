//! A fixed number of requests per second that does not depend on the answers.
//!
//! A closed loop asks less while a server stalls, and measures few of the requests that would have
//! had to wait (coordinated omission). Here the moment at which each request is due is fixed
//! beforehand. Latency is counted from that moment, also where no connection was free to send the
//! request.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use super::client::{LoadClient, PreparedRequest, RequestResult};
use super::pacer::Pacer;
use super::{Measured, Wrong, on_a_loop};
use crate::load::{Open, Question};
use crate::record::Figure;
use hdrhistogram::Histogram;

/// Time-out of a request.
const LIMIT: Duration = Duration::from_secs(10);

/// The histogram's largest value, in microseconds. Longer waits count as this.
const LONGEST: u64 = 600_000_000;

struct OpenLoopState {
    open: Open,
    prepared: PreparedRequest,
    pacer: Pacer,
    next: Cell<u64>,
    hits: Cell<u64>,
    errors: Cell<u64>,
    timeouts: Cell<u64>,
    /// Microseconds.
    latency: std::cell::RefCell<Histogram<u64>>,
}

/// Runs the load on an event loop of its own.
///
/// # Errors
/// The errors of [`run`].
pub(super) fn put(open: Open, question: &Question, port: u16) -> Result<Measured, Wrong> {
    on_a_loop(run(open, question, port))
}

/// Runs the load on the present event loop.
///
/// # Errors
/// The request or its clock cannot be prepared.
pub(super) async fn run(open: Open, question: &Question, port: u16) -> Result<Measured, Wrong> {
    let latency = Histogram::new_with_max(LONGEST, 3).map_err(|error| Wrong(error.to_string()))?;
    let shared = Rc::new(OpenLoopState {
        open,
        prepared: PreparedRequest::new(question, port, true)?,
        pacer: Pacer::start(open.rate, open.time)?,
        next: Cell::new(0),
        hits: Cell::new(0),
        errors: Cell::new(0),
        timeouts: Cell::new(0),
        latency: latency.into(),
    });
    let tasks: Vec<_> = (0..open.connections)
        .map(|_| tokio::task::spawn_local(ask_in_turn(shared.clone())))
        .collect();
    for task in tasks {
        task.await.map_err(|error| Wrong(error.to_string()))?;
    }
    let seconds = shared.pacer.began().elapsed().as_secs_f64();
    let latency = shared.latency.borrow();
    let milliseconds = |quantile| latency.value_at_quantile(quantile) as f64 / 1e3;
    Ok(Measured {
        requests: shared.hits.get(),
        seconds,
        figures: [
            (Figure::RequestsPerSecond, shared.hits.get() as f64 / seconds),
            (Figure::Latency50, milliseconds(0.5)),
            (Figure::Latency99, milliseconds(0.99)),
            (Figure::Latency999, milliseconds(0.999)),
            (Figure::Hits, shared.hits.get() as f64),
            (Figure::Errors, shared.errors.get() as f64),
            (Figure::Timeouts, shared.timeouts.get() as f64),
        ]
        .into(),
        ..Measured::default()
    })
}

async fn ask_in_turn(shared: Rc<OpenLoopState>) {
    let mut client = None;
    loop {
        let number = shared.next.replace(shared.next.get() + 1);
        let due = shared.pacer.due(number);
        if due >= shared.open.time {
            return;
        }
        shared.pacer.wait().await;
        let mut connection = match client.take() {
            Some(connection) => connection,
            None => match LoadClient::connect(&shared.prepared).await {
                Ok(connection) => connection,
                Err(_) => {
                    shared.errors.set(shared.errors.get() + 1);
                    continue;
                }
            },
        };
        let reply = connection.ask(&shared.prepared, LIMIT).await;
        let waited = shared.pacer.began().elapsed().saturating_sub(due);
        let counter = match reply {
            RequestResult::Hit => &shared.hits,
            RequestResult::Error => &shared.errors,
            RequestResult::Timeout => &shared.timeouts,
        };
        counter.set(counter.get() + 1);
        if reply == RequestResult::Hit {
            client = Some(connection);
        }
        // A request without an answer counts with the time for which it waited.
        shared.latency.borrow_mut().saturating_record(waited.as_micros() as u64);
    }
}
