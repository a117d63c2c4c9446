//! The fields that Connection names (RFC 9110 §7.6.1).

use crate::{Fields, members};

/// Names that a message's Connection may list. Each field of a forwarded message is compared with
/// all of them; real messages have up to three. A message with more is refused.
const MOST_NAMES: usize = 64;

/// The names in a message's Connection fields. Fields with these names end at this hop.
#[derive(Clone, Debug)]
pub struct ConnectionNames<'f>(Vec<&'f [u8]>);

impl<'f> ConnectionNames<'f> {
    /// Returns the names that the Connection fields among `fields` list.
    ///
    /// # Errors
    /// There are more than 64.
    pub fn of(fields: &'f Fields) -> Result<ConnectionNames<'f>, &'static str> {
        let all = fields.values(b"connection").flat_map(members);
        let names: Vec<&[u8]> = all.take(MOST_NAMES + 1).collect();
        match names.len() <= MOST_NAMES {
            true => Ok(ConnectionNames(names)),
            false => Err("Connection lists more than 64 names"),
        }
    }

    /// Returns whether `name` is one of them, in any case.
    pub fn contain(&self, name: &[u8]) -> bool {
        self.0.iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_connection_fields_count() {
        let mut fields = Fields::default();
        fields.push(b"Connection", b"close, X-One");
        fields.push(b"X-Other", b"X-Three");
        fields.push(b"connection", b" ,x-two");
        let names = ConnectionNames::of(&fields).unwrap();
        for (name, expected) in
            [("Close", true), ("x-one", true), ("X-Two", true), ("x-three", false), ("", false)]
        {
            assert_eq!(names.contain(name.as_bytes()), expected, "{name}");
        }
    }

    #[test]
    fn more_than_64_names_are_refused() {
        let of = |count: usize| {
            let mut fields = Fields::default();
            fields.push(b"Connection", "a,".repeat(count - 1).as_bytes());
            fields.push(b"Connection", b"b");
            ConnectionNames::of(&fields).is_ok()
        };
        assert!(of(64) && !of(65));
    }
}
