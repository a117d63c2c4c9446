//! Our own loads against a server that takes a known time.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::load::{AbRun, Busy, Closed, Open, Ramp, Slow};

/// A server that takes `delay(n)` for its n-th answer, a thread for each connection.
struct Server {
    port: u16,
    asked: Arc<AtomicU64>,
}

fn server(delay: impl Fn(u64) -> Duration + Send + Sync + 'static) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(AtomicU64::new(0));
    let (counter, delay) = (asked.clone(), Arc::new(delay));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, counter, delay) = (stream.unwrap(), counter.clone(), delay.clone());
            thread::spawn(move || {
                let mut seen = Vec::new();
                let mut some = [0; 1024];
                loop {
                    match stream.read(&mut some) {
                        Ok(count) if count > 0 => seen.extend_from_slice(&some[..count]),
                        _ => return,
                    }
                    while let Some(end) = seen.windows(4).position(|window| window == b"\r\n\r\n") {
                        seen.drain(..end + 4);
                        thread::sleep(delay(counter.fetch_add(1, Ordering::SeqCst)));
                        if stream
                            .write_all(
                                b"HTTP/1.1 200 OK\r\nConnection: Keep-Alive\r\n\
                                  Content-Length: 2\r\n\r\nok",
                            )
                            .is_err()
                        {
                            return;
                        }
                    }
                }
            });
        }
    });
    Server { port, asked }
}

fn question() -> Question {
    Question {
        path: "/".to_owned(),
        body: Some(b"ok".to_vec()),
        ..Question::default()
    }
}

fn target(port: u16) -> LoadTarget {
    LoadTarget { port, ..LoadTarget::default() }
}

/// Repeats a test of measurements, because a busy machine may spoil any of them. The test fails if
/// all attempts do.
fn measure(attempt: impl Fn()) {
    let end = Instant::now() + Duration::from_secs(90);
    while let Err(failure) = panic::catch_unwind(AssertUnwindSafe(&attempt)) {
        if Instant::now() > end {
            panic::resume_unwind(failure);
        }
    }
}

fn figure(measured: &Measured, figure: Figure) -> f64 {
    measured.figures[&figure]
}

#[test]
fn the_open_loop_keeps_its_rate_and_sees_the_delay() {
    measure(|| {
        let server = server(|_| Duration::from_millis(20));
        let open = Open {
            rate: 200.0,
            connections: 20,
            time: Duration::from_secs(1),
        };
        let measured = put(&Load::OpenLoop(open), &question(), &target(server.port)).unwrap();
        assert_eq!(measured.requests, 200, "{measured:?}");
        let median = figure(&measured, Figure::Latency50);
        assert!((19.0..1000.0).contains(&median), "{measured:?}");
    });
}

/// 100 answers alone take 2 ms each; all that come later, those that keep the server busy included,
/// 100 ms, which is far more than a loaded machine adds.
#[test]
fn latency_beside_busy_clients_is_told_from_latency_alone() {
    measure(|| {
        let server = server(|number| Duration::from_millis(if number < 100 { 2 } else { 100 }));
        let open = Open {
            rate: 200.0,
            connections: 40,
            time: Duration::from_millis(500),
        };
        let busy = Busy { question: question(), connections: 4 };
        let measured = put(&Load::Beside(open, busy), &question(), &target(server.port)).unwrap();
        assert_eq!(measured.requests, 200);
        assert!(server.asked.load(Ordering::SeqCst) > 220, "the busy ones ask as well");
        let slowed = figure(&measured, Figure::SlowedDown);
        assert!(slowed > 1.5, "{measured:?}");
    });
}

#[test]
fn a_bench_ends_in_time() {
    if process::find(&["ab"]).is_none() {
        howdah_skip::skip!("ab is not here");
        return;
    }
    measure(|| {
        let server = server(|_| Duration::from_millis(20));
        let bench = AbRun {
            requests: 100_000,
            concurrency: 2,
            keep_alive: true,
            at_most: Duration::from_secs(1),
        };
        let began = Instant::now();
        let measured = put(&Load::Ab(bench), &question(), &target(server.port)).unwrap();
        assert!(began.elapsed() < Duration::from_secs(5));
        assert!((20..200).contains(&measured.requests), "{measured:?}");
    });
}

/// One stop of 500 ms: a closed loop would see it in one request, but all that fell due meanwhile
/// had to wait.
#[test]
fn the_open_loop_does_not_hide_who_had_to_wait() {
    measure(|| {
        let server = server(|number| Duration::from_millis(if number == 50 { 500 } else { 1 }));
        let open = Open {
            rate: 100.0,
            connections: 1,
            time: Duration::from_secs(2),
        };
        let measured = put(&Load::OpenLoop(open), &question(), &target(server.port)).unwrap();
        let (median, late) =
            (figure(&measured, Figure::Latency50), figure(&measured, Figure::Latency99));
        assert!(late > 400.0 && median < late / 2.0, "{measured:?}");
    });
}

#[test]
fn the_ramp_grows_and_counts() {
    measure(|| {
        let server = server(|_| Duration::from_millis(50));
        let ramp = Ramp {
            keeps: false,
            reads: Duration::ZERO,
            recovery: Duration::ZERO,
            clients: 10,
            time: Duration::from_secs(2),
            timeout: Duration::from_secs(1),
        };
        let measured = put(&Load::Ramp(ramp), &question(), &target(server.port)).unwrap();
        let hits = figure(&measured, Figure::Hits);
        // On average 5.5 clients, 20 answers a second each, for two seconds.
        assert!((40.0..=225.0).contains(&hits), "{measured:?}");
        assert_eq!(
            (figure(&measured, Figure::Errors), figure(&measured, Figure::Timeouts)),
            (0.0, 0.0)
        );
        let by_second = &measured.series[&Figure::Hits];
        assert!(by_second[1].1 > by_second[0].1, "{by_second:?}");
        let asked = server.asked.load(Ordering::SeqCst) as f64;
        assert!(asked >= hits && asked <= hits + 10.0, "{asked} asked, {hits} counted");
    });
}

#[test]
fn the_ramp_tells_time_outs_from_errors() {
    measure(|| {
        let server = server(|_| Duration::from_secs(5));
        let ramp = Ramp {
            keeps: false,
            reads: Duration::ZERO,
            recovery: Duration::ZERO,
            clients: 2,
            time: Duration::from_millis(1000),
            timeout: Duration::from_millis(300),
        };
        let measured = put(&Load::Ramp(ramp), &question(), &target(server.port)).unwrap();
        assert!(
            figure(&measured, Figure::Timeouts) >= 1.0 && figure(&measured, Figure::Errors) == 0.0,
            "{measured:?}"
        );
        let nobody = crate::process::free_port().unwrap();
        let measured = put(&Load::Ramp(ramp), &question(), &target(nobody)).unwrap();
        assert!(
            figure(&measured, Figure::Errors) >= 1.0 && figure(&measured, Figure::Hits) == 0.0,
            "{measured:?}"
        );
    });
}

#[test]
fn the_time_until_a_server_answers_again_is_measured() {
    measure(|| {
        let server = server(|_| Duration::ZERO);
        let ramp = |recovery| Ramp {
            keeps: true,
            reads: Duration::from_millis(20),
            recovery,
            clients: 2,
            time: Duration::from_millis(200),
            timeout: Duration::from_millis(200),
        };
        let patient = ramp(Duration::from_secs(60));
        let measured = put(&Load::Ramp(patient), &question(), &target(server.port)).unwrap();
        assert!(figure(&measured, Figure::Hits) >= 1.0, "{measured:?}");
        assert!(figure(&measured, Figure::Recovery) < 60.0, "{measured:?}");
        let nobody = crate::process::free_port().unwrap();
        let short = ramp(Duration::from_millis(300));
        let measured = put(&Load::Ramp(short), &question(), &target(nobody)).unwrap();
        assert_eq!(figure(&measured, Figure::Recovery), 0.3, "{measured:?}");
    });
}

#[test]
fn a_wrong_body_is_an_error() {
    measure(|| {
        let server = server(|_| Duration::ZERO);
        let wrong = Question { body: Some(b"no".to_vec()), ..question() };
        let ramp = Ramp {
            keeps: false,
            reads: Duration::ZERO,
            recovery: Duration::ZERO,
            clients: 1,
            time: Duration::from_millis(300),
            timeout: Duration::from_secs(1),
        };
        let measured = put(&Load::Ramp(ramp), &wrong, &target(server.port)).unwrap();
        assert!(
            figure(&measured, Figure::Errors) >= 1.0 && figure(&measured, Figure::Hits) == 0.0,
            "{measured:?}"
        );
    });
}

#[test]
fn idle_connections_stay_good() {
    measure(|| {
        let server = server(|_| Duration::ZERO);
        let closed = Closed {
            connections: 30,
            time: Duration::from_millis(200),
        };
        let measured = put(
            &Load::Idle(closed),
            &question(),
            &LoadTarget {
                roots: vec![std::process::id()],
                ..target(server.port)
            },
        )
        .unwrap();
        assert_eq!(
            (figure(&measured, Figure::Hits), figure(&measured, Figure::Errors)),
            (30.0, 0.0)
        );
        assert!(figure(&measured, Figure::PeakPss) > 1000.0);
    });
}

#[test]
fn slow_clients_do_not_end_the_normal_ones() {
    measure(|| {
        let server = server(|_| Duration::from_millis(5));
        let began = Instant::now();
        for kind in [Slow::Head, Slow::Body, Slow::Reader] {
            let closed = Closed {
                connections: 5,
                time: Duration::from_millis(400),
            };
            let measured =
                put(&Load::Slow(kind, closed), &question(), &target(server.port)).unwrap();
            assert!(figure(&measured, Figure::Hits) > 20.0, "{kind:?}: {measured:?}");
        }
        assert!(began.elapsed() < Duration::from_secs(5));
    });
}

#[test]
fn reloading_is_watched_by_kept_and_new_connections() {
    measure(|| {
        let server = server(|_| Duration::from_millis(2));
        let closed = Closed {
            connections: 4,
            time: Duration::from_millis(1300),
        };
        let nobody = put(&Load::Reload(closed), &question(), &target(server.port));
        assert!(nobody.unwrap_err().to_string().contains("cannot reload"));
        // The test's own process takes no notice of SIGURG, so nothing may go wrong.
        let reloading = LoadTarget {
            reload: vec![(std::process::id(), rustix::process::Signal::URG)],
            ..target(server.port)
        };
        let measured = put(&Load::Reload(closed), &question(), &reloading).unwrap();
        assert!(figure(&measured, Figure::Hits) > 100.0, "{measured:?}");
        assert_eq!(figure(&measured, Figure::Errors), 0.0, "{measured:?}");
    });
}
