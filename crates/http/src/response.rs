//! The head of a response.

use std::fmt;

use crate::{Fields, Status, members, scan};

/// Status and fields of a response. Framing, Date, Server and Connection are added when it is
/// encoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status code.
    pub status: Status,
    /// A reason phrase that replaces the registered one, from a script's own status line.
    pub reason: Option<Box<[u8]>>,
    /// The field lines, in order.
    pub fields: Fields,
}

/// The reason why a field line cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadField {
    /// The name is empty or not a token (RFC 9110 §5.1).
    Name,
    /// The value holds CR, LF, NUL or another control byte, which would split the response (RFC
    /// 9110 §5.5).
    Value,
}

impl ResponseHead {
    /// Returns a head without fields.
    pub fn new(status: Status) -> ResponseHead {
        ResponseHead {
            status,
            reason: None,
            fields: Fields::new(),
        }
    }

    /// Appends a line that comes from outside, such as a script's. White space around the value is
    /// dropped.
    ///
    /// # Errors
    /// The field cannot be sent; the head is left as it was.
    pub fn push(&mut self, name: &[u8], value: &[u8]) -> Result<(), BadField> {
        if !scan::is_token(name) {
            return Err(BadField::Name);
        }
        let value = scan::trim(value);
        if !scan::is_field_value(value) {
            return Err(BadField::Value);
        }
        self.fields.push(name, value);
        Ok(())
    }

    /// Returns whether the head asks for the connection to be closed, as a script may with
    /// `Connection: close`.
    pub fn asks_to_close(&self) -> bool {
        self.fields
            .values(b"connection")
            .flat_map(members)
            .any(|option| option.eq_ignore_ascii_case(b"close"))
    }

    /// Returns the length in the head's own Content-Length. `None`: the head has none, several or a
    /// malformed one.
    pub fn content_length(&self) -> Option<u64> {
        let mut values = self.fields.values(b"content-length");
        let length = scan::decimal(values.next()?)?;
        values.next().is_none().then_some(length)
    }
}

impl fmt::Display for BadField {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            BadField::Name => "the field's name is not a token",
            BadField::Value => "the field's value holds a control byte",
        })
    }
}

impl std::error::Error for BadField {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_split_the_response_is_refused() {
        type Row = (&'static [u8], &'static [u8], Result<(), BadField>);
        let table: [Row; 12] = [
            (b"X-Ok", b"yes", Ok(())),
            (b"X-Empty", b"", Ok(())),
            (b"X-Tab", b"a\tb", Ok(())),
            (b"X-Latin", b"caf\xe9", Ok(())),
            (b"", b"v", Err(BadField::Name)),
            (b"X Y", b"v", Err(BadField::Name)),
            (b"X:", b"v", Err(BadField::Name)),
            (b"X\r\nY", b"v", Err(BadField::Name)),
            (b"X", b"a\r\nSet-Cookie: x", Err(BadField::Value)),
            (b"X", b"a\nb", Err(BadField::Value)),
            (b"X", b"a\0b", Err(BadField::Value)),
            (b"X", b"a\x7f", Err(BadField::Value)),
        ];
        for (name, value, expected) in table {
            let mut head = ResponseHead::new(Status::OK);
            assert_eq!(head.push(name, value), expected, "{name:?}");
            assert_eq!(head.fields.len(), usize::from(expected.is_ok()));
        }
    }

    #[test]
    fn white_space_around_a_value_is_dropped() {
        let mut head = ResponseHead::new(Status::OK);
        head.push(b"A", b" \tb c \t").unwrap();
        assert_eq!(head.fields.value(b"a"), Some(&b"b c"[..]));
    }

    #[test]
    fn asks_to_close() {
        for (value, closes) in
            [("close", true), ("Keep-Alive, CLOSE", true), ("keep-alive", false), ("closed", false)]
        {
            let mut head = ResponseHead::new(Status::OK);
            head.fields.push(b"Connection", value.as_bytes());
            assert_eq!(head.asks_to_close(), closes, "{value}");
        }
    }

    #[test]
    fn content_length_is_one_number() {
        let table: [(&[&str], Option<u64>); 6] = [
            (&[], None),
            (&["12"], Some(12)),
            (&["12", "12"], None),
            (&["+12"], None),
            (&["12, 12"], None),
            (&["99999999999999999999"], None),
        ];
        for (values, expected) in table {
            let mut head = ResponseHead::new(Status::OK);
            values
                .iter()
                .for_each(|value| head.fields.push(b"Content-Length", value.as_bytes()));
            assert_eq!(head.content_length(), expected, "{values:?}");
        }
    }
}
