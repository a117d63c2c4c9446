//! Properties of any input, which the fuzz targets assert, and a short run of them with every test.
//!
//! Each function takes foreign bytes and panics where its property does not hold.

use std::collections::BTreeSet;

use crate::{
    Content, Fields, Limits, Method, Refusal, Request, ResponseHead, Status, Version,
    conditional::{self, PreconditionOutcome, Validators},
    date, etag,
    h1::{self, ChunkedDecoder, Framing, HeadProgress},
    range::{self, Multipart, Ranges, Span},
};

mod http2;
mod http3;
mod reference;

pub use http2::{h2_frames, h2_request};
pub use http3::{h3_control, h3_first_head};

/// A header of the PROXY protocol never takes a byte behind its end, and gets the same verdict
/// however the bytes come.
pub fn proxy_protocol(data: &[u8]) {
    use crate::proxy_protocol::{HeaderProgress, LONGEST, read};
    let mut length = 0;
    while length <= data.len() {
        match read(&data[..length]) {
            Ok(HeaderProgress::Missing(count)) => {
                assert!(count > 0 && length + count <= LONGEST);
                // Every shorter input is incomplete or refused, too.
                for end in length..(length + count).min(data.len() + 1) {
                    assert!(!matches!(read(&data[..end]), Ok(HeaderProgress::Complete(_))));
                }
                length += count;
            }
            Ok(HeaderProgress::Complete(_)) => {
                assert!(data[..length].ends_with(b"\r\n") || length >= 16);
                assert!(!matches!(read(&data[..length - 1]), Ok(HeaderProgress::Complete(_))));
                return;
            }
            Err(_) => return,
        }
    }
}

/// Checks that fields of proxies are read as they were meant: a node that was read is written and
/// read again, and no element of Forwarded holds more than the line.
pub fn forwarded(data: &[u8]) {
    use crate::forwarded::{ForwardedElement, ForwardedNode, elements, members_from_the_end};
    if let Ok(ForwardedNode::Address(address, port)) = ForwardedNode::read(data) {
        assert!(address == address.to_canonical() && port != Some(0));
        let end = port.map_or_else(
            || address.to_string(),
            |port| std::net::SocketAddr::new(address, port).to_string(),
        );
        assert_eq!(ForwardedNode::read(end.as_bytes()), Ok(ForwardedNode::Address(address, port)));
    }
    let lines: Vec<&[u8]> = data.split(|&byte| byte == b'\n').collect();
    let mut members: Vec<&[u8]> = members_from_the_end(&lines).collect();
    members.reverse();
    let forwards: Vec<&[u8]> = lines.iter().flat_map(|line| crate::members(line)).collect();
    assert_eq!(members, forwards);
    let mut found: Vec<ForwardedElement<'_>> = Vec::new();
    if elements(data, &mut found).is_ok() {
        let parts = found.iter().flat_map(|element| [&element.node, &element.proto, &element.host]);
        let held: usize = parts.flatten().map(|part| part.len()).sum();
        assert!(held <= data.len());
        // A second line continues the list.
        let one = found.len();
        elements(b"for=192.0.2.1", &mut found).expect("a plain element");
        assert_eq!(found.len(), one + 1);
    }
}

/// A head gets the same verdict at once and byte by byte, and an accepted one can be read in one
/// way only.
pub fn h1_request(data: &[u8]) {
    let data = &data[..data.len().min(1500)];
    let limits = Limits {
        request_line: 200,
        field_line: 150,
        fields_total: 700,
        field_count: 12,
        body: 1 << 40,
    };
    let (mut at_once, mut bytewise) = (Request::new(), Request::new());
    let verdict = h1::parse_request(data, &limits, &mut at_once);
    let mut seen = 0;
    for end in 0..=data.len() {
        let partial = h1::parse_request(&data[..end], &limits, &mut bytewise);
        if partial != Ok(HeadProgress::Incomplete) {
            assert_eq!(partial, verdict, "after {end} bytes");
            assert_eq!(at_once.fields, bytewise.fields);
            let complete = partial.is_ok();
            assert!(!complete || at_once == bytewise);
            assert!(
                !complete || h1::worth_parsing(&data[..end], seen, &limits),
                "a whole head passed over"
            );
            break;
        }
        assert!(bytewise.fields.is_empty());
        assert!(end < data.len() || verdict == Ok(HeadProgress::Incomplete));
        seen = end;
    }
    if let Ok(HeadProgress::Complete(parsed)) = verdict {
        accepted_head(&data[..parsed.head_length], parsed, &at_once);
    }
}

fn accepted_head(head: &[u8], parsed: h1::ParsedHead, request: &Request) {
    assert!(head.ends_with(b"\r\n\r\n"));
    for (at, &byte) in head.iter().enumerate() {
        assert!(byte != b'\n' || head[at - 1] == b'\r', "bare LF accepted");
        assert!(byte != b'\r' || head[at + 1] == b'\n', "bare CR accepted");
        assert!(byte != 0, "NUL accepted");
    }
    for (name, value) in request.fields.iter() {
        assert!(Method::from_bytes(name).is_some(), "names are tokens, as methods are");
        assert!(value.iter().all(|&byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f)));
        assert_eq!(value, value.trim_ascii());
    }
    let count = |name: &[u8]| request.fields.values(name).count();
    let lengths = count(b"content-length");
    assert!(lengths <= 1);
    assert!(
        lengths == 0 || count(b"transfer-encoding") == 0,
        "both Content-Length and Transfer-Encoding"
    );
    let value = |name: &[u8]| {
        String::from_utf8_lossy(request.fields.value(name).unwrap_or_default()).into_owned()
    };
    match request.content {
        Content::None => assert_eq!(lengths + count(b"transfer-encoding"), 0),
        Content::Length(length) => assert_eq!(value(b"content-length").parse(), Ok(length)),
        Content::Unknown => {
            assert!(request.version == Version::Http11 && count(b"transfer-encoding") == 1);
            assert!(value(b"transfer-encoding").eq_ignore_ascii_case("chunked"));
        }
    }
    assert!(count(b"host") == 1 || (count(b"host") == 0 && request.version == Version::Http10));
    assert!(
        request
            .target
            .iter()
            .all(|byte| (byte.is_ascii_graphic() && *byte != b'#') || *byte >= 0x80)
    );
    assert!(
        request.target.starts_with(b"/")
            || matches!(request.method, Method::Options | Method::Connect)
    );
    assert!(
        request
            .authority
            .iter()
            .all(|byte| b"[]:._-".contains(byte) || byte.is_ascii_alphanumeric())
    );
    assert_eq!(request.authority, request.authority.to_ascii_lowercase());
    assert!(!request.host().windows(2).any(|two| two == b".."));
    assert!(!parsed.expect_continue || request.content != Content::None);
}

/// The head of a response gets the same verdict at once and byte by byte, and an accepted one has
/// the framing that a plain reading of its lines finds. The first byte chooses the request.
pub fn h1_response(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else {
        return;
    };
    let data = &data[..data.len().min(1500)];
    let method = [Method::Get, Method::Head, Method::Connect][choice as usize % 3].clone();
    let limits = Limits {
        request_line: 60,
        field_line: 150,
        fields_total: 700,
        field_count: 12,
        body: 0,
    };
    let verdict = h1::parse_response(data, &method, &limits);
    let mut seen = 0;
    for end in 0..=data.len() {
        let partial = h1::parse_response(&data[..end], &method, &limits);
        if partial != Ok(None) {
            assert_eq!(partial, verdict, "after {end} bytes");
            assert!(
                partial.is_err() || h1::worth_parsing(&data[..end], seen, &limits),
                "a whole head passed over"
            );
            break;
        }
        assert!(end < data.len() || verdict == Ok(None));
        seen = end;
    }
    match verdict {
        Ok(None) => {}
        Ok(Some(parsed)) => {
            let expected = reference::response(&data[..parsed.head_length], &method);
            assert_eq!(Some(parsed), expected);
        }
        Err(refusal) => assert_eq!(refusal.status, Status::BAD_GATEWAY),
    }
}

/// Chunked content, cut anywhere, decodes to what a slow decoder over the whole says.
pub fn chunked(data: &[u8]) {
    let Some((&cut, input)) = data.split_first() else {
        return;
    };
    let input = &input[..input.len().min(3000)];
    let expected = reference::chunked(input);
    for piece in [1, 1 + cut as usize, input.len().max(1)] {
        let found = decode(input, piece);
        match (&expected, &found) {
            (reference::Chunked::Done(content, used), Ok((decoded, consumed, true))) => {
                assert_eq!((content, used), (decoded, consumed));
            }
            (reference::Chunked::Short, Ok((_, _, false))) | (reference::Chunked::Bad, Err(_)) => {}
            _ => panic!("by {piece}: {expected:?} but {found:?}"),
        }
    }
}

fn decode(input: &[u8], piece: usize) -> Result<(Vec<u8>, usize, bool), Refusal> {
    let mut decoder = ChunkedDecoder::new(&Limits { body: 0, ..Limits::default() });
    let (mut content, mut consumed) = (Vec::new(), 0);
    for piece in input.chunks(piece) {
        let mut rest = piece;
        while !rest.is_empty() && !decoder.is_done() {
            let decoded = decoder.decode(rest)?;
            assert!(decoded.consumed > 0 && decoded.data.end <= decoded.consumed);
            content.extend_from_slice(&rest[decoded.data]);
            rest = &rest[decoded.consumed..];
            consumed += decoded.consumed;
        }
    }
    Ok((content, consumed, decoder.is_done()))
}

/// Ranges stay within the representation, never overlap, never cost more than the whole, and select
/// the very bytes that were asked for.
pub fn range(data: &[u8]) {
    let Some((head, value)) = data.split_first_chunk::<8>() else {
        return;
    };
    let length = match head[0] % 4 {
        0 => u64::from_le_bytes(*head) >> 1, // No file is longer than a signed number can say.
        _ => u64::from(head[1] % 64),
    };
    let spans = match range::select(value, length) {
        Ranges::Whole => return,
        Ranges::Unsatisfiable => Vec::new(),
        Ranges::One(span) => vec![span],
        Ranges::Many(spans) => {
            assert!(spans.len() > 1);
            spans
        }
    };
    assert!(spans.len() <= range::RANGE_LIMIT);
    assert!(spans.iter().all(|span| span.first <= span.last && span.last < length));
    assert!(spans.iter().map(|span| u128::from(span.length())).sum::<u128>() <= u128::from(length));
    for (index, one) in spans.iter().enumerate() {
        assert!(
            spans[..index]
                .iter()
                .all(|other| one.first > other.last + 1 || one.last + 1 < other.first)
        );
    }
    if length < 64 {
        let selected: BTreeSet<u64> =
            spans.iter().flat_map(|span| span.first..=span.last).collect();
        assert_eq!(Some(selected), reference::selected_bytes(value, length));
    }
    multipart(&spans, length);
}

fn multipart(spans: &[Span], length: u64) {
    let plan = Multipart::plan(spans, length, Some(b"text/plain"), length);
    let heads: u64 = plan.parts.iter().map(|part| part.head.len() as u64).sum();
    let content: u64 = spans.iter().map(|span| span.length()).sum();
    assert_eq!(plan.length, heads + content + plan.tail.len() as u64);
}

/// A text that is read as a date is written as the same date, and a written date is read back.
pub fn date(data: &[u8]) {
    if let Some(seconds) = date::parse(data) {
        let text = date::format(seconds);
        assert_eq!(date::parse(&text), Some(seconds));
        if data.len() == text.len() && data[3] == b',' && &data[23..25] != b"60" {
            assert_eq!(data[3..], text[3..], "only the weekday may have been wrong");
        }
    }
    if let Some(head) = data.first_chunk::<8>() {
        let seconds = u64::from_le_bytes(*head) >> (head[0] % 64);
        let text = date::format(seconds);
        match date::parse(&text) {
            Some(parsed) => {
                assert!(parsed == seconds || (parsed < seconds && &text[12..16] == b"9999"))
            }
            None => panic!("cannot read {}", text.escape_ascii()),
        }
    }
}

/// Preconditions overrule each other as RFC 9110 §13.2.2 says, and 304 is for reading only.
pub fn conditional(data: &[u8]) {
    let mut fields = Fields::new();
    for line in data.split(|&byte| byte == b'\n').take(20) {
        let colon = line.iter().position(|&byte| byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        fields.push(&line[..colon], value.trim_ascii());
        listed_tags(value);
    }
    let validators = Validators {
        etag: Some(b"\"v2\""),
        last_modified: Some(784_111_777),
    };
    for method in [Method::Get, Method::Head, Method::Put] {
        for current in [None, Some(&validators)] {
            let decision = conditional::decide(&method, &fields, current, u64::MAX);
            let without = |name: &[u8]| {
                let mut fields = fields.clone();
                fields.remove(name);
                conditional::decide(&method, &fields, current, u64::MAX)
            };
            // No date in the past of that time is as late as the modification.
            if !fields.contains(b"if-none-match") {
                let early = conditional::decide(&method, &fields, current, 0);
                assert_ne!(early, PreconditionOutcome::NotModified);
            }
            assert!(
                decision != PreconditionOutcome::NotModified
                    || (method != Method::Put && current.is_some())
            );
            if fields.contains(b"if-match") {
                assert_eq!(decision, without(b"if-unmodified-since"));
                assert!(current.is_some() || decision == PreconditionOutcome::PreconditionFailed);
            }
            if fields.contains(b"if-none-match") {
                assert_eq!(decision, without(b"if-modified-since"));
            }
            assert!(method != Method::Put || decision == without(b"if-modified-since"));
            assert_eq!(decision, without(b"if-range"));
        }
    }
    let applies = conditional::range_applies(&fields, &validators, u64::MAX);
    match fields.value(b"if-range") {
        None => assert!(applies),
        Some(b"\"v2\"") => assert_eq!(applies, fields.values(b"if-range").count() == 1),
        Some(value) => assert!(!applies || date::parse(value) == Some(784_111_777)),
    }
}

fn listed_tags(value: &[u8]) {
    for tag in etag::list(value) {
        let prefix: &[u8] = if tag.weak { b"W/\"" } else { b"\"" };
        let text = [prefix, tag.opaque, b"\""].concat();
        assert_eq!(etag::EntityTag::parse(&text), Some(tag));
        assert!(value.windows(text.len()).any(|window| window == text));
    }
}

/// The head that is sent has the lines that were checked and no others, with any status and fields
/// of a script.
pub fn response_head(data: &[u8]) {
    let Some((&[high, low, choice], rest)) = data.split_first_chunk::<3>() else {
        return;
    };
    let status = Status::new(u16::from_be_bytes([high, low]) % 1000).unwrap_or(Status::OK);
    let mut unchecked = ResponseHead::new(status);
    let mut checked = ResponseHead::new(status);
    for line in rest.split(|&byte| byte == b';').take(20) {
        let (name, value) =
            line.split_at(line.iter().position(|&byte| byte == b'=').unwrap_or(line.len()));
        let value = value.get(1..).unwrap_or_default();
        unchecked.fields.push(name, crate::scan::trim(value));
        let _ = checked.push(name, value);
    }
    unchecked.reason = rest.get(..4).map(Into::into);
    let framing =
        [Framing::None, Framing::Length(7), Framing::Chunked, Framing::Close][choice as usize % 4];
    let mut out = Vec::new();
    let hop = h1::HopFields {
        version: Version::Http11,
        is_persistent: true,
        date: &date::format(0),
        alternative: None,
    };
    h1::encode_head(&mut out, &unchecked, framing, &hop);
    assert!(out.ends_with(b"\r\n\r\n"));
    let lines: Vec<&[u8]> = out[..out.len() - 1].split(|&byte| byte == b'\n').collect();
    assert!(
        lines
            .iter()
            .all(|line| line.iter().position(|&byte| byte == b'\r') == Some(line.len() - 1))
    );
    assert!(!out.contains(&0));
    assert!(lines.len() <= 2 + 4 + checked.fields.len(), "more lines than there were fields");
    let count = |name: &[u8]| {
        let named = |line: &&&[u8]| {
            line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
        };
        lines.iter().filter(named).count()
    };
    assert!(count(b"content-length:") + count(b"transfer-encoding:") <= 1);
    assert_eq!(
        count(b"transfer-encoding:"),
        usize::from(framing == Framing::Chunked && !status.is_informational())
    );
}

#[cfg(test)]
mod smoke;
