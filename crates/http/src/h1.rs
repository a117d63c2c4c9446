//! HTTP/1.0 and HTTP/1.1 on the wire (RFC 9112).
//!
//! [`parse_request`], [`parse_response`] and [`ChunkedDecoder`] are strict where two recipients
//! could disagree: a message that could end at two places is refused, never repaired (RFC 9112
//! §11.2).

mod chunked;
mod encode;
mod framing;
mod head;
mod request_head;
mod response;

pub use chunked::{ChunkedDecoder, Decoded};
pub(crate) use encode::is_of_connection;
pub use encode::{
    CONTINUE, Framing, HopFields, LAST_CHUNK, complete_kept_head, encode_chunk_size, encode_head,
    encode_kept_head, encode_switch,
};
pub use head::{first_line, parse_request, worth_parsing};
pub use request_head::{RequestConnection, RequestHead};
pub use response::{ParsedResponse, parse_response};

/// The progress of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadProgress {
    /// The head is valid so far and does not end in these bytes.
    Incomplete,
    /// The head is complete.
    Complete(ParsedHead),
}

/// The result of a complete head, besides its [`Request`](crate::Request).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedHead {
    /// Bytes of the head, including the empty line and any empty lines before the head. The content
    /// begins after them.
    pub head_length: usize,
    /// Whether the connection persists after the response (RFC 9112 §9.3).
    pub persistent: bool,
    /// Whether the client waits for [`CONTINUE`] before it sends its content (RFC 9110 §10.1.1).
    pub expect_continue: bool,
}
