//! The head of a request: request line and field lines (RFC 9112 §2 to §5).
//!
//! One pass from left to right. Later bytes never change the meaning of earlier ones, so a head
//! that arrives in pieces gets the same result as one that arrives at once.

use super::{HeadProgress, ParsedHead, framing::FramingFields};
use crate::Refusal;
use crate::{
    Limits, Method, Request, Status, Version,
    fields::FieldPlace,
    scan::{self, target_run, token_run, value_run},
    target,
};

/// Reads the head at the beginning of `buf` into `into`, whose memory is reused and whose scheme is
/// kept.
///
/// On [`HeadProgress::Incomplete`] the function must be called again with the same bytes and more
/// after them. On a refusal `into` holds the known part of the request line, for the log, and no
/// fields.
///
/// # Errors
/// The status to refuse the request with, after which the connection has to be closed.
pub fn parse_request(
    buf: &[u8],
    limits: &Limits,
    into: &mut Request,
) -> Result<HeadProgress, Refusal> {
    into.reset();
    let outcome = read_head(buf, limits, into);
    if !matches!(outcome, Ok(HeadProgress::Complete(_))) {
        into.fields.clear(); // Its lines point at bytes that were not copied.
    }
    outcome
}

/// Returns whether parsing again can have another result, after `buf[seen..]` has been added to
/// bytes that were [`HeadProgress::Incomplete`]: the first bytes can (bytes that are no HTTP at
/// all, such as a TLS handshake, need not end a line), then only the end of a line or a line over
/// its limit. A client that sends byte by byte therefore does not have its whole head read again
/// each time; the number of lines is limited.
pub fn worth_parsing(buf: &[u8], seen: usize, limits: &Limits) -> bool {
    let seen = seen.min(buf.len());
    if seen == 0 || memchr::memchr(b'\n', &buf[seen..]).is_some() {
        return true;
    }
    let line = buf.len() - memchr::memrchr(b'\n', buf).map_or(0, |at| at + 1);
    line > limits.request_line.min(limits.field_line) || buf.len() > limits.fields_total
}

/// Returns the first line of the head in `buf` without its end, for the log: at most `most` bytes
/// of what has come of it, whether or not it is a request line. Empty lines before it are left out.
pub fn first_line(buf: &[u8], most: usize) -> &[u8] {
    let start = buf.iter().position(|byte| !b"\r\n".contains(byte)).unwrap_or(buf.len());
    let line = &buf[start..];
    let line = &line[..memchr::memchr(b'\n', line).unwrap_or(line.len())];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    &line[..line.len().min(most)]
}

fn read_head(buf: &[u8], limits: &Limits, into: &mut Request) -> Result<HeadProgress, Refusal> {
    let Some(start) = empty_lines(buf)? else {
        return Ok(HeadProgress::Incomplete);
    };
    let Some(length) = request_line(&buf[start..], limits.request_line, into)? else {
        return Ok(HeadProgress::Incomplete);
    };
    let is_host_in_target = !into.authority.is_empty();
    let section = &buf[start + length..];
    let mut seen = FramingFields::default();
    let Some(length_of_fields) = field_lines(section, limits, into, &mut seen)? else {
        return Ok(HeadProgress::Incomplete);
    };
    into.fields.receive_section(&section[..length_of_fields]);
    let (persistent, expect_continue) = seen.conclude(limits, into)?;
    if is_host_in_target {
        overrule_host(into);
    }
    let head_length = start + length + length_of_fields + CRLF.len();
    Ok(HeadProgress::Complete(ParsedHead { head_length, persistent, expect_continue }))
}

/// Gives Host the value of the target's authority (RFC 9112 §3.2.2), so that directives, scripts
/// and upstreams see the host that the request is for. A Host that says the same keeps its
/// spelling.
#[cold]
fn overrule_host(into: &mut Request) {
    let is_same = |host: &[u8]| {
        let host = host.strip_suffix(b".").unwrap_or(host);
        host.eq_ignore_ascii_case(&into.authority)
    };
    if !into.fields.value(b"host").is_some_and(is_same) {
        into.fields.set(b"Host", &into.authority);
    }
}

/// RFC 9112 §2.2: an empty line before the request line is skipped. Old clients send one after
/// content.
#[inline]
fn empty_lines(buf: &[u8]) -> Result<Option<usize>, Refusal> {
    let mut at = 0;
    loop {
        match &buf[at..] {
            [] | [b'\r'] => return Ok(None),
            [b'\r', b'\n', ..] if at == EMPTY_LINES * CRLF.len() => {
                return Err(Refusal::bad("too many empty lines before the request line"));
            }
            [b'\r', b'\n', ..] => at += CRLF.len(),
            _ => return Ok(Some(at)),
        }
    }
}

/// RFC 9112 §3: `method SP request-target SP HTTP-version CRLF`, with single spaces. Returns its
/// length with the CRLF.
#[inline]
fn request_line(bytes: &[u8], limit: usize, into: &mut Request) -> Result<Option<usize>, Refusal> {
    let window = &bytes[..bytes.len().min(limit.saturating_add(CRLF.len()))];
    let short = || match window.len() > limit.saturating_add(1) {
        true => Err(Refusal {
            status: Status::URI_TOO_LONG,
            why: "request line over its limit, `request_line`",
        }),
        false => Ok(None),
    };
    let method_end = token_run(window);
    match window.get(method_end) {
        Some(b' ') if method_end > 0 => {}
        Some(&byte) => return Err(bad_method(byte, method_end)),
        None => return short(),
    }
    // Known also where the rest is refused: the answer to HEAD has no content (RFC 9110 §9.3.2).
    into.method =
        Method::from_bytes(&window[..method_end]).ok_or(Refusal::bad("method that is no token"))?;
    let target_start = method_end + 1;
    let target_end = target_start + target_run(&window[target_start..]);
    match window.get(target_end) {
        Some(b' ') if target_end > target_start => {}
        Some(&byte) => return Err(bad_target(byte)),
        None => return short(),
    }
    let rest = &window[target_end + 1..];
    into.version = match rest.first_chunk::<10>() {
        Some(b"HTTP/1.1\r\n") => Version::Http11,
        _ => match other_version(rest)? {
            Some(version) => version,
            None => return short(),
        },
    };
    target::read(&window[target_start..target_end], into)?;
    Ok(Some(target_end + 1 + VERSION_LINE))
}

/// RFC 9112 §2.3. Minor versions above 1 are treated as 1.1 (RFC 9110 §2.5); any other major
/// version is 505.
#[cold]
fn other_version(rest: &[u8]) -> Result<Option<Version>, Refusal> {
    for (at, &byte) in rest.iter().enumerate().take(VERSION_LINE) {
        let fits = match at {
            5 | 7 => byte.is_ascii_digit(),
            _ => byte == b"HTTP/_._\r\n"[at],
        };
        if !fits {
            return Err(bad_version(at, byte));
        }
    }
    let Some(&[.., major, _, minor, _, _]) = rest.first_chunk::<VERSION_LINE>() else {
        return Ok(None);
    };
    match (major, minor) {
        (b'1', b'0') => Ok(Some(Version::Http10)),
        (b'1', _) => Ok(Some(Version::Http11)),
        (b'2', _) => Err(version_refused("HTTP/2 spoken on an HTTP/1 connection")),
        _ => Err(version_refused("major version that is not 1")),
    }
}

/// RFC 9112 §5. Notes every line's place in `into.fields` and what concerns framing in `seen`;
/// returns the length of all lines, without the empty line that ends them.
#[inline]
fn field_lines(
    section: &[u8],
    limits: &Limits,
    into: &mut Request,
    seen: &mut FramingFields,
) -> Result<Option<usize>, Refusal> {
    let total = limits.fields_total.min(u32::MAX as usize);
    let version = into.version;
    let (_, lines) = into.fields.parts();
    let mut start = 0;
    loop {
        let rest = &section[start..];
        match rest {
            [b'\r', b'\n', ..] => return Ok(Some(start)),
            [] | [b'\r'] => return Ok(None),
            _ if lines.len() >= limits.field_count => {
                return Err(Refusal::fields_too_large("more field lines than `field_count`"));
            }
            _ => {}
        }
        let room = (total - start).min(limits.field_line.saturating_add(CRLF.len()));
        let window = &rest[..rest.len().min(room)];
        let Some(line) = field_line(window, start == 0, LineEnd::Crlf)? else {
            return match rest.len() >= room {
                true if room == total - start => Err(Refusal::fields_too_large(
                    "field lines over their limit together, `fields_total`",
                )),
                true => Err(Refusal::fields_too_large("field line over its limit, `field_line`")),
                false => Ok(None),
            };
        };
        let value = &window[line.value_start..line.value_end];
        // `start` and what a line adds stay within `total`, which fits.
        let place = |at: usize| (start + at) as u32;
        lines.push(FieldPlace {
            name_start: place(0),
            name_end: place(line.name_end),
            value_start: place(line.value_start),
            value_end: place(line.value_end),
        });
        seen.note(&window[..line.name_end], value, lines.len() - 1, version)?;
        start += line.length;
    }
}

/// A line's parts, counted from its first byte.
pub(super) struct FieldLine {
    pub name_end: usize,
    pub value_start: usize,
    pub value_end: usize,
    /// The length of the line with its end.
    pub length: usize,
}

/// The bytes that may end a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineEnd {
    /// CRLF: in requests and between chunks, where two recipients that disagree about an end take
    /// other bytes for the next message.
    Crlf,
    /// CRLF, or LF alone (RFC 9112 §2.2): in the head of a response, which is written anew for the
    /// client.
    CrlfOrLf,
}

/// RFC 9112 §5: `field-name ":" OWS field-value OWS CRLF`. `None` where the line does not end in
/// `window`.
///
/// # Errors
/// A byte is not allowed in the name or the value (400).
#[inline(always)]
pub(super) fn field_line(
    window: &[u8],
    first: bool,
    line_end: LineEnd,
) -> Result<Option<FieldLine>, Refusal> {
    let name_end = token_run(window);
    match window.get(name_end) {
        Some(b':') if name_end > 0 => {}
        Some(&byte) => return Err(bad_name(byte, name_end == 0, first)),
        None => return Ok(None),
    }
    let value_start = name_end + 1;
    let mut value_end = value_start + value_run(&window[value_start..]);
    let length = match window[value_end..] {
        [b'\r', b'\n', ..] => value_end + CRLF.len(),
        [b'\n', ..] if line_end == LineEnd::CrlfOrLf => value_end + 1,
        [] | [b'\r'] => return Ok(None),
        [byte, ..] => return Err(bad_value(byte)),
    };
    let mut value_start = value_start;
    while value_start < value_end && scan::is_white(window[value_start]) {
        value_start += 1;
    }
    while value_end > value_start && scan::is_white(window[value_end - 1]) {
        value_end -= 1;
    }
    Ok(Some(FieldLine { name_end, value_start, value_end, length }))
}

#[cold]
fn bad_method(byte: u8, at: usize) -> Refusal {
    Refusal::bad(match (byte, at) {
        (TLS_HANDSHAKE, 0) => "TLS handshake on a port that speaks in the clear",
        (b' ', _) => "request line that begins with a space",
        (b'\r' | b'\n', _) => "request line without a target",
        (0, _) => "NUL in the method",
        _ => "method that is no token",
    })
}

#[cold]
fn bad_target(byte: u8) -> Refusal {
    Refusal::bad(match byte {
        b' ' => "more than one space before the target",
        b'\r' | b'\n' => "request line without a version",
        b'#' => "fragment in the target",
        0 => "NUL in the target",
        _ => "control byte in the target",
    })
}

#[cold]
fn bad_version(at: usize, byte: u8) -> Refusal {
    Refusal::bad(match (at, byte) {
        (0, b' ') => "more than one space before the version",
        (8, b'\n') | (9, _) => "line of the request line not ended by CRLF",
        (8, b' ') => "bytes behind the version",
        _ => "version that is not HTTP/ and two digits",
    })
}

#[cold]
fn version_refused(why: &'static str) -> Refusal {
    Refusal {
        status: Status::HTTP_VERSION_NOT_SUPPORTED,
        why,
    }
}

#[cold]
fn bad_name(byte: u8, empty: bool, first: bool) -> Refusal {
    Refusal::bad(match (byte, empty) {
        (b':', true) => "field line without a name",
        (b' ' | b'\t', true) if first => "white space before the first field line", // RFC 9112 §2.2
        (b' ' | b'\t', true) => "folded field line",                                // RFC 9112 §5.2
        (b' ' | b'\t', false) => "white space before the colon of a field line",    // RFC 9112 §5.1
        (b'\n', true) => "bare LF",
        (b'\r', true) => "bare CR",
        (b'\r' | b'\n', false) => "field line without a colon",
        (0, _) => "NUL in a field name",
        _ => "field name that is no token",
    })
}

#[cold]
fn bad_value(byte: u8) -> Refusal {
    Refusal::bad(match byte {
        b'\r' => "bare CR in a field line",
        b'\n' => "field line ended by a bare LF",
        0 => "NUL in a field value",
        _ => "control byte in a field value",
    })
}

const CRLF: &[u8] = b"\r\n";

/// Bytes of `HTTP/1.1` and CRLF.
const VERSION_LINE: usize = 10;

/// Empty lines before a request. A third one is not the mistake of an old client any more: 400.
const EMPTY_LINES: usize = 2;

/// The first byte of a TLS record that opens a connection (RFC 8446 §5.1).
const TLS_HANDSHAKE: u8 = 0x16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_ends_where_the_bytes_do_or_the_line() {
        for (bytes, line) in [
            ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.1"),
            ("\r\n\r\nGET /\n", "GET /"),
            ("GET /a", "GET /a"),
            ("GET /\r", "GET /"),
            ("\r\n", ""),
            ("", ""),
        ] {
            assert_eq!(first_line(bytes.as_bytes(), 100), line.as_bytes(), "{bytes:?}");
        }
        assert_eq!(first_line(b"GET /0123456789", 10), b"GET /01234");
    }
}
