//! The reasons why an upstream failed, with their statuses and words.

use std::fmt;
use std::io;

use howdah_http::{Limits, Refusal, Status};

use crate::budget::BudgetUsedUp;

/// The most bytes of a response's field lines, and the most lines. Beyond: 502. The same limits
/// hold for the fields behind chunked content. The content has none.
pub(super) const HEAD_LIMITS: Limits = Limits {
    request_line: 8 * 1024,
    field_line: 64 * 1024,
    fields_total: 64 * 1024,
    field_count: 200,
    body: 0,
};

/// The reasons why an upstream failed.
#[derive(Debug)]
pub(super) enum UpstreamFailure {
    /// The connection could not be made.
    Unreachable(io::Error),
    /// The connection was not made within `upstream_connect_timeout`.
    Unanswered,
    /// The connection could not be made a moment ago, and is not tried.
    Resting,
    /// No connection may be made.
    NoRoom(BudgetUsedUp),
    /// TLS could not be begun. The text says why and what to do.
    Handshake(String),
    /// The connection broke.
    Broken(io::Error),
    /// The response ended too early.
    Short,
    /// Nothing was received or sent for `upstream_timeout`.
    Silent,
    /// The fields of the response go beyond [`HEAD_LIMITS`].
    TooLarge(&'static str),
    /// The response is not valid HTTP/1.
    Malformed(&'static str),
    /// The request's content cannot be read from its file.
    Storage(io::Error),
}

impl UpstreamFailure {
    /// Returns the status for the client, which is mod_proxy's.
    pub(super) fn status(&self) -> Status {
        match self {
            UpstreamFailure::Unreachable(_)
            | UpstreamFailure::Unanswered
            | UpstreamFailure::Resting
            | UpstreamFailure::NoRoom(_) => Status::SERVICE_UNAVAILABLE,
            UpstreamFailure::Handshake(_)
            | UpstreamFailure::Broken(_)
            | UpstreamFailure::Short
            | UpstreamFailure::TooLarge(_)
            | UpstreamFailure::Malformed(_) => Status::BAD_GATEWAY,
            UpstreamFailure::Silent => Status::GATEWAY_TIMEOUT,
            UpstreamFailure::Storage(_) => Status::INTERNAL_SERVER_ERROR,
        }
    }
}

impl fmt::Display for UpstreamFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpstreamFailure::Unreachable(error) => write!(f, "it cannot be reached: {error}"),
            UpstreamFailure::Unanswered => {
                f.write_str("it has not taken the connection within `upstream_connect_timeout`")
            }
            UpstreamFailure::Resting => f.write_str(
                "it could not be reached a moment ago, and is tried again after `upstream_retry`",
            ),
            UpstreamFailure::NoRoom(no_room) => write!(f, "it is not asked: {no_room}"),
            UpstreamFailure::Handshake(why) => f.write_str(why),
            UpstreamFailure::Broken(error) => write!(f, "its connection broke: {error}"),
            UpstreamFailure::Short => {
                f.write_str("it closed the connection before its response was complete")
            }
            UpstreamFailure::Silent => f.write_str("it has not gone on for `upstream_timeout`"),
            UpstreamFailure::TooLarge(why) => write!(
                f,
                "its response has too large a head: {why}; at most {} bytes in {} fields are \
                 taken, which no key changes",
                HEAD_LIMITS.fields_total, HEAD_LIMITS.field_count
            ),
            UpstreamFailure::Malformed(why) => write!(f, "its response is malformed: {why}"),
            UpstreamFailure::Storage(error) => {
                write!(f, "the request's content cannot be read again: {error}")
            }
        }
    }
}

/// Returns the failure of a response whose head, or whose framing, is refused.
pub(super) fn refused(refusal: Refusal) -> UpstreamFailure {
    match refusal.status {
        Status::REQUEST_HEADER_FIELDS_TOO_LARGE => UpstreamFailure::TooLarge(refusal.why),
        _ => UpstreamFailure::Malformed(refusal.why),
    }
}
