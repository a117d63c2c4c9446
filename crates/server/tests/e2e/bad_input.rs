//! Responses to clients that violate the protocol, ask for too much, or ask for something
//! forbidden.

use std::time::{Duration, Instant};

use crate::site::{Options, Site};
use crate::support::{Folder, PATIENCE, Setup, faster_than, has_php, wait_until};
use crate::wire::Wire;

const H: &str = "GET / HTTP/1.1\r\nHost: localhost\r\n";
const P: &str = "POST /index.php HTTP/1.1\r\nHost: localhost\r\n";

fn site() -> Site {
    Site::with(
        &[
            ("index.html", "the page"),
            ("index.php", "<?php echo file_get_contents('php://input');"),
            ("sub/x.txt", "x"),
        ],
        &Options {
            limits: "request_line = 1000\nfield_line = 500\nfields_total = 2000\n\
                field_count = 20\nbody = \"1M\"",
            site: "index = [\"index.html\"]",
            ..Options::default()
        },
    )
}

/// Sends bytes: that status, then the end of the connection, and one line in the log that says why.
fn is_refused(site: &Site, name: &str, bytes: &[u8], status: u16) {
    let mut wire = site.connect();
    let port = format!("127.0.0.1:{}", wire.port());
    wire.try_send(bytes);
    let reply = wire.reply("GET");
    assert_eq!(reply.status, status, "{name}");
    assert!(reply.is_last(), "{name}: the connection goes on");
    assert!(!reply.body.windows(8).any(|part| part == b"the page"), "{name}");
    wire.expect_close();
    wait_until("the log says why", || !site.log_lines(&port).is_empty());
    let lines = site.log_lines(&port);
    assert_eq!(lines.len(), 1, "{name}: {lines:#?}");
    assert!(
        lines[0].contains(&status.to_string()) || lines[0].contains(" while "),
        "{name}: {lines:#?}"
    );
}

/// Apache and nginx keep the connection as well.
#[test]
fn a_short_body_that_nobody_wants_does_not_end_the_connection() {
    let site = site();
    for (line, status) in
        [("PUT /sub/x.txt", 405), ("PUT /none/x", 405), ("POST /none/x", 404), ("POST /sub", 301)]
    {
        let head = format!("{line} HTTP/1.1\r\nHost: localhost\r\n");
        let (few, many) = ("h".repeat(5), "h".repeat(300_000));
        let rows = [
            ("a length", format!("Content-Length: 5\r\n\r\n{few}"), ""),
            ("chunks", format!("Transfer-Encoding: chunked\r\n\r\n5\r\n{few}\r\n0\r\n\r\n"), ""),
            ("a longer one", format!("Content-Length: 300000\r\n\r\n{many}"), ""),
            ("a body that follows later", "Content-Length: 5\r\n\r\nhe".to_owned(), "llo"),
        ];
        for (what, first, later) in rows {
            let mut wire = site.connect();
            wire.send(format!("{head}{first}"));
            let reply = wire.reply("PUT");
            assert_eq!((reply.status, reply.is_last()), (status, false), "{line} with {what}");
            wire.send(later);
            let next = wire.get("/sub/x.txt");
            assert_eq!((next.status, next.text()), (200, "x"), "after {line} with {what}");
        }
    }
}

/// RFC 3986 §3.2.3; nginx serves it, Apache refuses it.
#[test]
fn a_host_with_an_empty_port_is_that_host() {
    if !has_php() {
        return;
    }
    let script = "<?php echo $_SERVER['HTTP_HOST'], ' ', $_SERVER['SERVER_NAME'], ' ', \
                  $_SERVER['SERVER_PORT'];";
    let files = [("host.php", script)];
    let options = Options {
        site: "hosts = [\"example.test\", \"[::1]\"]",
        ..Options::default()
    };
    let site = Site::with(&files, &options);
    for (host, name) in [("example.test:", "example.test"), ("[::1]:", "[::1]")] {
        let mut wire = site.connect();
        wire.send(format!("GET /host.php HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(wire.reply("GET").text(), format!("{name} {name} 80"));
    }
}

#[test]
fn a_body_that_nobody_wants_and_that_does_not_come_ends_the_connection() {
    let options = Options {
        limits: "body = \"10M\"",
        ..Options::default()
    };
    let site = Site::with(&[("sub/x.txt", "x")], &options);
    let head = "PUT /sub/x.txt HTTP/1.1\r\nHost: localhost\r\n";
    for (what, rest, says_so) in [
        (
            "a client that waits for leave",
            "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n",
            true,
        ),
        ("chunks that do not end", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", true),
        ("bad chunks", "Transfer-Encoding: chunked\r\n\r\nx\r\n\r\n", true),
        ("a long body", "Content-Length: 2000000\r\n\r\nh", true),
        ("a short body", "Content-Length: 5\r\n\r\nh", false),
    ] {
        let mut wire = site.connect();
        wire.send(format!("{head}{rest}"));
        let reply = wire.reply("PUT");
        assert_eq!((reply.status, reply.is_last()), (405, says_so), "{what}");
        wire.expect_close();
    }
}

/// Apache and nginx send none either.
#[test]
fn a_refused_head_request_gets_no_content() {
    let site = site();
    let long = "a".repeat(2000);
    for rest in [
        "/\x01 HTTP/1.1\r\n\r\n".to_owned(),
        "/ HTTP/1.x\r\n\r\n".to_owned(),
        "/#part HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(),
        "/ HTTP/1.1\r\n\r\n".to_owned(),
        "/ HTTP/1.1\r\nHost: localhost\r\nX : 1\r\n\r\n".to_owned(),
        format!("/{long} HTTP/1.1\r\n\r\n"),
        format!("/ HTTP/1.1\r\nHost: localhost\r\nX: {long}\r\n\r\n"),
    ] {
        let mut wire = site.connect();
        wire.send(format!("HEAD {rest}"));
        let reply = wire.reply("HEAD");
        assert!((400..500).contains(&reply.status) && reply.is_last(), "{rest}: {reply:?}");
        wire.expect_close();
    }
}

/// Requests that a strict reader must refuse, because another reader could understand them
/// differently.
macro_rules! refused {
    ($($name:ident: $status:literal, $($part:expr),+;)+) => {
        mod refused {
            use super::*;
            $(#[test]
            fn $name() {
                if has_php() {
                    let bytes: Vec<u8> = [$(AsRef::<[u8]>::as_ref(&$part)),+].concat();
                    is_refused(&site(), stringify!($name), &bytes, $status);
                }
            })+
        }
    };
}

refused! {
    two_content_lengths: 400, P, "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd";
    the_same_content_length_twice_differently_written: 400, P, "Content-Length: 3, 4\r\n\r\nabcd";
    content_length_and_transfer_encoding: 400, P, "Content-Length: 3\r\n\
        Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    content_length_with_a_sign: 400, P, "Content-Length: +3\r\n\r\nabc";
    content_length_in_hex: 400, P, "Content-Length: 0x3\r\n\r\nabc";
    content_length_without_digits: 400, P, "Content-Length:\r\n\r\n";
    content_length_beyond_all_numbers: 400, P, "Content-Length: 99999999999999999999\r\n\r\n";
    chunked_not_last: 400, P, "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n";
    chunked_twice: 400, P, "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n";
    an_unknown_transfer_encoding: 501, P, "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n";
    transfer_encoding_in_http_1_0: 400, "POST /index.php HTTP/1.0\r\nHost: x\r\n\
        Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    transfer_encoding_with_a_vertical_tab: 400, P, "Transfer-Encoding: \x0Bchunked\r\n\r\n0\r\n\
        \r\n";
    a_bare_line_feed: 400, "GET / HTTP/1.1\nHost: localhost\n\n";
    a_bare_line_feed_in_the_fields: 400, H, "X: 1\nY: 2\r\n\r\n";
    a_bare_carriage_return: 400, H, "X: 1\rY: 2\r\n\r\n";
    a_nul_in_a_field: 400, H, "X: a\0b\r\n\r\n";
    a_space_before_the_colon: 400, H, "X : 1\r\n\r\n";
    a_folded_line: 400, H, "X: 1\r\n 2\r\n\r\n";
    a_line_without_a_colon: 400, H, "nonsense\r\n\r\n";
    a_field_without_a_name: 400, H, ": 1\r\n\r\n";
    a_field_name_with_a_space: 400, H, "X Y: 1\r\n\r\n";
    a_space_before_the_first_field: 400, "GET / HTTP/1.1\r\n Host: localhost\r\n\r\n";
    no_host: 400, "GET / HTTP/1.1\r\n\r\n";
    two_hosts: 400, H, "Host: other\r\n\r\n";
    a_host_with_a_slash: 400, "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n";
    a_host_with_an_at_sign: 400, "GET / HTTP/1.1\r\nHost: user@localhost\r\n\r\n";
    a_host_with_a_bad_port: 400, "GET / HTTP/1.1\r\nHost: localhost:99999\r\n\r\n";
    a_host_with_a_space: 400, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n";
    no_version: 400, "GET /\r\nHost: localhost\r\n\r\n";
    two_spaces: 400, "GET  / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    a_space_in_the_target: 400, "GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n";
    a_control_byte_in_the_target: 400, "GET /a\x01b HTTP/1.1\r\nHost: localhost\r\n\r\n";
    a_target_that_is_no_path: 400, "GET page HTTP/1.1\r\nHost: localhost\r\n\r\n";
    a_method_that_is_no_token: 400, "G(T / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    a_small_letter_in_the_version: 400, "GET / http/1.1\r\nHost: localhost\r\n\r\n";
    a_future_version: 505, "GET / HTTP/3.7\r\nHost: localhost\r\n\r\n";
    tls_on_a_plain_port: 400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n";
    a_chunk_size_that_is_no_number: 400, P, "Transfer-Encoding: chunked\r\n\r\nxyz\r\nabc\r\n0\r\n\
        \r\n";
    a_chunk_size_with_a_sign: 400, P, "Transfer-Encoding: chunked\r\n\r\n+3\r\nabc\r\n0\r\n\r\n";
    a_chunk_size_beyond_all_numbers: 400, P, "Transfer-Encoding: chunked\r\n\r\n\
        FFFFFFFFFFFFFFFFF\r\nabc";
    a_chunk_that_is_longer_than_it_said: 400, P, "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n\
        0\r\n\r\n";
    a_chunk_that_ends_with_a_bare_line_feed: 400, P, "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\n\
        0\r\n\r\n";
    a_chunk_size_that_ends_with_a_bare_line_feed: 400, P, "Transfer-Encoding: chunked\r\n\r\n3\n\
        abc\r\n0\r\n\r\n";
    a_trailer_that_is_no_field: 400, P, "Transfer-Encoding: chunked\r\n\r\n0\r\nnonsense\r\n\r\n";
    too_long_a_trailer: 431, P, "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: ",
        "a".repeat(600), "\r\n\r\n";
    too_many_trailers: 431, P, "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
        "X: 1\r\n".repeat(30), "\r\n";
    too_long_a_request_line: 414, "GET /", "a".repeat(1000), " HTTP/1.1\r\nHost: localhost\r\n\r\n";
    too_long_a_request_line_without_an_end: 414, "GET /", "a".repeat(3000);
    too_long_a_field: 431, H, "X: ", "a".repeat(600), "\r\n\r\n";
    too_many_fields: 431, H, "X: 1\r\n".repeat(30), "\r\n";
    too_much_in_all_fields: 431, H, format!("X: {}\r\n", "a".repeat(400)).repeat(6), "\r\n";
    a_body_longer_than_allowed: 413, P, "Content-Length: 1048577\r\n\r\n";
    chunks_longer_than_allowed: 413, P, "Transfer-Encoding: chunked\r\n\r\n\
        100001\r\n", "a".repeat(1 << 20);
}

#[test]
fn a_refused_body_is_refused_before_it_is_sent() {
    if !has_php() {
        return;
    }
    let site = site();
    let mut wire = site.connect();
    wire.send(format!("{P}Expect: 100-continue\r\nContent-Length: 9999999\r\n\r\n"));
    let reply = wire.reply("POST");
    assert_eq!(reply.status, 413);
    assert!(reply.interim.is_empty(), "no 100 for what is refused");
}

#[test]
fn a_client_that_sends_on_regardless_still_sees_its_answer() {
    if !has_php() {
        return;
    }
    let site = site();
    let mut wire = site.connect();
    wire.send(format!("{P}Content-Length: 1200000\r\n\r\n"));
    for _ in 0..12 {
        if !wire.try_send(vec![b'x'; 50_000]) {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(wire.reply("POST").status, 413);
}

#[test]
fn bytes_after_a_refused_request_are_not_a_request() {
    if !has_php() {
        return;
    }
    let site = site();
    let mut wire = site.connect();
    wire.send(format!("{P}Content-Length: 3\r\nContent-Length: 30\r\n\r\nabc{H}\r\n{H}\r\n"));
    assert_eq!(wire.reply("POST").status, 400);
    wire.expect_close();
}

#[test]
fn a_head_that_comes_too_slowly_is_given_up() {
    let site = Site::with(
        &[("index.html", "x")],
        &Options {
            limits: "head_timeout = \"1s\"",
            ..Options::default()
        },
    );
    let mut wire = faster_than(Duration::from_millis(500), || {
        let mut wire = site.connect();
        wire.try_send("GET / HT");
        wire
    });
    let port = format!("127.0.0.1:{}", wire.port());
    // Drops that keep coming gain nothing: the answer comes while they do.
    let until = Instant::now() + PATIENCE;
    while wire.is_silent_for(Duration::from_millis(100)) {
        assert!(Instant::now() < until, "each drop renews the limit");
        wire.try_send("T");
    }
    assert_eq!(wire.reply("GET").status, 408);
    wire.expect_close();
    wait_until("the log says why", || site.log_lines(&port).len() == 1);
    // A client that sends nothing is disconnected without a response.
    site.connect().expect_close();
}

#[test]
fn a_body_that_stalls_is_given_up_and_one_that_moves_is_not() {
    if !has_php() {
        return;
    }
    let files = [("index.php", "<?php echo file_get_contents('php://input');")];
    let site = Site::with(
        &files,
        &Options {
            limits: "body_timeout = \"1s\"",
            ..Options::default()
        },
    );
    let mut stalled = site.connect();
    let port = format!("127.0.0.1:{}", stalled.port());
    stalled.send(format!("{P}Content-Length: 8\r\n\r\nabc"));
    // The other one takes twice as long as the limit in all, but for each part far less. Where the
    // machine stands still between two parts, it is given up too.
    wait_until("a body that moves is received", || {
        let mut moving = site.connect();
        moving.send(format!("{P}Content-Length: 8\r\n\r\n"));
        for byte in b"12345678" {
            std::thread::sleep(Duration::from_millis(250));
            moving.try_send([*byte]);
        }
        moving.rest_or_reply() == b"12345678"
    });
    assert_eq!(stalled.reply("POST").status, 408);
    stalled.expect_close();
    wait_until("the log says why", || site.log_lines(&port).len() == 1);
}

#[test]
fn a_body_that_breaks_off_runs_no_script() {
    if !has_php() {
        return;
    }
    let site = Site::new(&[("index.php", "<?php file_put_contents($_GET['out'], 'ran');")]);
    let out = site.scratch().join("ran");
    let mut wire = site.connect();
    wire.send(format!(
        "POST /?out={} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf",
        out.display()
    ));
    drop(wire);
    assert_eq!(site.get(&format!("/?out={}", out.with_extension("other").display())).status, 200);
    assert!(!out.exists());
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let site = Site::with(
        &[("index.html", "x")],
        &Options {
            limits: "keep_alive_timeout = \"1s\"",
            ..Options::default()
        },
    );
    let mut wire = site.connect();
    let began = Instant::now();
    assert_eq!(wire.get("/").text(), "x");
    wire.expect_close();
    assert!(began.elapsed() >= Duration::from_millis(990), "closed after {:?}", began.elapsed());
}

#[test]
fn a_connection_serves_a_limited_number_of_requests() {
    let site = Site::with(
        &[("index.html", "x")],
        &Options {
            limits: "keep_alive_requests = 3",
            ..Options::default()
        },
    );
    let mut wire = site.connect();
    for request in 1..=3 {
        assert_eq!(wire.get("/").is_last(), request == 3);
    }
    wire.expect_close();
}

#[test]
fn more_connections_than_allowed_wait_for_their_turn() {
    if !has_php() {
        return;
    }
    let site = Site::with(
        &[("index.html", "x"), ("post.php", "<?php")],
        &Options {
            limits: "connections = 4\nclient_connections = 4",
            ..Options::default()
        },
    );
    let mut first: Vec<Wire> = (0..4).map(|_| site.connect()).collect();
    first.iter_mut().for_each(|wire| assert_eq!(wire.get("/").text(), "x"));
    // They are in the middle of a request: none of them is idle.
    for wire in &mut first {
        let fields = "Host: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n";
        wire.send(format!("POST /post.php HTTP/1.1\r\n{fields}"));
        assert_eq!(wire.head().0, 100);
    }
    let mut late = site.connect();
    late.request("GET", "/", &[], b"");
    assert!(late.within(Duration::from_millis(400)).is_empty(), "one too many");
    drop(first);
    assert_eq!(late.reply("GET").text(), "x");
}

#[test]
fn bad_configuration_is_refused_with_its_place() {
    let folder = Folder::new();
    folder.folder("public");
    for (config, words) in [
        ("[[site]]\nroot = \"public\"\nindx = [\"x\"]\n", vec![":3:", "indx", "index"]),
        ("[[site]]\nroot = \"public\"\n[site.php]\nworkers = 0\n", vec![":4:", "workers"]),
        ("listen = [\"8080\"]\n[[site]]\nroot = \"public\"\n", vec![":1:", "listen"]),
        ("[[site]]\nroot = \"public\"\n[limits]\nbody = \"1Q\"\n", vec![":4:", "body"]),
        ("not toml at all", vec![":1:"]),
        ("", vec!["site"]),
    ] {
        let file = folder.file("bad.toml", config);
        let (status, output, errors) = Setup::config(&file).run();
        assert_eq!(status, Some(2), "{config}");
        assert!(output.is_empty(), "{output}");
        for word in words {
            assert!(errors.contains(word), "{config}: no {word} in {errors}");
        }
    }
}
