//! The system's log as the destination of a log: `syslog:FACILITY:TAG` and `journald:TAG`.

use std::fmt;

/// The system's log, as the destination of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemLog {
    /// The program that takes the lines.
    pub daemon: LogDaemon,
    /// The number of the facility (RFC 5424, table 1).
    pub facility: u8,
    /// The name of the program in each line.
    pub tag: String,
}

/// A program that takes the lines of logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogDaemon {
    /// The one behind `/dev/log`.
    Syslog,
    /// systemd's journal.
    Journald,
}

impl SystemLog {
    /// Parses `syslog:FACILITY:TAG` and `journald:TAG`, where each of both may be left out. `None`:
    /// `text` begins with neither word.
    ///
    /// # Errors
    /// The mistake, and advice.
    pub(crate) fn parse(text: &str) -> Option<Result<SystemLog, (String, String)>> {
        if let Some(rest) = text.strip_prefix("syslog:") {
            let (facility, tag) = rest.split_once(':').unwrap_or((rest, ""));
            return Some(SystemLog::new(LogDaemon::Syslog, facility, tag));
        }
        let tag = text.strip_prefix("journald:")?;
        Some(SystemLog::new(LogDaemon::Journald, "", tag))
    }

    fn new(daemon: LogDaemon, facility: &str, tag: &str) -> Result<SystemLog, (String, String)> {
        let name = if facility.is_empty() { FACILITY } else { facility };
        let known = FACILITIES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let Some((_, facility)) = known else {
            let names: Vec<&str> = FACILITIES.iter().map(|(name, _)| *name).collect();
            return Err((
                format!("`{facility}` is no facility of the system's log"),
                format!("give one of {}", names.join(", ")),
            ));
        };
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if tag.len() > LONGEST_TAG || !tag.bytes().all(is_word) {
            return Err((
                format!("`{tag}` cannot name the program in the system's log"),
                format!("give at most {LONGEST_TAG} letters, digits, `.`, `_` and `-`"),
            ));
        }
        let tag = if tag.is_empty() { TAG } else { tag };
        Ok(SystemLog {
            daemon,
            facility: *facility,
            tag: tag.to_owned(),
        })
    }
}

/// Writes the value in the form that the configuration has.
impl fmt::Display for SystemLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SystemLog { daemon, facility, tag } = self;
        let name = FACILITIES.iter().find(|(_, number)| number == facility);
        let name = name.map_or("", |(name, _)| name);
        match daemon {
            LogDaemon::Syslog => write!(f, "syslog:{name}:{tag}"),
            LogDaemon::Journald => write!(f, "journald:{tag}"),
        }
    }
}

/// The facility of Apache's and nginx's lines.
const FACILITY: &str = "local7";
const TAG: &str = "howdah";
/// Bytes: what RFC 5424 allows for a program's name.
const LONGEST_TAG: usize = 48;

/// RFC 5424, table 1, with the names of `syslog.conf`.
const FACILITIES: [(&str, u8); 20] = [
    ("kern", 0),
    ("user", 1),
    ("mail", 2),
    ("daemon", 3),
    ("auth", 4),
    ("syslog", 5),
    ("lpr", 6),
    ("news", 7),
    ("uucp", 8),
    ("cron", 9),
    ("authpriv", 10),
    ("ftp", 11),
    ("local0", 16),
    ("local1", 17),
    ("local2", 18),
    ("local3", 19),
    ("local4", 20),
    ("local5", 21),
    ("local6", 22),
    ("local7", 23),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations() {
        for (text, expected) in [
            ("syslog:", "syslog:local7:howdah"),
            ("syslog:local3", "syslog:local3:howdah"),
            ("syslog:DAEMON:shop", "syslog:daemon:shop"),
            ("syslog::shop", "syslog:local7:shop"),
            ("journald:", "journald:howdah"),
            ("journald:shop-1", "journald:shop-1"),
        ] {
            let parsed = SystemLog::parse(text).unwrap().unwrap();
            assert_eq!(parsed.to_string(), expected);
            assert_eq!(SystemLog::parse(expected).unwrap().unwrap(), parsed);
        }
        for (text, why) in [
            ("syslog:local9", "`local9` is no facility"),
            ("syslog::a b", "`a b` cannot name"),
            ("syslog::a:b", "`a:b` cannot name"),
            ("journald:a\nb", "cannot name"),
            (&format!("journald:{}", "x".repeat(49)), "cannot name"),
        ] {
            let (message, _) = SystemLog::parse(text).unwrap().unwrap_err();
            assert!(message.contains(why), "{text}: {message}");
        }
        assert!(SystemLog::parse("/var/log/syslog").is_none());
        assert!(SystemLog::parse("syslog").is_none());
    }
}
