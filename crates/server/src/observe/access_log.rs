//! The access log: one line per request.

use std::cell::RefCell;
use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;

use howdah_config::AccessFormat;
use howdah_http::{Request, Status, date};

use crate::front::Now;

/// Bytes after which a busy thread hands its lines over.
const FULL: usize = 32 * 1024;

/// The record of one request, whatever protocol brought it and however it ended.
#[derive(Debug)]
pub(crate) struct Record<'r> {
    /// The site's name, `-` where the request belongs to none.
    pub(crate) site: &'r str,
    pub(crate) client: IpAddr,
    /// The user who has authenticated.
    pub(crate) user: Option<&'r [u8]>,
    pub(crate) began: Now,
    pub(crate) took: Duration,
    /// The request. Of a refused head, as much as is known.
    pub(crate) request: &'r Request,
    pub(crate) status: Status,
    /// Bytes of content that the client took.
    pub(crate) sent: u64,
    /// Whether the response was sent completely.
    pub(crate) complete: bool,
}

/// One thread's lines. They are handed over together.
#[derive(Debug)]
pub(crate) struct AccessLog {
    format: AccessFormat,
    lines: RefCell<Vec<u8>>,
    log: crate::log::LogWriter,
}

impl AccessLog {
    pub(crate) fn new(format: AccessFormat, log: crate::log::LogWriter) -> AccessLog {
        AccessLog {
            format,
            lines: RefCell::new(Vec::new()),
            log,
        }
    }

    /// Adds a line.
    pub(crate) fn record(&self, record: &Record<'_>) {
        let mut lines = self.lines.borrow_mut();
        match self.format {
            AccessFormat::Combined => combined(&mut lines, record),
            AccessFormat::Json => json(&mut lines, record),
        }
        if lines.len() >= FULL {
            self.log.write(&lines);
            lines.clear();
        }
    }

    /// Hands over the lines. Called before the thread sleeps, so that no line is held back.
    pub(crate) fn flush(&self) {
        let mut lines = self.lines.borrow_mut();
        if !lines.is_empty() {
            self.log.write(&lines);
            lines.clear();
        }
    }
}

/// Apache's `combined`: `%h - %u [%t] "%r" %>s %b "%{Referer}i" "%{User-Agent}i"`, in UTC.
fn combined(out: &mut Vec<u8>, record: &Record<'_>) {
    let request = record.request;
    let date = date::format(record.began.seconds());
    // From `Sun, 06 Nov 1994 08:49:37 GMT`.
    let part = |range: std::ops::Range<usize>| String::from_utf8_lossy(&date[range]).into_owned();
    let when = format!("{}/{}/{}:{}", part(5..7), part(8..11), part(12..16), part(17..25));
    let _ = write!(out, "{} - ", record.client);
    escape(out, record.user.filter(|user| !user.is_empty()).unwrap_or(b"-"));
    let _ = write!(out, " [{when} +0000] \"");
    if request.target.is_empty() {
        out.push(b'-');
    } else {
        escape(out, request.method.as_str().as_bytes());
        out.push(b' ');
        escape(out, &request.target);
        let _ = write!(out, " {}", request.version.as_str());
    }
    let _ = write!(out, "\" {} ", record.status.code());
    match record.sent {
        0 => out.push(b'-'),
        sent => write!(out, "{sent}").unwrap_or_default(),
    }
    for name in [&b"referer"[..], b"user-agent"] {
        out.extend_from_slice(b" \"");
        escape(out, request.fields.value(name).unwrap_or(b"-"));
        out.push(b'"');
    }
    out.push(b'\n');
}

/// One JSON object. Bytes that are not UTF-8 become U+FFFD.
fn json(out: &mut Vec<u8>, record: &Record<'_>) {
    let request = record.request;
    let text = |bytes: &[u8]| json_text(&String::from_utf8_lossy(bytes));
    let field = |name: &[u8]| request.fields.value(name).map_or("null".to_owned(), text);
    let line = format!(
        "{{\"time\":\"{}\",\"site\":{},\"client\":\"{}\",\"user\":{},\"host\":{},\"method\":{},\"target\":{},\"version\":\"{}\",\
         \"status\":{},\"sent\":{},\"complete\":{},\"microseconds\":{},\"referer\":{},\"user_agent\":{}}}\n",
        crate::log::timestamp(record.began.microseconds),
        json_text(record.site),
        record.client,
        record.user.map_or("null".to_owned(), text),
        text(&request.authority),
        text(request.method.as_str().as_bytes()),
        text(&request.target),
        request.version.as_str(),
        record.status.code(),
        record.sent,
        record.complete,
        record.took.as_micros(),
        field(b"referer"),
        field(b"user-agent"),
    );
    out.extend_from_slice(line.as_bytes());
}

fn json_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            control if control.is_control() => {
                out.push_str(&format!("\\u{:04x}", u32::from(control)))
            }
            plain => out.push(plain),
        }
    }
    out.push('"');
    out
}

/// Escapes as Apache's log does: quotes, backslashes and unprintable bytes. No client can forge a
/// line.
fn escape(out: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b' '..=b'~' => out.push(byte),
            _ => {
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(format: fn(&mut Vec<u8>, &Record<'_>), request: &Request, sent: u64) -> String {
        let record = Record {
            site: "shop",
            client: IpAddr::from([192, 0, 2, 7]),
            user: None,
            began: Now { microseconds: 784_111_777_000_000 },
            took: Duration::from_micros(1500),
            request,
            status: Status::NOT_FOUND,
            sent,
            complete: true,
        };
        let mut out = Vec::new();
        format(&mut out, &record);
        String::from_utf8(out).unwrap()
    }

    fn request() -> Request {
        let mut request = Request {
            target: b"/a?b=1".to_vec(),
            authority: b"a.example".to_vec(),
            ..Request::new()
        };
        request.fields.push(b"User-Agent", b"x\"y\\\xff\n");
        request
    }

    #[test]
    fn combined_is_what_apache_writes() {
        let expected = "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"GET /a?b=1 HTTP/1.1\" 404 12 \"-\" \
                        \"x\\\"y\\\\\\xff\\x0a\"\n";
        assert_eq!(lines(combined, &request(), 12), expected);
        assert!(lines(combined, &request(), 0).contains(" 404 - "));
    }

    #[test]
    fn json_is_one_valid_object() {
        let line = lines(json, &request(), 12);
        assert!(
            line.contains("\"status\":404,\"sent\":12,\"complete\":true,\"microseconds\":1500"),
            "{line}"
        );
        assert!(line.contains("\"user_agent\":\"x\\\"y\\\\\u{fffd}\\u000a\""), "{line}");
        assert_eq!(line.matches('\n').count(), 1);
    }
}
