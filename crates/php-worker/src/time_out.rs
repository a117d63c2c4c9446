//! The end of a script that the front does not let run any longer.

use std::sync::atomic::{AtomicBool, Ordering};

use howdah_sys::usage;

use crate::running::{BacktraceReason, RUNNING};
use crate::sapi;
use crate::slow_log;

/// The script is to end at its next safe point.
static ASKED: AtomicBool = AtomicBool::new(false);
/// The request was logged, and asked to end.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Minimum age of a request that the front's signal can be meant for, in nanoseconds. A signal that
/// reaches a younger request was sent for the previous request and arrived late.
const YOUNGEST: u64 = 100_000_000;

/// Forgets a signal that was sent for a former request.
pub fn request_begins() {
    TAKEN.store(false, Ordering::Relaxed);
    ASKED.store(false, Ordering::Relaxed);
}

/// Acts on the front's signal: as [`ask`], unless the signal was meant for a former request.
/// Async-signal-safe.
pub fn signalled() {
    let is_old = |(_, began)| usage::monotonic().saturating_sub(began) >= YOUNGEST;
    if RUNNING.present().is_some_and(is_old) {
        ask();
    }
}

/// Logs the running script with its backtrace, and asks it to end with a fatal error; once for each
/// request. Does nothing between requests. Call this function in the thread of the script.
/// Async-signal-safe.
pub fn ask() {
    if RUNNING.present().is_none() || TAKEN.swap(true, Ordering::Relaxed) {
        return;
    }
    // SAFETY: the request runs in this thread, which does not go on meanwhile.
    unsafe { RUNNING.log(BacktraceReason::TimedOut, slow_log::depth()) };
    ASKED.store(true, Ordering::Relaxed);
    sapi::interrupt();
}

/// Returns whether the script must end. Called at a safe point of the script.
pub fn is_asked() -> bool {
    ASKED.swap(false, Ordering::Relaxed)
}
