//! The keys of `[http3]`.

use crate::kinds::{Flag, SizeWithin, Within};
use crate::section::section;

section! {
    /// HTTP/3, which listeners with TLS answer on the UDP port of the same number. The keys of
    /// `[limits]` hold for its requests and connections, too; these say what an HTTP/3 connection
    /// may do besides. A connection that exceeds one is ended with H3_EXCESSIVE_LOAD, and the error
    /// log names the key. See [http3.md](http3.md).
    pub struct Http3 {
        /// Whether clients may speak HTTP/3, and are told so (Alt-Svc). Otherwise no UDP port is
        /// opened.
        enabled ("enabled"): bool as Flag = true,
            "A client that cannot speak it, or that UDP does not reach, uses HTTP/2 as before.";
        /// Requests that a connection may have open at once. A client waits with further ones.
        streams ("streams"): u64 as Within<1, 10_000> = 100,
            "The number that RFC 9114 recommends at least.";
        /// Bytes of one request's decoded header fields, 32 more for each. Beyond it: 431 without a
        /// line in the logs; beyond four times as much, also encoded, the connection ends.
        /// `request_line`, `field_line`, `fields_total` and `field_count` of `[limits]` are checked
        /// as well, and logged. More than 512 KiB count as 512 KiB.
        header_list ("header_list"): u64 as SizeWithin<4096, { 1 << 24 }> = 128 << 10,
            "Room for what `[limits]` allows by default, so that its limits are met first.";
        /// Bytes of one request's content that the client may send before the server has taken
        /// them.
        stream_window ("stream_window"): u64 as SizeWithin<{ 16 << 10 }, WINDOW_END> = 128 << 10,
            "As in `[http2]`.";
        /// Bytes of content that a connection may send before the server has taken them, over all
        /// its requests.
        connection_window ("connection_window"): u64 as
            SizeWithin<{ 64 << 10 }, WINDOW_END> = 512 << 10,
            "As in `[http2]`.";
        /// Bytes of responses that a connection holds until the client has confirmed them, over all
        /// its requests.
        send_buffer ("send_buffer"): u64 as SizeWithin<{ 64 << 10 }, WINDOW_END> = 1 << 20,
            "A download gets 20 MB/s over a round trip of 50 ms. It is what a slow reader can make \
             the server hold, before content is spooled.";
        /// Requests that a client may cancel within ten seconds.
        resets ("resets"): u64 as Within<1, FRAMES> = 500,
            "As in `[http2]`: requests that are begun and cancelled by the thousand are an attack \
             (Rapid Reset).";
        /// Bytes within ten seconds that a client sends beside its requests: settings, priorities,
        /// the tables of QPACK.
        control_bytes ("control_bytes"): u64 as SizeWithin<1024, WINDOW_END> = 64 << 10,
            "Browsers send some dozen bytes at the start, and a few for each request.";
        /// Handshakes at once, in each thread of the front, from which on a client must first prove
        /// that it is where it says (Retry). The proof costs the client a round trip.
        retry_from ("retry_from"): u64 as Within<0, FRAMES> = 100,
            "Handshakes take milliseconds: this many wait at once only where packets have false \
             senders. 0 asks every client.";
        /// Handshakes at once, in each thread of the front. Packets that begin further ones are
        /// dropped, and the client sends them again.
        handshakes ("handshakes"): u64 as Within<1, FRAMES> = 1_000,
            "Each takes some ten kilobytes until `handshake_timeout`.";
    }
}

/// The largest window, as in HTTP/2.
const WINDOW_END: u64 = (1 << 31) - 1;
/// More than a client can send within ten seconds.
const FRAMES: u64 = u32::MAX as u64;
