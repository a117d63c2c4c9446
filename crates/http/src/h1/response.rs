//! The head of a response that an upstream sends: status line, field lines, and which content
//! follows (RFC 9112 §4 to §6).
//!
//! One pass from left to right, as for a request. The framing is decided before the fields that end
//! at this hop are removed: Connection may name Transfer-Encoding (RFC 9110 §7.6.1), and the chunks
//! are chunks nevertheless.
//!
//! A line may end in LF alone, as Apache, nginx and RFC 9112 §2.2 have it: small programs and old
//! scripts write such lines. The client gets a head that is written anew, so nobody behind this
//! server has to agree about the ends. Lines of chunks must end in CRLF.

use super::{
    Framing,
    head::{LineEnd, field_line},
};
use crate::{
    ConnectionNames, Fields, Limits, Method, Refusal, ResponseHead, Status, members, scan,
};

/// A complete head of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedResponse {
    /// Status, reason and the fields that go on to the client. Connection, Transfer-Encoding and
    /// the fields that Connection names are not among them. Content-Length is there once at most.
    pub head: ResponseHead,
    /// Bytes of the head, including the empty line. The content begins after them.
    pub head_length: usize,
    /// The content that follows: [`Framing::None`], [`Framing::Length`], [`Framing::Chunked`] or
    /// [`Framing::Close`].
    pub framing: Framing,
    /// Whether the connection persists after the content (RFC 9112 §9.3).
    pub persistent: bool,
    /// The value of Upgrade, where Connection names that field (RFC 9110 §7.8). `None`: the
    /// response names no other protocol.
    pub upgrade: Option<Box<[u8]>>,
}

/// Reads the head of a response to a request of that method at the beginning of `bytes`. `None`:
/// the head is valid so far and does not end in these bytes. Then the function must be called again
/// with the same bytes and more after them; [`worth_parsing`](super::worth_parsing) tells when.
///
/// `limits.request_line` bounds the status line, the limits of field lines bound the field lines.
/// An interim response (1xx) has a head of its own, and the next head follows.
///
/// # Errors
/// The mistake, with the status 502 for the client. The connection has to be closed.
pub fn parse_response(
    bytes: &[u8],
    method: &Method,
    limits: &Limits,
) -> Result<Option<ParsedResponse>, Refusal> {
    read_head(bytes, method, limits).map_err(|refusal| Refusal {
        status: Status::BAD_GATEWAY,
        why: refusal.why,
    })
}

fn read_head(
    bytes: &[u8],
    method: &Method,
    limits: &Limits,
) -> Result<Option<ParsedResponse>, Refusal> {
    let Some(line) = status_line(bytes, limits.request_line)? else {
        return Ok(None);
    };
    let Some((fields, length)) = field_lines(&bytes[line.length..], limits)? else {
        return Ok(None);
    };
    let framing = framing(&line, method, &fields)?;
    let named = ConnectionNames::of(&fields).map_err(Refusal::bad)?;
    let upgrade = match named.contain(b"upgrade") {
        true => fields.value(b"upgrade").map(Box::from),
        false => None,
    };
    let mut head = ResponseHead::new(line.status);
    head.reason = Some(line.reason).filter(|reason| !reason.is_empty()).map(Box::from);
    for (name, value) in fields.iter() {
        let is = |other: &[u8]| other.eq_ignore_ascii_case(name);
        let ends_here = is(b"connection") || is(b"transfer-encoding");
        // An option takes no field away that is meant for every recipient.
        if !ends_here && (is(b"content-length") || !named.contain(name)) {
            head.fields.push(name, value);
        }
    }
    if let Framing::Length(length) = framing {
        head.fields.set(b"Content-Length", length.to_string().as_bytes());
    }
    Ok(Some(ParsedResponse {
        head,
        head_length: line.length + length,
        framing,
        persistent: !line.is_http10 && framing != Framing::Close && !named.contain(b"close"),
        upgrade,
    }))
}

/// A status line.
struct StatusLine<'b> {
    is_http10: bool,
    status: Status,
    reason: &'b [u8],
    /// Bytes of the line with its end.
    length: usize,
}

/// RFC 9112 §4: `HTTP-version SP status-code SP [ reason-phrase ] CRLF`. The second space may be
/// missing where there is no reason, as some servers have it. CR may be missing.
fn status_line(bytes: &[u8], limit: usize) -> Result<Option<StatusLine<'_>>, Refusal> {
    let window = &bytes[..bytes.len().min(limit.saturating_add(CRLF))];
    let short = || match window.len() > limit.saturating_add(1) {
        true => Err(Refusal::bad("status line over its limit")),
        false => Ok(None),
    };
    for (&byte, &expected) in window.iter().zip(START) {
        let fits = match expected {
            b'_' => byte.is_ascii_digit(),
            _ => byte == expected,
        };
        if !fits {
            return Err(Refusal::bad("status line that is not one of HTTP/1"));
        }
    }
    let Some(&[.., minor, _, hundreds, tens, ones]) = window.first_chunk::<{ START.len() }>()
    else {
        return short();
    };
    let code = [hundreds, tens, ones]
        .iter()
        .fold(0, |code, digit| code * 10 + digit_of(*digit));
    let status = Status::new(code).ok_or(Refusal::bad("status below 100"))?;
    let start = match window.get(START.len()) {
        Some(b' ') => START.len() + 1,
        Some(b'\r' | b'\n') => START.len(),
        Some(_) => return Err(Refusal::bad("status of more than three digits")),
        None => return short(),
    };
    let end = start + scan::value_run(&window[start..]);
    let length = match window[end..] {
        [b'\r', b'\n', ..] => end + CRLF,
        [b'\n', ..] => end + LF,
        [] | [b'\r'] => return short(),
        _ => return Err(Refusal::bad("status line with a control byte")),
    };
    Ok(Some(StatusLine {
        is_http10: minor == b'0',
        status,
        reason: &window[start..end],
        length,
    }))
}

fn digit_of(byte: u8) -> u16 {
    u16::from(byte - b'0')
}

/// RFC 9112 §5. Returns the fields, and the length of their lines with the empty line behind them;
/// `None` where that line is not there yet.
fn field_lines(section: &[u8], limits: &Limits) -> Result<Option<(Fields, usize)>, Refusal> {
    let mut fields = Fields::new();
    let mut start = 0;
    loop {
        let rest = &section[start..];
        match rest {
            [b'\r', b'\n', ..] => return Ok(Some((fields, start + CRLF))),
            [b'\n', ..] => return Ok(Some((fields, start + LF))),
            [] | [b'\r'] => return Ok(None),
            _ if fields.len() >= limits.field_count => {
                return Err(Refusal::bad("more field lines than the limit"));
            }
            _ => {}
        }
        // `start` stays within the limit of all lines.
        let room = (limits.fields_total - start).min(limits.field_line.saturating_add(CRLF));
        let window = &rest[..rest.len().min(room)];
        let Some(line) = field_line(window, start == 0, LineEnd::CrlfOrLf)? else {
            return match rest.len() >= room {
                true => Err(Refusal::bad("field lines over their limit")),
                false => Ok(None),
            };
        };
        fields.push(&window[..line.name_end], &window[line.value_start..line.value_end]);
        start += line.length;
    }
}

/// RFC 9112 §6.3, for a response.
fn framing(line: &StatusLine<'_>, method: &Method, fields: &Fields) -> Result<Framing, Refusal> {
    let is_tunnel = *method == Method::Connect && line.status.is_success();
    if *method == Method::Head || line.status.forbids_content() || is_tunnel {
        return Ok(Framing::None);
    }
    let length = content_length(fields)?;
    if !fields.contains(b"transfer-encoding") {
        return Ok(length.map_or(Framing::Close, Framing::Length));
    }
    if length.is_some() {
        return Err(Refusal::bad("both Content-Length and Transfer-Encoding"));
    }
    if line.is_http10 {
        return Err(Refusal::bad("Transfer-Encoding in HTTP/1.0")); // RFC 9112 §6.1
    }
    let mut codings = fields.values(b"transfer-encoding").flat_map(members);
    match (codings.next(), codings.next()) {
        (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Framing::Chunked),
        _ => Err(Refusal::bad("transfer coding other than chunked")),
    }
}

/// Returns the length that all lines of Content-Length and all members of these lines say (RFC 9110
/// §8.6). `None`: there is no such line.
fn content_length(fields: &Fields) -> Result<Option<u64>, Refusal> {
    let mut found = None;
    for value in fields.values(b"content-length") {
        for member in value.split(|&byte| byte == b',').map(scan::trim) {
            let length =
                scan::decimal(member).ok_or(Refusal::bad("Content-Length that is not a number"))?;
            if found.replace(length).is_some_and(|other| other != length) {
                return Err(Refusal::bad("several lengths in Content-Length"));
            }
        }
    }
    Ok(found)
}

/// The beginning of a status line; `_` is a digit. Other minor versions than 0 are read as 1 (RFC
/// 9110 §2.5).
const START: &[u8; 12] = b"HTTP/1._ ___";

/// Bytes of CRLF.
const CRLF: usize = 2;

/// Bytes of LF. A line that ends so may have one byte more than its limit, where CR would be.
const LF: usize = 1;
