//! Sends lines to the system's log: to syslog over `/dev/log` in the form that `syslog(3)` uses
//! (RFC 3164 without a host name), or to systemd's journal in its own protocol.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use howdah_config::{LogDaemon, LogLevel, SystemLog};
use howdah_http::date;
use howdah_sys::zone;

/// The kind of a log's lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineKind {
    /// Requests.
    Access,
    /// Lines that begin with a time and a level, which have a place of their own in the system's
    /// log.
    Error,
}

/// A socket through which lines reach the system's log.
///
/// The socket has no connection: each message names the path. A daemon that is started later, or
/// again, gets the lines from then on.
#[derive(Debug)]
pub(crate) struct SystemLogSocket {
    socket: UnixDatagram,
    path: PathBuf,
    log: SystemLog,
    kind: LineKind,
}

impl SystemLogSocket {
    /// Makes a socket for the daemon that listens at `path`.
    ///
    /// # Errors
    /// The system gives no socket.
    pub(super) fn new(log: SystemLog, path: PathBuf, kind: LineKind) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(SystemLogSocket { socket, path, log, kind })
    }

    /// Sends whole lines. Waits up to `patience` for a daemon that takes none. Returns the number
    /// of lines that were lost.
    pub(super) fn send(&self, lines: &[u8], patience: Duration) -> u64 {
        let until = Instant::now() + patience;
        let mut lost = 0;
        let mut message = Vec::new();
        let now = super::clock() / 1_000_000;
        for line in lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            message.clear();
            self.encode(&mut message, line, now);
            lost += u64::from(self.send_one(&message, until).is_err());
        }
        lost
    }

    fn send_one(&self, message: &[u8], until: Instant) -> io::Result<()> {
        loop {
            match self.socket.send_to(message, &self.path) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < until =>
                {
                    thread::sleep(PAUSE);
                }
                result => return result.map(drop),
            }
        }
    }

    fn encode(&self, out: &mut Vec<u8>, line: &[u8], now: u64) {
        let (severity, text) = match self.kind {
            LineKind::Access => (INFORMATIONAL, line),
            LineKind::Error => without_time(line),
        };
        let SystemLog { daemon, facility, tag } = &self.log;
        // Writing to memory cannot fail.
        let _ = match daemon {
            LogDaemon::Syslog => {
                let priority = u32::from(*facility) * 8 + u32::from(severity);
                let pid = std::process::id();
                let _ = write!(out, "<{priority}>");
                local_time(out, now);
                write!(out, " {tag}[{pid}]: ")
            }
            LogDaemon::Journald => write!(
                out,
                "PRIORITY={severity}\nSYSLOG_FACILITY={facility}\nSYSLOG_IDENTIFIER={tag}\nMESSAGE="
            ),
        };
        match text.get(..LONGEST) {
            None => out.extend_from_slice(text),
            Some(start) => {
                out.extend_from_slice(start);
                out.extend_from_slice(b" [cut]");
            }
        }
        if *daemon == LogDaemon::Journald {
            out.push(b'\n');
        }
    }
}

impl AsFd for SystemLogSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Takes the time off a line of the error log. Returns the severity of its level, and the rest.
fn without_time(line: &[u8]) -> (u8, &[u8]) {
    let mut words = line.splitn(3, |&byte| byte == b' ');
    match (words.next(), words.next().and_then(LogLevel::from_name), words.next()) {
        (Some(_), Some(level), Some(text)) => (severity(level), text),
        _ => (INFORMATIONAL, line),
    }
}

/// RFC 5424, table 2.
fn severity(level: LogLevel) -> u8 {
    match level {
        LogLevel::Error => 3,
        LogLevel::Warning => 4,
        LogLevel::Notice => 5,
        LogLevel::Info => INFORMATIONAL,
    }
}

/// Appends `Nov  6 08:49:37` in local time.
fn local_time(out: &mut Vec<u8>, now: u64) {
    let offset = zone::offset(i64::try_from(now).unwrap_or(0));
    // `Sun, 06 Nov 1994 08:49:37 GMT`
    let date = date::format(now.saturating_add_signed(offset.into()));
    out.extend_from_slice(&date[8..12]);
    out.extend_from_slice(&[if date[5] == b'0' { b' ' } else { date[5] }, date[6], b' ']);
    out.extend_from_slice(&date[17..25]);
}

const INFORMATIONAL: u8 = 6;
/// Bytes of a line; the rest is cut. rsyslog's default for a whole message is 8 KiB.
const LONGEST: usize = 8000;
/// Time between two attempts at a daemon that takes no message.
const PAUSE: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn daemon(name: &str) -> (UnixDatagram, PathBuf) {
        let name = format!("howdah-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        (UnixDatagram::bind(&path).unwrap(), path)
    }

    fn received(daemon: &UnixDatagram) -> String {
        let mut room = [0; 16 << 10];
        let count = daemon.recv(&mut room).unwrap();
        String::from_utf8(room[..count].to_vec()).unwrap()
    }

    fn log(text: &str) -> SystemLog {
        let target = howdah_config::AccessTarget::parse(text).unwrap();
        let howdah_config::AccessTarget::System(log) = target else {
            panic!("{text}");
        };
        log
    }

    #[test]
    fn each_line_is_a_message_of_syslog() {
        let (daemon, path) = daemon("syslog");
        let log = log("syslog:local3:shop");
        let access = SystemLogSocket::new(log.clone(), path.clone(), LineKind::Access).unwrap();
        assert_eq!(access.send(b"one two\nthree\n", Duration::ZERO), 0);
        let tag = format!(" shop[{}]: ", std::process::id());
        for text in ["one two", "three"] {
            let message = received(&daemon);
            let (start, rest) = message.split_once(&tag).unwrap();
            assert_eq!(rest, text);
            assert_eq!((&start[..5], start.len()), ("<158>", 20), "{start}");
        }
        let errors = SystemLogSocket::new(log, path.clone(), LineKind::Error).unwrap();
        errors.send(b"2026-11-21T09:40:49.123Z error shop: it broke\n", Duration::ZERO);
        let message = received(&daemon);
        assert!(
            message.starts_with("<155>") && message.ends_with("]: shop: it broke"),
            "{message}"
        );
        let long = [&vec![b'x'; 20_000][..], b"\n"].concat();
        assert_eq!(access.send(&long, Duration::ZERO), 0);
        let message = received(&daemon);
        assert!(message.len() < 8192 && message.ends_with("x [cut]"), "{}", message.len());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn each_line_is_an_entry_of_the_journal() {
        let (daemon, path) = daemon("journal");
        let log = log("journald:shop");
        let socket = SystemLogSocket::new(log, path.clone(), LineKind::Error).unwrap();
        socket.send(b"2026-11-21T09:40:49.123Z warning careful\nno level\n", Duration::ZERO);
        let entry = |priority, text| {
            format!(
                "PRIORITY={priority}\nSYSLOG_FACILITY=23\nSYSLOG_IDENTIFIER=shop\nMESSAGE={text}\n"
            )
        };
        assert_eq!(received(&daemon), entry(4, "careful"));
        assert_eq!(received(&daemon), entry(6, "no level"));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_daemon_that_is_missing_or_full_costs_lines_and_not_the_server() {
        let (daemon, path) = daemon("full");
        let socket = SystemLogSocket::new(log("syslog:"), path.clone(), LineKind::Access).unwrap();
        let mut sent = 0;
        while socket.send(b"line\n", Duration::ZERO) == 0 {
            sent += 1;
            assert!(sent < 1_000_000, "the queue of a socket is bounded");
        }
        received(&daemon);
        assert_eq!(socket.send(b"line\n", Duration::ZERO), 0);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(socket.send(b"line\nline\n", Duration::ZERO), 2);
        // One that is started later gets the lines from then on.
        let _daemon = UnixDatagram::bind(&path).unwrap();
        assert_eq!(socket.send(b"line\n", Duration::ZERO), 0);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn times_are_those_of_syslog() {
        let mut out = Vec::new();
        local_time(&mut out, 784_111_777);
        let offset = i64::from(zone::offset(784_111_777));
        let date = date::format(784_111_777u64.saturating_add_signed(offset));
        let day = String::from_utf8_lossy(&date[5..7]).trim_start_matches('0').to_owned();
        let expected = format!("Nov {day:>2} {}", String::from_utf8_lossy(&date[17..25]));
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
