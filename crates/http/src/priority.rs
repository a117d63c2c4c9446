//! The priority of a response among others of its connection (RFC 9218).

/// The value of a Priority field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// 0 is sent first, 7 last; 3 is usual.
    pub urgency: u8,
    /// Whether parts of the response are useful: it shares the connection with others of its
    /// urgency. Otherwise these are sent one after the other.
    pub is_incremental: bool,
}

impl Priority {
    /// The priority of a request that says nothing. RFC 9218 §4.2 would have its response sent in
    /// one run before others; without a word of the client, a long download would then hold up all
    /// that it asks for later.
    pub const UNSAID: Priority = Priority { urgency: 3, is_incremental: true };

    /// Returns the priority that a request's field asks for.
    pub fn of_request(field: Option<&[u8]>) -> Priority {
        let default = Priority { urgency: 3, is_incremental: false };
        field.map_or(Priority::UNSAID, |value| default.with_field(value))
    }

    /// Returns this priority with the members of a response's field in place of its own (RFC 9218
    /// §8). The field is a dictionary (RFC 9651 §3.2); members that are unknown or malformed count
    /// as absent.
    pub fn with_field(self, value: &[u8]) -> Priority {
        let mut read = self;
        for member in value.split(|&byte| byte == b',') {
            match member.trim_ascii() {
                [b'u', b'=', urgency @ b'0'..=b'7'] => read.urgency = urgency - b'0',
                b"i" | b"i=?1" => read.is_incremental = true,
                b"i=?0" => read.is_incremental = false,
                _ => {}
            }
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_browsers_send() {
        let rows: [(&[u8], u8, bool); 10] = [
            (b"u=0", 0, false),
            (b"u=1, i", 1, true),
            (b"i", 3, true),
            (b"u=5,i=?0", 5, false),
            (b"i=?1 , u=7", 7, true),
            (b"u=8", 3, false),
            (b"u=-1", 3, false),
            (b"u=1;a=b", 3, false),
            (b"\xff,,u=2", 2, false),
            (b"", 3, false),
        ];
        for (field, urgency, is_incremental) in rows {
            let expected = Priority { urgency, is_incremental };
            assert_eq!(Priority::of_request(Some(field)), expected, "{}", field.escape_ascii());
        }
    }

    #[test]
    fn a_response_changes_what_it_names() {
        let asked = Priority { urgency: 5, is_incremental: true };
        assert_eq!(asked.with_field(b"u=1"), Priority { urgency: 1, is_incremental: true });
        assert_eq!(asked.with_field(b"i=?0"), Priority { urgency: 5, is_incremental: false });
        assert_eq!(Priority::of_request(None), Priority::UNSAID);
    }
}
