//! The error log, and the writing of all logs.
//!
//! Supervisor and front add to the same log. The supervisor writes its lines itself. The front has
//! a thread for each log ([`Writer`]); its event loops hand lines over and never wait.

mod line;
mod repeats;
mod target;
mod writer;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(crate) use howdah_config::LogLevel as Level;
use howdah_sys::process::Exit;

use self::line::line;
pub(crate) use self::line::timestamp;
use self::repeats::Repeats;
pub(crate) use self::target::Target;
pub(crate) use self::writer::Writer;

/// How long the supervisor waits for a log that takes nothing. Beyond, the line is lost and
/// counted.
const PATIENCE: Duration = Duration::from_millis(100);

/// The error log: `2026-11-21T09:40:49.123Z error shop: what happened`.
#[derive(Debug)]
pub(crate) struct ErrorLog {
    /// The least serious lines that are written.
    level: Level,
    output: Output,
    repeats: Mutex<Repeats>,
}

/// How lines get to the log.
#[derive(Debug)]
enum Output {
    /// The supervisor's way. Counts the lines that were lost because the log took nothing.
    Direct(Target, AtomicU64),
    /// The front's way.
    Thread(Writer),
}

impl ErrorLog {
    /// A log that goes to `target` and gets lines of `level` and more serious ones.
    pub(crate) fn new(target: Target, level: Level) -> ErrorLog {
        ErrorLog::with(level, Output::Direct(target, AtomicU64::new(0)))
    }

    fn with(level: Level, output: Output) -> ErrorLog {
        ErrorLog { level, output, repeats: Mutex::default() }
    }

    /// The same log, written by a thread of its own from now on.
    ///
    /// # Errors
    /// Fails if the thread cannot be started.
    pub(crate) fn on_thread(&self) -> io::Result<ErrorLog> {
        let target = self.target().clone();
        let tell = move |lost| target.write(&lost_lines("error log", lost));
        let writer = Writer::start(self.target().clone(), tell)?;
        Ok(ErrorLog::with(self.level, Output::Thread(writer)))
    }

    /// Adds a line. `site` is the site it is about; `None` for the server as a whole. Beyond ten
    /// lines of a kind within ten seconds, lines are counted and the count is written.
    pub(crate) fn say(&self, level: Level, site: Option<&str>, what: &str) {
        if level > self.level {
            return;
        }
        let now = Instant::now();
        self.report_repeats(now);
        if self.repeats().admits(level, site, what, now) {
            self.write(&line(clock(), level, site, what.as_bytes()));
        }
    }

    /// As [`ErrorLog::say`], with bytes that a pool wrote, whose rate is limited elsewhere.
    pub(crate) fn quote(&self, level: Level, site: &str, what: &[u8]) {
        if level <= self.level {
            self.write(&line(clock(), level, Some(site), what));
        }
    }

    /// Writes how many lines were counted in the windows that are over.
    pub(crate) fn report_repeats(&self, now: Instant) {
        self.write_reports(now, false);
    }

    /// When [`ErrorLog::report_repeats`] has something to write next; `None` if nothing is counted.
    pub(crate) fn repeats_due(&self) -> Option<Instant> {
        self.repeats().due()
    }

    /// Writes everything that is left, at the end of the process.
    pub(crate) fn finish(&self) {
        self.write_reports(Instant::now(), true);
        if let Output::Thread(writer) = &self.output {
            writer.finish();
        }
    }

    /// The log's file or stream.
    pub(crate) fn target(&self) -> &Target {
        match &self.output {
            Output::Direct(target, _) => target,
            Output::Thread(writer) => writer.target(),
        }
    }

    fn write_reports(&self, now: Instant, all: bool) {
        let reports = self.repeats().take(now, all);
        for report in reports {
            let text = report.text.as_bytes();
            self.write(&line(clock(), report.level, report.site.as_deref(), text));
        }
    }

    fn write(&self, line: &[u8]) {
        match &self.output {
            Output::Thread(writer) => writer.write(line),
            Output::Direct(target, lost) => {
                let patience = match lost.load(Ordering::Relaxed) {
                    0 => PATIENCE,
                    _ => Duration::ZERO,
                };
                if !target.takes_a_line(patience) {
                    lost.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                target.write(line);
                let lines = lost.load(Ordering::Relaxed);
                if lines > 0 && target.takes_a_line(Duration::ZERO) {
                    lost.store(0, Ordering::Relaxed);
                    target.write(&lost_lines("error log", lines));
                }
            }
        }
    }

    fn repeats(&self) -> MutexGuard<'_, Repeats> {
        self.repeats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The access log at `target`, written by a thread of its own. `log` is told of lines that were
/// lost.
///
/// # Errors
/// Fails if the thread cannot be started.
pub(crate) fn access_log(target: Target, log: &Arc<ErrorLog>) -> io::Result<Writer> {
    let log = log.clone();
    Writer::start(target, move |lost| {
        log.write(&lost_lines("access log", lost));
    })
}

fn lost_lines(log: &str, lost: u64) -> Vec<u8> {
    let what = format!("the {log} took nothing for a while: {lost} lines of it are lost");
    line(clock(), Level::Warning, None, what.as_bytes())
}

/// How a process ended, from what `wait(2)` says of it; the end of a sentence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitStatus(pub(crate) u32);

impl fmt::Display for WaitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Exit::from_wait(self.0.cast_signed()).fmt(f)
    }
}

/// Microseconds since 1970.
fn clock() -> u64 {
    // A clock before 1970 is wrong anyway.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(0)
}
