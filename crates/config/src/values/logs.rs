//! Logs.

use std::path::PathBuf;

use crate::log_format::LogFormat;
use crate::system_log::SystemLog;

/// The destination of the access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessTarget {
    /// Nowhere.
    Off,
    /// Standard output.
    Stdout,
    /// The end of this file.
    File(PathBuf),
    /// The system's log.
    System(SystemLog),
}

/// The form of a line of the access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessFormat {
    /// Apache's and nginx's `combined`.
    Combined,
    /// One JSON object per line.
    Json,
    /// Any other format. Apache's `common` and `vhost_combined` have names.
    Own(LogFormat),
}

impl AccessFormat {
    /// Returns the words of a format that is none of Howdah's. `None` for one of Howdah's.
    pub fn own(&self) -> Option<&LogFormat> {
        match self {
            AccessFormat::Own(format) => Some(format),
            AccessFormat::Combined | AccessFormat::Json => None,
        }
    }
}

/// The destination of the error log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorTarget {
    /// Standard error.
    Stderr,
    /// The end of this file.
    File(PathBuf),
    /// The system's log.
    System(SystemLog),
}

/// The severity of a line of the error log, the most serious first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// A request, a process or a whole site failed.
    Error,
    /// Something needs attention, but requests are answered.
    Warning,
    /// A change of the server's state, such as its start or a reload.
    Notice,
    /// Ordinary events, and mistakes of clients.
    Info,
}

impl LogLevel {
    /// All levels, the most serious first.
    pub const ALL: [LogLevel; 4] =
        [LogLevel::Error, LogLevel::Warning, LogLevel::Notice, LogLevel::Info];

    /// The word for the level in the configuration and in the log.
    pub fn name(self) -> &'static str {
        match self {
            LogLevel::Error => "error",
            LogLevel::Warning => "warning",
            LogLevel::Notice => "notice",
            LogLevel::Info => "info",
        }
    }

    /// The level of that name. `None` if no level has it.
    pub fn from_name(name: &[u8]) -> Option<LogLevel> {
        LogLevel::ALL.into_iter().find(|level| level.name().as_bytes() == name)
    }
}
