//! Puts loads on servers and reads the results.
//!
//! wrk, ab and h2load make the closed loops. The loads that they do not offer are here: a fixed
//! rate with honest latency, a growing number of clients, idle connections, slow clients, TLS
//! handshakes, HTTP/3.

mod beside;
mod client;
mod crowds;
pub(crate) mod external;
mod folders;
mod handshakes;
mod http2;
mod http3;
mod open_loop;
mod pacer;
mod ramp;
pub mod sample;

use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::load::{Load, Question};
use crate::probes::Sampler;
use crate::process;
use crate::record::Figure;
use crate::stack::LoadTarget;

/// Results of a load, without the figures of the probes.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Requests that were answered.
    pub requests: u64,
    /// Duration of the load.
    pub seconds: f64,
    /// Further figures: latency, hits, errors and so on.
    pub figures: BTreeMap<Figure, f64>,
    /// Figures of each second.
    pub series: BTreeMap<Figure, Vec<(f64, f64)>>,
    /// CPU time of the load generator as a share of the processors that it can use.
    pub loader_share: f64,
}

/// An answer or a whole load that is not as expected: its round is void. Also the error of
/// everything else that ends a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong(pub String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}

impl From<std::io::Error> for Wrong {
    fn from(error: std::io::Error) -> Wrong {
        match error.kind() {
            // The time-out of a socket that waits.
            ErrorKind::WouldBlock => Wrong(NO_ANSWER.to_owned()),
            _ => Wrong(error.to_string()),
        }
    }
}

/// The time of an answer is over.
const NO_ANSWER: &str = "no answer in time";

static ABORTED: AtomicBool = AtomicBool::new(false);

/// Ends the present load and all later ones at once, at a second interrupt.
pub fn abort() {
    ABORTED.store(true, Ordering::Relaxed);
}

/// Returns whether loads have been told to end.
pub fn is_aborted() -> bool {
    ABORTED.load(Ordering::Relaxed)
}

fn aborted() -> Wrong {
    Wrong("cut short by a second interrupt".to_owned())
}

/// Puts a load on a running stack and checks number, status and length of the answers. Comparing a
/// sample byte for byte is left to the caller ([`sample::check`]).
///
/// # Errors
///
/// An answer is not the expected one, or the program that makes the load fails.
pub fn put(load: &Load, question: &Question, target: &LoadTarget) -> Result<Measured, Wrong> {
    let port = target.port;
    match load {
        Load::Wrk(closed) => external::wrk(*closed, question, port),
        Load::H2load(closed, streams) if target.http3 => {
            http3::put(*closed, *streams, question, port)
        }
        Load::H2load(closed, streams) => external::h2load(*closed, *streams, question, port),
        Load::Handshakes(closed, kind) => handshakes::put(*closed, *kind, question, port),
        Load::Ab(bench) => external::ab(*bench, question, port),
        Load::OpenLoop(open) => watched(target, || open_loop::put(*open, question, port)),
        Load::Beside(open, busy) => watched(target, || beside::put(*open, busy, question, port)),
        Load::Ramp(ramp) => watched(target, || ramp::put(*ramp, question, port)),
        Load::Idle(closed) => {
            watched(target, || crowds::idle(*closed, question, port, &target.roots))
        }
        Load::Slow(kind, closed) => {
            watched(target, || crowds::slow(*kind, *closed, question, port))
        }
        Load::Folders(count) => folders::put(*count, question, target),
        Load::Reload(closed) => watched(target, || crowds::reload(*closed, question, target)),
    }
}

/// Runs one of our own loads, which leave enough CPU time to read the server's memory every second.
fn watched(
    target: &LoadTarget,
    load: impl FnOnce() -> Result<Measured, Wrong>,
) -> Result<Measured, Wrong> {
    let sampler = Sampler::start(&target.roots);
    let mut measured = load()?;
    let series = sampler.stop();
    let peak = series
        .get(&Figure::Pss)
        .into_iter()
        .flatten()
        .map(|(_, value)| *value)
        .fold(0.0, f64::max);
    if peak > 0.0 {
        measured.figures.entry(Figure::PeakPss).or_insert(peak);
    }
    measured.series.extend(series);
    Ok(measured)
}

/// Runs one of our own loads on a single-threaded event loop and measures its share of a processor.
fn on_a_loop(load: impl Future<Output = Result<Measured, Wrong>>) -> Result<Measured, Wrong> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let own = || process::own_ticks();
    let (before, began) = (own(), std::time::Instant::now());
    let load = async {
        tokio::select! {
            measured = load => measured,
            () = until_aborted() => Err(aborted()),
        }
    };
    let mut measured = tokio::task::LocalSet::new().block_on(&runtime, load)?;
    let ticks = own().saturating_sub(before) as f64;
    measured.loader_share =
        ticks / process::TICKS_PER_SECOND / began.elapsed().as_secs_f64().max(0.001);
    Ok(measured)
}

async fn until_aborted() {
    while !is_aborted() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[cfg(test)]
mod tests;
