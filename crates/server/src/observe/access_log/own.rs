//! Lines in a format of the operator's own.

use std::io::Write;

use howdah_config::{LogFormat, LogPart, LogValue};

use super::{Record, bytes_or_dash, escape, request_line, time};

/// Adds a line.
pub(super) fn line(out: &mut Vec<u8>, format: &LogFormat, record: &Record<'_>) {
    for part in format.parts() {
        match part {
            LogPart::Text(text) => out.extend_from_slice(text.as_bytes()),
            LogPart::Value(value) => add(out, value, record),
        }
    }
    out.push(b'\n');
}

fn add(out: &mut Vec<u8>, value: &LogValue, record: &Record<'_>) {
    let (request, peer) = (record.request, record.peer);
    // Writing to memory cannot fail.
    let _ = match value {
        LogValue::Client => write!(out, "{}", record.client()),
        LogValue::Hop => write!(out, "{}", peer.hop.ip()),
        LogValue::LocalAddress => write!(out, "{}", peer.local.ip()),
        LogValue::Bytes => write!(out, "{}", record.sent),
        LogValue::Seconds => write!(out, "{}", record.took.as_secs()),
        LogValue::Milliseconds => write!(out, "{}", record.took.as_millis()),
        LogValue::Microseconds => write!(out, "{}", record.took.as_micros()),
        LogValue::Protocol => write!(out, "{}", request.version),
        LogValue::Port => write!(out, "{}", peer.client(request, 0).server_port()),
        LogValue::LocalPort => write!(out, "{}", peer.local.port()),
        LogValue::RemotePort => write!(out, "{}", peer.remote.port()),
        LogValue::Status => write!(out, "{}", record.status.code()),
        LogValue::TimeSeconds => write!(out, "{}", record.began.seconds()),
        LogValue::TimeMilliseconds => write!(out, "{}", record.began.microseconds / 1000),
        LogValue::TimeMicroseconds => write!(out, "{}", record.began.microseconds),
        LogValue::BytesOrDash => return bytes_or_dash(out, record.sent),
        LogValue::Time => return time(out, record),
        LogValue::RequestLine => return request_line(out, request),
        LogValue::Method => return known(out, request.method.as_str().as_bytes()),
        LogValue::Field(name) => {
            return known(out, request.fields.value(name.as_bytes()).unwrap_or_default());
        }
        LogValue::User => return known(out, record.user.unwrap_or_default()),
        LogValue::Path => return known(out, request.path()),
        LogValue::Host => return known(out, request.host()),
        LogValue::Site => return known(out, record.site.as_bytes()),
        LogValue::Query => match request.query() {
            Some(query) => {
                out.push(b'?');
                return escape(out, query);
            }
            None => Ok(()),
        },
        LogValue::Completion => write!(out, "{}", if record.complete { '+' } else { 'X' }),
    };
}

/// Text that a client may have chosen; `-` where there is none.
fn known(out: &mut Vec<u8>, text: &[u8]) {
    escape(out, if text.is_empty() { b"-" } else { text });
}
