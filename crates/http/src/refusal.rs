//! The refusal of a message.

use std::fmt;

use crate::Status;

/// The reason why a request, or the response of an upstream, is refused. The connection is closed:
/// the start of the next message is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status for the client: 400, 413, 414, 417, 421, 431, 501 or 505 for a request, 502 for a
    /// response.
    pub status: Status,
    /// The mistake, for the log.
    pub why: &'static str,
}

impl Refusal {
    /// Returns a refusal with 400 Bad Request.
    pub const fn bad(why: &'static str) -> Refusal {
        Refusal { status: Status::BAD_REQUEST, why }
    }

    /// 431 Request Header Fields Too Large.
    #[cold]
    pub(crate) const fn fields_too_large(why: &'static str) -> Refusal {
        Refusal {
            status: Status::REQUEST_HEADER_FIELDS_TOO_LARGE,
            why,
        }
    }

    /// Returns whether the head of the refused request is known, so that its site's page can
    /// answer: only the length of its content, or its expectation, is refused.
    pub fn keeps_head(&self) -> bool {
        matches!(self.status, Status::CONTENT_TOO_LARGE | Status::EXPECTATION_FAILED)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}: {}", self.status, self.status.reason(), self.why)
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_is_known_where_only_the_content_is_refused() {
        let keeps_head = |status| Refusal { status, why: "" }.keeps_head();
        assert!(keeps_head(Status::CONTENT_TOO_LARGE) && keeps_head(Status::EXPECTATION_FAILED));
        assert!(!keeps_head(Status::BAD_REQUEST) && !keeps_head(Status::URI_TOO_LONG));
    }
}
