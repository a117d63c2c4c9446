//! HTTP/2 without a connection (RFC 9113): heads of requests and responses, which HTTP/3 shares,
//! and the frames that a client sends.
//!
//! A library decodes frames and HPACK. These functions decide what a head means, as strictly as
//! [`h1`](crate::h1) does: a head that two recipients could understand differently is refused.

mod field_lines;
mod frames;
mod request;
mod response;

pub use frames::{Excess, FrameLimits, FrameMeter, PERIOD, PREFACE};
pub use request::{PseudoFields, read_request};
pub use response::{content_length, fields_to_send, trailers_to_send};
