//! Pools with a zygote and workers that are threads of the test: what a request meets when workers
//! are busy, slow, dying.
#![allow(clippy::unwrap_used)] // A test that fails here says where.

mod counting;
mod deaths;
mod endings;
mod questions;
mod queue;
mod runs;
#[path = "../support/mod.rs"]
mod support;
mod whole;

use std::cell::RefCell;
use std::time::{Duration, Instant};

use howdah_php::counters::PoolCounter;
use howdah_php::{
    AskingConnection, DispatchError, ExchangeError, HeadKind, MemoryFigures, PoolHandle,
    PoolLimits, QueuePlace, RequestBody, RequestEncoder, Scaling, ScriptExchange, decode_head,
};

use support::{Front, Gate, PATIENCE, Script, limits};

/// Hands a request for `script` over and waits for the head of its response.
async fn ask(handle: &PoolHandle, script: Script) -> Result<(Box<ScriptExchange>, u16), String> {
    let mut exchange = dispatch(handle, script).await.map_err(|refused| format!("{refused:?}"))?;
    let mut head = Vec::new();
    match exchange.head(&mut head).await {
        Ok(HeadKind::Final) => Ok((exchange, decode_head(&head).unwrap().status)),
        other => Err(format!("{other:?}")),
    }
}

async fn dispatch(
    handle: &PoolHandle,
    script: Script,
) -> Result<Box<ScriptExchange>, DispatchError> {
    dispatch_in(handle, QueuePlace::default(), script).await
}

async fn dispatch_in(
    handle: &PoolHandle,
    place: QueuePlace,
    script: Script,
) -> Result<Box<ScriptExchange>, DispatchError> {
    dispatch_for(handle, place, None, script).await
}

async fn dispatch_for(
    handle: &PoolHandle,
    place: QueuePlace,
    asker: Option<AskingConnection>,
    script: Script,
) -> Result<Box<ScriptExchange>, DispatchError> {
    let encoder = RefCell::new(RequestEncoder::default());
    let name = script.name();
    let encode = |encoder: &mut RequestEncoder| {
        encoder.begin(
            0,
            [Some(b"GET"), Some(name.as_bytes()), None, None, None, None, None, None, None],
        );
    };
    handle.dispatch(place, asker, &encoder, encode, RequestBody::Memory(b"")).await
}

/// Reads the body to its end.
async fn body(exchange: &mut ScriptExchange) -> Result<Vec<u8>, ExchangeError> {
    let mut all = Vec::new();
    loop {
        let news = std::future::poll_fn(|context| match exchange.poll_progress(context) {
            Ok(news) if news.available == 0 && !news.complete => std::task::Poll::Pending,
            other => std::task::Poll::Ready(other),
        })
        .await?;
        let mut piece = vec![0; news.available];
        exchange.copy(&mut piece);
        exchange.consume(piece.len());
        all.extend(piece);
        if news.complete {
            return Ok(all);
        }
    }
}

#[test]
fn a_response_comes_whole() {
    Front::new(2, limits()).run(async |front| {
        let (mut exchange, status) = ask(front.handle(), Script::Bytes(1_000_000)).await.unwrap();
        assert_eq!(status, 200);
        let body = body(&mut exchange).await.unwrap();
        assert_eq!(body.len(), 1_000_000);
        assert!(body.iter().all(|byte| *byte == b'x'));
    });
}

#[test]
fn an_overdue_request_is_told_and_its_worker_killed() {
    let limits = howdah_php::PoolLimits {
        request_timeout: Duration::from_millis(200),
        slow_after: Some(Duration::from_millis(100)),
        ..limits()
    };
    Front::new(1, limits).run(async |front| {
        let late = ask(front.handle(), Script::Sleep(600_000)).await.err();
        assert_eq!(late.as_deref(), Some("Err(Silent)"));
        front.expect_idle().await;
        // Each once, although its worker has told no figures.
        for event in [PoolCounter::Timeouts, PoolCounter::Slow] {
            assert_eq!(front.counted(|totals| totals.of(event)), [1, 1], "{event:?}");
        }
        // A machine that stands still may take the time of this one, too.
        let until = Instant::now() + PATIENCE;
        while let Err(error) = ask(front.handle(), Script::Bytes(1)).await {
            assert!(Instant::now() < until, "{error}");
        }
        front.expect_idle().await;
        let signals: Vec<_> = front.signals();
        assert!(signals.contains(&10), "the soft time-out comes first: {signals:?}");
        assert!(signals.contains(&9), "and SIGKILL is the last word: {signals:?}");
    });
}

#[test]
fn a_dropped_exchange_leaves_no_slot_behind() {
    Front::new(1, limits()).run(async |front| {
        for round in 0..40 {
            let exchange = dispatch(front.handle(), Script::Bytes(5_000_000)).await.unwrap();
            if round % 2 == 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            drop(exchange);
        }
        assert_eq!(ask(front.handle(), Script::Bytes(3)).await.unwrap().1, 200);
        front.expect_idle().await;
    });
}

#[test]
fn a_finished_response_leaves_its_script_running() {
    Front::new(1, limits()).run(async |front| {
        let gate = Gate::new();
        let (mut exchange, _) = ask(front.handle(), Script::EndThenHold(gate)).await.unwrap();
        assert_eq!(body(&mut exchange).await.unwrap(), b"early");
        drop(exchange);
        assert!(!front.handle().is_idle(), "the script still runs");
        gate.open();
        front.expect_idle().await;
        assert!(front.signals().is_empty(), "nobody may end it");
    });
}

#[test]
fn workers_are_told_to_end_while_memory_is_short_but_not_the_last() {
    let scaling = Scaling::Auto {
        start: 4,
        idle_timeout: Duration::from_secs(300),
        memory_share: 80,
        memory: None,
    };
    Front::new(4, PoolLimits { scaling, ..limits() }).run(async |front| {
        let wanted = || front.pool().figures().wanted;
        assert_eq!(wanted(), 4);
        let gate = Gate::new();
        let _running = dispatch(front.handle(), Script::Hold(gate)).await.unwrap();
        gate.is_reached().await;
        let short = MemoryFigures { limit: 1 << 30, available: 1 << 20 };
        front.memory().publish(short);
        let end = Instant::now() + PATIENCE;
        while wanted() > 1 {
            assert!(Instant::now() < end, "{:?}", front.pool().figures());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let sum = front.pool().figures().memory_sum.unwrap();
        assert!(sum.is_short && sum.room == 1, "{sum:?}");
        gate.open();
    });
}

/// A script that goes on without a reader ends while the thread is awake. Its mark wakes no task:
/// the thread goes to sleep nevertheless, and must hear of the next response.
#[test]
fn a_mark_that_wakes_nobody_does_not_make_the_thread_deaf() {
    let sweeps = Duration::from_secs(200);
    Front::new(2, limits()).sweeping_every(sweeps).run(async |front| {
        let gate = Gate::new();
        let (mut ended, _) = ask(front.handle(), Script::EndThenHold(gate)).await.unwrap();
        assert_eq!(body(&mut ended).await, Ok(b"early".to_vec()));
        drop(ended);
        gate.is_reached().await;
        let mut other = dispatch(front.handle(), Script::Sleep(300)).await.unwrap();
        let asked = Instant::now();
        gate.open();
        // The thread is busy while the first script ends.
        std::thread::sleep(Duration::from_millis(100));
        let mut head = Vec::new();
        let kind = other.head(&mut head).await.unwrap();
        assert_eq!(kind, HeadKind::Final);
        let took = asked.elapsed();
        assert!(took < sweeps / 4, "the thread slept over the response for {took:?}");
    });
}
