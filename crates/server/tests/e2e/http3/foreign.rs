//! A client of another make: aioquic (Python).

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Served, Special};
use crate::support::{HOWDAH, has_php};
use crate::websockets::upstream::{Upstream, rest};

/// Asks for the path in the last argument, as the first ones say, and prints what it sees.
const SCRIPT: &str = include_str!("foreign.py");

/// Returns the Python into which scripts/install-aioquic installs it.
fn own_python() -> PathBuf {
    let target = Path::new(HOWDAH).ancestors().nth(2).unwrap_or(Path::new("target"));
    target.join("tools/aioquic/bin/python3")
}

fn has_it(python: &Path) -> bool {
    let imported = Command::new(python).args(["-c", "import aioquic"]).output();
    imported.is_ok_and(|output| output.status.success())
}

/// Runs the client. `None`: the machine does not have it, and the test says so.
fn run(served: &Served, steps: &[&str]) -> Option<String> {
    let pythons = [own_python(), PathBuf::from("python3")];
    let Some(python) = pythons.into_iter().find(|python| has_it(python)) else {
        howdah_skip::skip!("no aioquic; scripts/install-aioquic installs it");
        return None;
    };
    let authority = served.site.path().join("authority.pem");
    std::fs::write(&authority, served.authority.pem()).unwrap();
    let address = served.site.server.address();
    let output = Command::new(python)
        .args(["-c", SCRIPT])
        .arg(address.port().to_string())
        .arg(&authority)
        .args(steps)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{steps:?}: {}", text(&output.stderr));
    Some(text(&output.stdout))
}

#[test]
fn handshake_data_and_close() {
    let served = Served::new(&[("a.txt", "hello"), ("b.txt", &"b".repeat(300_000))]);
    if let Some(told) = run(&served, &["get:/a.txt", "get:/b.txt", "get:/none"]) {
        let begin = "200 5 hello\n200 300000 bbbbbbbb\n404 ";
        assert!(told.starts_with(begin), "{told}");
    }
}

#[test]
fn a_session_is_continued() {
    let served = Served::new(&[("a.txt", "hello")]);
    if let Some(told) = run(&served, &["get:/a.txt", "reconnect", "get:/a.txt"]) {
        assert_eq!(told, "200 5 hello\nresumed\n200 5 hello\n");
    }
}

#[test]
fn a_request_goes_with_the_first_packet_where_the_site_allows_it() {
    for (tls, told) in [(", early_data = true", "resumed\nearly\n"), ("", "resumed\n")] {
        let special = Special { tls, ..Special::default() };
        let served = Served::with(&[("a.txt", "hello")], &special);
        if let Some(found) = run(&served, &["get:/a.txt", "early:/a.txt"]) {
            assert_eq!(found, format!("200 5 hello\n200 5 hello\n{told}"), "{tls}");
        }
    }
}

#[test]
fn an_address_is_proven() {
    let special = Special {
        http3: "retry_from = 0",
        ..Special::default()
    };
    let served = Served::with(&[("a.txt", "hello")], &special);
    if let Some(told) = run(&served, &["get:/a.txt", "retried"]) {
        assert_eq!(told, "200 5 hello\nretried\n");
    }
}

#[test]
fn keys_change_and_the_client_moves() {
    let served = Served::new(&[("a.txt", "hello")]);
    let steps = ["get:/a.txt", "keys", "get:/a.txt", "move", "get:/a.txt", "ids", "get:/a.txt"];
    if let Some(told) = run(&served, &steps) {
        assert_eq!(told, "200 5 hello\n".repeat(4));
    }
}

#[test]
fn another_version_is_answered_with_ours() {
    let served = Served::new(&[("a.txt", "hello")]);
    if let Some(told) = run(&served, &["version", "get:/a.txt"]) {
        assert_eq!(told, "200 5 hello\n");
    }
}

/// Packets that the protocol allows, or does not, by the thousand. Where the connection must end it
/// does; nobody else notices, and the memory of the front stays bounded.
#[test]
fn storms_of_packets_end_or_cost_little() {
    let served = Served::new(&[("a.txt", "hello")]);
    let memory = || -> u64 {
        let told = served.site.server.front().status("VmRSS").unwrap();
        told.split(' ').next().unwrap().parse().unwrap()
    };
    for (kind, packets, must_end) in [
        ("challenges", 2000, false),
        ("ids", 2000, false),
        ("retirements", 20, true),
        ("resets", 2000, true),
        ("stops", 20, true),
        ("confirmations", 20, true),
        ("handshakes", 20, true),
        ("tokens", 20, true),
        ("unknown", 20, true),
        ("pings", 2000, false),
        ("tiny", 10_000, false),
        ("blocked", 2000, false),
        ("fragments", 2000, false),
        ("garbage", 2000, false),
    ] {
        let storm = format!("storm:{kind}:{packets}");
        let before = memory();
        let Some(told) = run(&served, &["get:/a.txt", &storm, "get:/a.txt"]) else {
            return;
        };
        println!("{told}{before} KB, then {} KB", memory());
        let fate = told.lines().nth(1).unwrap_or_default();
        assert!(!must_end || fate.contains(" ended "), "{told}");
        assert!(memory() < before + 16 * 1024, "{kind}: {before} KB, then {} KB", memory());
    }
    let log = served.site.server.log();
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn content_goes_to_scripts() {
    if !has_php() {
        return;
    }
    let script =
        "<?php echo strlen(file_get_contents('php://input')), ' ', $_SERVER['SERVER_PROTOCOL'];";
    let served = Served::new(&[("a.php", script)]);
    if let Some(told) = run(&served, &["post:/a.php:1000000"]) {
        assert_eq!(told, "200 16 1000000 HTTP/3.0\n");
    }
}

/// Responses that are complete before their requests are. The client may be told to send no more
/// (STOP_SENDING), without an error. No response is broken off.
#[test]
fn responses_come_while_the_content_is_sent() {
    let files = [("a.php", "<?php echo 'x';"), (".htaccess", "Redirect /old /new\n")];
    let special = Special {
        limits: "body = 1000",
        ..Special::default()
    };
    let served = Served::with(&files, &special);
    for (path, status) in [("/none", "404"), ("/old/x", "302"), ("/a.php", "413")] {
        if path == "/a.php" && !has_php() {
            continue;
        }
        for length in [100_000, 3_000_000] {
            let step = format!("uploads:{path}:{length}:40");
            let Some(told) = run(&served, &[&step]) else {
                return;
            };
            let told = told.trim_end();
            let expected = format!("40 {status}");
            let is_right = told == expected || told == format!("{expected} {STOP_WITHOUT_ERROR}");
            assert!(is_right, "{path}, {length} bytes: {told}");
        }
    }
}

/// H3_NO_ERROR (RFC 9114 §8.1).
const STOP_WITHOUT_ERROR: &str = "StopSendingReceived 0x100";

/// The client compresses its heads.
#[test]
fn a_websocket_is_carried() {
    let upstream = Upstream::accepting(|mut stream| {
        let text = rest(&mut stream);
        stream.write_all(&[b"got ", &text[..]].concat()).unwrap();
    });
    let rules = upstream.rules();
    let special = Special {
        site: &upstream.keys(""),
        ..Special::default()
    };
    let served = Served::with(&[(".htaccess", &rules), ("a.txt", "hello")], &special);
    if let Some(told) = run(&served, &["get:/a.txt", "websocket:/ws/raw:text", "get:/a.txt"]) {
        assert_eq!(told, "200 5 hello\n200 8 got text\n200 5 hello\n");
    }
}
