//! The error log, and the files that logs go to.
//!
//! Supervisor and front write to the same log. A line is one `write(2)` of at most `PIPE_BUF` bytes
//! to a descriptor that appends, so lines of several processes and threads never mix, and nobody
//! waits for a lock.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use howdah_sys::descriptor;
use howdah_sys::process::Exit;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// A request, a process or a whole site failed.
    Error,
    /// Something is not as it should be.
    Warning,
    /// Worth knowing.
    Notice,
    /// What happens in the ordinary course of things.
    Info,
}

impl Level {
    /// The word in the log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Notice => "notice",
            Level::Info => "info",
        }
    }

    /// The level of that name.
    pub(crate) fn from_name(name: &[u8]) -> Option<Level> {
        [Level::Error, Level::Warning, Level::Notice, Level::Info]
            .into_iter()
            .find(|level| level.name().as_bytes() == name)
    }
}

/// The error log: `2026-11-21T09:40:49.123Z error shop: what happened`.
#[derive(Debug, Clone)]
pub(crate) struct ErrorLog(Target);

impl ErrorLog {
    /// A log that goes to `target`.
    pub(crate) fn new(target: Target) -> ErrorLog {
        ErrorLog(target)
    }

    /// Adds a line. `site` is who it is about, if it is not about the server as a whole.
    pub(crate) fn say(&self, level: Level, site: Option<&str>, what: &str) {
        self.0.write(&line(now(), level, site, what.as_bytes()));
    }

    /// As [`ErrorLog::say`], with bytes that somebody else wrote.
    pub(crate) fn quote(&self, level: Level, site: &str, what: &[u8]) {
        self.0.write(&line(now(), level, Some(site), what));
    }

    /// Where the lines go.
    pub(crate) fn target(&self) -> &Target {
        &self.0
    }
}

/// Where lines go: a standard stream, or the end of a file. Its clones share one descriptor, so
/// that all follow when the file is changed.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// `None` for a standard stream.
    path: Option<PathBuf>,
    file: Arc<File>,
}

impl Target {
    /// The end of the file at `path`, which is made if it is missing.
    pub(crate) fn file(path: &Path) -> io::Result<Target> {
        let file = append(path)?;
        Ok(Target {
            path: Some(path.to_owned()),
            file: Arc::new(file),
        })
    }

    /// Standard error.
    pub(crate) fn stderr() -> io::Result<Target> {
        Target::stream(io::stderr().as_fd())
    }

    /// Standard output.
    pub(crate) fn stdout() -> io::Result<Target> {
        Target::stream(io::stdout().as_fd())
    }

    fn stream(stream: BorrowedFd<'_>) -> io::Result<Target> {
        Ok(Target {
            path: None,
            file: Arc::new(stream.try_clone_to_owned()?.into()),
        })
    }

    /// Adds bytes, which should be whole lines. A log that cannot be written to is no reason to
    /// stop serving.
    pub(crate) fn write(&self, lines: &[u8]) {
        let _ = (&*self.file).write_all(lines);
    }

    /// The file, if it is one.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Opens the file anew, after somebody moved it away.
    pub(crate) fn reopen(&self) -> io::Result<()> {
        match &self.path {
            None => Ok(()),
            Some(path) => self.replace(append(path)?.into()),
        }
    }

    /// Goes on with `file`, which somebody with more rights has opened.
    pub(crate) fn replace(&self, file: OwnedFd) -> io::Result<()> {
        descriptor::replace(self.file.as_fd(), file.as_fd())
    }
}

impl AsFd for Target {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// How a process ended, from what `wait(2)` says of it; the end of a sentence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitStatus(pub(crate) u32);

impl fmt::Display for WaitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Exit::from_wait(self.0.cast_signed()).fmt(f)
    }
}

/// ISO 8601 in UTC, to the millisecond, from microseconds since 1970.
pub(crate) fn timestamp(microseconds: u64) -> String {
    let (seconds, milliseconds) = (microseconds / 1_000_000, microseconds / 1000 % 1000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
}

/// Year, month and day of so many days after 1 January 1970. Years are taken to begin in March, so
/// that the day that leap years add is their last.
fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    let days = days + 719_468; // from 1 March of year 0
    let (era, day) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next_year, month, day_of_month)
}

fn now() -> u64 {
    // A clock before 1970 is wrong anyway.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(0)
}

fn append(path: &Path) -> io::Result<File> {
    // Readable for the group that administrators give the folder to; what clients asked for is
    // nobody else's business.
    OpenOptions::new().append(true).create(true).mode(0o640).open(path)
}

/// What a pipe or a file takes in one piece (`PIPE_BUF` of Linux). What is longer is cut, and says
/// so.
const LONGEST_LINE: usize = 4096;
const CUT: &[u8] = b" [cut]\n";

fn line(microseconds: u64, level: Level, site: Option<&str>, what: &[u8]) -> Vec<u8> {
    let mut line = format!("{} {} ", timestamp(microseconds), level.name()).into_bytes();
    if let Some(site) = site {
        line.extend_from_slice(site.as_bytes());
        line.extend_from_slice(b": ");
    }
    escape(&mut line, what);
    if line.len() >= LONGEST_LINE {
        let mut end = LONGEST_LINE - CUT.len();
        while line[end] & 0xC0 == 0x80 {
            end -= 1; // not within a character
        }
        line.truncate(end);
        line.extend_from_slice(CUT);
    } else {
        line.push(b'\n');
    }
    line
}

/// One line stays one line, and a terminal that shows it stays itself.
fn escape(out: &mut Vec<u8>, text: &[u8]) {
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\n' => out.extend_from_slice(b"\\n"),
                '\t' => out.push(b'\t'),
                control if control.is_control() => {
                    out.extend_from_slice(format!("\\x{:02x}", u32::from(control)).as_bytes());
                }
                plain => out.extend_from_slice(plain.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        for byte in chunk.invalid() {
            out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (951_868_800, "2000-03-01T00:00:00.000Z"),
            (1_709_164_800, "2024-02-29T00:00:00.000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000Z"),
            (1_795_252_849, "2026-11-21T09:20:49.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(timestamp(seconds * 1_000_000), text);
        }
        assert_eq!(timestamp(1_999_999), "1970-01-01T00:00:01.999Z");
    }

    #[test]
    fn a_line_says_when_how_bad_who_and_what() {
        let line = line(0, Level::Error, Some("shop"), b"it broke");
        assert_eq!(line, b"1970-01-01T00:00:00.000Z error shop: it broke\n");
    }

    #[test]
    fn nobody_forges_a_line() {
        let text = ["a\nb\x1b[2Jc\u{9b}\u{e4}".as_bytes(), b"\xff"].concat();
        let expected = "1970-01-01T00:00:00.000Z info a\\nb\\x1b[2Jc\\x9b\u{e4}\\xff\n";
        assert_eq!(line(0, Level::Info, None, &text), expected.as_bytes());
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        for filler in ["x", "\u{e4}", "\u{1f418}"] {
            for shift in 0..4 {
                let text = "x".repeat(shift) + &filler.repeat(5000);
                let line = line(0, Level::Info, None, text.as_bytes());
                assert!(line.len() <= LONGEST_LINE && line.len() > LONGEST_LINE - 4);
                assert!(String::from_utf8(line).unwrap().ends_with(" [cut]\n"));
            }
        }
    }

    #[test]
    fn a_moved_file_is_opened_anew_by_all_clones() {
        let folder = std::env::temp_dir().join(format!("howdah-log-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (path, moved) = (folder.join("log"), folder.join("log.1"));
        let target = Target::file(&path).unwrap();
        let clone = target.clone();
        clone.write(b"one\n");
        std::fs::rename(&path, &moved).unwrap();
        clone.write(b"two\n");
        target.reopen().unwrap();
        clone.write(b"three\n");
        assert_eq!(std::fs::read_to_string(&moved).unwrap(), "one\ntwo\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "three\n");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
