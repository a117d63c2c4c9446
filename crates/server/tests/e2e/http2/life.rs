//! The life of a connection: idle, draining, ended.

use std::time::{Duration, Instant};

use super::client::Http2;
use super::frames::{Frames, GOAWAY, HEADERS, PING};
use crate::site::{HELD, Options, Site};
use crate::support::{PATIENCE, has_php, wait_until};

#[test]
fn an_idle_connection_is_ended_with_a_word() {
    let options = Options {
        limits: "keep_alive_timeout = \"1s\"",
        ..Options::default()
    };
    let site = Site::with(&[("a.txt", "hello")], &options);
    let mut frames = Frames::connect(&site, &[]);
    frames.send_get(1, "/a.txt");
    while frames.next().expect("an answer").kind != HEADERS {}
    let goodbye = frames.next_of(GOAWAY).expect("it says goodbye");
    // NO_ERROR, and the last request that it has answered.
    assert_eq!(goodbye.payload[..8], [0, 0, 0, 1, 0, 0, 0, 0]);
    assert!(frames.next().is_none());
}

#[test]
fn pings_and_settings_do_not_keep_an_idle_connection_open() {
    let options = Options {
        limits: "keep_alive_timeout = \"1s\"\n[http2]\npings = 100000\nsettings = 100000",
        ..Options::default()
    };
    let site = Site::with(&[("a.txt", "hello")], &options);
    for is_ping in [true, false] {
        let mut frames = Frames::connect(&site, &[]);
        frames.send_get(1, "/a.txt");
        while frames.next().expect("an answer").kind != HEADERS {}
        let begun = Instant::now();
        let is_ended = loop {
            match is_ping {
                true => frames.send(PING, 0, 0, b"12345678"),
                false => frames.send_settings(&[]),
            };
            let Some(frame) = frames.next() else {
                break true;
            };
            if frame.kind == GOAWAY || begun.elapsed() > PATIENCE {
                break frame.kind == GOAWAY;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!(is_ended, "the connection is still open");
    }
}

#[test]
fn a_connection_without_a_request_is_ended() {
    let options = Options {
        limits: "head_timeout = \"1s\"",
        ..Options::default()
    };
    let site = Site::with(&[("a.txt", "hello")], &options);
    let mut frames = Frames::connect(&site, &[]);
    assert_eq!(frames.goodbye(), Some(0));
    let mut silent = site.connect();
    silent.send("PRI * HTTP/2.0\r\n\r\n");
    // The preface that never ends is a head that took too long.
    let answer = String::from_utf8(silent.rest()).unwrap();
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 "), "{answer}");
    let mut half = site.connect();
    half.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0");
    half.rest();
}

#[test]
fn a_connection_has_as_many_requests_as_it_may() {
    let options = Options {
        limits: "keep_alive_requests = 3",
        ..Options::default()
    };
    let site = Site::with(&[("a.txt", "hello")], &options);
    let client = Http2::connect(&site);
    for _ in 0..3 {
        assert_eq!(client.get("/a.txt").text(), "hello");
    }
    wait_until("the connection takes no more", || !client.is_open());
    assert!(client.ended().is_ok());
}

#[test]
fn a_reload_ends_connections_and_no_request() {
    if !has_php() {
        return;
    }
    let options = Options {
        limits: "drain_timeout = \"5m\"\n",
        php: "workers = 1",
        ..Options::default()
    };
    let site = Site::with(&[HELD, ("a.txt", "hello")], &options);
    let client = Http2::connect(&site);
    let idle = Http2::connect(&site);
    assert_eq!(idle.get("/a.txt").text(), "hello");
    let target = site.awaiting("/held.php");
    let held = client.spawn_get(&target);
    client.run(async {
        while !site.scratch().join("begun").exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    site.server.signal(howdah_sys::signal::SIGHUP);
    wait_until("the idle connection has ended", || !idle.is_open());
    assert!(idle.ended().is_ok());
    wait_until("the other takes no more", || !client.is_open());
    site.allow("end");
    let reply = client.run(held).expect("the task ends");
    assert_eq!((reply.status, reply.text(), reply.reset), (200, "done", None));
    assert!(client.ended().is_ok());
    assert_eq!(Http2::connect(&site).get("/a.txt").text(), "hello");
}

#[test]
fn requests_go_on_over_reloads() {
    let site = Site::new(&[("a.txt", "hello")]);
    let mut client = Http2::connect(&site);
    for round in 0..3 {
        site.server.signal(howdah_sys::signal::SIGHUP);
        let mut connections = 0;
        for _ in 0..300 {
            if !client.is_open() {
                client = Http2::connect(&site);
                connections += 1;
            }
            // A request that is refused by GOAWAY was not begun, and may be sent again.
            let mut reply = client.get("/a.txt");
            if reply.status == 0 {
                client = Http2::connect(&site);
                connections += 1;
                reply = client.get("/a.txt");
            }
            assert_eq!((reply.status, reply.text()), (200, "hello"), "{round}");
        }
        assert!(connections < 100);
    }
}
