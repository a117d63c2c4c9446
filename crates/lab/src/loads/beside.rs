//! A fixed rate of requests for files beside clients that keep every PHP process busy: shows
//! whether files wait for pages.

use tokio::time::{Duration, sleep};

use super::client::{LoadClient, PreparedRequest, RequestResult};
use super::{Measured, Wrong, on_a_loop, open_loop};
use crate::load::{Busy, Open, PAUSE, Question};
use crate::record::Figure;

/// Time-out of a page that keeps PHP busy.
const LIMIT: Duration = Duration::from_secs(30);

/// Measures the same rate twice, alone and beside the busy connections. Returns the figures of the
/// second, with the ratio of both latencies.
///
/// # Errors
/// One of the two measurements fails, or a request of it, or a busy connection gets no answer.
pub(super) fn put(
    open: Open,
    busy: &Busy,
    question: &Question,
    port: u16,
) -> Result<Measured, Wrong> {
    on_a_loop(async move {
        let idle = open_loop::run(open, question, port).await?;
        let prepared = PreparedRequest::new(&busy.question, port, true)?;
        let crowd: Vec<_> = (0..busy.connections)
            .map(|_| tokio::task::spawn_local(ask_always(prepared.clone())))
            .collect();
        sleep(PAUSE).await;
        let mut measured = open_loop::run(open, question, port).await?;
        let failed = crowd.iter().filter(|task| task.is_finished()).count();
        crowd.iter().for_each(|task| task.abort());
        if failed > 0 {
            return Err(Wrong(format!("{failed} clients that keep PHP busy were not answered")));
        }
        for (name, one) in [("alone", &idle), ("beside busy PHP", &measured)] {
            let count = |figure| one.figures.get(&figure).copied().unwrap_or(0.0);
            let bad = count(Figure::Errors) + count(Figure::Timeouts);
            if bad > 0.0 {
                return Err(Wrong(format!("{bad} requests failed {name}")));
            }
        }
        let late = |one: &Measured| one.figures.get(&Figure::Latency99).copied().unwrap_or(0.0);
        let (alone, beside) = (late(&idle), late(&measured));
        measured.requests += idle.requests;
        measured.figures.insert(Figure::Latency99Idle, alone);
        // The histogram's resolution is a microsecond.
        measured.figures.insert(Figure::SlowedDown, beside / alone.max(1e-3));
        Ok(measured)
    })
}

/// Keeps PHP busy; returns only after a wrong answer.
async fn ask_always(prepared: PreparedRequest) {
    while let Ok(mut client) = LoadClient::connect(&prepared).await {
        loop {
            match client.ask(&prepared, LIMIT).await {
                RequestResult::Hit => {}
                RequestResult::Error if client.got_nothing() => break,
                RequestResult::Error | RequestResult::Timeout => return,
            }
        }
    }
}
