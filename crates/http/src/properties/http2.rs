//! Properties of HTTP/2's heads and of the meter of its frames.

use std::time::Duration;

use crate::h1::{self, HeadProgress};
use crate::h2::{FrameLimits, FrameMeter, PREFACE, PseudoFields, read_request};
use crate::priority::Priority;
use crate::{Content, Limits, Refusal, Request, Version};

/// A head that is accepted means the same when it is written as HTTP/1, and holds no field of an
/// HTTP/1 connection. The latter is true of one that is refused and kept as well.
///
/// `data` is a byte of flags, then lines: the first has method, scheme, authority and path between
/// tabs, `-` for one that is absent; the others have a name and a value.
pub fn h2_request(data: &[u8]) {
    let mut request = Request::new();
    let Some((result, ends)) = read(data, &mut request) else {
        return;
    };
    if result.is_err_and(|refusal| !refusal.keeps_head()) {
        assert!(request.fields.is_empty());
        return;
    }
    let count = |name: &[u8]| request.fields.values(name).count();
    for name in ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"] {
        assert_eq!(count(name.as_bytes()), 0, "{name}");
    }
    assert!(count(b"cookie") <= 1 && count(b"host") == 1 && count(b"content-length") <= 1);
    let Ok(expects_continue) = result else {
        return;
    };
    assert!(!ends || matches!(request.content, Content::None | Content::Length(0)));
    for value in request.fields.values(b"priority") {
        assert!(Priority::of_request(Some(value)).urgency <= 7);
    }
    let written = as_http1(&request);
    let limits = Limits {
        request_line: 1 << 16,
        field_line: 1 << 16,
        ..Limits::default()
    };
    let mut again = Request::new();
    let verdict = h1::parse_request(&written, &limits, &mut again);
    let Ok(HeadProgress::Complete(parsed)) = verdict else {
        panic!("{verdict:?} for {}", written.escape_ascii());
    };
    assert_eq!(parsed.head_length, written.len());
    assert!(parsed.persistent && (ends || parsed.expect_continue == expects_continue));
    again.fields.remove(b"transfer-encoding");
    again.version = Version::Http2;
    assert_eq!(again, request);
}

/// Reads the head in `data`. `None`: it is not one. Returns also whether no content follows.
fn read(data: &[u8], into: &mut Request) -> Option<(Result<bool, Refusal>, bool)> {
    let (flags, text) = data.split_first()?;
    let mut lines = text.split(|&byte| byte == b'\n');
    let parts: Vec<&[u8]> = lines.next()?.split(|&byte| byte == b'\t').collect();
    let [method, rest @ ..] = &parts[..] else {
        return None;
    };
    let part = |at: usize| rest.get(at).copied().filter(|part| *part != b"-");
    let pseudo = PseudoFields {
        method,
        scheme: part(0),
        authority: part(1),
        path: part(2),
        protocol: None,
    };
    let fields = lines.map(|line| {
        let at = line.iter().position(|&byte| byte == b'\t').unwrap_or(line.len());
        (&line[..at], line.get(at + 1..).unwrap_or_default())
    });
    let ends = flags & 1 != 0;
    Some((read_request(Version::Http2, &pseudo, fields, ends, &Limits::default(), into), ends))
}

fn as_http1(request: &Request) -> Vec<u8> {
    let mut written = Vec::new();
    for part in [request.method.as_str().as_bytes(), b" ", &request.target, b" HTTP/1.1\r\n"] {
        written.extend_from_slice(part);
    }
    written.extend_from_slice(&request.fields.section());
    if request.content == Content::Unknown {
        written.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }
    written.extend_from_slice(b"\r\n");
    written
}

/// Returns whether [`h2_request`] accepts `data`.
#[cfg(test)]
pub(super) fn is_accepted(data: &[u8]) -> bool {
    read(data, &mut Request::new()).is_some_and(|(result, _)| result.is_ok())
}

/// The meter gives the same verdict, and the same priorities before it, however the bytes come.
pub fn h2_frames(data: &[u8]) {
    let Some((&step, frames)) = data.split_first() else {
        return;
    };
    let limits = FrameLimits {
        resets: 2,
        pings: 2,
        settings: 2,
        empty_frames: 2,
        other_frames: 2,
        window_updates: 2,
        continuations: 2,
    };
    let bytes = [PREFACE, frames].concat();
    let verdict = |step: usize| {
        let mut meter = FrameMeter::new(limits);
        let read = bytes.chunks(step).try_for_each(|part| meter.read(part, Duration::ZERO, 0));
        let updates = meter.take_updates();
        assert!(updates.iter().all(|update| update.priority.urgency <= 7 && update.stream > 0));
        (read, updates, meter.has_mistake())
    };
    assert_eq!(verdict(bytes.len()), verdict(usize::from(step) + 1));
}

#[cfg(test)]
#[test]
fn an_accepted_head_has_a_method() {
    let mut request = Request::new();
    let head = b"\x01PUT\thttp\th\t/\nx\ty";
    assert_eq!(read(head, &mut request), Some((Ok(false), true)));
    assert_eq!((request.method, request.authority), (crate::Method::Put, b"h".to_vec()));
}
