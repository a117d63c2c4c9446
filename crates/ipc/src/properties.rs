//! Properties of the decoders that hold for any bytes: the fuzz targets assert them, and every test
//! run checks them briefly.
//!
//! Each function takes foreign bytes and panics if its property does not hold. The common property:
//! decoding and encoding again gives the same bytes. This shows that nothing was read outside the
//! input, and nothing was read twice.

use crate::control::{FromZygote, ToZygote};
use crate::kept_outputs::KeptOutputs;
use crate::request::{BodyLocation, DecodedRequest, EntryBlock, FixedText, HEADER, RequestEncoder};
use crate::response::{self, DecodedHead, HeadEncoder, MOST_HEAD, PREFIX};

/// Checks the decoder of a response head and its prefix.
pub fn response_head(data: &[u8]) {
    let Some((prefix, rest)) = data.split_first_chunk::<PREFIX>() else {
        return;
    };
    let Ok((kind, length)) = response::decode_prefix(*prefix) else {
        return;
    };
    assert!(PREFIX + length <= MOST_HEAD);
    let Some(Ok(head)) = rest.get(..length).map(DecodedHead::decode) else {
        return;
    };
    let mut encoder = HeadEncoder::default();
    encoder.begin(kind, head.status, head.reason);
    for (name, value) in head.fields() {
        encoder.field(name, value);
    }
    let again = encoder.finish().expect("no longer than what it was decoded from");
    // All except the length: bytes after the last field are ignored.
    assert_eq!(&again[4..], &data[4..again.len()]);
}

/// Checks the decoder of a request area.
pub fn request(data: &[u8]) {
    let Ok(request) = DecodedRequest::decode(data).ok_or(()) else {
        return;
    };
    let fixed = FIXED.map(|which| request.fixed(which));
    let mut encoder = RequestEncoder::default();
    encoder.begin(request.time, fixed);
    encoder.status(request.status);
    for (name, value) in request.variables() {
        encoder.entries().variable(name, value);
    }
    let mut rest = EntryBlock::default();
    for (name, value) in request.ini() {
        rest.ini(name, value);
    }
    encoder.entries().add(&rest);
    let texts = encoder.length();
    let texts_again = &encoder.finish_file(request.body_length)[HEADER..];
    assert_eq!(texts_again, &data[HEADER..texts], "every text with its NUL, at its place");
    assert_eq!(request.inline_body(), &data[texts..]);
    if request.body == BodyLocation::Inline {
        assert_eq!(request.inline_body().len() as u64, request.body_length);
    }
}

/// Checks the decoder of a message to a zygote.
pub fn to_zygote(data: &[u8]) {
    if let Ok(message) = ToZygote::decode(data) {
        let again = message.encode();
        assert_eq!(again, data[..again.len()]);
        assert_eq!(ToZygote::decode(&again).ok(), Some(message));
    }
}

/// Checks the decoder of a message from a zygote, which runs as the same user as hostile scripts.
pub fn from_zygote(data: &[u8]) {
    if let Ok(message) = FromZygote::decode(data) {
        let again = message.encode();
        assert_eq!(again, data[..again.len()]);
        assert_eq!(FromZygote::decode(&again).ok(), Some(message));
    }
    if let Ok(message) = KeptOutputs::decode(data) {
        let again = message.encode();
        assert_eq!(again, data[..again.len()]);
        assert_eq!(KeptOutputs::decode(&again).ok(), Some(message));
    }
}

/// All fixed texts, in their order.
const FIXED: [FixedText; 9] = [
    FixedText::Method,
    FixedText::Script,
    FixedText::RequestUri,
    FixedText::QueryString,
    FixedText::ContentType,
    FixedText::Cookie,
    FixedText::Authorization,
    FixedText::DocumentRoot,
    FixedText::Fields,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::PoolSettings;
    use crate::layout::Geometry;
    use crate::response::HeadKind;

    /// A pseudo-random sequence that is the same in each run.
    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: usize) -> usize {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % limit
        }
    }

    /// Calls `property` with changed and mixed copies of `seeds`.
    fn mutate(seeds: &[Vec<u8>], property: impl Fn(&[u8])) {
        let lengths =
            [0u32, 1, 2, 7, 0x7F, 0xFF, 0xFFFF, 0x1_0000, 1 << 31, u32::MAX - 1, u32::MAX];
        let mut random = Random(1);
        for seed in seeds {
            property(seed);
        }
        for _ in 0..30_000 {
            let mut bytes = seeds[random.below(seeds.len())].clone();
            for _ in 0..=random.below(4) {
                let at = random.below(bytes.len() + 1);
                match random.below(6) {
                    0 => bytes.truncate(at),
                    1 => bytes.insert(at, random.below(256) as u8),
                    2 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
                    3 if at + 4 <= bytes.len() => {
                        bytes[at..at + 4]
                            .copy_from_slice(&lengths[random.below(lengths.len())].to_ne_bytes());
                    }
                    4 => {
                        let other = &seeds[random.below(seeds.len())];
                        bytes.truncate(at);
                        bytes.extend_from_slice(&other[random.below(other.len())..]);
                    }
                    _ if at < bytes.len() => drop(bytes.remove(at)),
                    _ => {}
                }
            }
            // With a correct length at the start, the decoder reads the rest as well.
            if random.below(3) == 0 && bytes.len() >= 4 {
                let length =
                    bytes.len() as u32 - [0, 0, PREFIX.min(bytes.len()) as u32][random.below(3)];
                bytes[0..4].copy_from_slice(&length.to_ne_bytes());
            }
            property(&bytes);
        }
    }

    fn head(kind: HeadKind, status: u16, reason: &[u8], fields: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut encoder = HeadEncoder::default();
        encoder.begin(kind, status, reason);
        fields.iter().for_each(|(name, value)| encoder.field(name, value));
        encoder.finish().unwrap().to_vec()
    }

    #[test]
    fn response_heads() {
        let seeds = [
            head(HeadKind::Final, 200, b"", &[(b"Content-Type", b"text/html"), (b"", b"")]),
            head(HeadKind::Interim, 103, b"Early Hints", &[(b"Link", b"</a.css>")]),
            head(HeadKind::Final, 404, b"Nope", &[]),
            head(HeadKind::Environment, 0, b"", &[(b"no-gzip", b"1")]),
        ];
        mutate(&seeds, response_head);
    }

    #[test]
    fn requests() {
        let mut encoder = RequestEncoder::default();
        let mut fixed = [None; 9];
        fixed[FixedText::Method as usize] = Some(&b"POST"[..]);
        fixed[FixedText::Cookie as usize] = Some(&b""[..]);
        encoder.begin(9, fixed);
        let entries = encoder.entries();
        entries.variable(b"A", b"b");
        entries.variable(b"C", b"");
        entries.ini(b"memory_limit", b"1M");
        let inline = encoder.finish_inline(b"a=1&b=2").to_vec();
        encoder.begin(9, [Some(b"x"); 9]);
        let file = encoder.finish_file(1 << 40).to_vec();
        mutate(&[inline, file], request);
    }

    #[test]
    fn messages_to_a_zygote() {
        let pair = |name: &str| (name.to_owned(), "1".to_owned());
        let seeds = [
            ToZygote::Settings(Box::new(PoolSettings {
                pool: "shop".into(),
                ini: vec![pair("a"), pair("b")],
                ..PoolSettings::default()
            })),
            ToZygote::Attach {
                geometry: Geometry::for_pool(4, 2),
                total: 3,
            },
            ToZygote::Stop,
        ];
        mutate(&seeds.map(|message| message.encode()), to_zygote);
    }

    #[test]
    fn messages_from_a_zygote() {
        let seeds = [
            FromZygote::Ready {
                php_version: "8.2".into(),
                opcache: "on".into(),
                settings: 7,
                warmup: Some(crate::control::OpcacheWarmup { scripts: 3, microseconds: 9 }),
            },
            FromZygote::Failed { reason: "é".into() },
            FromZygote::Died {
                worker: 1,
                pid: 2,
                status: 9,
                processor: 7,
            },
        ];
        let outputs = KeptOutputs { workers: vec![7, 8] }.encode();
        let seeds = seeds.into_iter().map(|message| message.encode()).chain([outputs]);
        mutate(&seeds.collect::<Vec<_>>(), from_zygote);
    }
}
