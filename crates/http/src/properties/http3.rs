//! Properties of the client's side of a request's stream of HTTP/3.

use crate::h3::{ControlFrames, FramePart, RequestFrames, STAND_IN, StreamMistake, head_frame};

/// Bytes of a HEADERS frame that [`head_frame`] writes before its section.
const HEADER: usize = 5;

/// A request that was taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
struct TakenApart {
    head: Option<Vec<u8>>,
    content: Vec<u8>,
    trailers: Option<Vec<u8>>,
    end: Option<StreamMistake>,
}

/// The parts are the same however the bytes come. In the head only a protocol's name is replaced,
/// once, or the whole section where it is malformed.
pub fn h3_first_head(data: &[u8]) {
    let whole = take_apart(data, data.len().max(1));
    assert_eq!(whole, take_apart(data, 1));
    let Some(section) = whole.head else {
        return;
    };
    let made = head_frame(&section);
    let written = &made.bytes[HEADER..];
    if made.is_websocket {
        let name = STAND_IN.as_bytes();
        assert!(written.windows(name.len()).any(|part| part == name));
        assert!(written.len() <= section.len() + name.len());
    } else {
        assert!(written == section || written == [0, 0]);
    }
    let again = head_frame(written);
    assert_eq!((again.bytes, again.is_websocket), (made.bytes, false));
}

/// Returns whether the stream begins with the head of a WebSocket.
#[cfg(test)]
pub(super) fn is_websocket(data: &[u8]) -> bool {
    let head = take_apart(data, data.len().max(1)).head;
    head.is_some_and(|section| head_frame(&section).is_websocket)
}

/// A stream beside requests tells the same priorities, and the same mistake, however the bytes
/// come.
pub fn h3_control(data: &[u8]) {
    let read = |step: usize| {
        let mut frames = ControlFrames::default();
        let mut updates = Vec::new();
        let mut parts = data.chunks(step);
        let read = parts.try_for_each(|part| frames.read(part, &mut |new| updates.push(new)));
        (updates, read)
    };
    let whole = read(data.len().max(1));
    assert!(whole.0.iter().all(|update| update.priority.urgency <= 7));
    assert_eq!(whole, read(1));
}

/// Returns whether the stream is a control stream with an update of a priority.
#[cfg(test)]
pub(super) fn has_update(data: &[u8]) -> bool {
    let mut has_any = false;
    let _ = ControlFrames::default().read(data, &mut |_| has_any = true);
    has_any
}

fn take_apart(data: &[u8], step: usize) -> TakenApart {
    let mut frames = RequestFrames::default();
    let mut parts = TakenApart::default();
    for mut bytes in data.chunks(step) {
        while !bytes.is_empty() {
            let (used, part) = match frames.read(bytes) {
                Ok(read) => read,
                Err(mistake) => {
                    parts.end = Some(mistake);
                    return parts;
                }
            };
            bytes = &bytes[used..];
            match part {
                Some(FramePart::Head(section)) => parts.head = Some(section),
                Some(FramePart::Trailers(section)) => parts.trailers = Some(section),
                Some(FramePart::Content(length)) => {
                    let (content, rest) = bytes.split_at(length);
                    parts.content.extend_from_slice(content);
                    bytes = rest;
                }
                None => assert!(bytes.is_empty()),
            }
        }
    }
    parts.end = frames.end().err();
    parts
}
