//! Streams beside each other: flow control, uploads, cancelled requests, interim responses.

use bytes::Bytes;
use h2::client::Builder;

use super::client::{Http2, body, reply, send};
use super::frames::{
    DATA, END_STREAM, Frames, HEADERS, PRIORITY_UPDATE, PROTOCOL_ERROR, SETTINGS, WINDOW_UPDATE,
    field, get,
};
use crate::site::{AWAIT, HELD, Options, Site};
use crate::support::has_php;

#[test]
fn many_requests_share_a_connection() {
    let large = "0123456789abcdef".repeat(20_000);
    let site = Site::new(&[("large.txt", &large), ("small.txt", "small")]);
    let client = Http2::connect(&site);
    client.run(async {
        let mut pending = Vec::new();
        for number in 0..60 {
            let target = if number % 3 == 0 { "/large.txt" } else { "/small.txt" };
            pending.push((target, tokio::spawn(reply(client.begin_get(target).await))));
        }
        for (target, pending) in pending {
            let reply = pending.await.unwrap();
            let expected = if target == "/large.txt" { &large } else { "small" };
            assert_eq!((reply.status, reply.reset), (200, None));
            assert!(reply.text() == expected, "{target}: {} bytes", reply.body.len());
        }
    });
}

#[test]
fn head_tells_the_length_of_a_file() {
    let site = Site::new(&[("a.txt", "hello")]);
    let client = Http2::connect(&site);
    for _ in 0..2 {
        let reply = client.ask("HEAD", "/a.txt", &[], b"");
        assert_eq!((reply.status, reply.field("content-length")), (200, Some("5")));
        assert!(reply.body.is_empty());
    }
}

#[test]
fn a_slow_stream_holds_neither_the_others_nor_a_worker() {
    if !has_php() {
        return;
    }
    let script = "<?php for ($i = 0; $i < 2000; $i++) echo str_repeat(chr(65 + $i % 26), 1000);";
    let files = [("big.php", script), ("small.php", "<?php echo 'x';"), ("a.txt", "hello")];
    let site = Site::with_php(&files, "workers = 1");
    let mut builder = Builder::new();
    builder.initial_window_size(10_000).initial_connection_window_size(1 << 20);
    let client = Http2::with(site.server.address(), &builder);
    client.run(async {
        // Nobody reads this one. Its window is full at once, and the worker goes on.
        let slow = client.begin_get("/big.php").await.await.unwrap();
        for _ in 0..20 {
            assert_eq!(reply(client.begin_get("/small.php").await).await.text(), "x");
            assert_eq!(reply(client.begin_get("/a.txt").await).await.text(), "hello");
        }
        let (content, reset) = body(&mut slow.into_body()).await;
        assert_eq!((content.len(), reset), (2_000_000, None));
        let right = content
            .chunks(1000)
            .enumerate()
            .all(|(part, chunk)| chunk.iter().all(|&byte| usize::from(byte) == 65 + part % 26));
        assert!(right, "each byte arrives at its place");
    });
}

#[test]
fn output_comes_as_it_is_made() {
    if !has_php() {
        return;
    }
    let script = format!(
        "<?php {AWAIT} header('Content-Type: text/event-stream');
         for ($i = 0; $i < 3; $i++) {{ echo \"data: $i\\n\\n\"; flush(); await(\"seen$i\"); }}"
    );
    let site = Site::with_php(&[("events.php", &script)], "ini = { output_buffering = 0 }");
    let target = site.awaiting("/events.php");
    let client = Http2::connect(&site);
    client.run(async {
        let mut content = client.begin_get(&target).await.await.unwrap().into_body();
        for event in 0..3 {
            let part = content.data().await.expect("an event").unwrap();
            assert_eq!(part, format!("data: {event}\n\n"));
            site.allow(&format!("seen{event}"));
        }
        assert!(content.data().await.is_none_or(|end| end.unwrap().is_empty()));
    });
}

#[test]
fn uploads_arrive_whole_whatever_their_length() {
    if !has_php() {
        return;
    }
    let script =
        "<?php echo $_SERVER['CONTENT_LENGTH'] ?? '-', ' ', md5(file_get_contents('php://input'));";
    let site = Site::new(&[("index.php", script)]);
    let client = Http2::connect(&site);
    let large: Vec<u8> = (0..3_000_000_u32).map(|number| (number * 7) as u8).collect();
    let hash = site.ask("POST", "/", &[], &large);
    let length = large.len().to_string();
    for fields in [&[][..], &[("content-length", length.as_str())]] {
        let reply = client.ask("POST", "/", fields, &large);
        assert_eq!(reply.text(), hash.text());
    }
    let small = client.ask("POST", "/", &[], b"x");
    assert_eq!(
        small.text(),
        format!("1 {}", site.ask("POST", "/", &[], b"x").text().split(' ').nth(1).unwrap())
    );
    // Content without a byte.
    client.run(async {
        let request = client.request("POST", "/", &[]);
        let (pending, mut stream) = client.begin(request, false).await;
        stream.send_data(Bytes::new(), true).unwrap();
        assert!(reply(pending).await.text().starts_with("0 "));
    });
    // Trailers are read and forgotten.
    client.run(async {
        let request = client.request("POST", "/", &[]);
        let (pending, mut stream) = client.begin(request, false).await;
        stream.send_data(Bytes::from_static(b"x"), false).unwrap();
        let mut trailers = http::HeaderMap::new();
        trailers.insert("x-trailer", http::HeaderValue::from_static("y"));
        stream.send_trailers(trailers).unwrap();
        assert_eq!(reply(pending).await.text(), small.text());
    });
}

#[test]
fn an_upload_that_is_too_large_is_answered_before_it_was_sent() {
    if !has_php() {
        return;
    }
    let options = Options {
        limits: "body = 100000",
        ..Options::default()
    };
    let site = Site::with(&[("index.php", "<?php echo 'x';"), ("a.txt", "hello")], &options);
    let client = Http2::connect(&site);
    client.run(async {
        let (pending, mut stream) = client.begin(client.request("POST", "/", &[]), false).await;
        // The window takes more than the limit. The rest is never sent.
        stream.reserve_capacity(120_000);
        let mut sent = 0;
        while sent < 110_000 {
            let room = std::future::poll_fn(|context| stream.poll_capacity(context)).await;
            let room = room.unwrap().unwrap();
            stream.send_data(Bytes::from(vec![b'x'; room]), false).unwrap();
            sent += room;
        }
        let reply = reply(pending).await;
        assert_eq!(reply.status, 413);
        // Nothing more is wanted (RFC 9113 §8.1), which is no error.
        let reason = std::future::poll_fn(|context| stream.poll_reset(context)).await.unwrap();
        assert_eq!(reason, h2::Reason::NO_ERROR);
    });
    assert_eq!(client.get("/a.txt").text(), "hello");
}

/// Many frames come before anybody has read the first of them.
#[test]
fn an_upload_in_frames_of_a_byte_arrives() {
    if !has_php() {
        return;
    }
    let script = "<?php echo strlen(file_get_contents('php://input'));";
    let site = Site::new(&[("index.php", script)]);
    let mut frames = Frames::connect(&site, &[]);
    let line = [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "x")];
    let head: Vec<u8> = line.iter().flat_map(|(name, value)| field(name, value)).collect();
    let mut upload = super::frames::frame(HEADERS, super::frames::END_HEADERS, 1, &head);
    let part = super::frames::frame(DATA, 0, 1, b"x");
    upload.extend(part.repeat(30_000));
    upload.extend(super::frames::frame(DATA, END_STREAM, 1, b"x"));
    assert!(frames.write(&upload));
    let content = frames.next_of(DATA).expect("an answer");
    assert_eq!(String::from_utf8_lossy(&content.payload), "30001");
}

#[test]
fn a_file_that_is_asked_for_with_content_needs_none_of_it() {
    let site = Site::new(&[("a.txt", "hello")]);
    let client = Http2::connect(&site);
    // More than all windows together, again and again: they open for what nobody reads, too.
    let content = vec![b'x'; 700_000];
    for _ in 0..5 {
        let reply = client.run(async {
            let (pending, stream) = client.begin(client.request("GET", "/a.txt", &[]), false).await;
            tokio::join!(reply(pending), send(stream, &content)).0
        });
        assert_eq!((reply.status, reply.text()), (200, "hello"));
    }
}

#[test]
fn a_client_that_waits_is_told_to_continue() {
    if !has_php() {
        return;
    }
    let script = "<?php echo file_get_contents('php://input');";
    let site = Site::new(&[("index.php", script), ("a.txt", "hello")]);
    let client = Http2::connect(&site);
    client.run(async {
        let request = client.request("POST", "/", &[("expect", "100-continue")]);
        let (mut pending, mut stream) = client.begin(request, false).await;
        let interim = std::future::poll_fn(|context| pending.poll_informational(context)).await;
        assert_eq!(interim.unwrap().unwrap().status(), 100);
        stream.send_data(Bytes::from_static(b"content"), true).unwrap();
        assert_eq!(reply(pending).await.text(), "content");
        // A file does not need the content.
        let request = client.request("GET", "/a.txt", &[("expect", "100-continue")]);
        let (pending, _stream) = client.begin(request, false).await;
        let reply = reply(pending).await;
        assert_eq!((reply.text(), reply.interim.len()), ("hello", 0));
    });
}

#[test]
fn early_hints_precede_the_response() {
    if !has_php() {
        return;
    }
    for send in ["headers_send(103);", "http_response_code(103); flush();"] {
        let script = format!(
            "<?php header('Link: </style.css>; rel=preload; as=style'); {send}
            header_remove('Link'); header('X-Final: 1'); echo 'page';"
        );
        let site = Site::new(&[("index.php", &script)]);
        let link = ("link".to_owned(), "</style.css>; rel=preload; as=style".to_owned());
        let reply = Http2::connect(&site).get("/");
        assert_eq!((reply.status, reply.text(), reply.field("x-final")), (200, "page", Some("1")));
        assert_eq!(reply.interim, [(103, vec![link])], "{send}");
        let reply = site.get("/");
        assert_eq!((reply.status, reply.text(), reply.interim[0].0), (200, "page", 103));
    }
}

/// Interim responses have no window: a client that reads nothing would fill the server's memory.
#[test]
fn interim_responses_beyond_a_limit_are_left_out() {
    if !has_php() {
        return;
    }
    let script = "<?php header('X-Long: ' . str_repeat('x', 4000));
        for ($n = 0; $n < 1000; $n++) headers_send(103);
        echo 'page';";
    let site = Site::new(&[("index.php", script)]);
    let reply = Http2::connect(&site).get("/");
    assert_eq!((reply.status, reply.text()), (200, "page"));
    assert!((2..20).contains(&reply.interim.len()), "{}", reply.interim.len());
    // HTTP/1.1 sends each before the next.
    let reply = site.get("/");
    assert_eq!((reply.status, reply.text(), reply.interim.len()), (200, "page", 1000));
}

#[test]
fn a_cancelled_request_is_given_up() {
    if !has_php() {
        return;
    }
    let script = "<?php touch($_GET['in'] . '/ran' . $_GET['id']); echo 'ran';";
    let site = Site::with_php(&[HELD, ("mark.php", script)], "workers = 1");
    let mut held = site.hold_worker();
    let client = Http2::connect(&site);
    let target = |id: u32| format!("{}&id={id}", site.awaiting("/mark.php"));
    client.run(async {
        let mut waiting = Vec::new();
        for id in 0..8 {
            waiting.push(client.begin_get(&target(id)).await);
        }
        assert_eq!(reply(client.begin_get("/none").await).await.status, 404);
        drop(waiting);
        // The answer shows that the server has read what was sent before.
        assert_eq!(reply(client.begin_get("/none").await).await.status, 404);
    });
    site.allow("end");
    assert_eq!(held.reply("GET").text(), "done");
    assert_eq!(client.get(&target(100)).text(), "ran");
    // Two may have been handed to the pool already: it has twice as many places as workers.
    let ran = (0..8).filter(|id| site.scratch().join(format!("ran{id}")).exists()).count();
    assert!(ran <= 2, "{ran} cancelled requests ran");
}

#[test]
fn a_window_of_a_byte_gets_a_byte() {
    let site = Site::new(&[("a.txt", "hello")]);
    let mut frames = Frames::connect(&site, &[(4, 1)]);
    frames.send(HEADERS, END_STREAM | 4, 1, &get("/a.txt"));
    let mut content = Vec::new();
    while content.len() < 5 {
        let part = frames.next_of(DATA).expect("the window is open");
        assert!(part.payload.len() == 1, "{part:?}");
        content.extend_from_slice(&part.payload);
        frames.send(WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes());
    }
    assert_eq!(content, b"hello");
}

/// The first response fills its window with as much content as the server holds for all of them.
#[test]
fn a_stream_that_nobody_reads_does_not_stop_the_others() {
    let large = "0123456789abcdef".repeat(40_000);
    let site = Site::new(&[("large.txt", &large)]);
    for window in [65_536, 32_768, 16_384, 70_000] {
        let mut frames = Frames::connect(&site, &[(4, window)]);
        frames.send(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
        let ends = END_STREAM | super::frames::END_HEADERS;
        let requests =
            [1, 3, 5].map(|stream| super::frames::frame(HEADERS, ends, stream, &get("/large.txt")));
        frames.write(&requests.concat());
        let mut received = 0;
        while received < large.len() {
            let frame = frames.next().expect("a frame");
            // The first two streams keep their windows closed.
            if (frame.kind, frame.stream) == (DATA, 5) && !frame.payload.is_empty() {
                received += frame.payload.len();
                let more = u32::try_from(frame.payload.len()).unwrap();
                frames.send(WINDOW_UPDATE, 0, 5, &more.to_be_bytes());
            }
        }
    }
}

/// A client that closes its windows over content which the server holds already holds up the
/// response for which the content is, and no other.
#[test]
fn a_window_that_closes_over_content_stops_its_stream_alone() {
    let large = "x".repeat(30_000_000);
    let limits = "send_timeout = \"1h\"";
    let site = Site::with(
        &[("large.txt", large.as_str()), ("other.txt", &large[..200_000])],
        &Options { limits, ..Options::default() },
    );
    // The content is there in most rounds.
    for _ in 0..20 {
        let mut frames = Frames::connect(&site, &[(4, 1 << 30)]);
        frames.send(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
        frames.send_get(1, "/large.txt");
        for _ in 0..20 {
            frames.next_of(DATA).expect("content");
        }
        frames.send_settings(&[(4, 0)]);
        frames.send_get(3, "/other.txt");
        frames.send(WINDOW_UPDATE, 0, 3, &(1_u32 << 20).to_be_bytes());
        let mut received = 0;
        while received < 200_000 {
            let frame = frames.next_of(DATA).expect("the other response");
            received += if frame.stream == 3 { frame.payload.len() } else { 0 };
        }
        // The first one goes on when its window opens.
        frames.send_settings(&[(4, 1 << 30)]);
        while frames.next_of(DATA).expect("the rest").flags & END_STREAM == 0 {}
    }
}

/// Asks for one response, and for another one when the client's buffers are full of the first.
/// Returns how much of the first one comes between the begin and the end of the second.
fn bytes_between(site: &Site, heads: [Vec<u8>; 2]) -> usize {
    bytes_between_with(site, heads, [b"", b""])
}

/// Counts the bytes like [`bytes_between`], with further frames before and behind the head of the
/// second request.
fn bytes_between_with(
    site: &Site,
    [first, second]: [Vec<u8>; 2],
    [before, behind]: [&[u8]; 2],
) -> usize {
    // Windows that are never full.
    let mut frames = Frames::connect(site, &[(4, 1 << 30)]);
    frames.send(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
    let ends = END_STREAM | super::frames::END_HEADERS;
    frames.send(HEADERS, ends, 1, &first);
    // The server sends it until the client's buffers are full.
    while frames.next().expect("a frame").kind != DATA {}
    std::thread::sleep(std::time::Duration::from_millis(200));
    frames.write(&[before, &super::frames::frame(HEADERS, ends, 3, &second), behind].concat());
    let (mut between, mut ended) = (0, Vec::new());
    let mut has_begun = false;
    while ended.len() < 2 {
        let frame = frames.next().expect("a frame");
        has_begun |= frame.stream == 3 && frame.kind == DATA;
        if frame.kind == DATA && frame.stream == 1 && has_begun && !ended.contains(&3) {
            between += frame.payload.len();
        }
        if frame.kind == DATA && frame.flags & END_STREAM != 0 {
            ended.push(frame.stream);
        }
        assert_ne!((frame.kind, frame.flags), (SETTINGS, 2));
    }
    between
}

/// The most bytes of another response between those of an urgent one.
const BETWEEN: usize = 128 * 1024;

#[test]
fn the_urgent_is_sent_first() {
    // More than the system buffers.
    let large = "x".repeat(16_000_000);
    let site = Site::new(&[("slow.txt", &large), ("fast.txt", &large)]);
    let head = |target, priority| [get(target), field("priority", priority)].concat();
    let between = bytes_between(&site, [head("/slow.txt", "u=7"), head("/fast.txt", "u=0")]);
    assert!(between <= BETWEEN, "{between}");
}

/// A PRIORITY_UPDATE of the connection.
fn priority_update(stream: u32, field: &str) -> Vec<u8> {
    let payload = [&stream.to_be_bytes(), field.as_bytes()].concat();
    super::frames::frame(PRIORITY_UPDATE, 0, 0, &payload)
}

#[test]
fn a_client_may_change_the_priority_of_a_request() {
    // More than the system buffers.
    let large = "x".repeat(16_000_000);
    let site = Site::new(&[("slow.txt", &large), ("fast.txt", &large)]);
    let heads = || [get("/slow.txt"), get("/fast.txt")];
    let (raised, lowered) = (priority_update(3, "u=0"), priority_update(1, "u=7"));
    for frames in [[&raised[..], b""], [b"", &raised], [b"", &lowered], [&lowered, b""]] {
        let between = bytes_between_with(&site, heads(), frames);
        assert!(between <= BETWEEN, "{frames:?}: {between}");
    }
    // Of another request, and what means nothing.
    let (other, unknown) = (priority_update(5, "u=0"), priority_update(3, "x=1, u=9, i"));
    let between = bytes_between_with(&site, heads(), [&other, &unknown]);
    assert!(between > 4 * BETWEEN, "they share the connection: {between}");
}

#[test]
fn updates_of_priorities_that_are_wrong_end_the_connection() {
    let options = Options {
        limits: "[http2]\nstreams = 3",
        ..Options::default()
    };
    let site = Site::with(&[("a.txt", "hello")], &options);
    let frame = |stream, payload| super::frames::frame(PRIORITY_UPDATE, 0, stream, payload);
    let too_many: Vec<u8> =
        [1, 3, 5, 7].iter().flat_map(|stream| priority_update(*stream, "i")).collect();
    for (wrong, what) in [
        (frame(1, &[0, 0, 0, 1]), "of a stream"),
        (frame(0, &[0, 0, 1]), "too short"),
        (priority_update(0, "u=1"), "for no stream"),
        (priority_update(2, "u=1"), "for a push"),
        (too_many, "for more requests than may begin"),
    ] {
        let mut frames = Frames::connect(&site, &[]);
        frames.write(&wrong);
        assert_eq!(frames.goodbye(), Some(PROTOCOL_ERROR), "{what}");
    }
    let mut frames = Frames::connect(&site, &[]);
    for stream in (1..100).step_by(2) {
        // Updates may come behind the end of their request.
        frames.write(&priority_update(stream, "u=1"));
        frames.send_get(stream, "/a.txt");
        while frames.next_of(DATA).expect("an answer").flags & END_STREAM == 0 {}
        frames.write(&priority_update(stream, "u=2"));
    }
}

#[test]
fn a_response_may_set_its_priority() {
    // More than the system buffers.
    let large = "x".repeat(16_000_000);
    let rules = "<Files last.txt>\nHeader set Priority \"u=7\"\n</Files>\n\
        <Files first.txt>\nHeader set Priority \"u=0\"\n</Files>\n";
    let script = "<?php header('Priority: u=7'); \
        for ($i = 0; $i < 160; $i++) echo str_repeat('x', 100000);";
    let files = [
        (".htaccess", rules),
        ("last.txt", &large),
        ("usual.txt", &large),
        ("first.txt", &large),
        ("last.php", script),
    ];
    let site = Site::new(&files);
    let between = |first, second| bytes_between(&site, [get(first), get(second)]);
    let shared = between("/usual.txt?1", "/usual.txt?2");
    assert!(shared > 4 * BETWEEN, "without a priority they share the connection: {shared}");
    for (first, second) in
        [("/last.txt", "/usual.txt"), ("/usual.txt", "/first.txt"), ("/last.php", "/usual.txt")]
    {
        if first.ends_with("php") && !has_php() {
            continue;
        }
        let between = between(first, second);
        assert!(between <= BETWEEN, "{first} {second}: {between}");
    }
}
