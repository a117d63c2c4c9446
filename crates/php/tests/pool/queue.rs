//! Requests that wait: the queue, its limits, and the time of scripts after it.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use howdah_php::counters::PoolCounter;
use howdah_php::{
    DispatchError, ExchangeError, HeadKind, MemoryFigures, PoolHandle, QueuePlace, Scaling,
};

use super::support::{self, Front, Gate, PATIENCE, Script, limits};
use super::{ask, body, dispatch, dispatch_in};

#[test]
fn a_full_queue_refuses_and_a_short_wait_is_served() {
    let limits = howdah_php::PoolLimits { queue: 1, ..limits() };
    Front::new(1, limits).run(async |front| {
        let gate = Gate::new();
        let _running = dispatch(front.handle(), Script::Hold(gate)).await.unwrap();
        // It has a slot, but no worker yet.
        let mut waiting = dispatch(front.handle(), Script::Bytes(1)).await.unwrap();
        let refused = dispatch(front.handle(), Script::Bytes(1)).await;
        assert_eq!(refused.err(), Some(DispatchError::QueueFull));
        gate.open();
        assert_eq!(waiting.head(&mut Vec::new()).await.unwrap(), HeadKind::Final);
    });
}

#[test]
fn a_long_wait_in_a_slot_is_given_up_and_is_not_the_scripts_time() {
    let limits = howdah_php::PoolLimits {
        queue_timeout: Duration::from_millis(1000),
        request_timeout: Duration::from_millis(1300),
        ..limits()
    };
    // A machine that stands still may take the time of any of them: then all are asked for again.
    let until = Instant::now() + PATIENCE;
    let mut seen = Vec::new();
    while seen != ["Ok(Final)", "Err(NotBegun)", "Ok(Final)"] {
        assert!(Instant::now() < until, "{seen:?}");
        Front::new(2, limits).run(async |front| {
            let mut first = dispatch(front.handle(), Script::Sleep(700)).await.unwrap();
            let _beside = dispatch(front.handle(), Script::Sleep(1200)).await.unwrap();
            let mut second = dispatch(front.handle(), Script::Sleep(900)).await.unwrap();
            let mut third = dispatch(front.handle(), Script::Bytes(1)).await.unwrap();
            let mut head = Vec::new();
            let of_first = first.head(&mut head).await;
            let of_third = third.head(&mut head).await;
            drop(third);
            // It ran from 700 to 1600 ms.
            let of_second = second.head(&mut head).await;
            seen = [of_first, of_third, of_second].map(|head| format!("{head:?}")).to_vec();
        });
    }
}

#[test]
fn a_long_wait_is_refused() {
    let limits = howdah_php::PoolLimits {
        queue_timeout: Duration::from_millis(100),
        ..limits()
    };
    Front::new(1, limits).run(async |front| {
        let mut running = Vec::new();
        let refused = loop {
            match dispatch(front.handle(), Script::Sleep(2000)).await {
                Ok(exchange) => running.push(exchange),
                Err(refused) => break refused,
            }
        };
        assert_eq!(refused, DispatchError::QueueTimeout);
    });
}

#[test]
fn no_script_is_ended_before_its_time_after_it_has_waited_for_a_worker() {
    let limits = howdah_php::PoolLimits {
        request_timeout: Duration::from_millis(300),
        ..limits()
    };
    // Between two looks at the time limits, the first script has ended and the second has begun.
    Front::new(1, limits)
        .sweeping_every(Duration::from_millis(250))
        .run(async |front| {
            let gate = Gate::new();
            let _first = dispatch(front.handle(), Script::Hold(gate)).await.unwrap();
            let mut second = dispatch(front.handle(), Script::Sleep(600_000)).await.unwrap();
            tokio::time::sleep(Duration::from_millis(230)).await;
            let before = Instant::now();
            gate.open();
            let late = second.head(&mut Vec::new()).await;
            assert_eq!(late, Err(ExchangeError::Silent));
            assert!(before.elapsed() >= limits.request_timeout, "{:?}", before.elapsed());
        });
}

/// The requests of a test's visitors.
#[derive(Debug, Default)]
struct Visits {
    handed_over: usize,
    recalled: usize,
    answered: Vec<u128>,
}

/// Asks for a script as this client, again if no worker has begun it.
async fn visit(handle: Rc<PoolHandle>, client: u128, script: Script, visits: Rc<RefCell<Visits>>) {
    let mut place = QueuePlace { client, ..QueuePlace::default() };
    loop {
        let mut exchange = dispatch_in(&handle, place, script).await.unwrap();
        visits.borrow_mut().handed_over += 1;
        match exchange.head(&mut Vec::new()).await {
            Ok(_) => break visits.borrow_mut().answered.push(client),
            Err(ExchangeError::NotTaken) => visits.borrow_mut().recalled += 1,
            Err(failure) => panic!("{failure:?}"),
        }
        place.since = Some(exchange.since());
    }
}

#[test]
fn slow_requests_of_one_client_after_short_ones_take_no_turn_of_another_client() {
    const WORKERS: usize = 4;
    const SLOW: usize = 4 * WORKERS;
    // On a machine that stands still, scripts may not have been short.
    let until = Instant::now() + PATIENCE;
    let mut recalled = 0;
    let soon = Instant::now() + PATIENCE / 8;
    while recalled == 0 {
        if Instant::now() >= soon {
            return howdah_skip::skip!("no script is short on this machine");
        }
        Front::new(WORKERS, limits()).run(async |front| {
            let wait_until = async |what: &str, is_so: &dyn Fn() -> bool| {
                while !is_so() {
                    assert!(Instant::now() < until, "{what}");
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            for _ in 0..100 {
                let (mut exchange, _) = ask(front.handle(), Script::Bytes(1)).await.unwrap();
                body(&mut exchange).await.unwrap();
            }
            let visits = Rc::new(RefCell::new(Visits::default()));
            let gates: Vec<_> = (0..SLOW).map(|_| Gate::new()).collect();
            let come = |client, script| {
                let handle = front.handle().clone();
                tokio::task::spawn_local(visit(handle, client, script, visits.clone()))
            };
            gates.iter().for_each(|gate| drop(come(1, Script::Hold(*gate))));
            drop(come(2, Script::Bytes(1)));
            let begun = || gates.iter().filter(|gate| gate.was_reached()).count();
            // A worker that is late may give client 2 its turn before all others run a script.
            let left = || SLOW + 1 - WORKERS - visits.borrow().answered.len();
            wait_until("all workers run a script, and the others wait", &|| {
                begun() == WORKERS && front.pool().figures().waiting == left()
            })
            .await;
            if visits.borrow().handed_over > 2 * WORKERS {
                wait_until("those that were not begun left", &|| visits.borrow().recalled > 0)
                    .await;
                wait_until("they wait again", &|| front.pool().figures().waiting == left()).await;
            }
            recalled = visits.borrow().recalled;
            // One script ends at a time, and the next one begins.
            let is_answered = || visits.borrow().answered.contains(&2);
            let mut shut = gates.clone();
            while !is_answered() {
                let before = begun();
                let gate = shut.iter().position(|gate| gate.was_reached()).unwrap();
                shut.remove(gate).open();
                wait_until("another begins", &|| begun() > before || is_answered()).await;
                assert!(begun() <= 3 * WORKERS, "client 2 waits for {} of client 1", begun());
            }
            wait_until("all have an answer", &|| {
                gates.iter().filter(|gate| gate.was_reached()).for_each(|gate| gate.open());
                visits.borrow().answered.len() == SLOW + 1
            })
            .await;
            front.expect_idle().await;
        });
    }
}

#[test]
fn a_request_that_is_left_to_a_busy_worker_gets_another_one() {
    // No sweep helps the request. Scripts were short: few workers are kept awake.
    Front::new(4, limits()).sweeping_every(2 * PATIENCE).run(async |front| {
        for _ in 0..100 {
            let (mut exchange, _) = ask(front.handle(), Script::Bytes(1)).await.unwrap();
            body(&mut exchange).await.unwrap();
        }
        let gates: Vec<_> = (0..4).map(|_| Gate::new()).collect();
        let mut running = Vec::new();
        for gate in &gates {
            running.push(dispatch(front.handle(), Script::Hold(*gate)).await.unwrap());
            gate.is_reached().await;
        }
        gates.iter().for_each(|gate| gate.open());
    });
}

#[test]
fn with_few_workers_a_client_with_many_slow_requests_takes_few_turns_of_another() {
    let auto = Scaling::Auto {
        start: 1,
        idle_timeout: Duration::from_secs(300),
        memory_share: 80,
        memory: None,
    };
    for (scaling, most, workers) in [(Scaling::Static, 1, 1), (Scaling::Static, 2, 2), (auto, 8, 1)]
    {
        let limits = howdah_php::PoolLimits { scaling, ..limits() };
        Front::new(most, limits).with_first(workers).run(async |front| {
            if scaling != Scaling::Static {
                // Room for one worker.
                front.memory().publish(MemoryFigures { limit: 1 << 30, available: 64 << 20 });
                front.handle().sweep(Instant::now());
                assert_eq!(front.pool().figures().memory_sum.map(|sum| sum.room), Some(1));
            }
            let until = Instant::now() + PATIENCE;
            let wait_until = async |what: &str, is_so: &dyn Fn() -> bool| {
                while !is_so() {
                    assert!(Instant::now() < until, "{what}");
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            let visits = Rc::new(RefCell::new(Visits::default()));
            let come = |client, script| {
                let handle = front.handle().clone();
                drop(tokio::task::spawn_local(visit(handle, client, script, visits.clone())));
            };
            let gates: Vec<_> = (0..workers).map(|_| Gate::new()).collect();
            for gate in &gates {
                come(1, Script::Hold(*gate));
                gate.is_reached().await;
            }
            const MANY: usize = 30;
            (0..MANY).for_each(|_| come(1, Script::Sleep(5)));
            let waiting = || front.pool().figures().waiting;
            wait_until("all of client 1 wait", &|| waiting() == MANY).await;
            come(2, Script::Bytes(1));
            wait_until("client 2 waits", &|| waiting() == MANY + 1).await;
            gates.iter().for_each(|gate| gate.open());
            wait_until("client 2 has its answer", &|| visits.borrow().answered.contains(&2)).await;
            let answered = visits.borrow().answered.clone();
            let before = answered.iter().position(|client| *client == 2).unwrap();
            // Those that ran, as many that had left the queue, and one in its turn; those beside.
            assert!(before <= 3 * workers + 1, "{answered:?} with {workers} workers");
            wait_until("all have an answer", &|| {
                visits.borrow().answered.len() == workers + MANY + 1
            })
            .await;
            front.expect_idle().await;
        });
    }
}

#[test]
fn a_script_misses_its_deadline_between_two_sweeps() {
    let limits = howdah_php::PoolLimits {
        request_timeout: Duration::from_millis(100),
        ..limits()
    };
    // On a machine that stands still, no deadline counts before the next sweep.
    let until = Instant::now() + PATIENCE;
    let mut is_told = false;
    while !is_told {
        assert!(Instant::now() < until, "no script was told");
        Front::new(1, limits).sweeping_every(2 * PATIENCE).run(async |front| {
            let mut late = dispatch(front.handle(), Script::Sleep(600_000)).await.unwrap();
            front.handle().sweep(Instant::now());
            let head = &mut Vec::new();
            let told = tokio::time::timeout(Duration::from_millis(1500), late.head(head)).await;
            is_told = told == Ok(Err(ExchangeError::Silent));
        });
    }
}

#[test]
fn no_more_requests_wait_for_a_zygote_than_may_wait_for_a_worker() {
    let limits = howdah_php::PoolLimits { queue: 2, ..limits() };
    Front::new(1, limits).run(async |front| {
        lose_zygote(front).await;
        let ends = Rc::new(RefCell::new(Vec::new()));
        let until = Instant::now() + PATIENCE;
        let ended = async |count| {
            while ends.borrow().len() < count {
                assert!(Instant::now() < until, "{:?}", ends.borrow());
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        for _ in 0..4 {
            let (handle, ends) = (front.handle().clone(), ends.clone());
            tokio::task::spawn_local(async move {
                let end = ask(&handle, Script::Bytes(1)).await.map(|(_, status)| status);
                ends.borrow_mut().push(end);
            });
        }
        ended(2).await;
        assert_eq!(front.pool().figures().waiting, 2);
        front.bring_zygote();
        ended(4).await;
        let refused = || Err("QueueFull".to_owned());
        assert_eq!(*ends.borrow(), [refused(), refused(), Ok(200), Ok(200)]);
    });
}

#[test]
fn no_request_waits_for_a_zygote_longer_than_for_a_worker() {
    let limits = howdah_php::PoolLimits {
        queue_timeout: Duration::from_millis(50),
        ..limits()
    };
    Front::new(1, limits).run(async |front| {
        lose_zygote(front).await;
        let refused = dispatch(front.handle(), Script::Bytes(1)).await;
        assert_eq!(refused.err(), Some(DispatchError::QueueTimeout));
        assert_eq!(front.pool().figures().waiting, 0);
    });
}

#[test]
fn no_request_waits_long_for_a_pool_that_does_not_start() {
    Front::new(1, limits()).run(async |front| {
        lose_zygote(front).await;
        // A zygote that is only replaced costs no request.
        let handle = front.handle().clone();
        let waiting = tokio::task::spawn_local(async move {
            ask(&handle, Script::Bytes(1)).await.map(|(_, status)| status)
        });
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert!(!waiting.is_finished());
        front.bring_zygote();
        assert_eq!(waiting.await.unwrap(), Ok(200));
        lose_zygote(front).await;
        front.pool().note_failed_start();
        let refused = dispatch(front.handle(), Script::Bytes(1)).await;
        assert_eq!(refused.err(), Some(DispatchError::DoesNotStart));
        assert_eq!(front.counted(|totals| totals.of(PoolCounter::QueueFull)), [1, 1]);
        assert_eq!(front.pool().figures().waiting, 0);
    });
}

/// Ends the zygote, and waits until the pool knows it.
async fn lose_zygote(front: &support::Stage) {
    front.lose_zygote();
    let until = Instant::now() + PATIENCE;
    while front.pool().is_ready() {
        assert!(Instant::now() < until, "the zygote lives");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
