//! Lines in a format of the operator's own.

use std::borrow::Cow;
use std::io::Write;

use howdah_config::{LogFormat, LogPart, LogValue};
use howdah_http::{Fields, Scheme};
use howdah_php::ScriptRun;
use howdah_site::logged_path;

use super::{
    LineBuffer, RequestRecord, bytes_or_dash, escape, is_unread, request_line, time, user,
};

/// Adds a line. `port`: that of the listener in the configuration; 0 where that leaves it to the
/// system.
pub(super) fn line(
    out: &mut LineBuffer,
    format: &LogFormat,
    record: &RequestRecord<'_>,
    port: u16,
) {
    for part in format.parts() {
        match part {
            LogPart::Text(text) => out.extend_from_slice(text.as_bytes()),
            LogPart::Value(value) => add(out, value, record, port),
            LogPart::Conditional(condition, value) => match condition.holds(record.status().code())
            {
                true => add(out, value, record, port),
                false => out.push(b'-'),
            },
        }
    }
    out.push(b'\n');
}

fn add(out: &mut LineBuffer, value: &LogValue, record: &RequestRecord<'_>, port: u16) {
    let (request, peer) = (record.request, record.peer);
    // Writing to memory cannot fail.
    let _ = match value {
        LogValue::Client => write!(out, "{}", record.client()),
        LogValue::Hop => write!(out, "{}", peer.hop.ip()),
        LogValue::LocalAddress => write!(out, "{}", peer.local.ip()),
        LogValue::Bytes => write!(out, "{}", record.sent),
        LogValue::AllBytesReceived => write!(out, "{}", record.connection.received),
        LogValue::AllBytesSent => write!(out, "{}", record.connection.sent),
        LogValue::AllBytes => {
            write!(out, "{}", record.connection.received + record.connection.sent)
        }
        LogValue::Earlier => write!(out, "{}", record.connection.earlier),
        LogValue::Process => write!(out, "{}", std::process::id()),
        LogValue::Seconds => write!(out, "{}", record.took.as_secs()),
        LogValue::Milliseconds => write!(out, "{}", record.took.as_millis()),
        LogValue::Microseconds => write!(out, "{}", record.took.as_micros()),
        LogValue::Method | LogValue::Protocol if is_unread(request) => return known(out, b""),
        LogValue::Protocol => write!(out, "{}", request.version),
        // The canonical port is the listener's, as that of Apache's virtual host.
        LogValue::Port if port != 0 => write!(out, "{port}"),
        LogValue::Port | LogValue::LocalPort => write!(out, "{}", peer.local.port()),
        LogValue::RemotePort => write!(out, "{}", peer.remote.port()),
        LogValue::Status => write!(out, "{}", record.status().code()),
        LogValue::Thread => write!(out, "{}", howdah_sys::process::thread_id()),
        LogValue::ThreadInHex => write!(out, "{:x}", howdah_sys::process::thread_id()),
        LogValue::BytesOrDash => return bytes_or_dash(out, record.sent),
        LogValue::Time(which, form) => return time::add(out, *which, form, record),
        LogValue::Tls(name) => return tls(out, name, record),
        LogValue::Note(name) => {
            let left = record.response.notes.map(|notes| notes.notes.values(name.as_bytes()));
            return optional(out, left.and_then(Iterator::last));
        }
        LogValue::FirstByte => {
            let time = record.response.notes.and_then(|notes| notes.first_byte);
            return number(out, time.map(|time| time.as_micros() as u64));
        }
        LogValue::RequestLine => return request_line(out, request),
        LogValue::Method => return known(out, request.method.as_str().as_bytes()),
        LogValue::Field(name) => return optional(out, joined(&request.fields, name).as_deref()),
        LogValue::ResponseField(name) => return response_field(out, name, record),
        LogValue::Cookie(name) => return optional(out, cookie(&request.fields, name)),
        LogValue::Environment(name) => {
            let set = record.response.notes.map(|notes| notes.environment.values(name.as_bytes()));
            return optional(out, set.and_then(Iterator::last));
        }
        LogValue::File => {
            return known(out, record.response.notes.map_or(b"", |notes| &notes.file));
        }
        LogValue::Handler => {
            return known(out, record.response.notes.map_or(b"", |notes| &notes.handler));
        }
        LogValue::User => return user(out, record),
        LogValue::Path => {
            let path = record.response.notes.and_then(|notes| notes.path.as_deref());
            return match path {
                Some(path) => known(out, path),
                None => known(out, &logged_path(request.path(), record.encoded_slashes)),
            };
        }
        LogValue::Host => return known(out, request.host()),
        LogValue::Site => return known(out, record.site.as_bytes()),
        LogValue::Query => match query(record) {
            Some(query) => {
                out.push(b'?');
                return escape(out, query);
            }
            None => Ok(()),
        },
        LogValue::ScriptTime => {
            return number(out, run(record).and_then(|run| run.took).map(|took| took / 1000));
        }
        LogValue::QueueTime => {
            return number(out, run(record).map(|run| run.waited / 1000));
        }
        LogValue::ScriptMemory => return number(out, run(record).and_then(|run| run.peak)),
        LogValue::ScriptCpu => return number(out, run(record).and_then(|run| run.processor)),
        LogValue::Worker => {
            return number(out, worker(record));
        }
        LogValue::Completion => {
            out.push(match (record.complete, record.connection.persists) {
                (false, _) => b'X',
                (true, true) => b'+',
                (true, false) => b'-',
            });
            return;
        }
    };
}

/// The query that rules have left, or that of the request.
fn query<'r>(record: &RequestRecord<'r>) -> Option<&'r [u8]> {
    match record.response.notes.and_then(|notes| notes.query.as_ref()) {
        Some(query) => query.as_deref(),
        None => record.request.query(),
    }
}

/// A variable of mod_ssl; `-` where the connection has none.
fn tls(out: &mut LineBuffer, name: &str, record: &RequestRecord<'_>) {
    if name == "HTTPS" {
        let is_encrypted = record.request.scheme == Scheme::Https;
        return out.extend_from_slice(if is_encrypted { b"on" } else { b"off" });
    }
    let now = i64::try_from(record.began.seconds()).unwrap_or(i64::MAX);
    let facts = record.peer.tls.as_deref().map(|tls| &tls.facts);
    let value = facts.and_then(|facts| facts.variable(name.as_bytes(), now));
    known(out, value.as_deref().unwrap_or_default().as_bytes());
}

/// The run of the script that answered or was to answer; `None` where there was none.
pub(super) fn run(record: &RequestRecord<'_>) -> Option<ScriptRun> {
    record.response.notes?.run.get()
}

/// The process of the worker that answered. `None`: no worker has answered.
pub(super) fn worker(record: &RequestRecord<'_>) -> Option<u64> {
    run(record).map(|run| run.worker).filter(|worker| *worker > 0)
}

/// A number; `-` where there is none.
fn number(out: &mut LineBuffer, number: Option<u64>) {
    match number {
        Some(number) => write!(out, "{number}").unwrap_or_default(),
        None => out.push(b'-'),
    }
}

/// Text that a client may have chosen; `-` where there is none.
fn known(out: &mut LineBuffer, text: &[u8]) {
    escape(out, if text.is_empty() { b"-" } else { text });
}

/// A value that may be empty; `-` where there is none.
fn optional(out: &mut LineBuffer, value: Option<&[u8]>) {
    escape(out, value.unwrap_or(b"-"));
}

/// Returns the values of all lines of a field, as Apache joins them.
fn joined<'f>(fields: &'f Fields, name: &'f str) -> Option<Cow<'f, [u8]>> {
    let mut values = fields.values(name.as_bytes());
    let first = values.next()?;
    let mut rest = values.peekable();
    if rest.peek().is_none() {
        return Some(Cow::Borrowed(first));
    }
    let all: Vec<&[u8]> = [first].into_iter().chain(rest).collect();
    Some(all.join(&b", "[..]).into())
}

/// The media type has no parameters in Apache's log. Of several lines the first one counts.
fn response_field(out: &mut LineBuffer, name: &str, record: &RequestRecord<'_>) {
    let head = record.response.head;
    if name.eq_ignore_ascii_case("content-length") {
        let length = record.response.length.filter(|_| !head.status.forbids_content());
        return match length {
            Some(length) => write!(out, "{length}").unwrap_or_default(),
            None => out.push(b'-'),
        };
    }
    let found = head.fields.value(name.as_bytes());
    if name.eq_ignore_ascii_case("content-type") {
        let media_type = found.and_then(|found| found.split(|byte| b"; \t".contains(byte)).next());
        return optional(out, media_type);
    }
    optional(out, found);
}

/// Returns the value of a cookie, whose name has no case here.
fn cookie<'f>(fields: &'f Fields, name: &str) -> Option<&'f [u8]> {
    let pairs = fields.values(b"cookie").flat_map(|line| line.split(|&byte| byte == b';'));
    pairs
        .filter_map(|pair| {
            let equals = pair.iter().position(|&byte| byte == b'=')?;
            Some((pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii()))
        })
        .find(|(known, value)| known.eq_ignore_ascii_case(name.as_bytes()) && !value.is_empty())
        .map(|(_, value)| value)
}
