//! The pool as a whole: its start and its end, its figures, and what its first thread does for all.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use howdah_php::counters::PoolCounter;
use howdah_php::{
    DispatchError, ExchangeError, LaneLimits, MemoryRecord, Pool, PoolEvent, PoolHandle,
    PoolLimits, Scaling,
};
use howdah_sys::memory::SharedNumbers;
use howdah_sys::seqpacket::SeqPacket;

use super::support::{self, Front, Gate, PATIENCE, Script, Stage, limits};
use super::{ask, body, dispatch};

const NEVER: Duration = Duration::from_secs(480);

async fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The events of a start, in their order.
fn names(front: &Stage) -> Vec<&'static str> {
    let name = |event: &PoolEvent| match event {
        PoolEvent::Ready { .. } => "ready",
        PoolEvent::WorkerStarted => "started",
        PoolEvent::Complete => "complete",
        _ => "other",
    };
    front.events().iter().map(name).collect()
}

#[test]
fn a_pool_is_complete_when_its_first_workers_have_started() {
    Front::new(2, limits()).run(async |front| {
        wait_until("it is complete", || names(front).contains(&"complete")).await;
        assert_eq!(names(front), ["ready", "started", "started", "complete"]);
        assert_eq!(front.pool().load().1, 0);
        let figures = front.pool().figures();
        assert_eq!((figures.workers.len(), figures.wanted), (2, 2));
        assert_eq!(
            (&figures.zygote.php_version[..], &figures.zygote.opcache[..]),
            ("8.2.29", "on")
        );
        assert!(figures.zygote.started.is_some() && figures.zygote.warmup.is_none());
    });
}

#[test]
fn a_pool_that_starts_workers_for_requests_is_ready_without_one() {
    let scaling = Scaling::OnDemand { idle_timeout: NEVER };
    Front::new(2, PoolLimits { scaling, ..limits() })
        .with_first(0)
        .run(async |front| {
            wait_until("it is complete", || names(front).contains(&"complete")).await;
            assert_eq!(names(front), ["ready", "complete"]);
            assert!(front.pool().is_ready());
            assert_eq!((front.pool().worker_count(), front.pool().figures().workers.len()), (0, 0));
            let _waits = dispatch(front.handle(), Script::Bytes(1)).await.unwrap();
            assert_eq!(front.pool().load(), (0, 1));
            front.handle().sweep(Instant::now());
            let exhausted = front.counted(|totals| totals.of(PoolCounter::Exhausted));
            assert_eq!(exhausted, [0, 0], "its worker is still to come");
            front.lose_zygote();
            wait_until("the zygote is gone", || !front.pool().is_ready()).await;
            // The next one has not started PHP.
            let (ours, _theirs) = SeqPacket::pair().unwrap();
            let followed = front.pool().follow(ours, |_| {});
            assert!(tokio::time::timeout(Duration::from_millis(20), followed).await.is_err());
            assert!(front.pool().figures().caches.is_some(), "there is a zygote");
            assert!(!front.pool().is_ready());
        });
}

#[test]
fn a_pool_ends_when_nothing_runs_or_waits() {
    Front::new(1, limits()).run(async |front| {
        let gate = Gate::new();
        let running = dispatch(front.handle(), Script::Hold(gate)).await.unwrap();
        gate.is_reached().await;
        front.pool().stop_if_unused();
        gate.open();
        drop(running);
        front.expect_idle().await;
        // The zygote would have been told in this order.
        assert_eq!(ask(front.handle(), Script::Bytes(1)).await.unwrap().1, 200);
        front.expect_idle().await;
        assert_eq!(front.stops(), 0);
        front.pool().stop_if_unused();
        wait_until("the zygote is told", || front.stops() == 1).await;
    });
}

#[test]
fn workers_of_a_pool_that_drains_end_when_they_sleep() {
    Front::new(2, limits()).run(async |front| {
        let gate = Gate::new();
        let running = dispatch(front.handle(), Script::Hold(gate)).await.unwrap();
        gate.is_reached().await;
        assert_eq!(front.pool().figures().wanted, 2);
        wait_until("a worker sleeps", || front.pool().load() == (1, 0)).await;
        front.pool().drain();
        wait_until("it ends", || front.pool().figures().wanted == 1).await;
        gate.open();
        drop(running);
        wait_until("the other one ends", || front.pool().figures().wanted == 0).await;
    });
}

#[test]
fn the_first_thread_counts_the_seconds_without_a_free_worker() {
    Front::new(2, limits()).sweeping_every(NEVER).run(async |front| {
        let numbers = support::numbers();
        let second = PoolHandle::new(front.handle().pool().clone(), 1, support::counters(&numbers));
        let exhausted = || front.counted(|totals| totals.of(PoolCounter::Exhausted))[0];
        let gates = [Gate::new(), Gate::new()];
        let mut running = Vec::new();
        for (busy, gate) in gates.iter().enumerate() {
            front.handle().sweep(Instant::now());
            assert_eq!((exhausted(), front.pool().figures().most_active), (0, busy));
            running.push(dispatch(front.handle(), Script::Hold(*gate)).await.unwrap());
            gate.is_reached().await;
        }
        front.handle().sweep(Instant::now());
        assert_eq!(exhausted(), 0, "no request waits");
        running.push(dispatch(front.handle(), Script::Bytes(1)).await.unwrap());
        assert_eq!(front.pool().load(), (0, 1));
        for count in 1..3 {
            front.handle().sweep(Instant::now());
            second.sweep(Instant::now());
            assert_eq!(exhausted(), count);
        }
        assert_eq!(support::counted(&numbers, |totals| totals.of(PoolCounter::Exhausted)), [0, 0]);
        let figures = front.pool().figures();
        assert_eq!((figures.most_active, figures.most_waiting), (2, 1));
        gates.iter().for_each(|gate| gate.open());
    });
}

#[test]
fn memory_of_a_large_response_is_given_back_after_a_while() {
    Front::new(1, limits()).sweeping_every(NEVER).run(async |front| {
        let (mut exchange, _) = ask(front.handle(), Script::Bytes(500_000)).await.unwrap();
        body(&mut exchange).await.unwrap();
        drop(exchange);
        front.handle().before_sleep();
        front.expect_idle().await;
        let start = Instant::now();
        front.handle().sweep(start);
        front.handle().sweep(start + Duration::from_millis(4999));
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(front.cleans(), 0, "it was used a moment ago");
        front.handle().sweep(start + Duration::from_millis(5000));
        wait_until("the zygote is asked", || front.cleans() == 1).await;
    });
}

#[test]
fn requests_of_a_former_zygote_are_still_looked_after() {
    Front::new(1, limits()).sweeping_every(NEVER).run(async |front| {
        let gate = Gate::new();
        let former = dispatch(front.handle(), Script::Hold(gate)).await.unwrap();
        gate.is_reached().await;
        front.replace_zygote();
        wait_until("the next zygote has a worker", || front.pool().worker_count() == 1).await;
        while ask(front.handle(), Script::Bytes(1)).await.is_err() {}
        front.handle().sweep(Instant::now());
        assert!(!front.handle().is_idle(), "the former request is there");
        drop(former);
        front.expect_idle().await;
        front.handle().sweep(Instant::now());
        gate.open();
    });
}

/// A waker that can be asked.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_thread_that_does_not_sleep_sees_responses_when_it_looks() {
    Front::new(1, limits()).sweeping_every(NEVER).run(async |front| {
        let gates = [Gate::new(), Gate::new()];
        let first = dispatch(front.handle(), Script::Hold(gates[0])).await.unwrap();
        gates[0].is_reached().await;
        let mut second = dispatch(front.handle(), Script::EndThenHold(gates[1])).await.unwrap();
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let mut head = Vec::new();
        {
            let mut waits = std::pin::pin!(second.head(&mut head));
            assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            gates[0].open();
            while !gates[1].was_reached() {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(!woken.0.load(Ordering::Relaxed), "nobody has looked");
            front.handle().look();
            assert!(woken.0.load(Ordering::Relaxed));
            assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
        }
        gates[1].open();
        drop(first);
    });
}

#[test]
fn what_is_measured_of_the_workers_is_remembered_for_the_next_generation() {
    let scaling = Scaling::Auto {
        start: 1,
        idle_timeout: NEVER,
        memory_share: 80,
        memory: None,
    };
    // The zygote's settings are number 7.
    for (settings, per_worker, is_former) in [(7, 14 << 20, true), (8, 64 << 20, false)] {
        let numbers = Arc::new(SharedNumbers::new(MemoryRecord::WORDS).unwrap());
        let record = MemoryRecord::new(numbers, 0);
        let (resting, script) = (9 << 20, 5 << 20);
        record.write(howdah_php::MeasuredMemory { resting, script, settings });
        Front::new(1, PoolLimits { scaling, ..limits() })
            .remembering(record)
            .run(async |front| {
                let figures = howdah_php::MemoryFigures { limit: 1 << 30, available: 1 << 29 };
                front.memory().publish(figures);
                front.handle().sweep(Instant::now());
                let sum = front.pool().figures().memory_sum.unwrap();
                assert_eq!((sum.per_worker, sum.is_former), (per_worker, is_former));
                assert_eq!(front.pool().lanes(), []);
            });
    }
}

#[test]
fn a_pool_has_the_lanes_of_its_configuration() {
    let lane = LaneLimits {
        name: "shop".to_owned(),
        workers: 1,
        queue: 1,
        queue_timeout: NEVER,
        weight: 1,
    };
    let pool = Pool::new("lanes".into(), (limits(), vec![lane.clone()]), 1, Arc::default());
    assert_eq!((pool.lanes(), pool.name()), (&[lane][..], "lanes"));
}

#[test]
fn a_zygote_that_ends_before_php_has_started_is_a_start_that_failed() {
    Front::new(1, limits()).run(async |front| {
        front.lose_zygote();
        wait_until("the zygote is gone", || !front.pool().is_ready()).await;
        let (ours, theirs) = SeqPacket::pair().unwrap();
        let ends = async {
            // Once it has got its region.
            tokio::time::sleep(Duration::from_millis(20)).await;
            drop(theirs);
        };
        let ((lost, _), ()) = tokio::join!(front.pool().follow(ours, |_| {}), ends);
        assert_eq!(lost, 0);
        let refused = dispatch(front.handle(), Script::Bytes(1)).await.err();
        assert_eq!(refused, Some(DispatchError::DoesNotStart));
    });
}

#[test]
fn a_pool_whose_only_worker_has_died_is_not_ready() {
    Front::new(1, limits()).run(async |front| {
        let gate = Gate::new();
        assert!(ask(front.handle(), Script::DieAlone(gate)).await.is_err());
        wait_until("its death is told", || front.pool().worker_count() == 0).await;
        assert!(!front.pool().is_ready());
        gate.open();
        wait_until("its successor starts", || front.pool().is_ready()).await;
    });
}

#[test]
fn a_zygote_that_another_replaces_ends_with_its_requests() {
    Front::new(2, limits()).sweeping_every(NEVER).run(async |front| {
        let gates = [Gate::new(), Gate::new()];
        let mut running = Vec::new();
        for gate in &gates {
            running.push(dispatch(front.handle(), Script::Hold(*gate)).await.unwrap());
            gate.is_reached().await;
        }
        front.bring_zygote();
        for exchange in &mut running {
            let ended = exchange.head(&mut Vec::new()).await;
            assert_eq!(ended, Err(ExchangeError::PoolDied));
        }
        wait_until("the next one has workers", || front.pool().worker_count() == 2).await;
        assert_eq!(front.pool().figures().most_active, 2, "those of the former one");
        gates.iter().for_each(|gate| gate.open());
    });
}

#[test]
fn a_worker_that_does_not_end_is_killed_three_times_and_then_the_pool_given_up() {
    let request_timeout = Duration::from_secs(60);
    let limits = PoolLimits { request_timeout, ..limits() };
    Front::new(1, limits)
        .sweeping_every(NEVER)
        .with_deaf_zygote()
        .run(async |front| {
            let gate = Gate::new();
            let running = dispatch(front.handle(), Script::Hold(gate)).await.unwrap();
            gate.is_reached().await;
            drop(running);
            let start = Instant::now();
            for second in 0..68 {
                front.handle().sweep(start + Duration::from_secs(second));
                let expected = match second {
                    0..60 => 0,
                    60..62 => 1,
                    _ => (second as usize - 60) / 2 + 1,
                };
                wait_until("the signals come", || front.signals().len() >= expected).await;
                assert_eq!(front.signals().len(), expected, "second {second}");
            }
            assert_eq!(front.signals(), [10, 9, 9, 9]);
            assert!(front.pool().is_ready());
            front.handle().sweep(start + Duration::from_secs(68));
            assert!(!front.pool().is_ready());
            gate.open();
        });
}
