//! The run of a script, which its exchange leaves for logs.

use std::time::Duration;

use howdah_php::{RunReport, ScriptExchange, ScriptRun};

use super::support::{Front, Gate, Script, limits};
use super::{ask, body, dispatch};

/// Returns what an exchange leaves.
fn left(mut exchange: Box<ScriptExchange>) -> ScriptRun {
    let report = RunReport::default();
    exchange.report_to(report.clone());
    assert_eq!(report.get(), None, "it is there when the exchange is dropped");
    drop(exchange);
    report.get().expect("the worker wrote no nonsense")
}

#[test]
fn a_script_that_has_ended_leaves_its_times_and_its_worker() {
    Front::new(1, limits()).run(async |front| {
        let gate = Gate::new();
        let first = dispatch(front.handle(), Script::Hold(gate)).await.unwrap();
        gate.is_reached().await;
        let mut second = dispatch(front.handle(), Script::Sleep(20)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
        gate.open();
        second.head(&mut Vec::new()).await.unwrap();
        body(&mut second).await.unwrap();
        let (waited, ran) = second.times();
        let run = left(second);
        assert_eq!(run.worker, front.first_pid());
        assert!(run.waited >= 10_000_000 && run.took >= Some(20_000_000), "{run:?}");
        assert_eq!(waited.as_nanos(), u128::from(run.waited));
        assert!(ran.as_nanos() >= 20_000_000, "{ran:?}");
        drop(first);
    });
}

#[test]
fn a_request_that_no_worker_has_begun_leaves_how_long_it_waited() {
    Front::new(1, limits()).run(async |front| {
        let gate = Gate::new();
        let first = dispatch(front.handle(), Script::Hold(gate)).await.unwrap();
        gate.is_reached().await;
        let second = dispatch(front.handle(), Script::Bytes(1)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
        let run = left(second);
        assert!(run.waited >= 10_000_000, "{run:?}");
        assert_eq!(
            run,
            ScriptRun {
                waited: run.waited,
                ..ScriptRun::default()
            }
        );
        gate.open();
        drop(first);
    });
}

#[test]
fn a_script_that_goes_on_leaves_no_time_and_one_that_died_does() {
    Front::new(1, limits()).run(async |front| {
        let gate = Gate::new();
        let (mut goes_on, _) = ask(front.handle(), Script::EndThenHold(gate)).await.unwrap();
        body(&mut goes_on).await.unwrap();
        assert_eq!(left(goes_on).took, None);
        gate.open();
        front.expect_idle().await;
        let mut dies = dispatch(front.handle(), Script::Die(9)).await.unwrap();
        let died = dies.head(&mut Vec::new()).await;
        assert!(died.is_err());
        let run = left(dies);
        assert_eq!(run.worker, front.first_pid());
        assert!(run.took.is_some_and(|took| took > 0), "{run:?}");
        assert_eq!((run.peak, run.processor), (None, None));
    });
}

#[test]
fn the_wait_for_a_slot_is_part_of_the_wait() {
    Front::new(1, limits()).run(async |front| {
        let gates = [Gate::new(), Gate::new()];
        let first = dispatch(front.handle(), Script::Hold(gates[0])).await.unwrap();
        gates[0].is_reached().await;
        let second = dispatch(front.handle(), Script::Hold(gates[1])).await.unwrap();
        let handle = front.handle().clone();
        let third = tokio::task::spawn_local(async move {
            let (mut exchange, _) = ask(&handle, Script::Bytes(1)).await.unwrap();
            body(&mut exchange).await.unwrap();
            left(exchange)
        });
        while front.pool().figures().waiting < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        gates.iter().for_each(|gate| gate.open());
        drop((first, second));
        let run = third.await.unwrap();
        assert!(run.waited >= 50_000_000, "{run:?}");
    });
}
