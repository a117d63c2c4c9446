//! The field lines of a request's head (RFC 9113 §8.2).

use super::request::PseudoFields;
use crate::authority::check_authority;
use crate::{Content, Limits, Refusal, Request, Status, members, scan};

/// The meaning of all field lines together.
#[derive(Default)]
pub(super) struct FieldLines<'h> {
    /// Lines and bytes, as HTTP/1 would count them.
    lines: usize,
    bytes: usize,
    host: Option<&'h [u8]>,
    content_length: Option<u64>,
    cookie: Vec<u8>,
    expects: bool,
    expects_other: bool,
}

impl<'h> FieldLines<'h> {
    /// Checks one line and appends it to `into`.
    ///
    /// # Errors
    /// The line is malformed (400), or the lines are beyond a limit (431).
    pub(super) fn note(
        &mut self,
        name: &'h [u8],
        value: &'h [u8],
        limits: &Limits,
        into: &mut Request,
    ) -> Result<(), Refusal> {
        let length = name.len() + value.len() + COLON;
        self.bytes = self.bytes.saturating_add(length + CRLF);
        if self.bytes > limits.fields_total {
            return Err(Refusal::fields_too_large(
                "field lines over their limit together, `fields_total`",
            ));
        }
        if length > limits.field_line {
            return Err(Refusal::fields_too_large("field line over its limit, `field_line`"));
        }
        check_line(name, value)?;
        if name == b"cookie" {
            return self.note_cookie(value, limits);
        }
        self.note_special(name, value)?;
        self.count_line(limits)?;
        push_named(name, value, into);
        Ok(())
    }

    fn note_cookie(&mut self, value: &[u8], limits: &Limits) -> Result<(), Refusal> {
        if value.is_empty() {
            return Ok(());
        }
        if self.cookie.is_empty() {
            self.count_line(limits)?;
        } else {
            self.cookie.extend_from_slice(b"; ");
        }
        self.cookie.extend_from_slice(value);
        if self.cookie.len() + COOKIE.len() + COLON > limits.field_line {
            return Err(Refusal::fields_too_large("Cookie over the limit of a field line"));
        }
        Ok(())
    }

    fn count_line(&mut self, limits: &Limits) -> Result<(), Refusal> {
        self.lines += 1;
        match self.lines > limits.field_count {
            true => Err(Refusal::fields_too_large("more field lines than `field_count`")),
            false => Ok(()),
        }
    }

    /// Lines that matter to the protocol.
    fn note_special(&mut self, name: &'h [u8], value: &'h [u8]) -> Result<(), Refusal> {
        match name {
            b"host" if self.host.replace(value).is_some() => {
                Err(Refusal::bad("more than one Host"))
            }
            b"content-length" => {
                let length =
                    scan::decimal(value).ok_or(Refusal::bad("Content-Length that is no number"))?;
                match self.content_length.replace(length) {
                    None => Ok(()),
                    Some(_) => Err(Refusal::bad("more than one Content-Length")),
                }
            }
            b"expect" => {
                for expectation in members(value) {
                    let known = expectation.eq_ignore_ascii_case(b"100-continue");
                    self.expects |= known;
                    self.expects_other |= !known;
                }
                Ok(())
            }
            b"te" if !value.eq_ignore_ascii_case(b"trailers") => {
                Err(Refusal::bad("TE with more than `trailers`"))
            }
            // RFC 9113 §8.2.2: fields of an HTTP/1 connection.
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding"
            | b"upgrade" => Err(Refusal::bad("field of an HTTP/1 connection")),
            _ => Ok(()),
        }
    }

    /// Checks the whole head. Returns whether the client waits for 100 (Continue).
    ///
    /// # Errors
    /// The head is malformed (400), the content is too long (413), or the expectation is not known
    /// (417).
    pub(super) fn conclude(
        self,
        pseudo: &PseudoFields<'_>,
        ends: bool,
        limits: &Limits,
        into: &mut Request,
    ) -> Result<bool, Refusal> {
        self.conclude_host(pseudo, into)?;
        if !self.cookie.is_empty() {
            into.fields.push(COOKIE, &self.cookie);
        }
        if into.is_extended_connect {
            if ends || self.content_length.is_some() {
                return Err(Refusal::bad("extended CONNECT with content or an end"));
            }
            into.fields.push(b"Upgrade", b"websocket");
            into.fields.push(b"Connection", b"Upgrade");
        }
        into.content = match (self.content_length, ends) {
            _ if into.is_extended_connect => Content::None,
            (None, true) => Content::None,
            (None, false) => Content::Unknown,
            (Some(1..), true) => return Err(Refusal::bad("Content-Length without content")),
            (Some(length), _) if limits.body_exceeded_by(length) => {
                return Err(Refusal {
                    status: Status::CONTENT_TOO_LARGE,
                    why: "Content-Length over the body limit, `body`",
                });
            }
            (Some(length), _) => Content::Length(length),
        };
        if self.expects_other {
            return Err(Refusal {
                status: Status::EXPECTATION_FAILED,
                why: "expectation other than 100-continue",
            });
        }
        Ok(self.expects && !ends)
    }

    /// RFC 9113 §8.3.1: `:authority` takes the place of Host, which must not name another one.
    fn conclude_host(&self, pseudo: &PseudoFields<'_>, into: &mut Request) -> Result<(), Refusal> {
        let Some(authority) = pseudo.authority else {
            let host = self.host.ok_or(Refusal::bad("neither :authority nor Host"))?;
            return check_authority(host, &mut into.authority).map_err(Refusal::bad);
        };
        if into.authority.is_empty() {
            // The target of CONNECT has filled it.
            check_authority(authority, &mut into.authority).map_err(Refusal::bad)?;
        }
        let Some(host) = self.host else {
            into.fields.push(b"Host", authority);
            return Ok(());
        };
        let mut named = Vec::with_capacity(host.len());
        check_authority(host, &mut named).map_err(Refusal::bad)?;
        match named == into.authority {
            true => Ok(()),
            false => Err(Refusal::bad("Host that differs from :authority")),
        }
    }
}

/// RFC 9113 §8.2.1.
fn check_line(name: &[u8], value: &[u8]) -> Result<(), Refusal> {
    if !scan::is_token(name) {
        return Err(Refusal::bad("field name that is no token"));
    }
    if name.iter().any(u8::is_ascii_uppercase) {
        return Err(Refusal::bad("capital letter in a field name"));
    }
    if !scan::is_field_value(value) {
        return Err(Refusal::bad("control byte in a field value"));
    }
    if scan::trim(value).len() < value.len() {
        return Err(Refusal::bad("white space around a field value"));
    }
    Ok(())
}

/// Appends the line with its name as HTTP/1 writes names.
fn push_named(name: &[u8], value: &[u8], into: &mut Request) {
    let mut written = [0; LONGEST_WRITTEN];
    let Some(written) = written.get_mut(..name.len()) else {
        return into.fields.push(name, value);
    };
    let mut begins = true;
    for (to, &byte) in written.iter_mut().zip(name) {
        *to = if begins { byte.to_ascii_uppercase() } else { byte };
        begins = byte == b'-';
    }
    into.fields.push(written, value);
}

const COOKIE: &[u8] = b"Cookie";
/// Bytes of `: ` in a line of HTTP/1.
const COLON: usize = 2;
const CRLF: usize = 2;
/// Longer names keep their small letters.
const LONGEST_WRITTEN: usize = 64;
