//! Attacks with frames. Each meets the limit that is for it; other clients notice nothing.

use howdah_sys::signal::SIGUSR2;

use super::client::Http2;
use super::frames::*;
use crate::site::{Options, Site};
use crate::support::wait_until;

/// A site with these lines in `[http2]`.
fn site(http2: &str) -> Site {
    let limits = format!("send_timeout = \"1s\"\n[http2]\n{http2}");
    let large = "x".repeat(300_000);
    let files = [("a.txt", "hello"), ("large.txt", large.as_str())];
    Site::with(&files, &Options { limits: &limits, ..Options::default() })
}

/// Sends `bytes` until the server ends the connection, which it has to do for this key, and to
/// count.
fn flood(key: &str, bytes: &[u8]) -> Site {
    let site = site(&format!("{key} = 50"));
    let other = Http2::connect(&site);
    assert_eq!(other.get("/a.txt").text(), "hello");
    let mut frames = Frames::connect(&site, &[]);
    let mut rounds = 0;
    while frames.write(bytes) && rounds < 200 {
        rounds += 1;
    }
    site.server.wait_for_log(&format!("the client sends more frames than `{key}`"));
    assert_eq!(frames.goodbye(), Some(ENHANCE_YOUR_CALM), "{key}");
    assert_eq!(other.get("/a.txt").text(), "hello");
    assert_eq!(site.get("/a.txt").text(), "hello");
    assert_eq!(site.limits_met("http2", key), 1);
    site
}

#[test]
fn what_clients_have_met_stays_counted_under_a_new_program() {
    let site = flood("pings", &frame(PING, 0, 0, b"12345678"));
    assert_eq!(site.limits_met("http2", "settings"), 0);
    site.server.signal(SIGUSR2);
    wait_until("the new program serves", || {
        let told = site.try_status(&[]).unwrap_or_default();
        told.contains("generation 2 is serving")
    });
    assert_eq!(site.limits_met("http2", "pings"), 1);
}

#[test]
fn a_flood_of_pings() {
    flood("pings", &frame(PING, 0, 0, b"12345678"));
}

#[test]
fn a_flood_of_settings() {
    flood("settings", &frame(SETTINGS, 0, 0, &[]));
}

#[test]
fn a_flood_of_priorities() {
    flood("other_frames", &frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 7]));
}

#[test]
fn a_flood_of_unknown_frames() {
    flood("other_frames", &frame(0xbe, 0, 0, b""));
}

#[test]
fn a_flood_of_window_updates() {
    flood("window_updates", &frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()));
}

#[test]
fn a_flood_of_empty_content() {
    let site = site("empty_frames = 50");
    let mut frames = Frames::connect(&site, &[]);
    frames.send(HEADERS, END_HEADERS, 1, &get("/a.txt"));
    for _ in 0..200 {
        frames.send(DATA, 0, 1, b"");
    }
    site.server.wait_for_log("the client sends more frames than `empty_frames`");
    assert_eq!(frames.goodbye(), Some(ENHANCE_YOUR_CALM));
    assert_eq!(site.limits_met("http2", "empty_frames"), 1);
    assert_eq!(site.get("/a.txt").text(), "hello");
}

#[test]
fn requests_that_are_reset_at_once() {
    let site = site("resets = 200");
    let other = Http2::connect(&site);
    assert_eq!(other.get("/a.txt").text(), "hello");
    let mut frames = Frames::connect(&site, &[]);
    for stream in (1..4000).step_by(2) {
        let request = frame(HEADERS, END_STREAM | END_HEADERS, stream, &get("/large.txt"));
        let reset = frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes());
        if !frames.write(&[request, reset].concat()) {
            break;
        }
        // Each of them is read by itself, and begun.
        if stream % 20 == 1 {
            std::thread::yield_now();
        }
    }
    assert_eq!(frames.goodbye(), Some(ENHANCE_YOUR_CALM));
    site.server.wait_for_log("`resets` of [http2]");
    assert_eq!(site.limits_met("http2", "resets"), 1);
    assert_eq!(other.get("/a.txt").text(), "hello");
    assert_eq!(site.get("/a.txt").text(), "hello");
}

/// Makes the frame that has the server reset this stream.
type Provoke<'p> = &'p dyn Fn(u32) -> Vec<u8>;

/// The client never cancels anything: it makes the server do so (MadeYouReset).
#[test]
fn requests_that_the_server_is_made_to_reset() {
    let overflow = |stream| frame(WINDOW_UPDATE, 0, stream, &(u32::MAX >> 1).to_be_bytes());
    let own_parent = |stream: u32| {
        let parent = stream.to_be_bytes();
        frame(PRIORITY, 0, stream, &[&parent[..], &[1]].concat())
    };
    let behind_the_end = |stream| frame(DATA, 0, stream, b"x");
    let again = |stream| frame(HEADERS, END_HEADERS, stream, &get("/a.txt"));
    // The last two end the connection at once.
    let rows: [(&str, Provoke<'_>, bool); 4] = [
        ("a window beyond the largest", &overflow, true),
        ("a stream that depends on itself", &own_parent, true),
        ("content behind the end", &behind_the_end, false),
        ("trailers that end nothing", &again, false),
    ];
    for (what, provoke, is_counted) in rows {
        let site = site("other_frames = 100000\nwindow_updates = 100000");
        let other = Http2::connect(&site);
        let mut frames = Frames::connect(&site, &[(4, 0)]);
        for stream in (1..10_000).step_by(2) {
            let request = frame(HEADERS, END_STREAM | END_HEADERS, stream, &get("/large.txt"));
            if !frames.write(&[request, provoke(stream)].concat()) {
                break;
            }
        }
        let end = frames.goodbye();
        assert!(end.is_some(), "{what}");
        site.server.wait_for_log("HTTP/2 connection closed: ");
        if is_counted {
            assert_eq!(end, Some(ENHANCE_YOUR_CALM), "{what}");
            assert_eq!(site.limits_met("http2", "library"), 1, "{what}");
        }
        assert_eq!(other.get("/a.txt").text(), "hello", "{what}");
    }
}

/// The table of fields is made empty and filled again as often as a frame has room for.
#[test]
fn a_table_that_changes_its_size_all_the_time() {
    let site = site("");
    let other = Http2::connect(&site);
    let changes: Vec<u8> = [0x20, 0x3f, 0xe1, 0x1f].repeat(3000);
    let mut frames = Frames::connect(&site, &[]);
    for stream in (1..400).step_by(2) {
        let head = [&changes[..], &get("/a.txt"), &field("x", "y")].concat();
        if !frames.send(HEADERS, END_STREAM | END_HEADERS, stream, &head) {
            break;
        }
    }
    assert_eq!(other.get("/a.txt").text(), "hello");
    // A size beyond the one that the server has allowed.
    let mut frames = Frames::connect(&site, &[]);
    let head = [&[0x3f, 0xe2, 0x1f], &get("/a.txt")[..]].concat();
    frames.send(HEADERS, END_STREAM | END_HEADERS, 1, &head);
    assert!(frames.goodbye().is_some(), "the connection ends");
    assert_eq!(other.get("/a.txt").text(), "hello");
}

#[test]
fn trailers_that_never_end() {
    let site = site("continuations = 8");
    let mut frames = Frames::connect(&site, &[]);
    frames.send(HEADERS, END_HEADERS, 1, &get("/a.txt"));
    frames.send(DATA, 0, 1, b"x");
    frames.send(HEADERS, END_STREAM, 1, &field("x", "y"));
    let part = frame(CONTINUATION, 0, 1, &field("x", "y"));
    for _ in 0..100 {
        frames.write(&part);
    }
    assert_eq!(frames.goodbye(), Some(ENHANCE_YOUR_CALM));
    site.server.wait_for_log("HTTP/2 connection closed: ");
    assert_eq!(site.limits_met("http2", "continuations"), 1);
    assert_eq!(site.get("/a.txt").text(), "hello");
}

#[test]
fn requests_that_are_reset_before_they_begin() {
    let site = site("resets = 10000\nstreams = 20");
    let mut frames = Frames::connect(&site, &[]);
    let requests: Vec<u8> = (1..400)
        .step_by(2)
        .flat_map(|stream| {
            let request = frame(HEADERS, END_STREAM | END_HEADERS, stream, &get("/a.txt"));
            [request, frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())].concat()
        })
        .collect();
    frames.write(&requests);
    assert_eq!(frames.goodbye(), Some(ENHANCE_YOUR_CALM));
    // The client keeps its side open; the server does not wait for it.
    site.server.wait_for_log("`resets` of [http2]");
    assert_eq!(site.limits_met("http2", "resets"), 1, "the library notices");
    assert_eq!(site.get("/a.txt").text(), "hello");
}

#[test]
fn a_head_that_never_ends() {
    let site = site("continuations = 8");
    let mut frames = Frames::connect(&site, &[]);
    frames.send(HEADERS, END_STREAM, 1, &get("/a.txt"));
    let part = frame(CONTINUATION, 0, 1, &field("x", "y"));
    for _ in 0..100 {
        frames.write(&part);
    }
    assert_eq!(frames.goodbye(), Some(ENHANCE_YOUR_CALM));
    site.server.wait_for_log("`continuations` of [http2]");
    assert_eq!(site.limits_met("http2", "continuations"), 1);
    assert_eq!(site.get("/a.txt").text(), "hello");
}

#[test]
fn a_small_head_that_decodes_to_a_large_one() {
    let site = site("");
    let mut frames = Frames::connect(&site, &[]);
    // A field of 4000 bytes goes into the table once; each further byte repeats it.
    let mut head = get("/a.txt");
    head.extend_from_slice(&[0x40, 1, b'x', 0x7f, 0xa1, 0x1e]);
    head.extend_from_slice(&[b'y'; 4000]);
    head.extend_from_slice(&[0xbe; 8000]);
    frames.send(HEADERS, END_STREAM | END_HEADERS, 1, &head);
    assert_eq!(frames.goodbye(), Some(ENHANCE_YOUR_CALM), "it is far too large");
    site.server.wait_for_log("`header_list` of [http2]");
    assert_eq!(site.limits_met("http2", "header_list"), 1);
    assert_eq!(site.get("/a.txt").text(), "hello");
}

#[test]
fn heads_that_decode_to_more_than_allowed_are_answered_alone() {
    let site = site("header_list = \"16K\"");
    let mut frames = Frames::connect(&site, &[]);
    let head = |repeated: usize| {
        let mut head = get("/a.txt");
        head.extend_from_slice(&[0x40, 1, b'x', 0x7f, 0xa1, 0x1e]);
        head.extend_from_slice(&[b'y'; 4000]);
        head.extend(std::iter::repeat_n(0xbe, repeated));
        head
    };
    // The first and the third are too large; they come together with others.
    let requests: Vec<u8> = [(1, 7), (3, 0), (5, 7), (7, 0)]
        .into_iter()
        .flat_map(|(stream, repeated)| {
            frame(HEADERS, END_STREAM | END_HEADERS, stream, &head(repeated))
        })
        .collect();
    frames.write(&requests);
    let mut answered = Vec::new();
    while answered.len() < 4 {
        let frame = frames.next_of(HEADERS).expect("an answer");
        answered.push((frame.stream, frame.payload.starts_with(&[0x88])));
    }
    answered.sort_unstable();
    assert_eq!(answered, [(1, false), (3, true), (5, false), (7, true)]);
    wait_until("the refusals are counted", || site.limits_met("http2", "header_list") == 2);
}

#[test]
fn more_streams_than_allowed_are_refused() {
    let site = site("streams = 3");
    let mut frames = Frames::connect(&site, &[(4, 0)]);
    for stream in [1, 3, 5, 7, 9] {
        frames.send_get(stream, "/large.txt");
    }
    let refused: Vec<u32> = (0..2)
        .map(|_| {
            let reset = frames.next_of(RST_STREAM).expect("a refusal");
            assert_eq!(reset.payload, 7_u32.to_be_bytes(), "REFUSED_STREAM");
            reset.stream
        })
        .collect();
    assert_eq!(refused, [7, 9]);
    wait_until("the refusals are counted", || site.limits_met("http2", "streams") == 2);
}

#[test]
fn requests_with_mistakes_that_never_end() {
    let site = site("");
    let mut frames = Frames::connect(&site, &[]);
    let head = [get("/a.txt"), field("connection", "close")].concat();
    for stream in (1..4000).step_by(2) {
        if !frames.write(&frame(HEADERS, END_STREAM | END_HEADERS, stream, &head)) {
            break;
        }
    }
    assert_eq!(frames.goodbye(), Some(ENHANCE_YOUR_CALM));
    site.server.wait_for_log("HTTP/2 connection closed: ");
    assert_eq!(site.limits_met("http2", "library"), 1);
    assert_eq!(site.get("/a.txt").text(), "hello");
}

#[test]
fn a_stream_whose_window_stays_closed_is_ended() {
    let site = site("");
    let mut frames = Frames::connect(&site, &[(4, 0)]);
    frames.send_get(1, "/large.txt");
    let reset = frames.next_of(RST_STREAM).expect("it is given up");
    assert_eq!((reset.stream, &reset.payload[..]), (1, &8_u32.to_be_bytes()[..]), "CANCEL");
    // The connection goes on.
    frames.send(PING, 0, 0, b"12345678");
    assert_eq!(frames.next_of(PING).expect("a pong").payload, b"12345678");
    assert_eq!(site.limits_met("http2", "send_timeout"), 1);
}

#[test]
fn a_window_that_closes_over_content_ends_the_connection() {
    let site = site("");
    let mut frames = Frames::connect(&site, &[(4, 20_000)]);
    frames.send_get(1, "/large.txt");
    let first = frames.next_of(DATA).expect("content");
    assert_eq!(first.stream, 1);
    frames.send_settings(&[(4, 0)]);
    let mut last = None;
    while let Some(frame) = frames.next() {
        last = Some(frame);
        if last.as_ref().is_some_and(|frame| frame.kind == RST_STREAM) {
            break;
        }
    }
    let last = last.expect("a word");
    assert!(last.kind == RST_STREAM || last.kind == GOAWAY, "{last:?}");
}

#[test]
fn a_connection_that_takes_nothing_is_ended() {
    let site = site("");
    let mut frames = Frames::connect(&site, &[(4, 1 << 30)]);
    frames.send(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
    frames.send(PING, 0, 0, b"12345678");
    frames.next_of(PING).expect("a pong");
    // Requests for far more than the system buffers, and nobody reads.
    for stream in (1..120).step_by(2) {
        frames.send_get(stream, "/large.txt");
    }
    wait_until("the responses were given up", || {
        site.access_log().matches("/large.txt").count() == 60
    });
    // The bytes that the system has buffered, and then nothing.
    while frames.next().is_some() {}
    assert_eq!(site.get("/a.txt").text(), "hello");
    assert!(site.limits_met("http2", "send_timeout") > 0);
}
