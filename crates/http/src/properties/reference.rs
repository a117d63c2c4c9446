//! Slow and plain readings of the same grammars, to compare with.

use std::collections::BTreeSet;

use crate::{
    Method, ResponseHead, Status,
    h1::{Framing, ParsedResponse},
};

/// The result of [`chunked`].
#[derive(Debug)]
pub(super) enum Chunked {
    /// The content, and how many bytes it took.
    Done(Vec<u8>, usize),
    /// Good so far.
    Short,
    /// No continuation can make it good.
    Bad,
}

/// RFC 9112 §7.1 over the whole input, line by line.
pub(super) fn chunked(input: &[u8]) -> Chunked {
    let (mut content, mut at) = (Vec::new(), 0);
    loop {
        let line = match line(&input[at..]) {
            Line::Whole(line) => line,
            Line::Part(part) if chunk_size(part, false).is_some() => return Chunked::Short,
            Line::WholeButLf(line) if chunk_size(line, true).is_some() => return Chunked::Short,
            _ => return Chunked::Bad,
        };
        let Some(size) = chunk_size(line, true) else {
            return Chunked::Bad;
        };
        at += line.len() + 2;
        if size == 0 {
            break;
        }
        if size > i64::MAX as u64 - content.len() as u64 {
            return Chunked::Bad;
        }
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        match input[at..].split_at_checked(size) {
            None => return Chunked::Short,
            Some((_, [] | [b'\r'])) => return Chunked::Short,
            Some((data, [b'\r', b'\n', ..])) => content.extend_from_slice(data),
            Some(_) => return Chunked::Bad,
        }
        at += size + 2;
    }
    loop {
        if !input[at..].contains(&b'\n') {
            return Chunked::Short; // A trailer line is looked at when it is whole.
        }
        match line(&input[at..]) {
            Line::Whole([]) => return Chunked::Done(content, at + 2),
            Line::Whole(line) if trailer_line(line) => at += line.len() + 2,
            _ => return Chunked::Bad,
        }
    }
}

enum Line<'a> {
    Whole(&'a [u8]),
    WholeButLf(&'a [u8]),
    Part(&'a [u8]),
    Bad,
}

/// The bytes up to the first CRLF; a CR or LF elsewhere is bad.
fn line(input: &[u8]) -> Line<'_> {
    match input.iter().position(|byte| b"\r\n".contains(byte)) {
        None => Line::Part(input),
        Some(at) => match input[at..] {
            [b'\r', b'\n', ..] => Line::Whole(&input[..at]),
            [b'\r'] => Line::WholeButLf(&input[..at]),
            _ => Line::Bad,
        },
    }
}

/// The size in a chunk line; for a part of one, any number that says it may still become good.
fn chunk_size(line: &[u8], whole: bool) -> Option<u64> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let rest = &line[digits..];
    if digits == 0 {
        return (!whole && rest.is_empty()).then_some(0);
    }
    if digits > 16 {
        return None;
    }
    let white = rest.iter().take_while(|byte| b" \t".contains(byte)).count();
    let good = match &rest[white..] {
        [] => white == 0 || !whole,
        [b';', extension @ ..] => {
            extension.iter().all(|&byte| byte == 9 || (byte >= 32 && byte != 127))
        }
        _ => false,
    };
    let text = std::str::from_utf8(&line[..digits]).ok()?;
    good.then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

fn trailer_line(line: &[u8]) -> bool {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    match line.iter().position(|&byte| byte == b':') {
        None | Some(0) => false,
        Some(colon) => {
            line[..colon].iter().all(|&byte| token(byte))
                && line[colon + 1..].iter().all(|&byte| byte == 9 || (byte >= 32 && byte != 127))
        }
    }
}

/// Every offset that a well-formed Range value selects; `None` where it is malformed.
pub(super) fn selected_bytes(value: &[u8], length: u64) -> Option<BTreeSet<u64>> {
    let text = std::str::from_utf8(value).ok()?;
    let (unit, set) = text.split_once('=')?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<u64>().map_or(u128::from(u64::MAX), u128::from))
    };
    let mut selected = BTreeSet::new();
    for member in set
        .split(',')
        .map(|member| member.trim_matches([' ', '\t']))
        .filter(|member| !member.is_empty())
    {
        let (first, last) = member.split_once('-')?;
        let offsets = 0..u128::from(length);
        let (low, high) = match (first, last) {
            ("", suffix) => (u128::from(length).saturating_sub(number(suffix)?), u128::MAX),
            (first, "") => (number(first)?, u128::MAX),
            (first, last) => (number(first)?, number(last)?),
        };
        if low > high {
            return None;
        }
        selected.extend(
            offsets
                .filter(|offset| (low..=high).contains(offset))
                .map(|offset| offset as u64),
        );
    }
    Some(selected)
}

/// RFC 9112 §4 to §6 over a whole head, by lines of text; Latin 1 stands for the bytes. CR before
/// LF may be missing. `None`: the head is no response's.
pub(super) fn response(head: &[u8], method: &Method) -> Option<ParsedResponse> {
    let text: String = head.iter().map(|&byte| char::from(byte)).collect();
    let bytes = |text: &str| text.chars().map(|c| c as u8).collect::<Vec<u8>>();
    let plain = text.replace("\r\n", "\n");
    let mut lines = plain.strip_suffix("\n\n")?.split('\n');
    let mut words = lines.next()?.splitn(3, ' ');
    let minor = words.next()?.strip_prefix("HTTP/1.")?;
    let code: u16 = words.next().filter(|code| code.len() == 3)?.parse().ok()?;
    let reason = words.next().unwrap_or_default();
    let fields: Vec<(&str, &str)> = lines
        .map(|line| line.split_once(':').map(|(n, v)| (n, v.trim_matches([' ', '\t']))))
        .collect::<Option<_>>()?;
    let list = |wanted: &str| -> Vec<String> {
        let values = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        let members = values.flat_map(|(_, value)| value.split(','));
        let members = members.map(|member| member.trim_matches([' ', '\t']));
        members
            .filter(|member| !member.is_empty())
            .map(str::to_ascii_lowercase)
            .collect()
    };
    let (named, lengths) = (list("connection"), list("content-length"));
    let is_bare = matches!(code, 100..=199 | 204 | 304)
        || *method == Method::Head
        || (*method == Method::Connect && code / 100 == 2);
    let framing = match (list("transfer-encoding").as_slice(), lengths.as_slice()) {
        _ if is_bare => Framing::None,
        ([], []) => Framing::Close,
        ([], [length, ..]) => Framing::Length(length.parse().ok()?),
        ([coding], []) if coding == "chunked" && minor != "0" => Framing::Chunked,
        _ => return None,
    };
    let mut head = ResponseHead::new(Status::new(code)?);
    head.reason = (!reason.is_empty()).then(|| bytes(reason).into());
    for (name, value) in &fields {
        let lower = name.to_ascii_lowercase();
        let stays = lower == "content-length" || !named.contains(&lower);
        if stays && lower != "connection" && lower != "transfer-encoding" {
            head.fields.push(name.as_bytes(), &bytes(value));
        }
    }
    if let Framing::Length(length) = framing {
        head.fields.set(b"Content-Length", length.to_string().as_bytes());
    }
    let upgrade = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("upgrade"));
    Some(ParsedResponse {
        head,
        head_length: bytes(&text).len(),
        framing,
        persistent: minor != "0" && framing != Framing::Close && !named.contains(&"close".into()),
        upgrade: upgrade
            .filter(|_| named.contains(&"upgrade".into()))
            .map(|(_, value)| bytes(value).into()),
    })
}
