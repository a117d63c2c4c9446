//! Content that nobody reads: the response is there before the client has sent all of it.

use std::time::{Duration, Instant};

use super::client::Http2;
use super::frames::{DATA, END_HEADERS, END_STREAM, Frames, HEADERS, PING, RST_STREAM, head};
use crate::site::Site;

/// The server waits two seconds for the rest of the content. An attempt that takes longer than this
/// is repeated.
const SOON: Duration = Duration::from_millis(1500);

/// Sends a short content after its response, and a PING. Returns whether the stream was reset
/// before the answer to the PING.
fn is_reset_before_a_ping(frames: &mut Frames, stream: u32) -> bool {
    frames.send(HEADERS, END_HEADERS, stream, &head("POST", "/none"));
    let mut ends = false;
    while !ends {
        let frame = frames.next().expect("a response");
        ends = frame.stream == stream && frame.flags & END_STREAM != 0;
        assert_ne!(frame.kind, RST_STREAM, "before the response");
    }
    frames.send(DATA, END_STREAM, stream, b"a=b");
    frames.send(PING, 0, 0, b"12345678");
    loop {
        let frame = frames.next().expect("an answer to the PING");
        match frame.kind {
            PING => return false,
            RST_STREAM if frame.stream == stream => return true,
            _ => {}
        }
    }
}

#[test]
fn a_short_content_is_taken_after_the_response() {
    let site = Site::new(&[("a.txt", "hello")]);
    let mut frames = Frames::connect(&site, &[]);
    for attempt in 0..20 {
        let began = Instant::now();
        let is_reset = is_reset_before_a_ping(&mut frames, 2 * attempt + 1);
        if began.elapsed() < SOON {
            assert!(!is_reset, "curl before 8.0 would take the request for failed");
            return;
        }
    }
    panic!("the machine is too slow for this test");
}

#[test]
fn the_client_is_told_not_to_send_a_long_content() {
    let site = Site::new(&[("a.txt", "hello")]);
    let client = Http2::connect(&site);
    // The client sends as long as the server takes it.
    let reply = client.ask("POST", "/none", &[], &vec![b'x'; 20 << 20]);
    assert_eq!(reply.status, 404);
    assert!(!reply.body.is_empty());
    assert_eq!(client.get("/a.txt").text(), "hello");
}
