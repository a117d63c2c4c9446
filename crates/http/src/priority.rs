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

    /// Returns this priority with the members of a field in place of its own.
    pub fn with_field(self, value: &[u8]) -> Priority {
        self.with(PriorityMembers::of(value))
    }

    /// Returns this priority with those members in place of its own (RFC 9218 §8).
    pub fn with(self, members: PriorityMembers) -> Priority {
        Priority {
            urgency: members.urgency.unwrap_or(self.urgency),
            is_incremental: members.is_incremental.unwrap_or(self.is_incremental),
        }
    }
}

/// The members that a Priority field has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PriorityMembers {
    urgency: Option<u8>,
    is_incremental: Option<bool>,
}

impl PriorityMembers {
    /// Reads a field. It is a dictionary (RFC 9651 §3.2); members that are unknown or malformed
    /// count as absent.
    pub fn of(field: &[u8]) -> PriorityMembers {
        let mut read = PriorityMembers::default();
        for member in field.split(|&byte| byte == b',') {
            match member.trim_ascii() {
                [b'u', b'=', urgency @ b'0'..=b'7'] => read.urgency = Some(urgency - b'0'),
                b"i" | b"i=?1" => read.is_incremental = Some(true),
                b"i=?0" => read.is_incremental = Some(false),
                _ => {}
            }
        }
        read
    }
}

/// A client's new priority for a request (PRIORITY_UPDATE, RFC 9218 §7). It takes the place of the
/// one that the request's own field asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorityUpdate {
    /// The number of the request's stream. The request may not have come yet.
    pub stream: u64,
    /// The new priority.
    pub priority: Priority,
}

/// Bytes of a PRIORITY_UPDATE that are read. A longer one, which no known member needs, is ignored.
pub(crate) const MOST_UPDATE: usize = 256;

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
