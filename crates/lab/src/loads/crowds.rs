//! Idle connections, slow clients, and clients during reloads.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::client::{LoadClient, PreparedRequest, RequestResult};
use super::{Measured, Wrong, on_a_loop};
use crate::load::{Closed, Question, Slow};
use crate::probes::memory;
use crate::process;
use crate::record::Figure;
use crate::stack::LoadTarget;

/// Time-out of an answer.
const LIMIT: Duration = Duration::from_secs(30);
/// Normal clients beside the slow ones.
const BESIDE: usize = 4;
/// Pause between two steps of a slow client.
const STEP: Duration = Duration::from_millis(200);
/// Pause between two reloads.
const RELOAD: Duration = Duration::from_secs(1);

/// Opens connections that ask once and stay open; measures their memory and whether all still work
/// afterwards.
///
/// # Errors
/// A connection cannot be opened, or gets a wrong answer.
pub(super) fn idle(
    closed: Closed,
    question: &Question,
    port: u16,
    roots: &[u32],
) -> Result<Measured, Wrong> {
    on_a_loop(async move {
        let prepared = PreparedRequest::new(question, port, true)?;
        let (mut crowd, mut errors) = (Vec::with_capacity(closed.connections), 0u64);
        for _ in 0..closed.connections {
            let mut client = LoadClient::connect(&prepared).await?;
            match client.ask(&prepared, LIMIT).await {
                RequestResult::Hit => crowd.push(client),
                RequestResult::Error | RequestResult::Timeout => errors += 1,
            }
        }
        sleep(closed.time).await;
        let memory = memory(roots);
        let mut hits = 0u64;
        for client in &mut crowd {
            match client.ask(&prepared, LIMIT).await {
                RequestResult::Hit => hits += 1,
                RequestResult::Error | RequestResult::Timeout => errors += 1,
            }
        }
        let mut figures = vec![(Figure::Hits, hits as f64), (Figure::Errors, errors as f64)];
        if let Some(memory) = memory {
            figures.push((Figure::PeakPss, memory.all as f64));
            figures.push((Figure::FrontPss, memory.front as f64));
        }
        if errors > 0 {
            return Err(Wrong(format!("{errors} of {} connections failed", closed.connections)));
        }
        Ok(Measured {
            requests: 2 * hits,
            seconds: closed.time.as_secs_f64(),
            figures: figures.into_iter().collect(),
            ..Measured::default()
        })
    })
}

/// Measures how well a few normal clients are served beside slow ones.
///
/// # Errors
/// The request cannot be prepared.
pub(super) fn slow(
    kind: Slow,
    closed: Closed,
    question: &Question,
    port: u16,
) -> Result<Measured, Wrong> {
    on_a_loop(async move {
        let end = Instant::now() + closed.time;
        let prepared = PreparedRequest::new(question, port, true)?;
        for _ in 0..closed.connections {
            tokio::task::spawn_local(dawdle(kind, prepared.clone(), end));
        }
        let tasks: Vec<_> = (0..BESIDE)
            .map(|_| tokio::task::spawn_local(behave(prepared.clone(), end)))
            .collect();
        count(tasks, closed.time).await
    })
}

/// Counts wrong answers while the server reloads every second. Half of the clients keep their
/// connection, half open a new one for every request.
///
/// # Errors
/// The stack cannot reload by a signal, or the request cannot be prepared.
pub(super) fn reload(
    closed: Closed,
    question: &Question,
    target: &LoadTarget,
) -> Result<Measured, Wrong> {
    if target.reload.is_empty() {
        return Err(Wrong("this stack cannot reload by a signal".to_owned()));
    }
    let signals = target.reload.clone();
    on_a_loop(async move {
        let end = Instant::now() + closed.time;
        let kept = PreparedRequest::new(question, target.port, true)?;
        let closing = PreparedRequest::new(question, target.port, false)?;
        let tasks: Vec<_> = (0..closed.connections)
            .map(|number| {
                let keeps = number.is_multiple_of(2);
                let prepared = if keeps { kept.clone() } else { closing.clone() };
                tokio::task::spawn_local(behave_or_come_anew(prepared, keeps, end))
            })
            .collect();
        while Instant::now() + RELOAD < end {
            sleep(RELOAD).await;
            signals.iter().for_each(|(pid, signal)| process::signal(*pid, *signal));
        }
        count(tasks, closed.time).await
    })
}

/// The figures of clients that return their right and wrong answers, after `time`.
async fn count(tasks: Vec<JoinHandle<(u64, u64)>>, time: Duration) -> Result<Measured, Wrong> {
    let (mut hits, mut errors) = (0u64, 0u64);
    for task in tasks {
        let counts = task.await.map_err(|error| Wrong(error.to_string()))?;
        (hits, errors) = (hits + counts.0, errors + counts.1);
    }
    let seconds = time.as_secs_f64();
    Ok(Measured {
        requests: hits,
        seconds,
        figures: [
            (Figure::RequestsPerSecond, hits as f64 / seconds),
            (Figure::Hits, hits as f64),
            (Figure::Errors, errors as f64),
        ]
        .into(),
        ..Measured::default()
    })
}

/// Asks, and once more on a new connection where the server has closed a kept one between two
/// requests, as a browser does.
async fn behave_or_come_anew(prepared: PreparedRequest, keeps: bool, end: Instant) -> (u64, u64) {
    let (mut hits, mut errors, mut client) = (0, 0, None);
    while Instant::now() < end {
        let was_kept = client.is_some();
        let connection = match client.take() {
            Some(connection) => Ok(connection),
            None => LoadClient::connect(&prepared).await,
        };
        let Ok(mut connection) = connection else {
            errors += 1;
            sleep(STEP).await;
            continue;
        };
        match connection.ask(&prepared, LIMIT).await {
            RequestResult::Hit => {
                hits += 1;
                client = keeps.then_some(connection);
            }
            RequestResult::Error if was_kept && connection.got_nothing() => {}
            RequestResult::Error | RequestResult::Timeout => errors += 1,
        }
    }
    (hits, errors)
}

async fn behave(prepared: PreparedRequest, end: Instant) -> (u64, u64) {
    let (mut hits, mut errors, mut client) = (0, 0, None);
    while Instant::now() < end {
        let left = end.saturating_duration_since(Instant::now());
        let mut connection = match client.take() {
            Some(connection) => connection,
            None => match tokio::time::timeout(left, LoadClient::connect(&prepared)).await {
                Ok(Ok(connection)) => connection,
                Ok(Err(_)) => {
                    errors += 1;
                    sleep(STEP).await;
                    continue;
                }
                Err(_) => break,
            },
        };
        match connection.ask(&prepared, left).await {
            RequestResult::Hit => {
                hits += 1;
                client = Some(connection);
            }
            // The load has ended before the answer.
            RequestResult::Timeout => break,
            RequestResult::Error => errors += 1,
        }
    }
    (hits, errors)
}

/// Repeats a slow client until the end: servers may close its connection.
async fn dawdle(kind: Slow, prepared: PreparedRequest, end: Instant) {
    let request = &prepared.request;
    while Instant::now() < end {
        if let Ok(mut client) = LoadClient::connect(&prepared).await {
            // The server decides about the answer.
            let _ = match kind {
                Slow::Head => slow_head(&mut client, request, end).await,
                Slow::Body => slow_body(&mut client, request, end).await,
                Slow::Reader => slow_reader(&mut client, request, end).await,
            };
        }
        sleep(STEP).await;
    }
}

async fn slow_head(client: &mut LoadClient, request: &[u8], end: Instant) -> std::io::Result<()> {
    for byte in request {
        if Instant::now() >= end {
            break;
        }
        client.stream().write_all(std::slice::from_ref(byte)).await?;
        sleep(STEP).await;
    }
    Ok(())
}

async fn slow_body(client: &mut LoadClient, request: &[u8], end: Instant) -> std::io::Result<()> {
    let head = String::from_utf8_lossy(request).replacen("GET ", "POST ", 1);
    let head = head.trim_end().to_owned()
        + "\r\nContent-Type: text/plain\r\nContent-Length: 100000\r\n\r\n";
    client.stream().write_all(head.as_bytes()).await?;
    while Instant::now() < end {
        client.stream().write_all(b"x").await?;
        sleep(STEP).await;
    }
    Ok(())
}

async fn slow_reader(client: &mut LoadClient, request: &[u8], end: Instant) -> std::io::Result<()> {
    client.stream().write_all(request).await?;
    let mut some = [0; 512];
    while Instant::now() < end && client.stream().read(&mut some).await? > 0 {
        sleep(STEP).await;
    }
    Ok(())
}
