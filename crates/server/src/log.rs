//! The error log, and the writing of all logs.
//!
//! The supervisor and the front write to the same error log. The supervisor writes its lines
//! itself. The front has one thread per log ([`LogWriter`]); its event loops hand lines over and
//! never wait.

mod line;
mod repeats;
mod site_logs;
mod system_log;
mod target;
mod writer;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(crate) use howdah_config::LogLevel as Level;
use howdah_sys::process::Exit;

pub(crate) use self::line::timestamp;
use self::line::{Subject, line, lines};
use self::repeats::{LineSubject, Repeats};
pub(crate) use self::site_logs::{SiteLogs, obstacles, open_file};
pub(crate) use self::system_log::LineKind;
pub(crate) use self::target::LogTarget;
pub(crate) use self::writer::{LineOrigin, LogWriter};

/// Time that the supervisor waits for a log that accepts no bytes. Afterwards the line is lost and
/// counted.
const PATIENCE: Duration = Duration::from_millis(100);

/// The error log: `2026-11-21T09:40:49.123Z error shop: what happened`.
#[derive(Debug)]
pub(crate) struct ErrorLog {
    /// The least severe level that is written.
    level: Level,
    output: LogOutput,
    repeats: Mutex<Repeats>,
}

/// The two ways in which lines are written.
#[derive(Debug)]
enum LogOutput {
    /// Written by the supervisor itself. Counts the lines that were lost because the log accepted
    /// no bytes.
    Direct(LogTarget, AtomicU64),
    /// Written by a thread of the front.
    Thread(LogWriter),
}

impl ErrorLog {
    /// A log that writes lines of `level` and more severe ones to `target`.
    pub(crate) fn new(target: LogTarget, level: Level) -> ErrorLog {
        ErrorLog::with(level, LogOutput::Direct(target, AtomicU64::new(0)))
    }

    fn with(level: Level, output: LogOutput) -> ErrorLog {
        ErrorLog { level, output, repeats: Mutex::default() }
    }

    /// The same log, written by its own thread from now on.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn on_thread(&self) -> io::Result<ErrorLog> {
        let target = self.target().clone();
        let tell = move |lost| {
            // A system's log that is still missing loses this line, too.
            target.write(&lost_lines("error log", lost), Duration::ZERO);
        };
        let writer = LogWriter::start(self.target().clone(), tell)?;
        Ok(ErrorLog::with(self.level, LogOutput::Thread(writer)))
    }

    /// Writes a line. `site` is the site that the line is about; `None` for the whole server. After
    /// ten similar lines within ten seconds, further lines are counted, and their number is written
    /// later.
    pub(crate) fn say(&self, level: Level, site: Option<&str>, what: &str) {
        self.say_limited(level, Subject { site, client: None }, what);
    }

    /// Writes as [`ErrorLog::say`] does, a line that a client caused. The line names the client
    /// before anything that the client or a site can choose, so that tools which read the log can
    /// rely on it.
    pub(crate) fn say_of_client(
        &self,
        level: Level,
        site: Option<&str>,
        client: SocketAddr,
        what: &str,
    ) {
        self.say_limited(level, Subject { site, client: Some(client) }, what);
    }

    fn say_limited(&self, level: Level, subject: Subject<'_>, what: &str) {
        if level > self.level {
            return;
        }
        let now = Instant::now();
        self.report_repeats(now);
        let Subject { site, client } = subject;
        let about = LineSubject {
            level,
            site,
            client: client.map(|client| client.ip()),
        };
        if self.repeats().admits(about, what, now) {
            self.write(&line(clock(), level, subject, what.as_bytes()));
        }
    }

    /// Writes as [`ErrorLog::say`] does, bytes that a pool wrote, all of them. Their rate is
    /// limited elsewhere.
    pub(crate) fn quote(&self, level: Level, site: &str, what: &[u8]) {
        if level <= self.level {
            let subject = Subject { site: Some(site), client: None };
            lines(clock(), level, subject, what).iter().for_each(|line| self.write(line));
        }
    }

    /// Writes the numbers of lines that were counted in windows that have ended.
    pub(crate) fn report_repeats(&self, now: Instant) {
        self.write_reports(now, false);
    }

    /// The time at which [`ErrorLog::report_repeats`] has something to write; `None` if nothing was
    /// counted.
    pub(crate) fn repeats_due(&self) -> Option<Instant> {
        self.repeats().due()
    }

    /// Writes all remaining lines at the end of the process.
    pub(crate) fn finish(&self) {
        self.write_reports(Instant::now(), true);
        if let LogOutput::Thread(writer) = &self.output {
            writer.finish();
        }
    }

    /// The file or stream of the log.
    pub(crate) fn target(&self) -> &LogTarget {
        match &self.output {
            LogOutput::Direct(target, _) => target,
            LogOutput::Thread(writer) => writer.target(),
        }
    }

    fn write_reports(&self, now: Instant, all: bool) {
        let reports = self.repeats().take(now, all);
        for report in reports {
            let subject = Subject {
                site: report.site.as_deref(),
                client: report.client.map(|address| SocketAddr::new(address, 0)),
            };
            self.write(&line(clock(), report.level, subject, report.text.as_bytes()));
        }
    }

    fn write(&self, line: &[u8]) {
        match &self.output {
            LogOutput::Thread(writer) => writer.write(None, line),
            LogOutput::Direct(target, lost) => {
                let patience = match lost.load(Ordering::Relaxed) {
                    0 => PATIENCE,
                    _ => Duration::ZERO,
                };
                if !target.takes_a_line(patience) {
                    lost.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                let lines = lost.load(Ordering::Relaxed) + target.write(line, patience);
                lost.store(lines, Ordering::Relaxed);
                if lines > 0 && target.takes_a_line(Duration::ZERO) {
                    let is_told =
                        target.write(&lost_lines("error log", lines), Duration::ZERO) == 0;
                    lost.store(if is_told { 0 } else { lines }, Ordering::Relaxed);
                }
            }
        }
    }

    fn repeats(&self) -> MutexGuard<'_, Repeats> {
        self.repeats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The access log at `target`, written by its own thread. Lost lines are reported in `log`.
///
/// # Errors
/// The thread cannot be started.
pub(crate) fn access_log(target: LogTarget, log: &Arc<ErrorLog>) -> io::Result<LogWriter> {
    let log = log.clone();
    LogWriter::start(target, move |lost| {
        log.write(&lost_lines("access log", lost));
    })
}

fn lost_lines(log: &str, lost: u64) -> Vec<u8> {
    let what = format!(
        "the {log} lost {lost} lines because it accepted no bytes: its reader or disk is too slow"
    );
    line(clock(), Level::Warning, Subject::default(), what.as_bytes())
}

/// Formats a `wait(2)` status as the end of a sentence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitStatus(pub(crate) u32);

impl fmt::Display for WaitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Exit::from_wait(self.0.cast_signed()).fmt(f)
    }
}

impl WaitStatus {
    /// The name of a signal, or its number.
    pub(crate) fn signal_name(signal: u32) -> String {
        let name = i32::try_from(signal).ok().and_then(howdah_sys::process::signal_name);
        name.map_or_else(|| signal.to_string(), str::to_owned)
    }
}

/// Microseconds since 1970.
fn clock() -> u64 {
    // A clock before 1970 is wrong; 0 is used then.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(0)
}
