//! The first head on a stream of HTTP/3 (RFC 9114 §4.1), before a library reads it.
//!
//! An extended CONNECT names its protocol in `:protocol`. The `h3` crate refuses a head whose
//! protocol is not one of two that it knows, and a WebSocket (RFC 9220) is not among them. So
//! [`FirstHead`] looks for that name, and writes another one in its place.

use std::ops::Range;

/// Types of frames (RFC 9114 §7.2). Those above [`LAST_KNOWN`] mean nothing.
const HEADERS: u64 = 1;
const LAST_KNOWN: u64 = 0x0d;
/// The begin of a stream of WebTransport, which has no length.
const WEBTRANSPORT: u64 = 0x41;

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

/// The protocol that takes the place of `websocket`, as a string of a head.
pub const STAND_IN: &str = "connect-udp";

/// The bytes of a stream up to the end of its first head.
#[derive(Debug, Default)]
pub struct FirstHead {
    held: Vec<u8>,
    /// The offset of the frame that is not complete.
    at: usize,
}

/// The bytes that a library may read.
#[derive(Debug, PartialEq, Eq)]
pub struct Released {
    /// All bytes so far.
    pub bytes: Vec<u8>,
    /// The head is an extended CONNECT for a WebSocket, and says [`STAND_IN`].
    pub is_websocket: bool,
}

impl FirstHead {
    /// Takes the next bytes of the stream. `None`: the head is not complete. The caller bounds the
    /// bytes that are taken until then.
    pub fn take(&mut self, bytes: &[u8]) -> Option<Released> {
        self.held.extend_from_slice(bytes);
        loop {
            let mut reader = HeadReader { bytes: &self.held, at: self.at };
            let kind = reader.variable()?;
            if kind == WEBTRANSPORT {
                return Some(self.release());
            }
            let length = usize::try_from(reader.variable()?).unwrap_or(usize::MAX);
            let content = reader.at;
            let end = content.saturating_add(length);
            if kind != HEADERS && kind <= LAST_KNOWN {
                return Some(self.release());
            }
            if end > self.held.len() {
                return None;
            }
            if kind == HEADERS {
                return Some(self.release_head(content..end));
            }
            self.at = end;
        }
    }

    /// Returns all bytes so far, of a stream whose head is not complete.
    pub fn release(&mut self) -> Released {
        Released {
            bytes: std::mem::take(&mut self.held),
            is_websocket: false,
        }
    }

    /// `head` is the content of the first HEADERS frame.
    fn release_head(&mut self, head: Range<usize>) -> Released {
        let section = &self.held[head.clone()];
        let Some(value) = websocket_value(section) else {
            return self.release();
        };
        let stand_in = [&[STAND_IN.len() as u8], STAND_IN.as_bytes()].concat();
        let made = [&section[..value.start], &stand_in, &section[value.end..]].concat();
        let length = (made.len() as u64 | (0b10 << 30)) as u32;
        let parts = [
            &self.held[..self.at],
            &[HEADERS as u8],
            &length.to_be_bytes(),
            &made,
            &self.held[head.end..],
        ];
        Released {
            bytes: parts.concat(),
            is_websocket: true,
        }
    }
}

/// Returns the place of the value of `:protocol`, if it is `websocket`, in a field section
/// (RFC 9204 §4.5). `None` also for a section that cannot be read, which the library refuses.
fn websocket_value(section: &[u8]) -> Option<Range<usize>> {
    let mut reader = HeadReader { bytes: section, at: 0 };
    // Required Insert Count and Base.
    reader.integer(8)?;
    reader.integer(7)?;
    while let Some(first) = section.get(reader.at) {
        match first.leading_zeros() {
            // Indexed.
            0 => {
                reader.integer(6)?;
            }
            // A literal value, and a name of a table.
            1 => {
                reader.integer(4)?;
                reader.string(7)?;
            }
            // A literal value and a literal name.
            2 => {
                let is_protocol = reader.string(3)?.is(&PROTOCOL);
                let value = reader.at;
                let is_websocket = reader.string(7)?.is(&WEBSOCKET);
                if is_protocol {
                    return is_websocket.then_some(value..reader.at);
                }
            }
            // The same two with the entries behind the base.
            3 => {
                reader.integer(4)?;
            }
            _ => {
                reader.integer(3)?;
                reader.string(7)?;
            }
        }
    }
    None
}

/// A string of a field section.
struct Literal<'b> {
    bytes: &'b [u8],
    is_coded: bool,
}

impl Literal<'_> {
    fn is(&self, word: &HeadText) -> bool {
        self.bytes == if self.is_coded { word.coded } else { word.plain }
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

    /// An integer of variable length (RFC 9000 §16).
    fn variable(&mut self) -> Option<u64> {
        let first = self.byte()?;
        let mut value = u64::from(first & 0x3f);
        for _ in 1..1 << (first >> 6) {
            value = value << 8 | u64::from(self.byte()?);
        }
        Some(value)
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
    fn string(&mut self, bits: u32) -> Option<Literal<'b>> {
        let is_coded = self.bytes.get(self.at)? & (1 << bits) != 0;
        let length = self.integer(bits)?;
        let bytes = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(Literal { bytes, is_coded })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The codes of RFC 7541, appendix B, each with its bits.
    const CODES: [(u8, u32, u32); 12] = [
        (b':', 0x5c, 7),
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

    fn frame(kind: u8, content: &[u8]) -> Vec<u8> {
        [&[kind, 0x40, u8::try_from(content.len()).unwrap()], content].concat()
    }

    /// CONNECT, this line, and lines of every other kind.
    fn head(line: &[u8]) -> Vec<u8> {
        let other =
            [0x51, 2, b'/', b'x', 0xd7, 0x10, 0x01, 1, b'y', 0x23, b'a', b'b', b'c', 1, b'z'];
        frame(1, &[&[0, 0, 0xcf], line, &other].concat())
    }

    fn take(bytes: &[u8]) -> Option<Released> {
        FirstHead::default().take(bytes)
    }

    #[test]
    fn a_websocket_gets_another_name() {
        let grease = frame(0x21, b"grease");
        for is_coded in [false, true] {
            let asked = head(&line(b":protocol", b"websocket", is_coded));
            let sent = [&grease[..], &asked, &frame(0, b"data")].concat();
            let released = take(&sent).unwrap();
            assert!(released.is_websocket);
            let text = String::from_utf8_lossy(&released.bytes).into_owned();
            assert!(text.contains("\u{b}connect-udp") && text.ends_with("\u{4}data"), "{text}");
            // What was written is read again, and has no WebSocket any more.
            let again = take(&released.bytes).unwrap();
            assert_eq!(
                again,
                Released {
                    bytes: released.bytes,
                    is_websocket: false
                }
            );
        }
    }

    #[test]
    fn everything_else_stays_as_it_is() {
        for bytes in [
            head(&line(b":protocol", b"sockets", true)),
            head(&line(b"protocol:", b"websocket", false)),
            frame(0, b"data"),
            frame(4, b""),
            vec![0x40, 0x41, 7],
            frame(1, &[0, 0, 0x2f]),
            frame(1, &[]),
        ] {
            let expected = Released {
                bytes: bytes.clone(),
                is_websocket: false,
            };
            assert_eq!(take(&bytes), Some(expected));
        }
    }

    #[test]
    fn a_head_in_parts_is_kept_until_it_is_complete() {
        let sent = [frame(0x21, b"x"), head(&line(b":protocol", b"websocket", true))].concat();
        let whole = take(&sent).unwrap();
        let mut first = FirstHead::default();
        let (last, others) = sent.split_last().unwrap();
        assert!(others.iter().all(|byte| first.take(&[*byte]).is_none()));
        assert_eq!(first.take(&[*last]), Some(whole));
        assert_eq!(FirstHead::default().take(others), None);
        let mut first = FirstHead::default();
        first.take(others);
        assert_eq!(first.release().bytes, others);
    }
}
