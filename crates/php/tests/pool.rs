//! Pools with a zygote and workers that are threads of the test: what a request meets when workers
//! are busy, slow, dying.
#![allow(clippy::unwrap_used)] // A test that fails here says where.

mod support;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use howdah_php::{
    DispatchError, Exchange, ExchangeError, HeadKind, MemoryFigures, PoolEvent, PoolHandle,
    PoolLimits, QueuePlace, RequestBody, RequestEncoder, Scaling, decode_head,
};

use support::{Front, Gate, PATIENCE, Script, limits};

/// Hands a request for `script` over and waits for the head of its response.
async fn ask(handle: &PoolHandle, script: Script) -> Result<(Exchange, u16), String> {
    let mut exchange = dispatch(handle, script).await.map_err(|refused| format!("{refused:?}"))?;
    let mut head = Vec::new();
    match exchange.head(&mut head).await {
        Ok(HeadKind::Final) => Ok((exchange, decode_head(&head).unwrap().status)),
        other => Err(format!("{other:?}")),
    }
}

async fn dispatch(handle: &PoolHandle, script: Script) -> Result<Exchange, DispatchError> {
    dispatch_in(handle, QueuePlace::default(), script).await
}

async fn dispatch_in(
    handle: &PoolHandle,
    place: QueuePlace,
    script: Script,
) -> Result<Exchange, DispatchError> {
    let encoder = RefCell::new(RequestEncoder::default());
    let name = script.name();
    let encode = |encoder: &mut RequestEncoder| {
        encoder.begin(
            0,
            [Some(b"GET"), Some(name.as_bytes()), None, None, None, None, None, None, None],
        );
    };
    handle.dispatch(place, None, &encoder, encode, RequestBody::Memory(b"")).await
}

/// Reads the body to its end.
async fn body(exchange: &mut Exchange) -> Result<Vec<u8>, ExchangeError> {
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
        Front::new(1, limits).run(async |front| {
            let mut first = dispatch(front.handle(), Script::Sleep(700)).await.unwrap();
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
fn a_workers_death_fails_its_request_and_no_other() {
    Front::new(2, limits()).run(async |front| {
        let (died, lived) = tokio::join!(
            ask(front.handle(), Script::Die(9)),
            ask(front.handle(), Script::Sleep(50)),
        );
        assert_eq!(died.err().as_deref(), Some("Err(WorkerDied(9))"));
        assert_eq!(lived.unwrap().1, 200);
        for _ in 0..20 {
            assert_eq!(ask(front.handle(), Script::Bytes(10)).await.unwrap().1, 200);
        }
        assert!(
            front
                .events()
                .contains(&PoolEvent::WorkerDied { pid: front.first_pid(), status: 9 })
                || front
                    .events()
                    .contains(&PoolEvent::WorkerDied { pid: front.first_pid() + 1, status: 9 })
        );
        front.expect_idle().await;
    });
}

#[test]
fn a_death_in_the_middle_is_told_after_what_came_before_it() {
    Front::new(1, limits()).run(async |front| {
        let (mut exchange, status) = ask(front.handle(), Script::BytesThenDie(1000)).await.unwrap();
        assert_eq!(status, 200);
        assert_eq!(body(&mut exchange).await.unwrap_err(), ExchangeError::WorkerDied(11));
        drop(exchange);
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
            if killed.as_deref() == Some("Err(WorkerDied(9))") {
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
fn an_overdue_request_is_told_and_its_worker_killed() {
    let limits = howdah_php::PoolLimits {
        request_timeout: Duration::from_millis(200),
        ..limits()
    };
    Front::new(1, limits).run(async |front| {
        let late = ask(front.handle(), Script::Sleep(600_000)).await.err();
        assert_eq!(late.as_deref(), Some("Err(Silent)"));
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
            return eprintln!("skipped: no script is short on this machine");
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
            wait_until("all workers run a script, and the others wait", &|| {
                begun() == WORKERS && front.pool().figures().waiting == SLOW + 1 - WORKERS
            })
            .await;
            if visits.borrow().handed_over > 2 * WORKERS {
                wait_until("those that were not begun left", &|| visits.borrow().recalled > 0)
                    .await;
                wait_until("they wait again", &|| {
                    front.pool().figures().waiting == SLOW + 1 - WORKERS
                })
                .await;
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

/// Ends the zygote, and waits until the pool knows it.
async fn lose_zygote(front: &support::Stage) {
    front.lose_zygote();
    let until = Instant::now() + PATIENCE;
    while front.pool().is_ready() {
        assert!(Instant::now() < until, "the zygote lives");
        tokio::time::sleep(Duration::from_millis(1)).await;
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
fn what_no_worker_had_begun_when_its_zygote_died_can_be_handed_over_again() {
    Front::new(1, limits()).run(async |front| {
        let gate = Gate::new();
        let running = ask(front.handle(), Script::Hold(gate));
        let queued = async {
            gate.is_reached().await;
            ask(front.handle(), Script::Bytes(1)).await
        };
        let replacing = async {
            gate.is_reached().await;
            tokio::time::sleep(Duration::from_millis(50)).await;
            front.replace_zygote();
        };
        let (_, queued, ()) = tokio::join!(running, queued, replacing);
        assert_eq!(queued.err().as_deref(), Some("Err(NotTaken)"));
        front.expect_idle().await;
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

/// As `a_death_in_the_middle_is_told_after_what_came_before_it`, for a reader that is slower.
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
    let test = "a_new_zygote_is_used_as_soon_as_there_are_descriptors";
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
