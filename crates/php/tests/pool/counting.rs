//! The counters of a pool and of its lanes.

use std::time::Duration;

use howdah_php::counters::PoolCounter;
use howdah_php::{ExchangeError, PoolLimits};

use super::support::{Front, Gate, Script, limits};
use super::{ask, body, dispatch};

#[test]
fn a_request_is_counted_with_its_times_and_as_slow_where_it_is() {
    for (slow_after, slow) in [(None, 0), (Some(10), 1), (Some(500_000), 0)] {
        let slow_after = slow_after.map(Duration::from_millis);
        Front::new(1, PoolLimits { slow_after, ..limits() }).run(async |front| {
            assert!(front.pool().is_ready());
            assert_eq!(front.pool().name(), "test");
            let (mut exchange, _) = ask(front.handle(), Script::Sleep(20)).await.unwrap();
            body(&mut exchange).await.unwrap();
            let figures = exchange.figures().expect("its script has ended");
            assert!(figures.took >= 20_000_000, "{figures:?}");
            drop(exchange);
            front.expect_idle().await;
            let of = |event| front.counted(|totals| totals.of(event));
            assert_eq!(of(PoolCounter::Requests), [1, 1]);
            assert_eq!(of(PoolCounter::Slow), [slow, slow], "{slow_after:?}");
            assert_eq!((of(PoolCounter::Lost), of(PoolCounter::Exhausted)), ([0, 0], [0, 0]));
            for histogram in [
                front.counted(|totals| totals.waited().to_vec()),
                front.counted(|totals| totals.took().to_vec()),
            ] {
                for words in histogram {
                    let (sum, buckets) = words.split_last().unwrap();
                    assert_eq!(buckets.iter().sum::<u64>(), 1, "{sum}");
                }
            }
            let took = front.counted(|totals| totals.took().last().copied());
            assert!(took.iter().all(|sum| *sum >= Some(20_000)), "{took:?}");
        });
    }
}

#[test]
fn a_slow_script_that_is_late_is_counted_once() {
    let limits = PoolLimits {
        request_timeout: Duration::from_millis(100),
        slow_after: Some(Duration::from_millis(50)),
        ..limits()
    };
    Front::new(1, limits).run(async |front| {
        let gate = Gate::new();
        let mut late = dispatch(front.handle(), Script::Hold(gate)).await.unwrap();
        assert_eq!(late.head(&mut Vec::new()).await, Err(ExchangeError::Silent));
        drop(late);
        // The soft time-out ends the script, and the worker lives on and tells its figures.
        gate.open();
        front.expect_idle().await;
        let of = |event| front.counted(|totals| totals.of(event));
        assert_eq!((of(PoolCounter::Timeouts), of(PoolCounter::Slow)), ([1, 1], [1, 1]));
    });
}

#[test]
fn a_request_whose_client_is_gone_before_a_worker_began_it_is_counted_and_not_run() {
    let slow_after = Some(Duration::from_nanos(1));
    Front::new(1, PoolLimits { slow_after, ..limits() }).run(async |front| {
        let (gate, never) = (Gate::new(), Gate::new());
        let running = dispatch(front.handle(), Script::Hold(gate)).await.unwrap();
        gate.is_reached().await;
        let in_slot = dispatch(front.handle(), Script::Hold(never)).await.unwrap();
        let handle = front.handle().clone();
        let without_slot = tokio::task::spawn_local(async move {
            dispatch(&handle, Script::Hold(never)).await.map(drop)
        });
        while front.pool().figures().waiting < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        without_slot.abort();
        assert!(without_slot.await.is_err());
        assert_eq!(front.pool().figures().waiting, 1, "its place is free at once");
        drop(in_slot);
        assert_eq!(front.pool().figures().waiting, 0);
        // Its client has closed its side, and may still read.
        let mut closed = dispatch(front.handle(), Script::Hold(never)).await.unwrap();
        let mut head = Vec::new();
        let left = closed.head_unless(|_, waits| waits, &mut head);
        let look_again = async {
            loop {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            biased;
            () = look_again => {}
            left = left => assert_eq!(left, None),
        }
        drop(closed);
        gate.open();
        drop(running);
        front.expect_idle().await;
        assert!(!never.was_reached());
        let of = |event| front.counted(|totals| totals.of(event));
        assert_eq!((of(PoolCounter::Requests), of(PoolCounter::Abandoned)), ([4, 4], [3, 3]));
        assert_eq!(of(PoolCounter::Slow), [1, 1], "only the one that ran");
    });
}

#[test]
fn lost_requests_and_the_processor_time_of_dead_workers_are_counted() {
    Front::new(1, limits()).run(async |front| {
        // A worker has had no more processor time than it lived.
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert!(ask(front.handle(), Script::Die(9)).await.is_err());
        assert_eq!(front.counted(|totals| totals.of(PoolCounter::Lost)), [1, 1]);
        while front.counted(|totals| totals.processor())[0] == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(front.counted(|totals| totals.processor())[0], 1_000_000);
        front.lose_zygote();
        while front.pool().is_ready() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn a_pool_without_a_free_worker_is_counted_and_what_it_does_not_begin_in_time() {
    let queue_timeout = Duration::from_secs(2);
    Front::new(1, PoolLimits { queue_timeout, ..limits() }).run(async |front| {
        let gate = Gate::new();
        let running = dispatch(front.handle(), Script::Hold(gate)).await.unwrap();
        gate.is_reached().await;
        let exhausted = || front.counted(|totals| totals.of(PoolCounter::Exhausted))[0];
        assert_eq!(exhausted(), 0);
        let mut waits = dispatch(front.handle(), Script::Bytes(1)).await.unwrap();
        assert_eq!(waits.head(&mut Vec::new()).await, Err(ExchangeError::NotBegun));
        assert_eq!(front.counted(|totals| totals.of(PoolCounter::QueueTimeouts)), [1, 1]);
        assert!(exhausted() > 0);
        let figures = front.pool().figures();
        assert_eq!((figures.most_active, figures.most_waiting), (1, 1));
        assert_eq!(figures.workers.len(), 1);
        gate.open();
        drop((running, waits));
        front.expect_idle().await;
        assert_eq!(front.counted(|totals| totals.of(PoolCounter::Requests)), [2, 2]);
    });
}
