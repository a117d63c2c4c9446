//! The destinations and formats of logs.

use std::path::PathBuf;

use toml::Spanned;
use toml::de::DeValue;

use super::words::word_kind;
use super::{ValueError, ValueKind, quoted, read_string};
use crate::diagnostic::MistakeCollector;
use crate::log_format::LogFormat;
use crate::system_log::SystemLog;
use crate::values::{AccessFormat, AccessTarget, ErrorTarget, LogLevel};

/// `"off"`, `"-"`, a file or the system's log.
pub(crate) struct AccessLogTarget;

impl ValueKind for AccessLogTarget {
    type Value = AccessTarget;

    fn name() -> String {
        "`\"off\"`, `\"-\"`, a file, `\"syslog:FACILITY:TAG\"` or `\"journald:TAG\"`".to_owned()
    }

    fn show(value: &AccessTarget) -> String {
        match value {
            AccessTarget::Off => quoted("off"),
            AccessTarget::Stdout => quoted("-"),
            AccessTarget::File(path) => quoted(&path.to_string_lossy()),
            AccessTarget::System(log) => quoted(&log.to_string()),
        }
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<AccessTarget> {
        read_string(value, report, &Self::name(), |text| {
            AccessTarget::parse(text).map_err(|(message, help)| ValueError::new(message, help))
        })
    }
}

impl AccessTarget {
    /// Parses `off`, `-`, a file's path, `syslog:FACILITY:TAG` and `journald:TAG`.
    ///
    /// # Errors
    /// The mistake, and advice.
    pub fn parse(text: &str) -> Result<AccessTarget, (String, String)> {
        if let Some(log) = SystemLog::parse(text) {
            return log.map(AccessTarget::System);
        }
        match text {
            "" => {
                let help = format!("give {}", AccessLogTarget::name());
                Err(("the log's place is empty".to_owned(), help))
            }
            "off" => Ok(AccessTarget::Off),
            "-" => Ok(AccessTarget::Stdout),
            path => check_file(path).map(|()| AccessTarget::File(PathBuf::from(path))),
        }
    }
}

/// Refuses what a mover from Apache or nginx writes for a program or for the system's log, which
/// would be a file of that name.
///
/// # Errors
/// The mistake, and advice.
fn check_file(path: &str) -> Result<(), (String, String)> {
    if let Some(program) = path.strip_prefix('|') {
        let help = format!(
            "name a file, which the program can follow as in `tail -F FILE | {}`; for rotation, \
             rename the file and call `howdah reopen`",
            program.trim()
        );
        return Err(("a log is not piped to a program".to_owned(), help));
    }
    if ["syslog", "journald", "journal"].contains(&path) {
        let word = if path == "syslog" { "syslog:" } else { "journald:" };
        return Err((
            format!("`{path}` would be a file of that name"),
            format!("write `{word}` for the system's log, or `./{path}` for the file"),
        ));
    }
    Ok(())
}

/// `"-"`, a file or the system's log.
pub(crate) struct ErrorLogTarget;

impl ValueKind for ErrorLogTarget {
    type Value = ErrorTarget;

    fn name() -> String {
        "`\"-\"`, a file, `\"syslog:FACILITY:TAG\"` or `\"journald:TAG\"`".to_owned()
    }

    fn show(value: &ErrorTarget) -> String {
        match value {
            ErrorTarget::Stderr => quoted("-"),
            ErrorTarget::File(path) => quoted(&path.to_string_lossy()),
            ErrorTarget::System(log) => quoted(&log.to_string()),
        }
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<ErrorTarget> {
        let parse = |text: &str| match (text, SystemLog::parse(text)) {
            ("", _) => Err("the log's place is empty"),
            ("off", _) => Err("the error log cannot be turned off"),
            ("-", _) => Ok(Ok(ErrorTarget::Stderr)),
            (_, Some(log)) => Ok(log.map(ErrorTarget::System)),
            (path, None) => Ok(check_file(path).map(|()| ErrorTarget::File(PathBuf::from(path)))),
        };
        read_string(value, report, &Self::name(), |text| match parse(text) {
            Ok(parsed) => parsed.map_err(|(message, help)| ValueError::new(message, help)),
            Err(message) => Err(ValueError::new(message, format!("give {}", Self::name()))),
        })
    }
}

/// The name of a format, or Apache's words.
pub(crate) struct Format;

impl ValueKind for Format {
    type Value = AccessFormat;

    fn name() -> String {
        "`\"combined\"`, `\"common\"`, `\"vhost_combined\"`, `\"json\"` or a format with `%`"
            .to_owned()
    }

    fn show(value: &AccessFormat) -> String {
        match value {
            AccessFormat::Combined => quoted("combined"),
            AccessFormat::Json => quoted("json"),
            AccessFormat::Own(format) => quoted(&format.to_string()),
        }
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<AccessFormat> {
        read_string(value, report, &Self::name(), |text| {
            let own = |format: &str| match LogFormat::parse(format) {
                Ok(format) => Ok(AccessFormat::Own(format)),
                Err((message, help)) => Err(ValueError::new(message, help)),
            };
            match text {
                "combined" => Ok(AccessFormat::Combined),
                "json" => Ok(AccessFormat::Json),
                "common" => own(COMMON),
                "vhost_combined" => own(VHOST_COMBINED),
                format if format.contains('%') => own(format),
                other => Err(ValueError::new(
                    format!("`{other}` is not a log format"),
                    format!("give {}", Self::name()),
                )),
            }
        })
    }
}

const COMMON: &str = r#"%h %l %u %t "%r" %>s %b"#;
/// The format of that name in Debian's `apache2.conf`.
const VHOST_COMBINED: &str = r#"%v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i""#;

word_kind!(
    /// `"error"`, `"warning"`, `"notice"` or `"info"`.
    LevelName, LogLevel, "is not a log level",
    LogLevel::ALL.map(|level| (level.name(), level))
);
