//! The limits that are counted when a client meets one.

use crate::observe::ProtocolLimit;

/// The limits, by their keys in `[http2]`, or in `[limits]`. Beyond them a connection ends, with
/// these exceptions: a request is refused beyond `streams`, `header_list` and `client_memory`, and
/// a response ends beyond `send_timeout`.
pub(crate) const COUNTED_LIMITS: &[ProtocolLimit] = &[
    ("http2", "resets"),
    ("http2", "pings"),
    ("http2", "settings"),
    ("http2", "empty_frames"),
    ("http2", "other_frames"),
    ("http2", "window_updates"),
    ("http2", "continuations"),
    ("http2", "send_timeout"),
    ("http2", "streams"),
    ("http2", "header_list"),
    ("http2", "client_memory"),
    ("http2", LIBRARY),
];

/// The name of all limits of the library's own, which no key sets.
pub(crate) const LIBRARY: &str = "library";
