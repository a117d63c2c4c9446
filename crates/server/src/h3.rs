//! HTTP/3 connections (RFC 9114): requests to responses. The `h3` crate keeps the protocol's state
//! above QUIC; no other part of the front knows it.
//!
//! ```text
//! connection   one task: accepts requests, ends the connection
//! transport    QUIC's streams as the crate reads and writes them
//! client_meter the bounds of what a client makes the crate keep or do
//! outgoing     our side of a stream
//! write_turns  the order in which the streams of a connection write
//! stream       one task per request: its stream, served by `streams`
//! stream_frames  the client's side of a request's stream: head, content, trailers
//! content      the request's content as it arrives
//! sink         the response's content (body::Sink)
//! ```
//! All of them run on the connection's thread. Content is taken from its source only while QUIC
//! takes it: what a connection holds is bounded by `send_buffer` and `connection_window`.

mod client_meter;
mod connection;
mod content;
mod outgoing;
mod sink;
mod stream;
mod stream_frames;
mod transport;
mod write_turns;

pub(crate) use self::connection::run;
use crate::observe::ProtocolLimit;

/// The limits that are counted when a client meets one, by their keys in `[http3]`, or in
/// `[limits]`. Beyond them a connection ends, with these exceptions: a request is refused beyond
/// `client_memory`, a response ends beyond `send_timeout`, and QUIC counts `retry_from` and
/// `handshakes` by packet.
pub(crate) const COUNTED_LIMITS: &[ProtocolLimit] = &[
    ("http3", "resets"),
    ("http3", "control_bytes"),
    ("http3", "header_list"),
    ("http3", "send_timeout"),
    ("http3", "client_memory"),
    ("http3", "retry_from"),
    ("http3", "handshakes"),
];
