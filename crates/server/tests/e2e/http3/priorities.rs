//! The order of the responses of a connection (RFC 9218), where there is too little room for all.

use std::sync::{Arc, Mutex};

use bytes::Buf;
use h3::error::Code;
use quinn::TransportConfig;

use super::client::{Http3, Stream};
use super::frames::{GET, HEADERS, frame, number, section};
use super::{Served, Special};

/// Bytes of a response: many times the room.
const LARGE: usize = 4_000_000;
/// The most bytes of another response between those of one that goes first.
const BETWEEN: usize = 256 * 1024;
/// Bytes of a small room.
const ROOM: u32 = 64 * 1024;

/// The limit of what the server may send at a time.
#[derive(Debug, Clone, Copy)]
enum Room {
    /// The window that the client gives the connection.
    Client,
    /// `send_buffer`, which counts what the client has not confirmed: as far as the network takes
    /// content.
    Server,
}

/// Parts of content as they arrived: the place of the request, and the number of bytes.
type Arrivals = Arc<Mutex<Vec<(usize, usize)>>>;

/// A server with a large file, and a client; `room` is what limits them.
fn connected(room: Room) -> (Served, Http3) {
    let large = "x".repeat(LARGE);
    let files = [("large.txt", large.as_str())];
    let (small, wide) = (ROOM.into(), (1_u32 << 28).into());
    let (http3, window) = match room {
        Room::Client => ("", small),
        Room::Server => ("send_buffer = \"64K\"", wide),
    };
    let served = Served::with(&files, &Special { http3, ..Special::default() });
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(wide).receive_window(window);
    let client = Http3::with(served.site.server.address(), &served.authority, transport);
    (served, client)
}

/// Asks for the file with each priority, once parts of the former response have come. Returns the
/// parts in the order in which they arrive.
fn arrivals(client: &Http3, priorities: &[&str]) -> Vec<(usize, usize)> {
    let arrivals = Arrivals::default();
    client.run(async {
        let mut readers = Vec::new();
        for (number, priority) in priorities.iter().enumerate() {
            let request = client.request("GET", "/large.txt", &[("priority", priority)]);
            let mut stream = client.begin(request).await.unwrap();
            stream.finish().await.unwrap();
            if number == 0 {
                assert_eq!(stream.recv_response().await.unwrap().status(), 200);
                take_part(&mut stream, number, &arrivals).await;
            }
            let arrivals = Arc::clone(&arrivals);
            readers.push(tokio::spawn(async move {
                if number > 0 {
                    assert_eq!(stream.recv_response().await.unwrap().status(), 200);
                }
                while take_part(&mut stream, number, &arrivals).await {}
            }));
        }
        for reader in readers {
            reader.await.unwrap();
        }
    });
    let arrivals = std::mem::take(&mut *arrivals.lock().unwrap());
    for number in 0..priorities.len() {
        assert_eq!(of(&arrivals, number), LARGE, "all of response {number}");
    }
    arrivals
}

/// Receives a part of the content. Returns whether there was one.
async fn take_part(stream: &mut Stream, number: usize, arrivals: &Arrivals) -> bool {
    let part = stream.recv_data().await.unwrap();
    part.is_some_and(|mut part| {
        let length = part.remaining();
        part.advance(length);
        arrivals.lock().unwrap().push((number, length));
        true
    })
}

/// The bytes of a response in these parts.
fn of(parts: &[(usize, usize)], number: usize) -> usize {
    parts.iter().filter(|part| part.0 == number).map(|part| part.1).sum()
}

/// The bytes of `others` between the begin and the end of the response `first`.
fn between(parts: &[(usize, usize)], first: usize, others: usize) -> usize {
    let is_of_first = |part: &(usize, usize)| part.0 == first;
    let begin = parts.iter().position(is_of_first).unwrap();
    let end = parts.iter().rposition(is_of_first).unwrap();
    of(&parts[begin..end], others)
}

#[test]
fn the_urgent_is_sent_first_however_little_room_there_is() {
    for room in [Room::Client, Room::Server] {
        let (_served, client) = connected(room);
        let parts = arrivals(&client, &["u=7", "u=0"]);
        assert!(between(&parts, 1, 0) <= BETWEEN, "{room:?}: {}", between(&parts, 1, 0));
        // A third one that is less urgent than the others waits for both.
        let parts = arrivals(&client, &["u=4, i", "u=5, i", "u=1, i"]);
        assert!(between(&parts, 2, 0) <= BETWEEN, "{room:?}: {}", between(&parts, 2, 0));
        assert!(between(&parts, 2, 1) <= BETWEEN, "{room:?}: {}", between(&parts, 2, 1));
        let end = parts.iter().rposition(|part| part.0 == 0).unwrap();
        assert!(of(&parts[..end], 1) <= BETWEEN, "{room:?}: {}", of(&parts[..end], 1));
    }
}

#[test]
fn of_one_urgency_the_responses_come_one_after_the_other_or_share_the_room() {
    for room in [Room::Client, Room::Server] {
        let (_served, client) = connected(room);
        let parts = arrivals(&client, &["u=3", "u=3", "u=3"]);
        for first in 0..2 {
            let end = parts.iter().rposition(|part| part.0 == first).unwrap();
            for later in first + 1..3 {
                let early = of(&parts[..end], later);
                assert!(early <= BETWEEN, "{room:?}: {early} bytes of {later} before {first}");
            }
        }
        let parts = arrivals(&client, &["u=3, i", "u=3, i"]);
        let shared = between(&parts, 1, 0);
        assert!(shared > 4 * BETWEEN, "{room:?}: {shared}");
    }
}

/// A PRIORITY_UPDATE for a stream.
fn update(stream: u8, field: &str) -> Vec<u8> {
    let length = u8::try_from(field.len() + 1).unwrap();
    [&[0x80, 0x0f, 0x07, 0, length, stream][..], field.as_bytes()].concat()
}

/// The client writes its control stream by hand: an update comes before the request, or behind it.
#[test]
fn a_client_may_change_the_priority_of_a_request() {
    for room in [Room::Client, Room::Server] {
        let (served, client) = connected(room);
        let address = served.site.server.address();
        let head = frame(HEADERS, &section(GET, "/large.txt"));
        for [before, behind] in [
            [update(4, "u=0"), Vec::new()],
            [Vec::new(), update(4, "u=0")],
            [Vec::new(), update(0, "u=7")],
        ] {
            let arrivals = Arrivals::default();
            client.run(async {
                let settings = client.settings.clone();
                let connection = client.endpoint.connect_with(settings, address, "a.example");
                let connection = connection.unwrap().await.unwrap();
                let mut control = connection.open_uni().await.unwrap();
                // The type of the stream, and SETTINGS.
                control.write_all(&[0, 4, 0]).await.unwrap();
                let mut readers = Vec::new();
                for number in 0..2 {
                    if number == 1 {
                        control.write_all(&before).await.unwrap();
                    }
                    let (mut send, mut receive) = connection.open_bi().await.unwrap();
                    send.write_all(&head).await.unwrap();
                    send.finish().unwrap();
                    if number == 1 {
                        control.write_all(&behind).await.unwrap();
                    } else {
                        receive.read_chunk(ROOM as usize, true).await.unwrap().expect("a part");
                    }
                    let arrivals = Arc::clone(&arrivals);
                    readers.push(tokio::spawn(async move {
                        while let Some(part) = receive.read_chunk(1 << 20, true).await.unwrap() {
                            arrivals.lock().unwrap().push((number, part.bytes.len()));
                        }
                    }));
                }
                for reader in readers {
                    reader.await.unwrap();
                }
            });
            let parts = std::mem::take(&mut *arrivals.lock().unwrap());
            let between = between(&parts, 1, 0);
            assert!(between <= 2 * BETWEEN, "{room:?} {before:?} {behind:?}: {between}");
        }
    }
}

#[test]
fn updates_of_priorities_that_are_wrong_end_the_connection() {
    let special = Special {
        http3: "streams = 3",
        ..Special::default()
    };
    let served = Served::with(&[("a.txt", "hello")], &special);
    let client = served.connect();
    let too_many: Vec<u8> = [0, 4, 8, 12].iter().flat_map(|id| update(*id, "i")).collect();
    for (wrong, code) in [
        (update(1, "u=1"), Code::H3_ID_ERROR),
        (vec![0x80, 0x0f, 0x07, 1, 1, 0], Code::H3_ID_ERROR),
        (vec![0x80, 0x0f, 0x07, 0, 0], Code::H3_FRAME_ERROR),
        (too_many, Code::H3_ID_ERROR),
    ] {
        let ended = client.run(async {
            let settings = client.settings.clone();
            let address = served.site.server.address();
            let connection = client.endpoint.connect_with(settings, address, "a.example");
            let connection = connection.unwrap().await.unwrap();
            let mut control = connection.open_uni().await.unwrap();
            control.write_all(&[&[0, 4, 0][..], &wrong].concat()).await.unwrap();
            connection.closed().await
        });
        let quinn::ConnectionError::ApplicationClosed(close) = &ended else {
            panic!("{wrong:?}: {ended}");
        };
        assert_eq!(close.error_code, number(code), "{wrong:?}: {ended}");
    }
    assert_eq!(client.get("/a.txt").text(), "hello");
}

/// A response that nobody reads holds up no other, however urgent it is.
#[test]
fn an_urgent_response_without_a_window_lets_the_others_go() {
    let large = "x".repeat(LARGE);
    let served = Served::new(&[("large.txt", &large)]);
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(ROOM.into()).receive_window((2 * ROOM).into());
    let client = Http3::with(served.site.server.address(), &served.authority, transport);
    let request = |priority| client.request("GET", "/large.txt", &[("priority", priority)]);
    client.run(async {
        let mut urgent = client.begin(request("u=0")).await.unwrap();
        urgent.finish().await.unwrap();
        let mut usual = client.begin(request("u=5")).await.unwrap();
        usual.finish().await.unwrap();
        let usual = super::client::reply(usual).await.unwrap();
        assert_eq!((usual.body.len(), usual.is_broken), (LARGE, false));
        let urgent = super::client::reply(urgent).await.unwrap();
        assert_eq!((urgent.body.len(), urgent.is_broken), (LARGE, false));
    });
}

/// A script that is slower than the network leaves the room to others while it makes nothing.
#[test]
fn an_urgent_response_that_waits_for_its_script_lets_the_others_go() {
    if !crate::support::has_php() {
        return;
    }
    let large = "x".repeat(LARGE);
    let script = format!(
        "<?php {} header('Priority: u=0'); echo str_repeat('a', 300000); flush(); await('rest'); \
            echo str_repeat('b', 300000);",
        crate::site::AWAIT
    );
    let files = [("large.txt", large.as_str()), ("slow.php", script.as_str())];
    let served = Served::with(
        &files,
        &Special {
            php: "ini = { output_buffering = 0 }",
            ..Special::default()
        },
    );
    let mut transport = TransportConfig::default();
    transport.receive_window(ROOM.into());
    let client = Http3::with(served.site.server.address(), &served.authority, transport);
    let target = served.site.awaiting("/slow.php");
    client.run(async {
        let mut slow = client.begin_get(&target).await.unwrap();
        assert_eq!(slow.recv_response().await.unwrap().status(), 200);
        let mut received = 0;
        while received < 300_000 {
            let mut part = slow.recv_data().await.unwrap().expect("the first half");
            received += part.remaining();
            part.advance(part.remaining());
        }
        let large = client.begin_get("/large.txt").await.unwrap();
        let large = super::client::reply(large).await.unwrap();
        assert_eq!((large.body.len(), large.is_broken), (LARGE, false));
        served.site.allow("rest");
        while let Some(mut part) = slow.recv_data().await.unwrap() {
            received += part.remaining();
            part.advance(part.remaining());
        }
        assert_eq!(received, 600_000);
    });
}
