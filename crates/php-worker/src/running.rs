//! The request that runs, for a thread and a signal handler that look at it from outside.

use std::slice;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use howdah_ipc::request::{DecodedRequest, FixedText};
use howdah_sys::usage;

use crate::backtrace;
use crate::log::{self, Level, LogLine};
use crate::process;
use crate::sapi;

/// The numbers of the request that this worker runs. The worker's own thread writes them.
#[derive(Debug, Default)]
pub struct RunningRequest {
    /// Number of the request in this process; 0 while none runs.
    number: AtomicU64,
    /// The script's frames can be read. Otherwise PHP removes them, or has removed them.
    is_in_script: AtomicBool,
    /// Nanoseconds of the clock that all processes share.
    began: AtomicU64,
    /// Nanoseconds between queueing and beginning.
    waited: AtomicU64,
    /// The encoded request, in the worker's own memory.
    encoded: AtomicPtr<u8>,
    length: AtomicUsize,
}

/// The request that this process runs.
pub static RUNNING: RunningRequest = RunningRequest {
    number: AtomicU64::new(0),
    is_in_script: AtomicBool::new(false),
    began: AtomicU64::new(0),
    waited: AtomicU64::new(0),
    encoded: AtomicPtr::new(std::ptr::null_mut()),
    length: AtomicUsize::new(0),
};

/// The reason why a request is logged with its backtrace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BacktraceReason {
    /// The script has run for `slow_after`.
    Slow,
    /// The script is ended, because it ran for longer than it may.
    TimedOut,
}

impl RunningRequest {
    /// Notes that a request begins. `encoded` must stay where it is until [`RunningRequest::end`].
    pub fn begin(&self, number: u64, encoded: &[u8], (began, waited): (u64, u64)) {
        self.began.store(began, Ordering::Relaxed);
        self.waited.store(waited, Ordering::Relaxed);
        self.encoded.store(encoded.as_ptr().cast_mut(), Ordering::Relaxed);
        self.length.store(encoded.len(), Ordering::Relaxed);
        self.is_in_script.store(true, Ordering::Relaxed);
        self.number.store(number, Ordering::Release);
    }

    /// Notes that no function of the script runs any more, and that PHP will remove what the script
    /// has left.
    pub fn leave_script(&self) {
        self.is_in_script.store(false, Ordering::Release);
    }

    /// Notes that the request has ended.
    pub fn end(&self) {
        self.number.store(0, Ordering::Release);
    }

    /// Returns whether the script's frames can be read beside the script.
    pub fn is_in_script(&self) -> bool {
        self.is_in_script.load(Ordering::Acquire)
    }

    /// Number of the request that runs, and the time at which it began; `None` while none runs.
    pub fn present(&self) -> Option<(u64, u64)> {
        let number = self.number.load(Ordering::SeqCst);
        let began = self.began.load(Ordering::Acquire);
        (number != 0 && self.number.load(Ordering::Relaxed) == number).then_some((number, began))
    }

    /// Logs the request with its backtrace of at most `most` frames; 0 reads no frame.
    /// Async-signal-safe.
    ///
    /// # Safety
    /// A request runs, and the worker's own thread does not go on meanwhile.
    pub unsafe fn log(&self, reason: BacktraceReason, most: usize) {
        let (at, length) =
            (self.encoded.load(Ordering::Relaxed), self.length.load(Ordering::Relaxed));
        // SAFETY: set in `begin`, which makes sure that the bytes stay until `end`.
        let encoded = unsafe { slice::from_raw_parts(at, length) };
        let Some(request) = DecodedRequest::decode(encoded) else {
            return;
        };
        let took = usage::monotonic().saturating_sub(self.began.load(Ordering::Relaxed));
        let mut line = LogLine::new(Level::Warning);
        line.text(match reason {
            BacktraceReason::Slow => b"slow script: ",
            BacktraceReason::TimedOut => b"the script is ended because it ran for too long: ",
        });
        seconds(&mut line, took);
        line.text(b" in PHP, ");
        seconds(&mut line, self.waited.load(Ordering::Relaxed));
        line.text(b" in the queue, ");
        line.number(sapi::memory_now() / 1024);
        line.text(b" KiB of memory, worker ");
        line.number(u64::try_from(process::id()).unwrap_or(0));
        line.text(b", backtrace:");
        stack(&mut line, most);
        let text = |which| request.fixed(which).unwrap_or_default();
        let host = request.variables().find(|(name, _)| *name == b"HTTP_HOST");
        line.about(&log::LogContext {
            script: text(FixedText::Script),
            method: text(FixedText::Method),
            host: host.map(|(_, host)| host).unwrap_or_default(),
            uri: text(FixedText::RequestUri),
        });
        line.end();
    }
}

/// Writes the frames: ` #0 sleep() #1 Cart::total() /srv/cart.php:12 #2 {main} /srv/index.php:3`.
fn stack(line: &mut LogLine, most: usize) {
    let mut count = 0;
    let has_more = backtrace::walk(most, |frame| {
        line.text(b" #");
        line.number(count);
        count += 1;
        line.text(b" ");
        if !frame.class.as_bytes().is_empty() {
            line.text(frame.class.as_bytes());
            line.text(b"::");
        }
        match frame.function.as_bytes() {
            b"" if frame.is_outermost => line.text(b"{main}"),
            // PHP's own frame, below the function of the fiber.
            b"" if frame.file.as_bytes().is_empty() => line.text(b"{fiber}"),
            b"" => line.text(b"{include}"),
            name => {
                line.text(name);
                line.text(b"()");
            }
        }
        if !frame.file.as_bytes().is_empty() {
            line.text(b" ");
            line.text(frame.file.as_bytes());
            line.text(b":");
            line.number(frame.line.into());
        }
    });
    match (count, has_more) {
        (0, more) if !more || most == 0 => {
            line.text(b" none, because PHP runs no function of the script")
        }
        (_, true) => line.text(b" and more"),
        _ => {}
    }
}

/// Writes nanoseconds as seconds with three digits.
fn seconds(line: &mut LogLine, nanoseconds: u64) {
    let milliseconds = nanoseconds / 1_000_000;
    line.number(milliseconds / 1000);
    line.text(b".");
    let part = milliseconds % 1000;
    line.text(match part {
        0..10 => b"00",
        10..100 => b"0",
        _ => b"",
    });
    line.number(part);
    line.text(b" s");
}
