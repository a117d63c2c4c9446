//! The end of a script that the front does not let run any longer.

use std::sync::atomic::{AtomicBool, Ordering};

use howdah_sys::usage;

use crate::running::{BacktraceReason, RUNNING};
use crate::sapi;
use crate::slow_log;

/// The script is to end at its next safe point.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Minimum age of a request that the front's signal can be meant for, in nanoseconds. A signal that
/// reaches a younger request was sent for the previous request and arrived late.
const YOUNGEST: u64 = 100_000_000;

/// Forgets a signal that was sent for a former request.
pub fn request_begins() {
    ASKED.store(false, Ordering::Relaxed);
}

/// Logs the running script with its backtrace, and asks it to end with a fatal error. Does nothing
/// between requests. Async-signal-safe.
pub fn ask() {
    let Some((_, began)) = RUNNING.present() else {
        return;
    };
    if usage::monotonic().saturating_sub(began) < YOUNGEST {
        return;
    }
    // SAFETY: the request runs in this thread, which the signal has interrupted.
    unsafe { RUNNING.log(BacktraceReason::TimedOut, slow_log::depth()) };
    ASKED.store(true, Ordering::Relaxed);
    sapi::interrupt();
}

/// Returns whether the script must end. Called at a safe point of the script.
pub fn is_asked() -> bool {
    ASKED.swap(false, Ordering::Relaxed)
}
