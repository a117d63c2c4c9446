//! Lines in JSON.

use super::{LONGEST_VALUE, RequestRecord, is_unread, own};

/// Adds one JSON object in ASCII. Bytes that are not UTF-8 become U+FFFD.
pub(super) fn line(out: &mut Vec<u8>, record: &RequestRecord<'_>) {
    let request = record.request;
    let text = |bytes: &[u8]| json_text(&String::from_utf8_lossy(bytes));
    let field = |name: &[u8]| request.fields.value(name).map_or("null".to_owned(), text);
    let number = |number: Option<u64>| number.map_or("null".to_owned(), |one| one.to_string());
    let run = own::run(record);
    let read = |word: &str| match is_unread(request) {
        true => "null".to_owned(),
        false => json_text(word),
    };
    let line = format!(
        "{{\"time\":\"{}\",\"site\":{},\"client\":\"{}\",\"user\":{},\"host\":{},\"method\":{},\"target\":{},\"version\":{},\
         \"status\":{},\"sent\":{},\"complete\":{},\"microseconds\":{},\"referer\":{},\"user_agent\":{},\
         \"php_microseconds\":{},\"queue_microseconds\":{},\"cpu_microseconds\":{},\"peak_memory\":{},\"worker\":{}}}\n",
        crate::log::timestamp(record.began.microseconds),
        json_text(record.site),
        record.client(),
        record.response.user.map_or("null".to_owned(), text),
        text(&request.authority),
        read(request.method.as_str()),
        text(&request.target),
        read(request.version.as_str()),
        record.status().code(),
        record.sent,
        record.complete,
        record.took.as_micros(),
        field(b"referer"),
        field(b"user-agent"),
        number(run.and_then(|run| run.took).map(|took| took / 1000)),
        number(run.map(|run| run.waited / 1000)),
        number(run.and_then(|run| run.processor)),
        number(run.and_then(|run| run.peak)),
        number(own::worker(record)),
    );
    out.extend_from_slice(line.as_bytes());
}

/// Returns a string of JSON. A text that is longer than [`LONGEST_VALUE`] is cut.
fn json_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(LONGEST_VALUE) + 2);
    out.push('"');
    for character in text.chars() {
        if out.len() > LONGEST_VALUE {
            out.push_str("...");
            break;
        }
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            ' '..='~' => out.push(character),
            other => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    out.push('"');
    out
}
