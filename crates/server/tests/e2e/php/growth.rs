//! Memory of the front that the heads of scripts may take.

use crate::site::{HELD, Options, Site};
use crate::support::has_php;
use crate::wire::Wire;

/// Sends a Content-Type of 400 KB, and more content than sockets take.
const LONG_TYPE: &str = "<?php header('Content-Type: text/x; a=' . str_repeat('a', 400_000));
    header('Content-Length: 20000000'); echo str_repeat('b', 20_000_000);";

#[test]
fn two_hundred_parts_take_no_copies_of_a_long_content_type() {
    if !has_php() {
        return;
    }
    let site = Site::new(&[("long.php", LONG_TYPE)]);
    let ranges: Vec<String> = (0..200).map(|n| format!("{0}-{0}", 2 * n)).collect();
    let range = format!("bytes={}", ranges.join(","));
    let before = site.server.front().peak_memory();
    let reply = site.ask("GET", "/long.php", &[("Range", &range)], b"");
    assert_eq!(reply.status, 206);
    let boundary = reply.field("content-type").unwrap().split_once("boundary=").unwrap().1;
    assert_eq!(reply.text().matches(boundary).count(), 201);
    assert!(reply.body.len() < 50_000, "{}", reply.body.len());
    let took = site.server.front().peak_memory() - before;
    assert!(took < 16 << 10, "{took} kB");
}

#[test]
fn long_heads_of_responses_that_clients_do_not_take_count_as_the_client_s_memory() {
    if !has_php() {
        return;
    }
    const CLIENTS: usize = 40;
    let options = Options {
        limits: "client_memory = \"4M\"\nclient_connections = 1000",
        ..Options::default()
    };
    let site = Site::with(&[("long.php", LONG_TYPE), ("small.php", "small")], &options);
    let mut clients: Vec<Wire> = Vec::new();
    for _ in 0..CLIENTS {
        let mut wire = site.connect();
        wire.request("GET", "/long.php", &[], b"");
        clients.push(wire);
    }
    site.server.wait_for_log("responses use all of `client_memory`");
    let mut served = 0;
    for wire in &mut clients {
        let content = wire.rest_or_reply();
        served += usize::from(content.len() == 20_000_000);
        assert!(content.is_empty() || content.len() == 20_000_000, "{}", content.len());
    }
    // Each takes 800 KB of 4 MB; as many again may come while others end.
    assert!((4..CLIENTS).contains(&served), "{served} were served");
    assert_eq!(site.get("/small.php").text(), "small");
}

#[test]
fn long_heads_of_requests_that_wait_count_as_the_client_s_memory() {
    if !has_php() {
        return;
    }
    const CLIENTS: usize = 20;
    let options = Options {
        limits: "client_memory = \"1M\"\nclient_connections = 1000",
        php: "workers = 1",
        ..Options::default()
    };
    let site = Site::with(&[HELD, ("small.php", "small")], &options);
    let _held = site.hold_worker();
    let long = "x".repeat(14_000);
    let fields = [("A", &*long), ("B", &*long), ("C", &*long), ("D", &*long)];
    let mut clients: Vec<Wire> = Vec::new();
    for _ in 0..CLIENTS {
        let mut wire = site.connect();
        wire.request("GET", "/small.php", &fields, b"");
        clients.push(wire);
    }
    site.server
        .wait_for_log("requests and responses take as much memory as `client_memory`");
    site.allow("end");
    let statuses: Vec<u16> = clients.iter_mut().map(|wire| wire.reply("GET").status).collect();
    let served = statuses.iter().filter(|status| **status == 200).count();
    assert!(statuses.iter().all(|status| [200, 503].contains(status)), "{statuses:?}");
    // Each takes 112 KB of a mebibyte.
    assert!((9..CLIENTS).contains(&served), "{statuses:?}");
}
