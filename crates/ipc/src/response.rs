//! The content of a response ring: response heads, then the body.
//!
//! ```text
//! head: u32 bytes that follow │ u32 kind │ u16 status │ u16 number of fields │ u32 length of reason │ reason
//!       per field: u16 length of name │ u32 length of value │ name │ value
//! ```
//! Any number of [`HeadKind::Interim`] heads (1xx) may precede the one [`HeadKind::Final`], and so
//! may [`HeadKind::Environment`], whose fields are variables for the server, and
//! [`HeadKind::Notes`]. Everything after the final head is body. [`HeadKind::Refused`] stands for
//! the final head and the body.

use crate::Corrupt;

/// The kind of a response head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadKind {
    /// An informational response (1xx). Another head follows.
    Interim = 1,
    /// The head of the final response. The body follows.
    Final = 2,
    /// Variables that the script has set for the server, as fields: no head of a response. Another
    /// head follows.
    Environment = 3,
    /// Notes that the script has left for the server's log, as fields. Another head follows.
    Notes = 4,
    /// There is no response of the script, which the worker has logged: the server makes a page for
    /// the status. Nothing follows.
    Refused = 5,
}

/// Bytes of a head's prefix.
pub const PREFIX: usize = 8;
/// Largest number of bytes of a script's response head, with its prefix: half of a response ring. A
/// longer head is an error of the script: the client gets 500, and the log a message.
pub const MOST_HEAD: usize = 512 * 1024;
/// Largest number of fields of a script's response head, for the same reason: HTTP/2 and HTTP/3
/// take a microsecond for each.
pub const MOST_FIELDS: usize = 8_000;

/// Encodes response heads into a buffer that is reused.
#[derive(Debug, Default)]
pub struct HeadEncoder {
    buffer: Vec<u8>,
    fields: u16,
    /// The head is that of a response, and not variables or notes.
    is_response: bool,
}

impl HeadEncoder {
    /// Begins a head. An empty `reason` means the standard reason phrase.
    pub fn begin(&mut self, kind: HeadKind, status: u16, reason: &[u8]) {
        self.buffer.clear();
        self.fields = 0;
        self.is_response = matches!(kind, HeadKind::Interim | HeadKind::Final);
        self.buffer.extend_from_slice(&[0; 4]);
        self.buffer.extend_from_slice(&(kind as u32).to_ne_bytes());
        self.buffer.extend_from_slice(&status.to_ne_bytes());
        self.buffer.extend_from_slice(&[0; 2]);
        self.buffer.extend_from_slice(&(reason.len() as u32).to_ne_bytes());
        self.buffer.extend_from_slice(reason);
    }

    /// Adds a field line. Names of 64 KiB and more are left out.
    pub fn field(&mut self, name: &[u8], value: &[u8]) {
        let (Ok(name_length), Ok(value_length)) =
            (u16::try_from(name.len()), u32::try_from(value.len()))
        else {
            return;
        };
        self.buffer.extend_from_slice(&name_length.to_ne_bytes());
        self.buffer.extend_from_slice(&value_length.to_ne_bytes());
        self.buffer.extend_from_slice(name);
        self.buffer.extend_from_slice(value);
        self.fields = self.fields.saturating_add(1);
    }

    /// Returns the whole head with its prefix; `None` if it is longer than [`MOST_HEAD`], or is
    /// that of a response with more than [`MOST_FIELDS`].
    pub fn finish(&mut self) -> Option<&[u8]> {
        if self.is_response && usize::from(self.fields) > MOST_FIELDS {
            return None;
        }
        let length = (self.buffer.len() - PREFIX) as u32;
        self.buffer[0..4].copy_from_slice(&length.to_ne_bytes());
        self.buffer[10..12].copy_from_slice(&self.fields.to_ne_bytes());
        (self.buffer.len() <= MOST_HEAD).then_some(&self.buffer)
    }
}

/// Decodes a head's prefix: the head's kind, and the number of bytes that follow.
///
/// # Errors
/// The kind does not exist, or the head is longer than [`MOST_HEAD`].
pub fn decode_prefix(prefix: [u8; PREFIX]) -> Result<(HeadKind, usize), Corrupt> {
    let [a, b, c, d, e, f, g, h] = prefix;
    let length = u32::from_ne_bytes([a, b, c, d]) as usize;
    if length > MOST_HEAD - PREFIX {
        return Err(Corrupt("a response head is longer than the limit"));
    }
    match u32::from_ne_bytes([e, f, g, h]) {
        1 => Ok((HeadKind::Interim, length)),
        2 => Ok((HeadKind::Final, length)),
        3 => Ok((HeadKind::Environment, length)),
        4 => Ok((HeadKind::Notes, length)),
        5 => Ok((HeadKind::Refused, length)),
        _ => Err(Corrupt("a response head has an unknown kind")),
    }
}

/// A decoded head in the reader's own memory. The reader must still check that its status and
/// fields are valid HTTP.
#[derive(Debug, Clone, Copy)]
pub struct DecodedHead<'b> {
    /// Status code that the script set.
    pub status: u16,
    /// Reason phrase, empty for the standard one.
    pub reason: &'b [u8],
    count: usize,
    fields: &'b [u8],
}

impl<'b> DecodedHead<'b> {
    /// Decodes the bytes after a prefix.
    ///
    /// # Errors
    /// The bytes are not exactly one head.
    pub fn decode(bytes: &'b [u8]) -> Result<DecodedHead<'b>, Corrupt> {
        let wrong = Corrupt("a response head is malformed");
        let (start, rest) = bytes.split_first_chunk::<8>().ok_or(wrong)?;
        let status = u16::from_ne_bytes([start[0], start[1]]);
        let count = u16::from_ne_bytes([start[2], start[3]]).into();
        let reason = u32::from_ne_bytes([start[4], start[5], start[6], start[7]]) as usize;
        let (reason, fields) = rest.split_at_checked(reason).ok_or(wrong)?;
        let head = DecodedHead { status, reason, count, fields };
        if head.fields().count() == count {
            Ok(head)
        } else {
            Err(wrong)
        }
    }

    /// Number of field lines.
    pub fn field_count(&self) -> usize {
        self.count
    }

    /// Name and value of each field line, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&'b [u8], &'b [u8])> + use<'b> {
        let mut rest = self.fields;
        std::iter::from_fn(move || {
            let (lengths, after) = rest.split_first_chunk::<6>()?;
            let name = u16::from_ne_bytes([lengths[0], lengths[1]]) as usize;
            let value =
                u32::from_ne_bytes([lengths[2], lengths[3], lengths[4], lengths[5]]) as usize;
            let (name, after) = after.split_at_checked(name)?;
            let (value, after) = after.split_at_checked(value)?;
            rest = after;
            Some((name, value))
        })
        .take(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_in_comes_out() {
        let mut encoder = HeadEncoder::default();
        encoder.begin(HeadKind::Final, 404, b"Nope");
        encoder.field(b"Content-Type", b"text/html");
        encoder.field(b"Set-Cookie", b"a=1");
        let bytes = encoder.finish().unwrap().to_vec();
        let (kind, length) = decode_prefix(bytes[..PREFIX].try_into().unwrap()).unwrap();
        assert_eq!((kind, length), (HeadKind::Final, bytes.len() - PREFIX));
        let head = DecodedHead::decode(&bytes[PREFIX..]).unwrap();
        assert_eq!((head.status, head.reason), (404, &b"Nope"[..]));
        assert_eq!((head.field_count(), head.fields().count()), (2, 2));
        assert_eq!(head.fields().nth(1), Some((&b"Set-Cookie"[..], &b"a=1"[..])));
    }

    #[test]
    fn no_cut_and_no_changed_byte_panics() {
        let mut encoder = HeadEncoder::default();
        encoder.begin(HeadKind::Interim, 103, b"");
        encoder.field(b"Link", b"</a.css>");
        let bytes = encoder.finish().unwrap()[PREFIX..].to_vec();
        for cut in 0..bytes.len() {
            assert!(DecodedHead::decode(&bytes[..cut]).is_err());
        }
        for position in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[position] = 0xFF;
            let _ = DecodedHead::decode(&changed).map(|head| head.fields().count());
        }
    }

    #[test]
    fn a_head_may_have_half_a_megabyte_and_no_byte_more() {
        // Beside the value: the prefix, the head's own eight bytes, the field's lengths and name.
        let room = MOST_HEAD - PREFIX - 8 - 6 - 1;
        for (length, fits) in [(room, true), (room + 1, false)] {
            let mut encoder = HeadEncoder::default();
            encoder.begin(HeadKind::Final, 200, b"");
            encoder.field(b"X", &vec![b'x'; length]);
            assert_eq!(encoder.finish().is_some(), fits, "{length}");
        }
        for (length, fits) in [(MOST_HEAD - PREFIX, true), (MOST_HEAD - PREFIX + 1, false)] {
            let mut prefix = [0; PREFIX];
            prefix[..4].copy_from_slice(&(length as u32).to_ne_bytes());
            prefix[4..].copy_from_slice(&(HeadKind::Final as u32).to_ne_bytes());
            let expected = fits.then_some((HeadKind::Final, length));
            assert_eq!(decode_prefix(prefix).ok(), expected, "{length}");
        }
    }

    #[test]
    fn a_response_has_eight_thousand_fields_at_most_and_variables_any_number() {
        for (kind, number, fits) in [
            (HeadKind::Final, MOST_FIELDS, true),
            (HeadKind::Final, MOST_FIELDS + 1, false),
            (HeadKind::Interim, MOST_FIELDS + 1, false),
            (HeadKind::Environment, MOST_FIELDS + 1, true),
            (HeadKind::Notes, MOST_FIELDS + 1, true),
        ] {
            let mut encoder = HeadEncoder::default();
            encoder.begin(kind, 200, b"");
            (0..number).for_each(|_| encoder.field(b"X", b""));
            assert_eq!(encoder.finish().is_some(), fits, "{kind:?} {number}");
        }
    }

    #[test]
    fn the_kind_of_a_head_comes_through() {
        use HeadKind::{Environment, Final, Interim, Notes, Refused};
        for kind in [Interim, Final, Environment, Notes, Refused] {
            let mut encoder = HeadEncoder::default();
            encoder.begin(kind, 100, b"");
            let head = encoder.finish().unwrap();
            let prefix = head[..PREFIX].try_into().unwrap();
            assert_eq!(decode_prefix(prefix), Ok((kind, head.len() - PREFIX)));
        }
    }

    #[test]
    fn a_head_without_end_is_refused() {
        let mut encoder = HeadEncoder::default();
        encoder.begin(HeadKind::Final, 200, b"");
        encoder.field(b"X", &vec![b'x'; MOST_HEAD]);
        assert!(encoder.finish().is_none());
        assert!(decode_prefix([0xFF; PREFIX]).is_err());
    }
}
