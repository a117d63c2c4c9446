//! The limits of a connection, as the crate and the meter of frames take them.

use ::h2::server::Builder;
use howdah_config::Http2;
use howdah_http::h2::FrameLimits;

use super::outbox::CHUNK;

/// Short DATA frames of a connection that may wait to be read, as short messages of a WebSocket do
/// that come together. The library ends the connection beyond them: each takes [`SMALL_FRAME`]
/// bytes of memory. A smaller number would be met before anybody had time to read.
const SMALL_FRAMES: usize = 64 * 1024;
const SMALL_FRAME: usize = 256;

/// Returns the crate's settings.
pub(super) fn builder(config: &Http2) -> Builder {
    let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let streams = usize::try_from(config.streams).unwrap_or(usize::MAX);
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(number(config.streams))
        .max_header_list_size(number(config.header_list))
        .initial_window_size(number(config.stream_window))
        .initial_connection_window_size(number(config.connection_window))
        .max_send_buffer_size(4 * CHUNK)
        .data_frame_budget(SMALL_FRAMES * SMALL_FRAME)
        // A client may cancel all that it has asked for at once; `resets` bounds how often.
        .max_pending_accept_reset_streams(streams)
        .max_concurrent_reset_streams(streams);
    builder
}

/// Returns the limits of the client's frames.
pub(super) fn limits(config: &Http2) -> FrameLimits {
    let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    FrameLimits {
        resets: number(config.resets),
        pings: number(config.pings),
        settings: number(config.settings),
        empty_frames: number(config.empty_frames),
        other_frames: number(config.other_frames),
        window_updates: number(config.window_updates),
        continuations: number(config.continuations),
    }
}
