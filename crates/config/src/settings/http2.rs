//! The keys of `[http2]`.

use crate::kinds::{Flag, SizeWithin, Within};
use crate::section::section;

section! {
    /// HTTP/2. The keys of `[limits]` hold for its requests and connections, too; these say what an
    /// HTTP/2 connection may do besides. A connection that exceeds a number of frames is ended with
    /// ENHANCE_YOUR_CALM, and the error log names the key. See [http2.md](http2.md).
    pub struct Http2 {
        /// Whether clients may speak HTTP/2. Otherwise HTTP/1 is all that they get.
        enabled ("enabled"): bool as Flag = true,
            "A client that cannot speak it says nothing of it, and costs nothing.";
        /// Requests that a connection may have open at once. Further ones are refused with
        /// REFUSED_STREAM, and the client sends them again later.
        streams ("streams"): u64 as Within<1, 10_000> = 100,
            "The number that RFC 9113 recommends; browsers ask for fewer at once.";
        /// Bytes of one request's decoded header fields, 32 more for each. Beyond it: 431 without a
        /// line in the logs; beyond four times as much, the connection ends. `request_line`,
        /// `field_line`, `fields_total` and `field_count` of `[limits]` are checked as well, and
        /// logged.
        header_list ("header_list"): u64 as SizeWithin<4096, { 1 << 24 }> = 128 << 10,
            "Room for what `[limits]` allows by default, so that its limits are met first.";
        /// Bytes of one request's content that the client may send before the server has taken
        /// them.
        stream_window ("stream_window"): u64 as SizeWithin<{ 16 << 10 }, WINDOW_END> = 128 << 10,
            "An upload gets 2.5 MB/s over a round trip of 50 ms. More is faster, and more memory \
             for requests that wait.";
        /// Bytes of content that a connection may send before the server has taken them, over all
        /// its requests.
        connection_window ("connection_window"): u64 as
            SizeWithin<{ 64 << 10 }, WINDOW_END> = 512 << 10,
            "It is what a connection can make the server hold, however many requests it has.";
        /// Requests that a client may cancel (RST_STREAM) within ten seconds.
        resets ("resets"): u64 as Within<1, FRAMES> = 500,
            "Leaving a page cancels a hundred at most. Requests that are begun and cancelled by \
             the thousand are an attack (Rapid Reset).";
        /// PING frames within ten seconds.
        pings ("pings"): u64 as Within<1, FRAMES> = 100,
            "Clients ask once a second at most, some of them once for each round trip.";
        /// SETTINGS frames within ten seconds.
        settings ("settings"): u64 as Within<1, FRAMES> = 20,
            "Clients send one at the start.";
        /// DATA, HEADERS and CONTINUATION frames without content within ten seconds. One that ends
        /// a request is not counted.
        empty_frames ("empty_frames"): u64 as Within<1, FRAMES> = 50,
            "Nothing needs them.";
        /// CONTINUATION frames of one request.
        continuations ("continuations"): u64 as Within<1, FRAMES> = 8,
            "Each carries 16 KB, so that eight are twice what `fields_total` allows by default.";
        /// WINDOW_UPDATE frames within ten seconds, beside one for each kilobyte that the client
        /// was sent.
        window_updates ("window_updates"): u64 as Within<1, FRAMES> = 2_000,
            "A client that lets a response out byte by byte makes a frame of each.";
        /// PRIORITY, PRIORITY_UPDATE and unknown frames within ten seconds.
        other_frames ("other_frames"): u64 as Within<1, FRAMES> = 500,
            "A browser sends a few for each request.";
    }
}

/// The largest window (RFC 9113 §6.9.1).
const WINDOW_END: u64 = (1 << 31) - 1;
/// More frames than a client can send within ten seconds.
const FRAMES: u64 = u32::MAX as u64;
