//! Tests of the whole way of a request, over an in-memory transport and from a protocol that is not
//! HTTP/1. They show that the pipeline depends on neither.

mod cold;
mod line_protocol;
mod load;
mod memory_transport;
mod site;

use std::rc::Rc;

use howdah_http::date;

use self::memory_transport::MemoryTransport;
use self::site::{on_thread, peer};

/// Sends `request` over HTTP/1 through memory that takes `step` bytes at a time. Returns what the
/// client received.
fn over_http1(request: &str, step: usize) -> String {
    let (transport, client) = MemoryTransport::new(request.as_bytes(), step);
    on_thread(move |thread| crate::h1::run(thread, transport, peer().into()));
    String::from_utf8(client.received()).expect("the test's files are text")
}

#[test]
fn http1_over_memory_serves_files() {
    for step in [13, 4096, usize::MAX] {
        let request = "GET /small.txt HTTP/1.1\r\nHost: x\r\n\r\n\
                       HEAD /small.txt HTTP/1.1\r\nHost: x\r\n\r\n\
                       GET /large.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let received = over_http1(request, step);
        let mut parts = received.split("HTTP/1.1 200 OK\r\n").skip(1);
        let [small, head, large] = [(); 3].map(|()| parts.next().expect("three responses"));
        assert!(parts.next().is_none(), "{received}");
        assert!(small.contains("Content-Length: 5\r\n") && small.ends_with("\r\n\r\nsmall"));
        assert!(head.contains("Content-Length: 5\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        assert!(large.contains("Connection: close\r\n"), "{large:.300}");
        assert!(large.ends_with(&site::large()), "step {step}");
    }
}

#[test]
fn http1_over_memory_refuses_and_redirects() {
    let rows = [
        ("GET /folder HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 301 Moved Permanently\r\n"),
        ("GET /none HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 404 Not Found\r\n"),
        ("GET /small.txt HTTP/1.1\r\nHost: elsewhere\r\n\r\n", "HTTP/1.1 421 "),
        ("nonsense\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n"),
    ];
    for (request, start) in rows {
        let received = over_http1(request, usize::MAX);
        assert!(received.starts_with(start), "{request:?}: {received:.200}");
    }
}

#[test]
fn filters_and_directives_are_at_work() {
    let request = "GET /ruled/page.html HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    for step in [3, usize::MAX] {
        let received = over_http1(request, step);
        let (head, content) = received.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains("X-Ruled: yes") && head.contains("Content-Length: 10"), "{head}");
        assert_eq!(content, "replaced!\n");
    }
}

#[test]
fn a_client_that_takes_nothing_loses_its_response_alone() {
    let request = "GET /large.txt HTTP/1.1\r\nHost: x\r\n\r\n";
    let (transport, client) = MemoryTransport::new(request.as_bytes(), 4096);
    client.close_after(10_000);
    on_thread(move |thread| crate::h1::run(thread, transport, peer().into()));
    assert!((10_000..20_000).contains(&client.received().len()));
}

#[test]
fn another_protocol_enters_the_pipeline() {
    let rows = [
        ("x /small.txt", "200 text/plain length=5\n5:small.\n"),
        ("x /folder", "301 text/html; charset=utf-8 length="),
        ("x /none", "404 text/html; charset=utf-8 length="),
        ("x /ruled/page.html", "200 text/html length=10\n10:replaced!\n.\n"),
        ("elsewhere /small.txt", "421 text/html; charset=utf-8 length="),
    ];
    for (line, start) in rows {
        let sent = Rc::new(line_protocol::Stream::default());
        let stream = Rc::clone(&sent);
        on_thread(move |thread| async move {
            line_protocol::serve(&thread, &peer(), line, &stream).await;
        });
        let sent = String::from_utf8(sent.bytes()).expect("the test's files are text");
        assert!(sent.starts_with(start), "{line}: {sent}");
        assert!(sent.ends_with(".\n"), "{line}: {sent}");
    }
    let sent = Rc::new(line_protocol::Stream::default());
    let stream = Rc::clone(&sent);
    on_thread(move |thread| async move {
        line_protocol::serve(&thread, &peer(), "x /large.txt", &stream).await;
    });
    let sent = String::from_utf8(sent.bytes()).expect("the test's files are text");
    let frames = sent.lines().skip(1).filter(|line| line.contains(':')).count();
    assert!(frames > 10, "a large file goes in many frames: {frames}");
}

#[test]
fn content_is_compressed_no_further_for_a_client_that_is_gone() {
    on_thread(|thread| async move {
        for is_broken in [true, false] {
            let stream = Rc::new(line_protocol::Stream::default());
            stream.is_broken.set(is_broken);
            line_protocol::serve(&thread, &peer(), "x /ruled/large.css", &stream).await;
            let sent = stream.bytes();
            let start = sent.get(..20).unwrap_or_default().escape_ascii();
            assert_eq!(sent.starts_with(b"200 text/css length="), !is_broken, "{start}");
        }
    });
}

#[test]
fn a_file_is_looked_up_once_for_a_request() {
    let rows = [
        ("", "200 "),
        ("If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT", "200 "),
        ("Range: bytes=0-1", "206 "),
        ("Range: bytes=0-0,2-2", "206 "),
        ("Range: bytes=9999999-", "416 "),
        ("If-None-Match: *", "304 "),
        ("If-Match: \"other\"", "412 "),
    ];
    on_thread(move |thread| async move {
        let now = date::format(thread.clock().now().seconds());
        let since = format!("If-Modified-Since: {}", now.escape_ascii());
        let rows = rows.into_iter().chain([(&*since, "304 ")]);
        for file in ["small.txt", "ruled/plain.txt", "ruled/page.html", "ruled/large.css"] {
            // The first requests look for the folders on the way, and for directives.
            for _ in 0..2 {
                let stream = Rc::new(line_protocol::Stream::default());
                line_protocol::serve(&thread, &peer(), &format!("x /{file}"), &stream).await;
            }
            for (fields, status) in rows.clone() {
                let lines = format!("x /{file}\n{fields}\n");
                // In another second, the file and its directives are compared with the disk.
                let mut tries = 0..20;
                let sent = loop {
                    let stream = Rc::new(line_protocol::Stream::default());
                    let before = thread.store().figures().lookups;
                    line_protocol::serve(&thread, &peer(), &lines, &stream).await;
                    if thread.store().figures().lookups - before <= 1 {
                        break stream.bytes();
                    }
                    assert!(tries.next().is_some(), "{lines}");
                };
                // Of what passes filters, no part is sent.
                let is_whole = status == "206 " && !file.ends_with(".txt");
                let status = if is_whole { "200 " } else { status };
                let start = sent.get(..20).unwrap_or_default().escape_ascii();
                assert!(sent.starts_with(status.as_bytes()), "{lines}: {start}");
            }
        }
    });
}
