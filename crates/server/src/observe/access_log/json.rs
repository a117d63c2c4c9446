//! Lines in JSON.

use std::cell::Cell;

use super::{LineBuffer, RequestRecord, is_unread, own, room_after};

/// Adds one JSON object in ASCII. Bytes that are not UTF-8 become `\xe9`, as in the other formats.
pub(super) fn line(out: &mut LineBuffer, record: &RequestRecord<'_>) {
    let request = record.request;
    let used = Cell::new(0);
    let text = |bytes: &[u8]| {
        let text = json_bytes(bytes, room_after(used.get()));
        used.set(used.get() + text.len());
        text
    };
    let field = |name: &[u8]| request.fields.value(name).map_or("null".to_owned(), text);
    let number = |number: Option<u64>| number.map_or("null".to_owned(), |one| one.to_string());
    let run = own::run(record);
    let read = |word: &str| match is_unread(request) {
        true => "null".to_owned(),
        false => text(word.as_bytes()),
    };
    let line = format!(
        "{{\"time\":\"{}\",\"site\":{},\"client\":\"{}\",\"user\":{},\"host\":{},\"method\":{},\"target\":{},\"version\":{},\
         \"status\":{},\"sent\":{},\"complete\":{},\"microseconds\":{},\"referer\":{},\"user_agent\":{},\
         \"php_microseconds\":{},\"queue_microseconds\":{},\"cpu_microseconds\":{},\"peak_memory\":{},\"worker\":{}{}}}\n",
        crate::log::timestamp(record.began.microseconds),
        text(record.site.as_bytes()),
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
        match request.refused_line.is_empty() {
            true => String::new(),
            false => format!(",\"refused_line\":{}", text(&request.refused_line)),
        },
    );
    out.extend_from_slice(line.as_bytes());
}

/// Returns a string of JSON. A text that is longer than `most` is cut.
fn json_bytes(text: &[u8], most: usize) -> String {
    let mut out = String::with_capacity(text.len().min(most) + 2);
    out.push('"');
    'whole: for part in text.utf8_chunks() {
        let raw = part.invalid().iter().map(|byte| Err(*byte));
        for one in part.valid().chars().map(Ok).chain(raw) {
            if out.len() > most {
                out.push_str("...");
                break 'whole;
            }
            match one {
                Ok('"') => out.push_str("\\\""),
                Ok('\\') => out.push_str("\\\\"),
                Ok(plain @ ' '..='~') => out.push(plain),
                Ok(other) => {
                    for unit in other.encode_utf16(&mut [0; 2]) {
                        out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                Err(byte) => out.push_str(&format!("\\\\x{byte:02x}")),
            }
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::super::LONGEST_VALUE;
    use super::*;

    #[test]
    fn bytes_that_differ_are_logged_differently() {
        let shown = |bytes: &[u8]| {
            serde_json::from_str::<String>(&json_bytes(bytes, LONGEST_VALUE)).unwrap()
        };
        for (bytes, expected) in [
            (&b"/a\xe9"[..], "/a\\xe9"),
            (b"/a\xe8\xff", "/a\\xe8\\xff"),
            ("/a\u{e9}\u{1f418}".as_bytes(), "/a\u{e9}\u{1f418}"),
            (b"a\"\\\x01", "a\"\\\u{1}"),
        ] {
            assert_eq!(shown(bytes), expected);
        }
        assert!(json_bytes(&[0xff; 3 * LONGEST_VALUE], LONGEST_VALUE).ends_with("...\""));
    }
}
