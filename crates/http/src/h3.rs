//! The client's side of the streams of HTTP/3 (RFC 9114 §4.1, §6.2), before a library reads it.
//!
//! [`ControlFrames`] finds the updates of priorities beside requests, which the library leaves out.
//! [`RequestFrames`] takes the frames of a request apart. The `h3` crate gets the head alone, as
//! [`head_frame`] returns it, because the crate accepts some heads that are malformed, and refuses
//! some that are not.

mod control;
mod frames;

use std::ops::Range;

pub use self::control::{ControlFrames, UpdateMistake};
pub use self::frames::{FramePart, RequestFrames, StreamMistake};

/// A text in a head, as it is and with the Huffman code (RFC 7541, appendix B).
struct HeadText {
    plain: &'static [u8],
    coded: &'static [u8],
}

const PROTOCOL: HeadText = HeadText {
    plain: b":protocol",
    coded: &[0xb9, 0x5d, 0x87, 0x49, 0xc8, 0x7a, 0x3f],
};
const WEBSOCKET: HeadText = HeadText {
    plain: b"websocket",
    coded: &[0xf0, 0x58, 0xd0, 0x72, 0x75, 0x2a, 0x7f],
};
/// The pseudo-header fields of requests (RFC 9114 §4.3.1, RFC 9220 §3), with the numbers of
/// [`name_in_table`].
const PSEUDO_FIELDS: [HeadText; 5] = [
    HeadText {
        plain: b":authority",
        coded: &[0xb8, 0x3b, 0x53, 0x39, 0xec, 0x32, 0x7d, 0x7f],
    },
    HeadText {
        plain: b":path",
        coded: &[0xb9, 0x58, 0xd3, 0x3f],
    },
    HeadText {
        plain: b":method",
        coded: &[0xb9, 0x49, 0x53, 0x39, 0xe4],
    },
    HeadText {
        plain: b":scheme",
        coded: &[0xb8, 0x82, 0x4e, 0x5a, 0x4b],
    },
    PROTOCOL,
];

/// The protocol that takes the place of `websocket`, as a string of a head.
pub const STAND_IN: &str = "connect-udp";
/// A field section without a line, which is no request.
const EMPTY_SECTION: [u8; 2] = [0, 0];
/// The type of a HEADERS frame.
const HEADERS: u8 = 1;

/// A request's head as a library may read it.
#[derive(Debug, PartialEq, Eq)]
pub struct HeadFrame {
    /// A HEADERS frame.
    pub bytes: Vec<u8>,
    /// The head is an extended CONNECT for a WebSocket, and says [`STAND_IN`].
    pub is_websocket: bool,
}

/// Returns the HEADERS frame with this field section, for a library that refuses every extended
/// CONNECT for a WebSocket (RFC 9220): another protocol takes its place. A section with pseudo
/// fields that are repeated, unknown or behind other fields is malformed (RFC 9114 §4.3). It
/// becomes an empty one, which the library refuses.
pub fn head_frame(section: &[u8]) -> HeadFrame {
    let Some(lines) = HeadLines::read(section) else {
        // The library says what is wrong with a section that cannot be read.
        return HeadFrame {
            bytes: frame(&[section]),
            is_websocket: false,
        };
    };
    if lines.is_malformed {
        return HeadFrame {
            bytes: frame(&[&EMPTY_SECTION]),
            is_websocket: false,
        };
    }
    let Some(value) = lines.websocket else {
        return HeadFrame {
            bytes: frame(&[section]),
            is_websocket: false,
        };
    };
    let stand_in = [&[STAND_IN.len() as u8], STAND_IN.as_bytes()].concat();
    HeadFrame {
        bytes: frame(&[&section[..value.start], &stand_in, &section[value.end..]]),
        is_websocket: true,
    }
}

/// Returns whether a field section has a pseudo field, which trailers must not have
/// (RFC 9114 §4.3). The section may be cut off. Lines that cannot be read have none.
pub fn has_pseudo_field(section: &[u8]) -> bool {
    let mut lines = HeadLines::default();
    // A section that cannot be read ends there.
    let _ = lines.read_all(section);
    lines.seen != 0 || lines.is_malformed
}

fn frame(section: &[&[u8]]) -> Vec<u8> {
    let length: usize = section.iter().map(|part| part.len()).sum();
    // A section is shorter than this length can say: limits hold before it is complete.
    let length = (length as u64 | (0b10 << 30)) as u32;
    [&[HEADERS], &length.to_be_bytes()[..], &section.concat()].concat()
}

/// The parts of a head's lines that matter.
#[derive(Debug, Default)]
struct HeadLines {
    /// A bit for each of [`PSEUDO_FIELDS`].
    seen: u8,
    has_usual: bool,
    is_malformed: bool,
    /// The place of the value of `:protocol`, if it is `websocket`.
    websocket: Option<Range<usize>>,
}

/// The name of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldNameKind {
    Usual,
    /// The index in [`PSEUDO_FIELDS`].
    Pseudo(usize),
    /// A pseudo field that requests do not have.
    OtherPseudo,
}

impl HeadLines {
    /// Reads a field section (RFC 9204 §4.5). `None`: it cannot be read.
    fn read(section: &[u8]) -> Option<HeadLines> {
        let mut lines = HeadLines::default();
        lines.read_all(section)?;
        Some(lines)
    }

    /// Notes the lines of a field section. `None`: it cannot be read from some line on.
    fn read_all(&mut self, section: &[u8]) -> Option<()> {
        let mut reader = HeadReader { bytes: section, at: 0 };
        // Required Insert Count and Base.
        reader.integer(8)?;
        reader.integer(7)?;
        while let Some(&first) = section.get(reader.at) {
            match first.leading_zeros() {
                // Indexed.
                0 => {
                    let index = reader.integer(6)?;
                    self.note(name_in_table(index, first & 0x40 != 0));
                }
                // A literal value, and a name of a table.
                1 => {
                    let index = reader.integer(4)?;
                    self.note(name_in_table(index, first & 0x10 != 0));
                    reader.string(7)?;
                }
                // A literal value and a literal name.
                2 => {
                    let name = reader.string(3)?.name();
                    self.note(name);
                    let value = reader.at;
                    let is_websocket = reader.string(7)?.is(&WEBSOCKET);
                    if is_websocket && name == FieldNameKind::Pseudo(PSEUDO_FIELDS.len() - 1) {
                        self.websocket = Some(value..reader.at);
                    }
                }
                // The same two with the entries behind the base.
                3 => {
                    reader.integer(4)?;
                    self.note(FieldNameKind::Usual);
                }
                _ => {
                    reader.integer(3)?;
                    reader.string(7)?;
                    self.note(FieldNameKind::Usual);
                }
            }
        }
        Some(())
    }

    fn note(&mut self, name: FieldNameKind) {
        match name {
            FieldNameKind::Usual => self.has_usual = true,
            FieldNameKind::OtherPseudo => self.is_malformed = true,
            FieldNameKind::Pseudo(number) => {
                self.is_malformed |= self.has_usual || self.seen & (1 << number) != 0;
                self.seen |= 1 << number;
            }
        }
    }
}

/// Returns the name of an entry. The dynamic table is not in use, and a library refuses its
/// entries.
fn name_in_table(index: usize, is_static: bool) -> FieldNameKind {
    match index {
        _ if !is_static => FieldNameKind::Usual,
        0 => FieldNameKind::Pseudo(0),
        1 => FieldNameKind::Pseudo(1),
        15..=21 => FieldNameKind::Pseudo(2),
        22 | 23 => FieldNameKind::Pseudo(3),
        // :status
        24..=28 | 63..=71 => FieldNameKind::OtherPseudo,
        _ => FieldNameKind::Usual,
    }
}

/// A string of a field section.
struct StringLiteral<'b> {
    bytes: &'b [u8],
    is_coded: bool,
}

impl StringLiteral<'_> {
    fn is(&self, word: &HeadText) -> bool {
        self.bytes == if self.is_coded { word.coded } else { word.plain }
    }

    fn name(&self) -> FieldNameKind {
        if let Some(number) = PSEUDO_FIELDS.iter().position(|name| self.is(name)) {
            return FieldNameKind::Pseudo(number);
        }
        let is_pseudo = match (self.bytes.first(), self.is_coded) {
            // The seven bits of a colon.
            (Some(first), true) => first & 0xfe == 0xb8,
            (first, _) => first == Some(&b':'),
        };
        if is_pseudo {
            FieldNameKind::OtherPseudo
        } else {
            FieldNameKind::Usual
        }
    }
}

struct HeadReader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> HeadReader<'b> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// An integer whose prefix has `bits` bits (RFC 7541 §5.1). `None` also for one that no length
    /// is.
    fn integer(&mut self, bits: u32) -> Option<usize> {
        let most = (1_usize << bits) - 1;
        let mut value = usize::from(self.byte()?) & most;
        if value < most {
            return Some(value);
        }
        for shift in [0, 7, 14, 21] {
            let byte = self.byte()?;
            value += usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// A string whose length has a prefix of `bits` bits (RFC 9204 §4.1.2).
    fn string(&mut self, bits: u32) -> Option<StringLiteral<'b>> {
        let is_coded = self.bytes.get(self.at)? & (1 << bits) != 0;
        let length = self.integer(bits)?;
        let bytes = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(StringLiteral { bytes, is_coded })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The codes of RFC 7541, appendix B, each with its bits.
    const CODES: [(u8, u32, u32); 20] = [
        (b':', 0x5c, 7),
        (b'a', 0x03, 5),
        (b'd', 0x24, 6),
        (b'h', 0x27, 6),
        (b'i', 0x06, 5),
        (b'm', 0x29, 6),
        (b'u', 0x2d, 6),
        (b'x', 0x79, 7),
        (b'y', 0x7a, 7),
        (b'b', 0x23, 6),
        (b'c', 0x04, 5),
        (b'e', 0x05, 5),
        (b'k', 0x75, 7),
        (b'l', 0x28, 6),
        (b'o', 0x07, 5),
        (b'p', 0x2b, 6),
        (b'r', 0x2c, 6),
        (b's', 0x08, 5),
        (b't', 0x09, 5),
        (b'w', 0x78, 7),
    ];

    fn coded(text: &[u8]) -> Vec<u8> {
        let mut bits = String::new();
        for byte in text {
            let (_, code, length) = CODES.iter().find(|(own, ..)| own == byte).unwrap();
            bits += &format!("{code:00$b}", *length as usize);
        }
        while !bits.len().is_multiple_of(8) {
            bits.push('1');
        }
        let bytes = bits.as_bytes().chunks(8);
        bytes
            .map(|bits| u8::from_str_radix(std::str::from_utf8(bits).unwrap(), 2).unwrap())
            .collect()
    }

    #[test]
    fn an_integer_may_have_more_bytes_than_it_needs() {
        for (bytes, expected) in [
            (&[0xfe][..], Some(6)),
            (&[7, 0], Some(7)),
            (&[7, 0x80, 0], Some(7)),
            (&[7, 0x80, 1], Some(7 + 128)),
            (&[7, 0x80, 0x80, 0x80, 1], Some(7 + (1 << 21))),
            (&[7, 0x80, 0x80, 0x80, 0x80, 0], None),
            (&[7, 0x80], None),
        ] {
            assert_eq!(HeadReader { bytes, at: 0 }.integer(3), expected, "{bytes:?}");
        }
    }

    #[test]
    fn the_words_are_coded() {
        for word in [PROTOCOL, WEBSOCKET] {
            assert_eq!(coded(word.plain), word.coded);
        }
    }

    /// A line with a literal name and a literal value.
    fn line(name: &[u8], value: &[u8], is_coded: bool) -> Vec<u8> {
        let made = |text: &[u8]| if is_coded { coded(text) } else { text.to_vec() };
        let (name, value) = (made(name), made(value));
        let flag = u8::from(is_coded);
        let length = u8::try_from(name.len()).unwrap() - 7;
        let mut line = vec![0x20 | flag << 3 | 7, length];
        line.extend(name);
        line.push(flag << 7 | u8::try_from(value.len()).unwrap());
        line.extend(value);
        line
    }

    /// `:method: CONNECT`, this line, and lines of every other kind.
    fn head(line: &[u8]) -> Vec<u8> {
        let other =
            [0x51, 2, b'/', b'x', 0xd7, 0x10, 0x01, 1, b'y', 0x23, b'a', b'b', b'c', 1, b'z'];
        [&[0, 0, 0xcf], line, &other].concat()
    }

    /// The section in a HEADERS frame.
    fn section(frame: &[u8]) -> &[u8] {
        let (header, section) = frame.split_at(5);
        assert_eq!((header[0], header[1]), (1, 0x80));
        assert_eq!(usize::from(header[3]) << 8 | usize::from(header[4]), section.len());
        section
    }

    #[test]
    fn a_websocket_gets_another_name() {
        for is_coded in [false, true] {
            let made = head_frame(&head(&line(b":protocol", b"websocket", is_coded)));
            assert!(made.is_websocket);
            let text = String::from_utf8_lossy(section(&made.bytes)).into_owned();
            assert!(text.contains("\u{b}connect-udp"), "{text}");
            // The written head is read again, and has no WebSocket any more.
            let again = head_frame(section(&made.bytes));
            assert_eq!((again.bytes, again.is_websocket), (made.bytes, false));
        }
    }

    #[test]
    fn everything_else_stays_as_it_is() {
        for bytes in [
            head(&line(b":protocol", b"sockets", true)),
            [&[0, 0, 0xcf][..], &line(b"protocol:", b"websocket", false)].concat(),
            vec![0, 0, 0x2f],
            vec![],
        ] {
            let made = head_frame(&bytes);
            assert_eq!((section(&made.bytes), made.is_websocket), (&bytes[..], false));
        }
    }

    #[test]
    fn pseudo_fields_stand_once_and_first() {
        let usual = |name: &'static [u8]| {
            let mut line = vec![0x20 | name.len() as u8];
            line.extend_from_slice(name);
            line.extend_from_slice(b"\x01y");
            line
        };
        let path = [0x51, 2, b'/', b'x'];
        for (lines, is_malformed) in [
            (vec![&path[..], &usual(b"abc")], false),
            (vec![&path, &path], true),
            (vec![&[0xc1][..], &path], true),
            (vec![&[0xd1, 0xd4]], true),
            (vec![&[0xd6, 0xd7]], true),
            (vec![&[0x50, 1, b'x', 0x50, 1, b'x']], true),
            (vec![&usual(b"abc"), &path], true),
            (vec![&[0xd9]], true),
            (vec![&usual(b":other")], true),
            (vec![&line(b":protocol", b"websocket", true), &line(b":protocol", b"x", false)], true),
            (vec![&line(b":otherotherother", b"x", true)], true),
            (vec![&path, &line(b"otherotherother", b"x", true)], false),
            // A name of 200 bytes: its length takes two bytes more.
            (vec![&[0x27, 0xc1, 0x01], &[b'a'; 200], &[0], &path], true),
        ] {
            let bytes = [&[0, 0][..], &lines.concat()].concat();
            let made = head_frame(&bytes);
            let expected = if is_malformed { &EMPTY_SECTION } else { &bytes[..] };
            assert_eq!(section(&made.bytes), expected, "{bytes:x?}");
            assert!(has_pseudo_field(&bytes));
            // The section may be cut off behind them.
            assert!(has_pseudo_field(&[&bytes[..], &[0x27]].concat()));
        }
        let long = [&[0, 0][..], &line(b":protocol", &[b'x'; 100], true)].concat();
        assert!(has_pseudo_field(&long[..long.len() - 50]), "its value is cut off");
        // Entries of the dynamic table, with numbers that are pseudo fields in the static one.
        for lines in [&usual(b"abc")[..], &[0x81], &[0x41, 1, b'x']] {
            assert!(!has_pseudo_field(&[&[0, 0][..], lines].concat()), "{lines:x?}");
        }
    }

    #[test]
    fn the_names_are_coded() {
        for field in &PSEUDO_FIELDS {
            assert_eq!(coded(field.plain), field.coded);
        }
    }
}
