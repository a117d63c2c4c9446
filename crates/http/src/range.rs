//! Range requests (RFC 9110 §14) over a representation of known length.

use crate::{Fields, Method, ShortText, members, scan};

/// The bytes that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// All bytes: 200.
    Whole,
    /// One run: 206 with Content-Range.
    One(Span),
    /// Several runs that neither touch nor overlap: 206 with `multipart/byteranges`, see
    /// [`Multipart`].
    Many(Vec<Span>),
    /// No byte that exists: 416 with [`unsatisfied_content_range`].
    Unsatisfiable,
}

/// A run of bytes, both ends included, within the representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub first: u64,
    /// Offset of the last byte, not before the first.
    pub last: u64,
}

impl Span {
    /// The number of bytes, at least 1.
    pub fn length(self) -> u64 {
        self.last - self.first + 1
    }
}

/// Returns the bytes that a request asks for, of a representation of `length` bytes. Ranges are for
/// GET (RFC 9110 §14.2); the response to HEAD tells what GET would get, as with Apache and nginx.
/// They are ignored where there is no byte: players ask for `bytes=0-` of whatever they are given.
/// Preconditions and If-Range have to be checked before:
/// [`conditional`](crate::conditional).
pub fn requested(method: &Method, fields: &Fields, length: u64) -> Ranges {
    if !matches!(method, Method::Get | Method::Head) || length == 0 {
        return Ranges::Whole;
    }
    let mut values = fields.values(b"range");
    match (values.next(), values.next()) {
        (Some(value), None) => select(value, length),
        _ => Ranges::Whole,
    }
}

/// Returns the ranges of the Range value. Another unit than bytes, a malformed set, and a set that
/// costs more than it saves (over [`RANGE_LIMIT`] ranges, or together longer than the whole) are
/// ignored, as RFC 9110 §14.2 allows.
pub fn select(value: &[u8], length: u64) -> Ranges {
    let Some(set) = range_set(value) else {
        return Ranges::Whole;
    };
    if memchr::memchr(b',', set).is_none() {
        return match span(scan::trim(set), length) {
            Some(Some(span)) => Ranges::One(span),
            Some(None) => Ranges::Unsatisfiable,
            None => Ranges::Whole,
        };
    }
    match spans(set, length) {
        Some(spans) => match *spans {
            [] => Ranges::Unsatisfiable,
            [one] => Ranges::One(one),
            _ => Ranges::Many(spans),
        },
        None => Ranges::Whole,
    }
}

/// Returns the runs of a set of several ranges, merged. `None`: the set is ignored.
fn spans(set: &[u8], length: u64) -> Option<Vec<Span>> {
    let mut spans = Vec::new();
    let mut count = 0;
    for member in members(set) {
        count += 1;
        if count > RANGE_LIMIT {
            return None;
        }
        spans.extend(span(member, length)?);
    }
    let asked = spans.iter().fold(0u64, |sum, span| sum.saturating_add(span.length()));
    if count == 0 || asked > length {
        return None;
    }
    merge(&mut spans);
    Some(spans)
}

/// The value of Content-Range for one run: `bytes 0-499/1234`.
pub fn content_range(span: Span, length: u64) -> ShortText {
    let mut text = ShortText::new();
    text.push(b"bytes ");
    text.push_decimal(span.first);
    text.push(b"-");
    text.push_decimal(span.last);
    text.push(b"/");
    text.push_decimal(length);
    text
}

/// The value of Content-Range in a 416: `bytes */1234`.
pub fn unsatisfied_content_range(length: u64) -> ShortText {
    let mut text = ShortText::new();
    text.push(b"bytes */");
    text.push_decimal(length);
    text
}

/// The content of a `multipart/byteranges` response (RFC 9110 §14.6), planned before a byte of the
/// file is read: for each part its head, then the bytes of its span; at the end
/// [`tail`](Multipart::tail).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multipart {
    /// The value of Content-Type, which names the boundary.
    pub content_type: Vec<u8>,
    /// The parts, in order.
    pub parts: Vec<RangePart>,
    /// The bytes after the last part.
    pub tail: Vec<u8>,
    /// The value of Content-Length: heads, spans and tail.
    pub length: u64,
}

/// One part of a [`Multipart`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangePart {
    /// Boundary and field lines, up to the content.
    pub head: Vec<u8>,
    /// The bytes after the head.
    pub span: Span,
}

impl Multipart {
    /// Plans a response for `spans` of a representation of `length` bytes and that media type;
    /// `None` where a response with the whole would state none. Parts do not state one that is
    /// longer than 256 bytes: each would have a copy. `token` makes the boundary; the content
    /// should not contain it, so it should be a random number.
    pub fn plan(spans: &[Span], length: u64, media_type: Option<&[u8]>, token: u64) -> Multipart {
        let media_type = media_type.filter(|it| it.len() <= LONGEST_MEDIA_TYPE);
        let mut boundary = ShortText::new();
        boundary.push(b"howdah-");
        boundary.push_hexadecimal(token);
        let parts: Vec<RangePart> = spans
            .iter()
            .map(|&span| {
                let range = content_range(span, length);
                let name: &[u8] = media_type.map_or(b"", |_| b"\r\nContent-Type: ");
                let pieces: [&[u8]; 7] = [
                    b"\r\n--",
                    &boundary,
                    name,
                    media_type.unwrap_or_default(),
                    b"\r\nContent-Range: ",
                    &range,
                    b"\r\n\r\n",
                ];
                RangePart { head: pieces.concat(), span }
            })
            .collect();
        let tail = [b"\r\n--", &*boundary, b"--\r\n"].concat();
        let content = parts
            .iter()
            .map(|part| part.head.len() as u64 + part.span.length())
            .sum::<u64>();
        Multipart {
            content_type: [b"multipart/byteranges; boundary=", &*boundary].concat(),
            length: content + tail.len() as u64,
            parts,
            tail,
        }
    }
}

/// The ranges that a response has at most. More are answered with the whole representation: every
/// range costs a part head and a read. Apache's MaxRanges; readers of documents ask for a hundred
/// pages at once.
pub const RANGE_LIMIT: usize = 200;

/// Bytes of a media type that each part states. Type and subtype have 127 each at most (RFC 6838
/// §4.2), and in practice far less.
const LONGEST_MEDIA_TYPE: usize = 256;

fn range_set(value: &[u8]) -> Option<&[u8]> {
    let (unit, set) = value.split_at_checked(b"bytes=".len())?;
    unit.eq_ignore_ascii_case(b"bytes=").then_some(set)
}

/// RFC 9110 §14.1.2. `None` where `member` is malformed, `Some(None)` where it lies outside the
/// representation.
fn span(member: &[u8], length: u64) -> Option<Option<Span>> {
    let dash = member.iter().position(|&byte| byte == b'-')?;
    let (first, last) = (&member[..dash], &member[dash + 1..]);
    if first.is_empty() {
        let suffix = saturating_decimal(last)?.min(length);
        return Some((suffix > 0).then(|| Span { first: length - suffix, last: length - 1 }));
    }
    let first = saturating_decimal(first)?;
    let last = if last.is_empty() {
        u64::MAX
    } else {
        saturating_decimal(last)?
    };
    if last < first {
        return None;
    }
    Some((first < length).then(|| Span { first, last: last.min(length - 1) }))
}

/// A position beyond 64 bits is a good position beyond any end.
fn saturating_decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(scan::decimal(digits).unwrap_or(u64::MAX))
}

/// Joins spans that overlap or touch. The client's order stays unless something was joined, then it
/// is ascending.
fn merge(spans: &mut Vec<Span>) {
    let mut merged = spans.clone();
    merged.sort_unstable_by_key(|span| span.first);
    merged.dedup_by(|next, previous| {
        let joined = next.first <= previous.last.saturating_add(1);
        if joined {
            previous.last = previous.last.max(next.last);
        }
        joined
    });
    if merged.len() < spans.len() {
        *spans = merged;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(pairs: &[(u64, u64)]) -> Vec<Span> {
        pairs.iter().map(|&(first, last)| Span { first, last }).collect()
    }

    #[test]
    fn one_range() {
        let one = |first, last| Ranges::One(Span { first, last });
        let table = [
            ("bytes=0-499", 10_000, one(0, 499)),
            ("bytes=500-999", 10_000, one(500, 999)),
            ("bytes=-500", 10_000, one(9500, 9999)),
            ("bytes=9500-", 10_000, one(9500, 9999)),
            ("bytes=0-0", 10_000, one(0, 0)),
            ("bytes=0-", 10_000, one(0, 9999)),
            ("bytes=-20000", 10_000, one(0, 9999)),
            ("bytes=9999-99999999999999999999999", 10_000, one(9999, 9999)),
            ("BYTES=1-2", 10_000, one(1, 2)),
            ("bytes= 1-2 ,", 10_000, one(1, 2)),
            ("bytes=10000-", 10_000, Ranges::Unsatisfiable),
            ("bytes=10000-10001", 10_000, Ranges::Unsatisfiable),
            ("bytes=-0", 10_000, Ranges::Unsatisfiable),
            ("bytes=0-", 0, Ranges::Unsatisfiable),
            ("bytes=-1", 0, Ranges::Unsatisfiable),
            ("bytes=99999999999999999999999-", 10_000, Ranges::Unsatisfiable),
            ("bytes=5-4", 10_000, Ranges::Whole),
            ("bytes=", 10_000, Ranges::Whole),
            ("bytes=,", 10_000, Ranges::Whole),
            ("bytes=-", 10_000, Ranges::Whole),
            ("bytes=--1", 10_000, Ranges::Whole),
            ("bytes=1", 10_000, Ranges::Whole),
            ("bytes=a-b", 10_000, Ranges::Whole),
            ("bytes=1-2x", 10_000, Ranges::Whole),
            ("bytes=+1-2", 10_000, Ranges::Whole),
            ("bytes=1 - 2", 10_000, Ranges::Whole),
            ("bytes 1-2", 10_000, Ranges::Whole),
            ("lines=1-2", 10_000, Ranges::Whole),
            ("", 10_000, Ranges::Whole),
        ];
        for (value, length, expected) in table {
            assert_eq!(select(value.as_bytes(), length), expected, "{value} of {length}");
        }
    }

    #[test]
    fn several_ranges() {
        let many = |pairs: &[(u64, u64)]| Ranges::Many(spans(pairs));
        let table = [
            ("bytes=0-0,-1", many(&[(0, 0), (9999, 9999)])),
            ("bytes=500-600,700-800", many(&[(500, 600), (700, 800)])),
            ("bytes=700-800, 500-600", many(&[(700, 800), (500, 600)])),
            ("bytes=500-600,601-999", Ranges::One(Span { first: 500, last: 999 })),
            ("bytes=500-700,601-999", Ranges::One(Span { first: 500, last: 999 })),
            ("bytes=0-4999,5000-9999", Ranges::One(Span { first: 0, last: 9999 })),
            ("bytes=900-950,0-9,10-19", many(&[(0, 19), (900, 950)])),
            ("bytes=0-9,20000-", Ranges::One(Span { first: 0, last: 9 })),
            ("bytes=10000-,20000-", Ranges::Unsatisfiable),
            ("bytes=0-9,5-4", Ranges::Whole),
            ("bytes=0-,0-,0-", Ranges::Whole),
            ("bytes=0-6000,1-6000", Ranges::Whole),
        ];
        for (value, expected) in table {
            assert_eq!(select(value.as_bytes(), 10_000), expected, "{value}");
        }
    }

    #[test]
    fn too_many_ranges_are_the_whole() {
        let set = |count: usize| {
            let members: Vec<String> =
                (0..count).map(|index| format!("{0}-{0}", index * 2)).collect();
            format!("bytes={}", members.join(","))
        };
        match select(set(RANGE_LIMIT).as_bytes(), 10_000) {
            Ranges::Many(spans) => assert_eq!(spans.len(), RANGE_LIMIT),
            other => panic!("{other:?}"),
        }
        assert_eq!(select(set(RANGE_LIMIT + 1).as_bytes(), 10_000), Ranges::Whole);
    }

    #[test]
    fn only_one_range_field_of_a_get_or_head_counts() {
        let mut fields = Fields::new();
        assert_eq!(requested(&Method::Get, &fields, 10), Ranges::Whole);
        fields.push(b"Range", b"bytes=1-2");
        assert_eq!(requested(&Method::Get, &fields, 10), Ranges::One(Span { first: 1, last: 2 }));
        assert_eq!(requested(&Method::Head, &fields, 10), Ranges::One(Span { first: 1, last: 2 }));
        assert_eq!(requested(&Method::Post, &fields, 10), Ranges::Whole);
        assert_eq!(requested(&Method::Get, &fields, 0), Ranges::Whole);
        fields.push(b"Range", b"bytes=1-2");
        assert_eq!(requested(&Method::Get, &fields, 10), Ranges::Whole);
        assert_eq!(requested(&Method::Get, &Fields::new(), 0), Ranges::Whole);
    }

    #[test]
    fn content_range_values() {
        assert_eq!(&*content_range(Span { first: 42, last: 1233 }, 1234), b"bytes 42-1233/1234");
        assert_eq!(&*unsatisfied_content_range(1234), b"bytes */1234");
        let longest = content_range(Span { first: u64::MAX - 1, last: u64::MAX - 1 }, u64::MAX);
        assert_eq!(*longest, *format!("bytes {0}-{0}/{1}", u64::MAX - 1, u64::MAX).into_bytes());
    }

    #[test]
    fn a_multipart_plan_adds_up() {
        let content: Vec<u8> = (0..=255).collect();
        let plan = Multipart::plan(&spans(&[(250, 255), (0, 1)]), 256, Some(b"text/plain"), 0xbeef);
        assert_eq!(plan.content_type, b"multipart/byteranges; boundary=howdah-beef");
        let mut sent = Vec::new();
        for part in &plan.parts {
            sent.extend_from_slice(&part.head);
            sent.extend_from_slice(&content[part.span.first as usize..=part.span.last as usize]);
        }
        sent.extend_from_slice(&plan.tail);
        assert_eq!(sent.len() as u64, plan.length);
        let expected: [&[u8]; 5] = [
            b"\r\n--howdah-beef\r\nContent-Type: text/plain\r\n\
              Content-Range: bytes 250-255/256\r\n\r\n",
            &content[250..],
            b"\r\n--howdah-beef\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-1/256\r\n\
              \r\n",
            &content[..2],
            b"\r\n--howdah-beef--\r\n",
        ];
        assert_eq!(sent, expected.concat());
    }

    #[test]
    fn parts_do_not_state_a_long_media_type() {
        for (length, is_stated) in [(LONGEST_MEDIA_TYPE, true), (LONGEST_MEDIA_TYPE + 1, false)] {
            let media_type = vec![b'a'; length];
            let plan = Multipart::plan(&spans(&[(4, 5), (0, 1)]), 6, Some(&media_type), 1);
            for part in &plan.parts {
                let states = part.head.windows(13).any(|it| it == b"Content-Type:");
                assert_eq!(states, is_stated, "{length}");
            }
        }
    }
}
