//! The Server-Timing field, for the tools of a browser.

use std::fmt::Write;
use std::time::Duration;

use super::{RequestContext, Response};

/// Adds the times until now, in milliseconds: in the queue and in the script, if there was one, and
/// since the request's arrival.
pub(super) fn state(context: &RequestContext<'_, '_>, response: &mut Response) {
    let mut value = String::with_capacity(64);
    let mut add = |name: &str, time: Duration| {
        let separator = if value.is_empty() { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = write!(value, "{separator}{name};dur={:.3}", time.as_secs_f64() * 1000.0);
    };
    if let Some((waited, ran)) = context.script_times {
        add("queue", waited);
        add("php", ran);
    }
    add("total", context.arrival.started.elapsed());
    response.own_head();
    response.push(b"Server-Timing", value.as_bytes());
}
