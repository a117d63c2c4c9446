//! The head of a response into bytes (RFC 9112 §4 to §6), in one pass.

use crate::{Method, ResponseHead, Status, Version, scan, text};

/// The way the end of a response's content is told (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// No content follows, whatever the head says: 1xx, 204, 304, or the answer to HEAD. The head's
    /// own Content-Length is sent on to HEAD and with 304, where it tells what GET would have got.
    None,
    /// No content follows the answer to HEAD, but this many bytes would have followed the answer to
    /// GET.
    Head(u64),
    /// Exactly this number of bytes.
    Length(u64),
    /// Chunks, ended by [`LAST_CHUNK`]. Never to HTTP/1.0.
    Chunked,
    /// Content ends with the connection.
    Close,
}

impl Framing {
    /// The framing for content of that length (`None`: not known yet) in answer to `method` of
    /// `version`.
    pub fn of(method: &Method, version: Version, status: Status, length: Option<u64>) -> Framing {
        match length {
            _ if status.forbids_content() => Framing::None,
            Some(length) if *method == Method::Head => Framing::Head(length),
            None if *method == Method::Head => Framing::None,
            Some(length) => Framing::Length(length),
            None if version == Version::Http10 => Framing::Close,
            None => Framing::Chunked,
        }
    }

    /// Returns whether content follows the head, be it none at all of zero bytes.
    pub fn has_content(self) -> bool {
        !matches!(self, Framing::None | Framing::Head(_))
    }
}

/// The part of a head that its connection decides.
#[derive(Clone, Copy, Debug)]
pub struct HopFields<'a> {
    /// The version of the request.
    pub version: Version,
    /// Whether the caller wants the connection to go on. [`Framing::Close`] overrules that.
    pub is_persistent: bool,
    /// The time as an IMF-fixdate.
    pub date: &'a [u8],
    /// The value of Alt-Svc (RFC 7838); `None` for no such field.
    pub alternative: Option<&'a [u8]>,
}

/// Appends the head of a response, empty line included.
///
/// Date, Server, Connection and what frames the content come from here alone: a line of that name
/// in `head` is left out, as are the other fields that end at a hop (RFC 9110 §7.6.1) and any line
/// that would split the response. An interim response (1xx) gets its own fields only.
pub fn encode_head(out: &mut Vec<u8>, head: &ResponseHead, framing: Framing, hop: &HopFields<'_>) {
    debug_assert!(
        framing != Framing::Chunked || hop.version != Version::Http10,
        "HTTP/1.0 knows no chunks"
    );
    out.reserve(OVERHEAD + head.fields.length() + 4 * head.fields.len());
    status_line(out, head);
    if head.status.is_informational() {
        own_fields(out, head, false);
        out.extend_from_slice(b"\r\n");
        return;
    }
    out.extend_from_slice(b"Date: ");
    out.extend_from_slice(hop.date);
    out.extend_from_slice(b"\r\nServer: Howdah\r\n");
    own_fields(out, head, framing == Framing::None && head.status != Status::NO_CONTENT);
    match framing {
        Framing::Length(length) | Framing::Head(length) => {
            let mut digits = [0; 20];
            out.extend_from_slice(b"Content-Length: ");
            out.extend_from_slice(text::decimal(length, &mut digits));
            out.extend_from_slice(b"\r\n");
        }
        Framing::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        Framing::None | Framing::Close => {}
    }
    end(out, hop, framing);
}

/// Appends the head of a 101 (Switching Protocols) that begins `protocol` (RFC 9110 §15.2.2): its
/// own fields, Upgrade and Connection.
pub fn encode_switch(out: &mut Vec<u8>, head: &ResponseHead, protocol: &[u8]) {
    out.reserve(OVERHEAD + head.fields.length() + 4 * head.fields.len());
    status_line(out, head);
    out.extend_from_slice(b"Upgrade: ");
    out.extend_from_slice(protocol);
    out.extend_from_slice(b"\r\nConnection: Upgrade\r\n");
    own_fields(out, head, false);
    out.extend_from_slice(b"\r\n");
}

/// Appends the part of a head that stays the same as long as the content does, which has `length`
/// bytes: everything but what [`complete_kept_head`] appends.
pub fn encode_kept_head(out: &mut Vec<u8>, head: &ResponseHead, length: u64) {
    status_line(out, head);
    out.extend_from_slice(b"Server: Howdah\r\n");
    own_fields(out, head, false);
    let mut digits = [0; 20];
    out.extend_from_slice(b"Content-Length: ");
    out.extend_from_slice(text::decimal(length, &mut digits));
    out.extend_from_slice(b"\r\n");
}

/// Appends the rest of a head behind [`encode_kept_head`]: Date, Alt-Svc, Connection and the empty
/// line. `framing` is that of the content.
#[inline]
pub fn complete_kept_head(out: &mut Vec<u8>, framing: Framing, hop: &HopFields<'_>) {
    out.extend_from_slice(b"Date: ");
    out.extend_from_slice(hop.date);
    out.extend_from_slice(b"\r\n");
    end(out, hop, framing);
}

/// Appends Alt-Svc, the Connection field where it must be said (RFC 9112 §9.3), and the empty line.
#[inline]
fn end(out: &mut Vec<u8>, hop: &HopFields<'_>, framing: Framing) {
    if let Some(alternative) = hop.alternative {
        for part in [b"Alt-Svc: ", alternative, b"\r\n"] {
            out.extend_from_slice(part);
        }
    }
    let is_persistent = hop.is_persistent && framing != Framing::Close;
    out.extend_from_slice(match (is_persistent, hop.version) {
        (false, _) => b"Connection: close\r\n\r\n",
        (true, Version::Http10) => b"Connection: keep-alive\r\n\r\n",
        (true, _) => b"\r\n",
    });
}

/// Appends the line before a chunk of `length` bytes; the chunk's content is followed by CRLF.
/// `length` is not 0, which would end the content.
pub fn encode_chunk_size(out: &mut Vec<u8>, length: usize) {
    debug_assert!(length > 0, "an empty chunk ends the content");
    let mut digits = [0; 16];
    out.extend_from_slice(text::hexadecimal(length as u64, &mut digits));
    out.extend_from_slice(b"\r\n");
}

/// The interim response that asks a waiting client for its content (RFC 9110 §15.2.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The end of chunked content: the last chunk and an empty trailer section.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The status line names our own version, also to HTTP/1.0 (RFC 9110 §6.2).
#[inline]
fn status_line(out: &mut Vec<u8>, head: &ResponseHead) {
    match (&head.reason, head.status.line()) {
        (None, Some(line)) => out.extend_from_slice(line.as_bytes()),
        (reason, _) => {
            out.extend_from_slice(b"HTTP/1.1 ");
            out.extend_from_slice(&head.status.digits());
            out.push(b' ');
            match reason {
                Some(reason) if scan::is_field_value(reason) => out.extend_from_slice(reason),
                _ => out.extend_from_slice(head.status.reason().as_bytes()),
            }
            out.extend_from_slice(b"\r\n");
        }
    }
}

#[inline]
fn own_fields(out: &mut Vec<u8>, head: &ResponseHead, with_length: bool) {
    for (name, value) in head.fields.iter() {
        if is_of_connection(name) || !scan::is_token(name) || !scan::is_field_value(value) {
            continue;
        }
        out.extend_from_slice(name);
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
    if with_length && let Some(length) = head.content_length() {
        let mut digits = [0; 20];
        out.extend_from_slice(b"Content-Length: ");
        out.extend_from_slice(text::decimal(length, &mut digits));
        out.extend_from_slice(b"\r\n");
    }
}

/// Returns whether the field is the connection's business and not the content's, in HTTP/1 and
/// HTTP/2.
#[inline]
pub(crate) fn is_of_connection(name: &[u8]) -> bool {
    let ours: &[&[u8]] = match name.len() {
        2 => &[b"te"],
        4 => &[b"date"],
        6 => &[b"server"],
        7 => &[b"trailer", b"upgrade"],
        10 => &[b"connection", b"keep-alive"],
        14 => &[b"content-length"],
        16 => &[b"proxy-connection"],
        17 => &[b"transfer-encoding"],
        _ => return false,
    };
    ours.iter().any(|our| name.eq_ignore_ascii_case(our))
}

/// Bytes of the fixed lines at most: status line, Date, Server, framing, Connection.
const OVERHEAD: usize = 256;
