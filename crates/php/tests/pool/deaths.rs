//! Deaths of workers and zygotes.

use std::time::{Duration, Instant};

use howdah_php::counters::PoolCounter;
use howdah_php::{ExchangeError, HeadKind, LostWorker, PoolEvent, QueuePlace, RunReport};

use super::support::{Front, Gate, PATIENCE, Script, limits};
use super::{ask, body, dispatch, dispatch_in};

#[test]
fn a_workers_death_fails_its_request_and_no_other() {
    Front::new(2, limits()).run(async |front| {
        let (died, lived) = tokio::join!(
            ask(front.handle(), Script::Die(9)),
            ask(front.handle(), Script::Sleep(50)),
        );
        let died = died.err();
        let named = |pid| Some(format!("Err(WorkerDied(LostWorker {{ pid: {pid}, status: 9 }}))"));
        let first = front.first_pid();
        assert!(died == named(first) || died == named(first + 1), "{died:?}");
        assert_eq!(lived.unwrap().1, 200);
        for _ in 0..20 {
            assert_eq!(ask(front.handle(), Script::Bytes(10)).await.unwrap().1, 200);
        }
        let first = front.first_pid();
        let is_killed = |event: &PoolEvent| match event {
            PoolEvent::WorkerDied {
                pid, status: 9, is_out_of_memory: false, ..
            } => [first, first + 1].contains(pid),
            _ => false,
        };
        assert!(front.events().iter().any(is_killed));
        front.expect_idle().await;
    });
}

#[test]
fn a_death_in_the_middle_is_told_after_what_came_before_it() {
    Front::new(1, limits()).run(async |front| {
        let (mut exchange, status) = ask(front.handle(), Script::BytesThenDie(1000)).await.unwrap();
        assert_eq!(status, 200);
        let report = RunReport::default();
        exchange.report_to(report.clone());
        let lost = LostWorker { pid: front.first_pid(), status: 11 };
        assert_eq!(body(&mut exchange).await.unwrap_err(), ExchangeError::WorkerDied(lost));
        // The successor has the place of the worker by then.
        assert_eq!(ask(front.handle(), Script::Bytes(10)).await.unwrap().1, 200);
        drop(exchange);
        assert_eq!(report.get().map(|run| run.worker), Some(lost.pid));
        front.expect_idle().await;
    });
}

#[test]
fn a_pool_is_kept_in_the_moment_between_a_workers_death_and_its_successor() {
    let limits = howdah_php::PoolLimits {
        queue_timeout: Duration::from_millis(300),
        ..limits()
    };
    Front::new(1, limits).run(async |front| {
        // A pool that is younger is kept anyway.
        tokio::time::sleep(Duration::from_millis(5100)).await;
        let gate = Gate::new();
        let until = Instant::now() + PATIENCE;
        // A worker of a machine that stands still may not begin it in time.
        loop {
            let killed = ask(front.handle(), Script::DieAlone(gate)).await.err();
            if killed.as_ref().is_some_and(|killed| killed.starts_with("Err(WorkerDied(")) {
                break;
            }
            assert!(Instant::now() < until, "{killed:?}");
        }
        gate.is_reached().await;
        let mut waits = dispatch(front.handle(), Script::Bytes(1)).await.unwrap();
        assert_eq!(waits.head(&mut Vec::new()).await, Err(ExchangeError::NotBegun));
        drop(waits);
        tokio::time::sleep(Duration::from_millis(200)).await;
        gate.open();
        while ask(front.handle(), Script::Bytes(1)).await.is_err() {
            assert!(Instant::now() < until, "the pool was given up");
        }
    });
}

#[test]
fn a_dead_zygote_fails_what_runs_and_the_next_one_serves_what_waits() {
    Front::new(1, limits()).run(async |front| {
        let gate = Gate::new();
        let running = ask(front.handle(), Script::Hold(gate));
        let replacing = async {
            gate.is_reached().await;
            front.replace_zygote();
        };
        let (failed, ()) = tokio::join!(running, replacing);
        assert_eq!(failed.err().as_deref(), Some("Err(PoolDied)"));
        assert_eq!(ask(front.handle(), Script::Bytes(2)).await.unwrap().1, 200);
        front.expect_idle().await;
    });
}

#[test]
fn what_no_worker_had_begun_when_its_zygote_died_can_be_handed_over_again() {
    Front::new(1, limits()).run(async |front| {
        let gate = Gate::new();
        let running = ask(front.handle(), Script::Hold(gate));
        let queued = async {
            gate.is_reached().await;
            let mut exchange = dispatch(front.handle(), Script::Bytes(1)).await.unwrap();
            assert_eq!(exchange.head(&mut Vec::new()).await, Err(ExchangeError::NotTaken));
            exchange.since()
        };
        let replacing = async {
            gate.is_reached().await;
            tokio::time::sleep(Duration::from_millis(50)).await;
            front.replace_zygote();
        };
        let (_, since, ()) = tokio::join!(running, queued, replacing);
        let place = QueuePlace {
            since: Some(since),
            ..QueuePlace::default()
        };
        let mut again = dispatch_in(front.handle(), place, Script::Bytes(1)).await.unwrap();
        assert_eq!(again.head(&mut Vec::new()).await, Ok(HeadKind::Final));
        assert_eq!(again.since(), since);
        drop(again);
        // The one that waited twice is counted once.
        assert_eq!(front.counted(|totals| totals.of(PoolCounter::Requests)), [2, 2]);
        front.expect_idle().await;
    });
}

/// The case of `a_death_in_the_middle_is_told_after_what_came_before_it`, with a slower reader.
#[test]
fn a_slow_reader_gets_what_came_before_a_death_too() {
    Front::new(1, limits()).run(async |front| {
        let (mut exchange, _) = ask(front.handle(), Script::BytesThenDie(100)).await.unwrap();
        while front
            .events()
            .iter()
            .all(|event| !matches!(event, PoolEvent::WorkerDied { .. }))
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let mut look = async || {
            let progress = std::future::poll_fn(|context| {
                std::task::Poll::Ready(exchange.poll_progress(context))
            });
            let progress = progress.await.map(|news| (news.available, news.complete));
            if let Ok((available, _)) = progress {
                exchange.consume(available);
            }
            progress
        };
        assert_eq!(look().await, Ok((100, false)));
        assert!(matches!(look().await, Err(ExchangeError::WorkerDied(_))));
    });
}

/// Runs the next test in a process of its own with few descriptors.
#[test]
fn a_moment_without_descriptors_does_not_take_a_pool_from_a_thread() {
    let mut process = std::process::Command::new("sh");
    let test = "deaths::a_new_zygote_is_used_as_soon_as_there_are_descriptors";
    let output = process
        .args(["-c", "ulimit -n 256 && exec \"$0\" --exact --include-ignored \"$1\""])
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
}

#[test]
#[ignore = "needs a process with few descriptors: the test before runs it"]
fn a_new_zygote_is_used_as_soon_as_there_are_descriptors() {
    Front::new(1, limits()).run(async |front| {
        assert_eq!(ask(front.handle(), Script::Bytes(1)).await.unwrap().1, 200);
        let before = front.events().len();
        front.replace_zygote();
        while front.events().len() == before {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let open = || std::fs::File::open("/dev/null").ok();
        let all: Vec<_> = std::iter::from_fn(open).take(4000).collect();
        assert!(all.len() < 4000, "there are more descriptors than 256");
        let asks = ask(front.handle(), Script::Bytes(2));
        let early = tokio::time::timeout(Duration::from_millis(100), asks).await;
        assert!(early.is_err(), "there is no descriptor for the new zygote's bell");
        drop(all);
        assert_eq!(ask(front.handle(), Script::Bytes(3)).await.unwrap().1, 200);
    });
}
