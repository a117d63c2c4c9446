//! The keys of `[limits]`.

use std::time::Duration;

use crate::kinds::{AtLeast, AutoCount, AutoSize, RateLimit, Size, TimeSpan, Within};
use crate::section::section;
use crate::values::{Count, Rate};

section! {
    /// Limits on what a client may send, and on the time that it may take. Each limit names the
    /// answer to a client that exceeds it.
    pub struct ClientLimits {
        /// Connections open at once, over all listeners. At the limit, those that have been idle
        /// for longest are closed; where none is idle, new ones wait in the kernel's queue, which
        /// the error log says. The limit of open files (`ulimit -n`) may make the number lower,
        /// which the error log says, too. Files that are being sent, temporary files and
        /// connections to upstreams share the descriptors that are left.
        connections ("connections"): usize as AtLeast<usize, 1> = 16_384,
            "Holds 10,000 idle browsers with room to spare, in a few dozen megabytes.";
        /// Connections of one client at once. For a further one, its own one that has been idle for
        /// longest is closed; where none is idle, the new one is, which the error log says.
        /// `"auto"` is no limit until three quarters of `connections` are open; from then on a
        /// sixteenth of `connections`, but at least 256, or three quarters of `connections` if that
        /// is less. All loopback addresses (127.0.0.0/8 and ::1) are one client. Connections of
        /// `trusted_proxies` are no client's.
        client_connections ("client_connections"): Count as AutoCount = Count::Auto,
            "A proxy or an office behind one address is not limited, and no address alone can take \
             all connections.";
        /// Requests of one client in a time: `"50/s"`, `"600/m"`, `"5000/h"` or `"off"`. Beyond
        /// it: 429 with Retry-After. All loopback addresses are one client.
        client_requests ("client_requests"): Rate as RateLimit = Rate::OFF,
            "A page with its pictures is a hundred requests, and an office or a proxy is one \
             client. `\"50/s\"` suits most sites without such clients.";
        /// Requests that one client may send at once before `client_requests` holds, which has to
        /// be there, or in a site without a `client_burst` of its own.
        client_burst ("client_burst"): u32 as AtLeast<u32, 1> = 200,
            "A page with its pictures, twice.";
        /// Bits of an IPv4 address that make a client: all connections from addresses with the same
        /// bits are one client's. All loopback addresses are one client with any number.
        client_prefix_v4 ("client_prefix_v4"): u64 as Within<1, 32> = 32,
            "An address.";
        /// Bits of an IPv6 address that make a client.
        client_prefix_v6 ("client_prefix_v6"): u64 as Within<1, 128> = 64,
            "Providers give at least 64 bits to each of their customers.";
        /// Bytes in a request line. Beyond it: 414.
        request_line ("request_line"): usize as Size<usize> = 8190,
            "Apache's LimitRequestLine.";
        /// Bytes in one header field line. Beyond it: 431.
        field_line ("field_line"): usize as Size<usize> = 16 << 10,
            "Twice Apache's, since single sign-on cookies outgrow 8K.";
        /// Bytes in all header field lines together. Beyond it: 431.
        fields_total ("fields_total"): usize as Size<usize> = 64 << 10,
            "Four of the longest lines; it bounds what a connection can make the server hold.";
        /// Header field lines. Beyond it: 431.
        field_count ("field_count"): usize as AtLeast<usize, 1> = 100,
            "Apache's LimitRequestFields.";
        /// Bytes in a request body; 0 is no limit. Beyond it: 413. PHP's own `post_max_size`
        /// applies as well.
        body ("body"): u64 as Size<u64> = 2 << 30,
            "Lets a 1 GB upload through with its multipart wrapping, and still bounds the \
             temporary disk space.";
        /// From the first byte of a request (or the connection's start) to the end of its header.
        /// Beyond it: 408.
        head_timeout ("head_timeout"): Duration as TimeSpan = Duration::from_secs(20),
            "Apache's RequestReadTimeout: enough for slow phones, too short for slow-header \
             attacks.";
        /// From the connection's start to the end of its TLS handshake. Beyond it the connection is
        /// closed. At the limit of `connections`, those in their handshake are closed as idle ones.
        handshake_timeout ("handshake_timeout"): Duration as TimeSpan = Duration::from_secs(10),
            "Two round trips take a second on the slowest line.";
        /// Between two reads of a request body. Beyond it: 408.
        body_timeout ("body_timeout"): Duration as TimeSpan = Duration::from_secs(30),
            "A stalled upload frees its place.";
        /// Bytes per second that a request body must arrive with on average, after its first 20
        /// seconds; 0 is no limit. Beyond it: 408.
        body_rate ("body_rate"): u64 as Size<u64> = 500,
            "Apache's RequestReadTimeout: no phone is slower, and a client that sends a byte now \
             and then keeps its place no longer.";
        /// Between two writes of a response that the client takes. Beyond it the connection is
        /// closed.
        send_timeout ("send_timeout"): Duration as TimeSpan = Duration::from_secs(60),
            "nginx's send_timeout; slow readers cost no PHP worker, only memory and disk.";
        /// Bytes per second that a client must take on average while a response waits for it, after
        /// `send_timeout`; 0 is no limit. Beyond it the connection is closed.
        send_rate ("send_rate"): u64 as Size<u64> = 500,
            "A client that takes a byte now and then holds its memory and disk no longer.";
        /// The time that an idle connection is kept for the next request. Beyond it the connection
        /// is closed.
        keep_alive_timeout ("keep_alive_timeout"): Duration as TimeSpan = Duration::from_secs(30),
            "An idle connection costs little, and the next click usually comes within half a \
             minute.";
        /// Requests on one connection; 0 is no limit. The last response says `Connection: close`.
        keep_alive_requests ("keep_alive_requests"): u64 as AtLeast<u64, 0> = 10_000,
            "Spreads long-lived clients over the threads anew from time to time.";
        /// Bytes of one `.htaccess` file. Beyond it: 500 for what the file covers.
        htaccess_size ("htaccess_size"): u64 as Size<u64> = 4 << 20,
            "The longest lists of robots and addresses have some hundred kilobytes.";
        /// Work that directives may take for one request, in steps: roughly those of PCRE2, plus
        /// the rules that are tried, the fields and variables that names are compared with, the
        /// bytes that are looked at or copied, the files that are asked for and the sub-requests.
        /// `howdah explain` shows the steps of a URL. Beyond it: 500, and the place of the
        /// directive in the error log.
        htaccess_work ("htaccess_work"): u64 as AtLeast<u64, 1_000> = 50_000_000,
            "A hundred times what the costliest ordinary rules take, and at worst about a second \
             of a processor.";
        /// On stop and reload: how long requests in flight may take to finish. Beyond it they are
        /// cut off: those that PHP has, or that wait for it, a quarter of the time before the end,
        /// at most five seconds, so that a client without a response gets 503 and each has its line
        /// in the logs. After a new release behind a link of a site they have any time: the site's
        /// owner must not cut off those of others.
        drain_timeout ("drain_timeout"): Duration as TimeSpan = Duration::from_secs(60),
            "The same as a site's `request_timeout`: all but scripts that asked for more can \
             finish.";
        /// Bytes of one request body or of one response to a slow reader that are held in memory.
        /// Beyond it they go to an unlinked temporary file.
        spill_memory ("spill_memory"): usize as Size<usize> = 64 << 10,
            "Most forms and pages fit; a thousand slow readers still take only 64 MB.";
        /// Bytes of responses that all requests of one client hold in memory while they wait for
        /// the client, with those of their compressors. Beyond it further content goes to temporary
        /// files, whatever its length, and is not compressed; with 0 at once. Heads of more than
        /// 4 KB over HTTP/2 and HTTP/3, of requests and of responses, count as well where it is
        /// 1 MB or more; beyond it such a request is given up. As many requests of the client may
        /// be open, over all its connections of HTTP/2 and HTTP/3, as it has 16 KB, and at least
        /// 1,024; further ones are refused, and the client may send them again. These connections
        /// themselves may take four times as much, at least 64 MB, at 48 KB for each; beyond it the
        /// client's longest idle ones end. Content of requests counts from 4 KB on; beyond it
        /// content is kept in temporary files, whatever its length.
        client_memory ("client_memory"): usize as Size<usize> = 16 << 20,
            "256 responses of 64 KB, or 1,024 requests that wait. A client that opens thousands \
             of streams and reads none of them takes twice as much at most.";
        /// Bytes of one response to a slow reader that are held in a temporary file; 0 is no file.
        /// Beyond it the script waits for its reader.
        spill_file ("spill_file"): u64 as Size<u64> = 1 << 30,
            "nginx's fastcgi_max_temp_file_size.";
        /// Bytes of all temporary files together: those of request bodies and of responses to slow
        /// readers. `"auto"` is half of what is free in the folder for temporary files, without
        /// these files, measured again and again. Beyond it scripts wait for their readers, and
        /// request bodies that do not fit into memory are answered with 507. While a generation
        /// drains after a reload, it and the new one count separately.
        spill_total ("spill_total"): Option<u64> as AutoSize = None,
            "Slow readers and uploads cannot fill the disk, whatever its size.";
    }
}
