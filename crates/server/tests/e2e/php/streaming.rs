//! Output as it is made, clients that go, responses that end before their script.

use std::fs;
use std::time::Duration;

use crate::site::{AWAIT, Site};
use crate::support::{has_php, wait_until};

/// Debian's php.ini collects 4096 bytes before anything is sent; `flush()` alone does not touch
/// them.
const UNBUFFERED: &str = "workers = 1\nini = { output_buffering = 0 }";

#[test]
fn events_arrive_when_they_are_flushed() {
    if !has_php() {
        return;
    }
    let script = format!(
        "<?php {AWAIT} header('Content-Type: text/event-stream'); header('Cache-Control: no-store');
         for ($i = 0; $i < 5; $i++) {{ echo \"data: $i\\n\\n\"; flush(); await(\"seen$i\"); }}",
    );
    let site = Site::with_php(&[("events.php", &script)], UNBUFFERED);
    let target = site.awaiting("/events.php");
    let mut wire = site.connect();
    wire.request("GET", &target, &[], b"");
    assert_eq!(wire.head().0, 200);
    for event in 0..5 {
        let chunk = wire.chunk().unwrap();
        assert_eq!(String::from_utf8(chunk).unwrap(), format!("data: {event}\n\n"));
        site.allow(&format!("seen{event}"));
    }
    assert_eq!(wire.chunk(), None);
    assert_eq!(wire.get(&target).text().matches("data").count(), 5, "and the connection goes on");
}

#[test]
fn a_flushed_head_arrives_before_the_body() {
    if !has_php() {
        return;
    }
    let script =
        format!("<?php {AWAIT} header('X-Early: 1'); flush(); await('head'); echo 'late';");
    let site = Site::new(&[("index.php", &script)]);
    let mut wire = site.connect();
    wire.request("GET", &site.awaiting("/"), &[], b"");
    let (_, _, fields) = wire.head();
    site.allow("head");
    assert!(fields.contains(&("X-Early".into(), "1".into())));
    assert_eq!(wire.chunk().unwrap(), b"late");
    assert_eq!(wire.chunk(), None);
}

#[test]
fn a_slow_reader_does_not_hold_a_worker() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[
            (
                "big.php",
                "<?php for ($i = 0; $i < 2000; $i++) echo str_repeat(chr(65 + $i % 26), 10000);",
            ),
            ("small.php", "<?php echo 'x';"),
        ],
        "workers = 1",
    );
    let mut slow = site.connect();
    slow.request("GET", "/big.php", &[], b"");
    std::thread::sleep(Duration::from_millis(300));
    // A worker that waited for the slow reader would wait for longer than this test does.
    assert_eq!(site.get("/small.php").text(), "x");
    let reply = slow.reply("GET");
    assert_eq!(reply.body.len(), 20_000_000);
    let right = (0..2000).all(|part| {
        reply.body[part * 10_000..(part + 1) * 10_000]
            .iter()
            .all(|&byte| byte == 65 + (part % 26) as u8)
    });
    assert!(right, "the bytes are in order");
}

#[test]
fn a_reader_slower_than_all_buffers_gets_every_byte() {
    if !has_php() {
        return;
    }
    // Nothing goes to a file, so the script has to wait for its reader.
    let limits = "spill_memory = \"64K\"\nspill_file = 0";
    let files = [(
        "big.php",
        "<?php for ($i = 0; $i < 3000; $i++) echo str_repeat(chr(97 + $i % 26), 5000);",
    )];
    let site = Site::with(&files, &crate::site::Options { limits, ..Default::default() });
    let mut slow = site.connect();
    slow.request("GET", "/big.php", &[], b"");
    std::thread::sleep(Duration::from_millis(500));
    let reply = slow.reply("GET");
    assert_eq!(reply.body.len(), 15_000_000);
    let right = (0..3000).all(|part| {
        reply.body[part * 5_000..(part + 1) * 5_000]
            .iter()
            .all(|&byte| byte == 97 + (part % 26) as u8)
    });
    assert!(right, "the bytes are in order");
}

#[test]
fn a_script_learns_that_its_client_is_gone() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[
            (
                "ignores.php",
                "<?php ignore_user_abort(true); $out = $_GET['out'];
                 for ($i = 0; $i < 60000 && !connection_aborted(); $i++) { echo 'x'; flush(); \
                 usleep(10_000); }
                 file_put_contents($out, connection_aborted() . ' ' . connection_status());",
            ),
            (
                "heeds.php",
                "<?php $out = $_GET['out']; register_shutdown_function(fn() => \
                    file_put_contents($out, 'shut ' . connection_status()));
                 for ($i = 0; $i < 60000; $i++) { echo 'x'; flush(); usleep(10_000); }
                 file_put_contents($out . '.end', 'x');",
            ),
            ("next.php", "<?php echo connection_status();"),
        ],
        UNBUFFERED,
    );
    let scratch = site.scratch();
    for (name, said) in [("ignores", "1 1"), ("heeds", "shut 1")] {
        let out = scratch.join(name);
        let mut wire = site.connect();
        wire.request("GET", &format!("/{name}.php?out={}", out.display()), &[], b"");
        wire.until("\r\n\r\n");
        wire.chunk();
        drop(wire);
        wait_until("the script is told", || {
            fs::read_to_string(&out).is_ok_and(|text| !text.is_empty())
        });
        assert_eq!(fs::read_to_string(&out).unwrap(), said, "{name}");
        assert_eq!(site.get("/next.php").text(), "0", "the next request is another one");
    }
    assert!(!scratch.join("heeds.end").exists());
}

#[test]
fn a_client_that_only_ended_its_own_side_is_answered() {
    if !has_php() {
        return;
    }
    let site = Site::new(&[(
        "index.php",
        "<?php usleep(200_000); echo 'still here ', connection_aborted();",
    )]);
    let mut wire = site.connect();
    wire.request("GET", "/", &[], b"");
    wire.finish_sending();
    assert_eq!(wire.reply("GET").text(), "still here 0");
    wire.expect_close();
}

#[test]
fn a_finished_request_goes_on_behind_its_answer() {
    if !has_php() {
        return;
    }
    let script = format!(
        "<?php {AWAIT} ignore_user_abort(true); session_start(); $_SESSION['a'] = 1; echo \
            'answer'; header('X-A: 1');
         $ok = fastcgi_finish_request(); echo 'never seen'; await('answer');
         file_put_contents($_GET['in'] . '/done', var_export($ok, true) . ' ' . session_status());"
    );
    let site = Site::with_php(
        &[("index.php", &script), ("other.php", "<?php echo 'other';")],
        "workers = 2",
    );
    let out = site.scratch().join("done");
    let mut wire = site.connect();
    let reply = wire.get(&site.awaiting("/"));
    assert_eq!((reply.text(), reply.field("x-a")), ("answer", Some("1")));
    assert_eq!(wire.get("/other.php").text(), "other");
    assert!(!out.exists());
    site.allow("answer");
    wait_until("the rest of the script has run", || out.exists());
    wait_until("it has written", || {
        fs::read_to_string(&out).is_ok_and(|text| text.starts_with("true"))
    });
}

#[test]
fn a_client_may_leave_at_any_moment() {
    if !has_php() {
        return;
    }
    let site = Site::new(&[
        ("big.php", "<?php for ($i = 0; $i < 300; $i++) { echo str_repeat('x', 10000); }"),
        ("slow.php", "<?php usleep(20_000); echo 'x';"),
        ("ok.php", "<?php echo 'ok';"),
    ]);
    let leave = |rounds: u64| {
        for round in 0..rounds {
            let mut wire = site.connect();
            let target = ["/big.php", "/slow.php"][round as usize % 2];
            let head = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            // A part of a head, or all of it.
            let length = if round % 3 == 0 {
                head.len()
            } else {
                head.len().min(round as usize)
            };
            wire.send(&head[..length]);
            std::thread::sleep(Duration::from_micros(round * 97 % 9000));
        }
    };
    site.ask_at_once("/ok.php", 60);
    leave(60);
    let descriptors = || site.server.front().descriptors().len();
    let before = descriptors();
    leave(120);
    assert_eq!(site.get("/ok.php").text(), "ok");
    wait_until("both workers are there", || site.server.workers().len() == 2);
    wait_until("no descriptor is left of them", || descriptors() <= before);
}
