//! Responses that end early, or not at all, as their readers see them.

use std::future::poll_fn;
use std::io::Read;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use howdah_ipc::Geometry;
use howdah_php::counters::PoolCounter;
use howdah_php::decode_head;
use howdah_php::{
    DispatchError, ExchangeError, HeadKind, PoolEvent, PoolLimits, ResponseProgress, ScriptExchange,
};

use super::support::{Front, Gate, PATIENCE, Script, Stage, limits};
use super::{ask, body, dispatch};

/// Returns how much of the response has arrived now.
async fn look(exchange: &mut ScriptExchange) -> Result<ResponseProgress, ExchangeError> {
    poll_fn(|context| Poll::Ready(exchange.poll_progress(context))).await
}

/// Waits until some of the response has arrived.
async fn some(exchange: &mut ScriptExchange) -> ResponseProgress {
    let arrived = poll_fn(|context| match exchange.poll_progress(context) {
        Ok(news) if news.available == 0 => Poll::Pending,
        other => Poll::Ready(other),
    });
    tokio::time::timeout(PATIENCE, arrived).await.expect("output arrives").unwrap()
}

async fn until_worker_died(front: &Stage) {
    let is_death = |event: &PoolEvent| matches!(event, PoolEvent::WorkerDied { .. });
    while !front.events().iter().any(is_death) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn output_that_a_script_leaves_in_its_slot_is_shown_while_it_runs() {
    Front::new(1, limits()).run(async |front| {
        let gate = Gate::new();
        let (mut exchange, _) = ask(front.handle(), Script::PrintThenHold(gate)).await.unwrap();
        let progress = some(&mut exchange).await;
        assert_eq!(
            progress,
            ResponseProgress {
                available: 4,
                complete: false,
                full: false
            }
        );
        gate.open();
        assert_eq!(body(&mut exchange).await.unwrap(), b"some");
    });
}

#[test]
fn a_reader_is_told_that_the_ring_is_more_than_half_full() {
    let ring = Geometry::for_pool(1, 1).ring_bytes;
    for (bytes, full) in [(1, false), (ring / 2, false), (ring / 2 + 1, true)] {
        Front::new(1, limits()).run(async |front| {
            let (mut exchange, _) = ask(front.handle(), Script::Bytes(bytes)).await.unwrap();
            let progress = poll_fn(|context| match exchange.poll_progress(context) {
                Ok(news) if !news.complete => Poll::Pending,
                other => Poll::Ready(other),
            });
            let progress = progress.await.unwrap();
            assert_eq!(progress, ResponseProgress { available: bytes, complete: true, full });
        });
    }
}

#[test]
fn a_response_that_is_complete_stays_so_when_its_worker_dies() {
    Front::new(1, limits()).run(async |front| {
        let mut exchange = dispatch(front.handle(), Script::EndThenDie(11)).await.unwrap();
        until_worker_died(front).await;
        assert_eq!(exchange.head(&mut Vec::new()).await, Ok(HeadKind::Final));
        assert_eq!(body(&mut exchange).await.unwrap(), b"early");
        drop(exchange);
        front.expect_idle().await;
        assert_eq!(front.counted(|totals| totals.of(PoolCounter::Lost)), [0, 0]);
    });
}

#[test]
fn a_death_before_the_head_was_read_can_still_be_answered() {
    Front::new(1, limits()).run(async |front| {
        let mut exchange = dispatch(front.handle(), Script::BytesThenDie(10)).await.unwrap();
        until_worker_died(front).await;
        for _ in 0..2 {
            let died = exchange.head(&mut Vec::new()).await;
            assert!(matches!(died, Err(ExchangeError::WorkerDied(_))), "{died:?}");
        }
        assert_eq!(front.counted(|totals| totals.of(PoolCounter::Lost)), [1, 1], "counted once");
    });
}

#[test]
fn what_came_before_the_death_of_a_zygote_is_read() {
    Front::new(1, limits()).run(async |front| {
        let gate = Gate::new();
        let (mut exchange, _) = ask(front.handle(), Script::PrintThenHold(gate)).await.unwrap();
        some(&mut exchange).await;
        front.replace_zygote();
        let until = Instant::now() + PATIENCE;
        let mut progress = look(&mut exchange).await.unwrap();
        while !progress.full {
            assert!(Instant::now() < until, "the zygote lives");
            tokio::time::sleep(Duration::from_millis(1)).await;
            progress = look(&mut exchange).await.unwrap();
        }
        assert_eq!(
            progress,
            ResponseProgress {
                available: 4,
                complete: false,
                full: true
            }
        );
        exchange.consume(4);
        assert_eq!(look(&mut exchange).await, Err(ExchangeError::PoolDied));
        gate.open();
    });
}

#[test]
fn a_request_that_was_not_begun_in_time_stays_so() {
    let queue_timeout = Duration::from_millis(100);
    Front::new(1, PoolLimits { queue_timeout, ..limits() }).run(async |front| {
        let gate = Gate::new();
        // A machine that stands still may not begin the first one in time.
        let until = Instant::now() + PATIENCE;
        let running = loop {
            let exchange = dispatch(front.handle(), Script::Hold(gate)).await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
            if gate.was_reached() {
                break exchange;
            }
            assert!(Instant::now() < until, "no worker begins a request");
        };
        let count = |event| front.counted(|totals| totals.of(event))[0];
        let before = [PoolCounter::QueueTimeouts, PoolCounter::Abandoned].map(count);
        let mut waits = dispatch(front.handle(), Script::Bytes(1)).await.unwrap();
        for _ in 0..2 {
            assert_eq!(waits.head(&mut Vec::new()).await, Err(ExchangeError::NotBegun));
        }
        drop(waits);
        // Counted once, and its client waits for the answer.
        let after = [PoolCounter::QueueTimeouts, PoolCounter::Abandoned].map(count);
        assert_eq!(after, [before[0] + 1, before[1]]);
        gate.open();
        drop(running);
    });
}

#[test]
fn a_script_has_a_last_deadline_whatever_its_signs_of_life() {
    let request_terminate_timeout = Duration::from_millis(100);
    Front::new(1, PoolLimits { request_terminate_timeout, ..limits() }).run(async |front| {
        let gate = Gate::new();
        let mut late = dispatch(front.handle(), Script::Hold(gate)).await.unwrap();
        assert_eq!(late.head(&mut Vec::new()).await, Err(ExchangeError::TimedOut));
        drop(late);
        gate.open();
        front.expect_idle().await;
        assert_eq!(front.counted(|totals| totals.of(PoolCounter::Timeouts)), [1, 1]);
        assert_eq!(front.signals().first(), Some(&10), "the script is told to end");
    });
}

#[test]
fn a_front_that_ends_cuts_off_what_waits_and_then_what_runs() {
    Front::new(1, limits()).run(async |front| {
        let gate = Gate::new();
        let mut running = dispatch(front.handle(), Script::Hold(gate)).await.unwrap();
        gate.is_reached().await;
        let mut in_slot = dispatch(front.handle(), Script::Bytes(1)).await.unwrap();
        let handle = front.handle().clone();
        let without_slot =
            tokio::task::spawn_local(
                async move { dispatch(&handle, Script::Bytes(1)).await.map(drop) },
            );
        while front.pool().figures().waiting < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        front.pool().cut_off_waiting();
        assert_eq!(in_slot.head(&mut Vec::new()).await, Err(ExchangeError::NotTaken));
        assert_eq!(without_slot.await.unwrap(), Err(DispatchError::CutOff));
        drop(in_slot); // A slot is free, and nobody gets it.
        let refused = dispatch(front.handle(), Script::Bytes(1)).await.err();
        assert_eq!(refused, Some(DispatchError::CutOff));
        assert!(look(&mut running).await.is_ok(), "its time comes later");
        front.pool().cut_off_running();
        assert_eq!(running.head(&mut Vec::new()).await, Err(ExchangeError::CutOff));
        drop(running);
        let until = Instant::now() + PATIENCE;
        while front.signals().is_empty() {
            assert!(Instant::now() < until, "the script is not told to end");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        gate.open();
        front.expect_idle().await;
        assert_eq!(front.counted(|totals| totals.of(PoolCounter::Timeouts)), [1, 1]);
        assert_eq!(front.counted(|totals| totals.of(PoolCounter::QueueTimeouts)), [2, 2]);
    });
}

#[test]
fn a_script_that_runs_does_not_wait_for_a_worker() {
    Front::new(1, limits()).run(async |front| {
        let gate = Gate::new();
        let mut runs = dispatch(front.handle(), Script::Hold(gate)).await.unwrap();
        gate.is_reached().await;
        let told = async |exchange: &mut ScriptExchange| {
            let told = std::cell::RefCell::new(Vec::new());
            let is_gone = |_: &mut Context<'_>, waits: bool| {
                told.borrow_mut().push(waits);
                !waits
            };
            assert_eq!(exchange.head_unless(is_gone, &mut Vec::new()).await, None);
            told.into_inner()
        };
        let mut waits = loop {
            let mut waits = dispatch(front.handle(), Script::Bytes(1)).await.unwrap();
            let at_first = told(&mut waits).await;
            // A free worker would have begun it by then.
            if waits.since().elapsed() < Duration::from_millis(200) {
                assert_eq!(at_first, [false]);
                break waits;
            }
        };
        tokio::time::sleep(Duration::from_millis(220)).await;
        assert_eq!(told(&mut runs).await, [false]);
        assert_eq!(told(&mut waits).await, [true, false]);
        gate.open();
    });
}

#[test]
fn a_head_is_read_when_all_of_it_has_come() {
    Front::new(1, limits()).run(async |front| {
        let gate = Gate::new();
        let mut exchange = dispatch(front.handle(), Script::HeadInTwo(gate)).await.unwrap();
        some(&mut exchange).await;
        let mut head = Vec::new();
        let early = tokio::time::timeout(Duration::from_millis(20), exchange.head(&mut head)).await;
        assert!(early.is_err(), "{early:?}");
        gate.open();
        assert_eq!(exchange.head(&mut head).await, Ok(HeadKind::Final));
        assert_eq!(decode_head(&head).unwrap().status, 200);
        // A script that ends without a head is no response.
        let mut nothing = dispatch(front.handle(), Script::Nothing).await.unwrap();
        let none = nothing.head(&mut head).await;
        assert!(matches!(none, Err(ExchangeError::Malformed(_))), "{none:?}");
    });
}

#[test]
fn the_next_bytes_are_sent_between_others_and_stay_until_they_are_consumed() {
    Front::new(1, limits()).run(async |front| {
        let gate = Gate::new();
        let (mut exchange, _) = ask(front.handle(), Script::PrintThenHold(gate)).await.unwrap();
        some(&mut exchange).await;
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(exchange.send(3, ours.as_fd(), b"<", b">!").unwrap(), 6);
        let mut sent = [0; 6];
        theirs.read_exact(&mut sent).unwrap();
        assert_eq!(&sent, b"<som>!");
        assert_eq!(look(&mut exchange).await.unwrap().available, 4);
        gate.open();
    });
}

#[test]
fn a_script_without_a_reader_keeps_what_it_uses_and_runs_to_its_end() {
    Front::new(1, limits()).run(async |front| {
        let gate = Gate::new();
        let mut exchange = dispatch(front.handle(), Script::HoldThenPrint(gate)).await.unwrap();
        let file = Arc::new(());
        exchange.keep(Box::new(Arc::clone(&file)));
        gate.is_reached().await;
        exchange.detach();
        assert_eq!(Arc::strong_count(&file), 2);
        gate.open();
        front.expect_idle().await;
        assert_eq!(Arc::strong_count(&file), 1);
        assert!(gate.was_printed(), "the script is not told that nobody reads");
        assert!(front.signals().is_empty());
    });
}

#[test]
fn a_script_without_a_reader_need_not_wait_for_room_and_has_its_time_limit() {
    Front::new(1, limits()).run(async |front| {
        let (exchange, _) = ask(front.handle(), Script::Bytes(5_000_000)).await.unwrap();
        exchange.detach();
        front.expect_idle().await;
    });
    let request_timeout = Duration::from_millis(100);
    Front::new(1, PoolLimits { request_timeout, ..limits() }).run(async |front| {
        let gate = Gate::new();
        let exchange = dispatch(front.handle(), Script::Hold(gate)).await.unwrap();
        gate.is_reached().await;
        exchange.detach();
        let until = Instant::now() + PATIENCE;
        while !front.signals().contains(&10) {
            assert!(Instant::now() < until, "the script is not told to end");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        gate.open();
        front.expect_idle().await;
    });
}

#[test]
fn a_thread_that_was_held_does_not_take_its_pause_for_the_scripts_silence() {
    let (long, request_terminate_timeout) = (Duration::from_secs(300), Duration::from_secs(3600));
    let limits = PoolLimits { request_terminate_timeout, ..limits() };
    Front::new(1, limits).sweeping_every(2 * PATIENCE).run(async |front| {
        let gate = Gate::new();
        let mut running = dispatch(front.handle(), Script::Hold(gate)).await.unwrap();
        gate.is_reached().await;
        let now = Instant::now();
        front.handle().sweep(now);
        front.handle().sweep(now + 2 * long);
        assert!(look(&mut running).await.is_ok());
        // Two seconds are no pause; its time was extended by the one before.
        for seconds in 1..=long.as_secs() {
            front.handle().sweep(now + 2 * long + Duration::from_secs(seconds));
        }
        assert_eq!(look(&mut running).await, Err(ExchangeError::Silent));
        gate.open();
    });
}
