//! The lines that a pool writes to its standard error, limited in length and rate.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use howdah_sys::descriptor;

use crate::log::{ErrorLog, Level};

/// Maximum bytes of a line, which fits into a line of the log. The rest of a longer line is logged
/// as another line.
pub(super) const LONGEST_LINE: usize = 4096 - 512;
/// Bytes of the last line that are kept. The rest is left out.
const LONGEST_LAST: usize = 1024;
/// Lines that a pool may write at once, and lines per second in the long run. Further lines are
/// counted and dropped.
const BURST: f64 = 2000.0;
const PER_SECOND: f64 = 200.0;
/// The same for bytes: 2000 lines of usual length, and 200 of them per second.
const BURST_BYTES: f64 = 512.0 * 1024.0;
const BYTES_PER_SECOND: f64 = 50.0 * 1024.0;
/// Reads per call. Other sources of the supervisor are served between calls.
const READS: usize = 16;

/// The reading end of a pool's log pipe.
#[derive(Debug)]
pub(super) struct PoolLog {
    pipe: File,
    pending: Vec<u8>,
    flood: TokenBucket,
    /// The last line, at most [`LONGEST_LAST`] bytes of it, and when it came.
    last: Option<(Instant, String)>,
    /// PHP's line on a mistake in php.ini.
    ini_mistake: Option<String>,
}

impl PoolLog {
    /// Reads from `pipe`.
    ///
    /// # Errors
    /// The pipe cannot be set to non-blocking.
    pub(super) fn new(pipe: impl Into<OwnedFd>) -> io::Result<PoolLog> {
        let pipe = File::from(pipe.into());
        descriptor::set_nonblocking(&pipe)?;
        Ok(PoolLog {
            pipe,
            pending: Vec::new(),
            flood: TokenBucket::new(Instant::now()),
            last: None,
            ini_mistake: None,
        })
    }

    /// A further reader of the same pipe. A line that has arrived in part may be torn.
    ///
    /// # Errors
    /// The process has no more descriptors.
    pub(super) fn of_same_pipe(&self) -> io::Result<PoolLog> {
        PoolLog::new(self.pipe.try_clone()?)
    }

    /// Logs the lines that have arrived. Returns `false` at the end of the pipe.
    pub(super) fn forward(&mut self, log: &ErrorLog, pool: &str) -> bool {
        let mut buffer = [0; 16 * 1024];
        for _ in 0..READS {
            match descriptor::read_now(self.pipe.as_fd(), &mut buffer) {
                Ok(0) => {
                    self.flush(log, pool);
                    return false;
                }
                Ok(length) => {
                    self.pending.extend_from_slice(&buffer[..length]);
                    self.log_whole_lines(log, pool);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Returns the last line that has come since then, without its level. `None`: none has come.
    pub(super) fn last_since(&self, then: Instant) -> Option<String> {
        if !self.pending.is_empty() {
            return Some(beginning(&self.pending));
        }
        let last = self.last.as_ref().filter(|(came, _)| *came >= then);
        last.map(|(_, line)| line.clone())
    }

    /// Returns PHP's message about a mistake in php.ini, after which PHP reads no further. `None`:
    /// there was no such message.
    pub(super) fn ini_mistake(&self) -> Option<&str> {
        self.ini_mistake.as_deref()
    }

    /// Logs an unfinished line. Called at the end of a pool.
    pub(super) fn flush(&mut self, log: &ErrorLog, pool: &str) {
        let rest = std::mem::take(&mut self.pending);
        if !rest.is_empty() {
            self.log(log, pool, &rest);
        }
        self.flood.report(log, pool);
    }

    fn log_whole_lines(&mut self, log: &ErrorLog, pool: &str) {
        let pending = std::mem::take(&mut self.pending);
        let mut rest = pending.as_slice();
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n').or(too_long(rest)) {
            self.log(log, pool, &rest[..end]);
            rest = rest[end..].strip_prefix(b"\n").unwrap_or(&rest[end..]);
        }
        self.pending = rest.to_vec();
    }

    fn log(&mut self, log: &ErrorLog, pool: &str, line: &[u8]) {
        if !line.trim_ascii().is_empty() {
            self.last = Some((Instant::now(), beginning(line)));
        }
        if is_of_ini_parser(line) {
            self.ini_mistake = Some(beginning(line));
        }
        if line.is_empty() || !self.flood.admits(line.len(), Instant::now()) {
            return;
        }
        self.flood.report(log, pool);
        let (level, message) = level_of(line);
        log.quote(level, pool, message);
    }
}

impl AsFd for PoolLog {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

/// Returns the end of the first line of those that a line becomes that is too long. A character is
/// not divided.
fn too_long(rest: &[u8]) -> Option<usize> {
    let continues = |back: &usize| rest[LONGEST_LINE - back] & 0xC0 == 0x80;
    (rest.len() > LONGEST_LINE).then(|| LONGEST_LINE - (0..3).take_while(continues).count())
}

/// The beginning of a line, without its level, as text of one line.
fn beginning(line: &[u8]) -> String {
    let (_, message) = level_of(line);
    let text = String::from_utf8_lossy(&message[..message.len().min(LONGEST_LAST)]);
    text.trim().replace(char::is_control, " ")
}

/// Splits the level from a worker's line. Lines of extensions and libraries have no level.
pub(super) fn level_of(line: &[u8]) -> (Level, &[u8]) {
    let told = line.iter().position(|&byte| byte == b':').and_then(|end| {
        let message = line[end..].strip_prefix(b": ")?;
        Some((Level::from_name(&line[..end])?, message))
    });
    match is_of_ini_parser(line) {
        true => (Level::Warning, line),
        false => told.unwrap_or((Level::Notice, line)),
    }
}

/// Returns whether PHP's parser of php.ini has written the line, while PHP started: `PHP:  syntax
/// error, unexpected end of file in /etc/php.ini on line 7`. The settings from there on have no
/// effect.
pub(crate) fn is_of_ini_parser(line: &[u8]) -> bool {
    line.starts_with(b"PHP:  ")
}

/// A token bucket: each line takes a token, and one for each byte; tokens are added as time passes.
#[derive(Debug)]
struct TokenBucket {
    admitted_from: Instant,
    lines: f64,
    bytes: f64,
    dropped: u64,
}

impl TokenBucket {
    fn new(now: Instant) -> TokenBucket {
        TokenBucket {
            admitted_from: now,
            lines: BURST,
            bytes: BURST_BYTES,
            dropped: 0,
        }
    }

    fn admits(&mut self, length: usize, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.admitted_from).as_secs_f64();
        self.admitted_from = now;
        self.lines = (self.lines + passed * PER_SECOND).min(BURST);
        self.bytes = (self.bytes + passed * BYTES_PER_SECOND).min(BURST_BYTES);
        let length = length as f64;
        if self.lines < 1.0 || self.bytes < length {
            self.dropped += 1;
            return false;
        }
        self.lines -= 1.0;
        self.bytes -= length;
        true
    }

    fn report(&mut self, log: &ErrorLog, pool: &str) {
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            let what = format!(
                "{dropped} lines were dropped: the site logs more than {PER_SECOND} lines or \
                 {BYTES_PER_SECOND} bytes per second"
            );
            log.say(Level::Warning, Some(pool), &what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogTarget;
    use std::io::Write;
    use std::time::Duration;

    fn logged(written: &[u8]) -> Vec<String> {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("howdah-lines-{}-{number}", std::process::id()));
        let log = ErrorLog::new(LogTarget::file(&path).unwrap(), Level::Info);
        let (reader, mut writer) = io::pipe().unwrap();
        let mut lines = PoolLog::new(reader).unwrap();
        for part in written.chunks(30_000) {
            writer.write_all(part).unwrap();
            assert!(lines.forward(&log, "shop"));
        }
        drop(writer);
        // The writer may live on for a moment in a child that another test has just forked.
        while lines.forward(&log, "shop") {}
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        // The line without its time.
        text.lines().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
    }

    #[test]
    fn each_line_has_its_level_and_its_pool() {
        let lines = logged(
            b"error: PHP Fatal error:  x, while running /a.php\nlibfoo: odd\n\nwarning: w\nno end",
        );
        let expected = [
            "error shop: PHP Fatal error:  x, while running /a.php",
            "notice shop: libfoo: odd",
            "warning shop: w",
            "notice shop: no end",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_line_without_end_is_bounded() {
        let lines = logged(&vec![b'x'; 3 * LONGEST_LINE + 1]);
        assert_eq!(lines.len(), 4);
        let texts = lines.iter().map(|line| line.strip_prefix("notice shop: ").unwrap());
        let lengths: Vec<usize> = texts.map(str::len).collect();
        assert_eq!(lengths, [LONGEST_LINE, LONGEST_LINE, LONGEST_LINE, 1]);
        let elephants = "\u{1f418}".repeat(LONGEST_LINE / 4 + 1);
        for shift in 0..4 {
            let lines = logged(format!("{}{elephants}\n", "x".repeat(shift)).as_bytes());
            let whole = lines.concat().replace("notice shop: ", "");
            assert_eq!(whole, format!("{}{elephants}", "x".repeat(shift)));
        }
    }

    #[test]
    fn a_flood_is_counted_instead() {
        let lines = logged(&b"error: again\n".repeat(BURST as usize * 3));
        assert!(
            lines.len() >= BURST as usize && lines.len() < BURST as usize * 2,
            "{}",
            lines.len()
        );
        assert!(lines.last().unwrap().contains("lines were dropped"));
    }

    #[test]
    fn after_a_flood_there_is_room_again() {
        let start = Instant::now();
        let mut flood = TokenBucket::new(start);
        assert_eq!((0..5000).filter(|_| flood.admits(100, start)).count(), BURST as usize);
        let later = start + Duration::from_secs(1);
        assert_eq!((0..5000).filter(|_| flood.admits(100, later)).count(), PER_SECOND as usize);
        let mut long = TokenBucket::new(start);
        let most = BURST_BYTES as usize / 4096;
        assert_eq!((0..5000).filter(|_| long.admits(4096, start)).count(), most);
    }
}
