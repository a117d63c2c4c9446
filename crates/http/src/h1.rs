//! HTTP/1.0 and HTTP/1.1 on the wire (RFC 9112).
//!
//! [`parse_request`] and [`ChunkedDecoder`] are strict where two recipients could disagree: a
//! message that could end at two places is refused, never repaired (RFC 9112 §11.2).

mod chunked;
mod encode;
mod framing;
mod head;

use std::fmt;

use crate::Status;

pub use chunked::{ChunkedDecoder, Decoded};
pub use encode::{
    CONTINUE, Framing, LAST_CHUNK, complete_kept_head, encode_chunk_size, encode_head,
    encode_kept_head,
};
pub use head::{parse_request, worth_parsing};

/// The progress of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The head is valid so far and does not end in these bytes.
    Incomplete,
    /// The head is complete.
    Complete(Parsed),
}

/// The result of a complete head, besides its [`Request`](crate::Request).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// Bytes of the head, including the empty line and any empty lines before the head. The content
    /// begins after them.
    pub head_length: usize,
    /// Whether the connection persists after the response (RFC 9112 §9.3).
    pub persistent: bool,
    /// Whether the client waits for [`CONTINUE`] before it sends its content (RFC 9110 §10.1.1).
    pub expect_continue: bool,
}

/// The reason why a request is refused. The connection is closed after the answer: the start of the
/// next request is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// 400, 413, 414, 417, 421, 431, 501 or 505.
    pub status: Status,
    /// The mistake, for the log.
    pub why: &'static str,
}

impl Refusal {
    /// 400 Bad Request.
    pub const fn bad(why: &'static str) -> Refusal {
        Refusal { status: Status::BAD_REQUEST, why }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}: {}", self.status, self.status.reason(), self.why)
    }
}

impl std::error::Error for Refusal {}
