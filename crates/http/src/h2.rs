//! HTTP/2 without a connection (RFC 9113): heads of requests and responses, which HTTP/3 shares,
//! the frames that a client sends, and the refusals among those of a server.
//!
//! A library decodes frames and HPACK. These functions decide what a head means, as strictly as
//! [`h1`](crate::h1) does: a head that two recipients could understand differently is refused.

mod field_lines;
mod frames;
mod refusals;
mod request;
mod response;

pub use frames::{ExceededLimit, FrameLimits, FrameMeter, PERIOD, PREFACE};
pub use refusals::{RefusalMeter, Refusals};
pub use request::{PseudoFields, read_request};
pub use response::{content_length, is_sent, trailers_to_send};
