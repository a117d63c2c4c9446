//! Requests and responses, and streams beside each other.

use std::time::Duration;

use bytes::Bytes;
use h3::error::Code;
use quinn::TransportConfig;

use super::client::{Http3, reply};
use super::{Served, Special};
use crate::site::{AWAIT, HELD, Site};
use crate::support::{has_php, wait_until};
use crate::tls::client::Trust;

#[test]
fn files_are_served() {
    let large: String = (0..400_000).map(|number| format!("{number}\n")).collect();
    let served = Served::new(&[("a.txt", "hello"), ("large.txt", &large), ("empty.txt", "")]);
    let client = served.connect();
    for _ in 0..3 {
        let reply = client.get("/a.txt");
        assert_eq!((reply.status, reply.text()), (200, "hello"));
        assert_eq!(reply.field("content-length"), Some("5"));
        assert_eq!(reply.field("alt-svc"), None, "it is here already");
    }
    assert!(client.get("/large.txt").text() == large);
    let part = client.ask("GET", "/large.txt", &[("range", "bytes=100000-300000")], b"");
    assert_eq!((part.status, part.text()), (206, &large[100_000..=300_000]));
    let head = client.ask("HEAD", "/large.txt", &[], b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.field("content-length"), Some(large.len().to_string().as_str()));
    let tag = head.field("etag").unwrap().to_owned();
    let same = client.ask("GET", "/large.txt", &[("if-none-match", &tag)], b"");
    assert_eq!((same.status, same.body.len()), (304, 0));
    assert_eq!((client.get("/empty.txt").status, client.get("/empty.txt").text()), (200, ""));
    assert_eq!(client.get("/none").status, 404);
    drop(client);
    wait_until("the requests are logged", || served.site.access_log().contains("/none HTTP/3.0"));
    assert!(served.site.access_log().contains("\"GET /a.txt HTTP/3.0\" 200 5"));
}

#[test]
fn scripts_see_the_connection_and_get_content() {
    if !has_php() {
        return;
    }
    let script = "<?php foreach (['SERVER_PROTOCOL', 'HTTPS', 'SSL_PROTOCOL', 'SSL_TLS_SNI', \
        'SSL_SESSION_RESUMED', 'HTTP_HOST', 'HTTP_COOKIE', 'REMOTE_ADDR'] as $name) echo $name, \
        '=', $_SERVER[$name] ?? '-', ' '; echo $_SERVER['SSL_CIPHER'];";
    let upload =
        "<?php echo $_SERVER['CONTENT_LENGTH'] ?? '-', ' ', md5(file_get_contents('php://input'));";
    let long = "<?php for ($i = 0; $i < 40; $i++) echo str_repeat(chr(97 + $i % 26), 100000);";
    let files = [("facts.php", script), ("upload.php", upload), ("long.php", long)];
    let served = Served::new(&files);
    let mut client = served.connect();
    let cookies = [("cookie", "a=1"), ("cookie", "b=2")];
    let facts = client.ask("GET", "/facts.php", &cookies, b"").text().to_owned();
    let expected = "SERVER_PROTOCOL=HTTP/3.0 HTTPS=on SSL_PROTOCOL=TLSv1.3 SSL_TLS_SNI=a.example \
                    SSL_SESSION_RESUMED=Initial HTTP_HOST=a.example HTTP_COOKIE=a=1; b=2 \
                    REMOTE_ADDR=127.0.0.2 TLS_";
    assert!(facts.starts_with(expected), "{facts}");
    client.reconnect();
    let resumed = client.get("/facts.php").text().to_owned();
    assert!(resumed.contains("SSL_SESSION_RESUMED=Resumed"), "{resumed}");
    let large: Vec<u8> = (0..3_000_000_u32).map(|number| (number * 7) as u8).collect();
    let hash = client.ask("POST", "/upload.php", &[], &large).text().to_owned();
    let mut wire =
        served
            .authority
            .connect(served.site.server.address(), "a.example", Trust::Tls13);
    assert_eq!(hash, wire.ask("POST", "/upload.php", &[("Host", "a.example")], &large).text());
    let long = client.get("/long.php");
    assert_eq!(long.body.len(), 4_000_000);
    assert!(long.body.chunks(100_000).all(|part| part.iter().all(|byte| *byte == part[0])));
}

#[test]
fn other_protocols_tell_of_it() {
    let served = Served::new(&[
        ("a.txt", "hello"),
        ("own.txt", "own"),
        (".htaccess", "<Files own.txt>\nHeader set Alt-Svc clear\n</Files>\n"),
    ]);
    let address = served.site.server.address();
    let mut wire = served.authority.connect(address, "a.example", Trust::Tls13);
    let of_port = |port: u16| format!("h3=\":{port}\"; ma=86400");
    let named = format!("a.example:{}", address.port());
    for (host, port) in [
        (named.as_str(), address.port()),
        // The ports are mapped: the client reaches the one that it has used.
        ("a.example", 443),
        ("a.example:8443", 8443),
    ] {
        for target in ["/a.txt", "/a.txt", "/none"] {
            let reply = wire.ask("GET", target, &[("Host", host)], b"");
            assert_eq!(reply.field("alt-svc"), Some(&*of_port(port)), "{host} {target}");
        }
    }
    let own = wire.ask("GET", "/own.txt", &[("Host", "a.example")], b"");
    assert_eq!((own.field("alt-svc"), own.text()), (Some("clear"), "own"));
    let off = Served::with(
        &[("a.txt", "x")],
        &Special {
            http3: "enabled = false",
            ..Special::default()
        },
    );
    let mut wire = off.authority.connect(off.site.server.address(), "a.example", Trust::Tls13);
    assert_eq!(wire.ask("GET", "/a.txt", &[("Host", "a.example")], b"").field("alt-svc"), None);
    let plain = Site::new(&[("a.txt", "x")]);
    assert_eq!(plain.get("/a.txt").field("alt-svc"), None);
}

#[test]
fn many_requests_share_a_connection() {
    let large = "0123456789abcdef".repeat(20_000);
    let served = Served::new(&[("large.txt", &large), ("small.txt", "small")]);
    let client = served.connect();
    client.run(async {
        let mut pending = Vec::new();
        for number in 0..60 {
            let target = if number % 3 == 0 { "/large.txt" } else { "/small.txt" };
            let stream = client.begin_get(target).await.unwrap();
            pending.push((target, tokio::spawn(reply(stream))));
        }
        for (target, pending) in pending {
            let reply = pending.await.unwrap().unwrap();
            let expected = if target == "/large.txt" { &large } else { "small" };
            assert_eq!((reply.status, reply.is_broken), (200, false));
            assert!(reply.text() == expected, "{target}: {} bytes", reply.body.len());
        }
    });
}

#[test]
fn a_slow_stream_holds_neither_the_others_nor_a_worker() {
    if !has_php() {
        return;
    }
    let script = "<?php for ($i = 0; $i < 2000; $i++) echo str_repeat(chr(65 + $i % 26), 1000);";
    let files = [("big.php", script), ("small.php", "<?php echo 'x';"), ("a.txt", "hello")];
    let served = Served::with(&files, &Special { php: "workers = 1", ..Special::default() });
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(10_000_u32.into())
        .receive_window((1_u32 << 20).into());
    let client = Http3::with(served.site.server.address(), &served.authority, transport);
    client.run(async {
        // Nobody reads this one. Its window is full at once, and the worker goes on.
        let slow = client.begin_get("/big.php").await.unwrap();
        for _ in 0..20 {
            for (target, expected) in [("/small.php", "x"), ("/a.txt", "hello")] {
                let reply = reply(client.begin_get(target).await.unwrap()).await.unwrap();
                assert_eq!(reply.text(), expected);
            }
        }
        let reply = reply(slow).await.unwrap();
        assert_eq!((reply.body.len(), reply.is_broken), (2_000_000, false));
        let chunks = reply.body.chunks(1000).enumerate();
        let right = |(part, chunk): (usize, &[u8])| {
            chunk.iter().all(|&byte| usize::from(byte) == 65 + part % 26)
        };
        assert!(chunks.into_iter().all(right), "each byte arrives at its place");
    });
}

#[test]
fn output_and_early_hints_come_as_they_are_made() {
    if !has_php() {
        return;
    }
    output_comes_after_hints("headers_send(103);");
    output_comes_after_hints("http_response_code(103); flush();");
}

fn output_comes_after_hints(send: &str) {
    let script = format!(
        "<?php {AWAIT} header('Link: </a.css>; rel=preload'); {send} \
            header_remove('Link');
         header('Content-Type: text/event-stream');
         for ($i = 0; $i < 3; $i++) {{ echo \"data: $i\\n\\n\"; flush(); await(\"seen$i\"); }}"
    );
    let served = Served::with(
        &[("events.php", &script)],
        &Special {
            php: "ini = { output_buffering = 0 }",
            ..Special::default()
        },
    );
    let target = served.site.awaiting("/events.php");
    let client = served.connect();
    client.run(async {
        let mut stream = client.begin_get(&target).await.unwrap();
        let hints = stream.recv_response().await.unwrap();
        assert_eq!(hints.status(), 103);
        assert_eq!(hints.headers()["link"], "</a.css>; rel=preload");
        let head = stream.recv_response().await.unwrap();
        assert_eq!((head.status().as_u16(), head.headers().get("link")), (200, None));
        for event in 0..3 {
            let mut part = stream.recv_data().await.unwrap().expect("an event");
            let part = bytes::Buf::copy_to_bytes(&mut part, 9);
            assert_eq!(part, format!("data: {event}\n\n"));
            served.site.allow(&format!("seen{event}"));
        }
        assert!(stream.recv_data().await.unwrap().is_none());
    });
}

#[test]
fn a_cancelled_request_ends_alone() {
    if !has_php() {
        return;
    }
    let files = [HELD, ("a.txt", "hello"), ("small.php", "<?php echo 'x';")];
    let served = Served::with(&files, &Special { php: "workers = 1", ..Special::default() });
    let client = served.connect();
    let target = served.site.awaiting("/held.php");
    let mut stream = client.run(async { client.begin_get(&target).await.unwrap() });
    let begun = served.site.scratch().join("begun");
    client.run(async {
        while !begun.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stream.stop_sending(Code::H3_REQUEST_CANCELLED);
    });
    assert_eq!(client.get("/a.txt").text(), "hello");
    served.site.allow("end");
    assert_eq!(client.get("/small.php").text(), "x", "the worker is free again");
}

#[test]
fn content_of_another_length_than_promised_is_refused() {
    if !has_php() {
        return;
    }
    let served = Served::new(&[("a.php", "<?php echo strlen(file_get_contents('php://input'));")]);
    let client = served.connect();
    for (length, status) in [("5", 200), ("4", 400), ("6", 400)] {
        let reply = client.ask("POST", "/a.php", &[("content-length", length)], b"hello");
        assert_eq!(reply.status, status, "{length}");
    }
}

#[test]
fn a_head_that_can_be_understood_differently_is_refused() {
    let served = Served::new(&[("a.txt", "hello")]);
    let client = served.connect();
    let reply = client.ask("GET", "/a.txt", &[("connection", "close")], b"");
    assert_eq!(reply.status, 400);
    assert_eq!(client.get("/a.txt").text(), "hello");
}

#[test]
fn an_upload_that_is_too_large_is_answered_before_it_was_sent() {
    if !has_php() {
        return;
    }
    let files = [("index.php", "<?php echo 'x';"), ("a.txt", "hello")];
    let served = Served::with(
        &files,
        &Special {
            limits: "body = 100000",
            ..Special::default()
        },
    );
    let client = served.connect();
    client.run(async {
        let stream = client.begin(client.request("POST", "/", &[])).await.unwrap();
        let (mut send, receive) = stream.split();
        // The rest is never sent.
        send.send_data(Bytes::from(vec![b'x'; 110_000])).await.unwrap();
        assert_eq!(reply(receive).await.unwrap().status, 413);
    });
    assert_eq!(client.get("/a.txt").text(), "hello");
}
