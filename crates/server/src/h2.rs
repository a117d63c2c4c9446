//! HTTP/2 connections (RFC 9113): frames to requests, responses to frames. The `h2` crate keeps the
//! protocol's state; no other part of the front knows it.
//!
//! ```text
//! connection   one task: accepts requests, ends the connection
//! wire         the transport, as the crate reads and writes it: counts frames, collects output
//! tasks        one for each request that is served, used again for the next ones
//! stream       a request's stream, served by `streams`
//! sink         the response's content (body::Sink)
//! settings     the limits of a connection
//! counted_limits  those that are counted when a client meets one
//! shared       the state that the streams of a connection share
//! outbox       content that the crate holds, and whose turn it is
//! spare_buffers  memory that the connections of a thread share
//! ```
//! All of them run on the connection's thread. Content is taken from its source only while the
//! client's windows and the transport take it: what a connection holds is bounded by constants of
//! `outbox` and `wire`, and for requests by `connection_window`.

mod connection;
mod counted_limits;
mod outbox;
mod settings;
mod shared;
mod sink;
mod spare_buffers;
mod stream;
mod tasks;
mod wire;

pub(crate) use self::connection::{run, serve};
pub(crate) use self::counted_limits::COUNTED_LIMITS;
#[cfg(test)]
pub(crate) use self::counted_limits::LIBRARY;
