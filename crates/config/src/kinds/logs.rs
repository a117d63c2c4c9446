//! The destinations and formats of logs.

use std::path::PathBuf;

use toml::Spanned;
use toml::de::DeValue;

use super::{Problem, ValueKind, quoted, read_string};
use crate::diagnostic::MistakeCollector;
use crate::log_format::LogFormat;
use crate::values::{AccessFormat, AccessTarget, ErrorTarget, LogLevel};

/// `"off"`, `"-"` or a file.
pub(crate) struct Access;

impl ValueKind for Access {
    type Value = AccessTarget;

    fn name() -> String {
        "`\"off\"`, `\"-\"` or a file".to_owned()
    }

    fn show(value: &AccessTarget) -> String {
        match value {
            AccessTarget::Off => quoted("off"),
            AccessTarget::Stdout => quoted("-"),
            AccessTarget::File(path) => quoted(&path.to_string_lossy()),
        }
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<AccessTarget> {
        read_string(value, report, &Self::name(), |text| {
            AccessTarget::parse(text)
                .ok_or_else(|| empty("`\"off\"`, `\"-\"` for standard output, or a file"))
        })
    }
}

impl AccessTarget {
    /// Parses `off`, `-` and a file's path; `None` for an empty text.
    pub fn parse(text: &str) -> Option<AccessTarget> {
        match text {
            "" => None,
            "off" => Some(AccessTarget::Off),
            "-" => Some(AccessTarget::Stdout),
            path => Some(AccessTarget::File(PathBuf::from(path))),
        }
    }
}

/// `"-"` or a file.
pub(crate) struct Errors;

impl ValueKind for Errors {
    type Value = ErrorTarget;

    fn name() -> String {
        "`\"-\"` or a file".to_owned()
    }

    fn show(value: &ErrorTarget) -> String {
        match value {
            ErrorTarget::Stderr => quoted("-"),
            ErrorTarget::File(path) => quoted(&path.to_string_lossy()),
        }
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<ErrorTarget> {
        read_string(value, report, &Self::name(), |text| match text {
            "" => Err(empty("`\"-\"` for standard error, or a file")),
            "off" => {
                Err(Problem::new("the error log cannot be turned off", "give `\"-\"` or a file"))
            }
            "-" => Ok(ErrorTarget::Stderr),
            path => Ok(ErrorTarget::File(PathBuf::from(path))),
        })
    }
}

fn empty(help: &str) -> Problem {
    Problem::new("the log's place is empty", format!("give {help}"))
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
                Err((message, help)) => Err(Problem::new(message, help)),
            };
            match text {
                "combined" => Ok(AccessFormat::Combined),
                "json" => Ok(AccessFormat::Json),
                "common" => own(COMMON),
                "vhost_combined" => own(VHOST_COMBINED),
                format if format.contains('%') => own(format),
                other => Err(Problem::new(
                    format!("`{other}` is not a log format"),
                    format!("give {}", Self::name()),
                )),
            }
        })
    }
}

const COMMON: &str = r#"%h %l %u %t "%r" %>s %b"#;
/// With the bytes of content, where Debian's format has those of the head as well.
const VHOST_COMBINED: &str = r#"%v:%p %h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#;

/// `"error"`, `"warning"`, `"notice"` or `"info"`.
pub(crate) struct Level;

impl ValueKind for Level {
    type Value = LogLevel;

    fn name() -> String {
        let names = LogLevel::ALL.map(|level| format!("`{}`", quoted(level.name())));
        let [error, warning, notice, info] = names;
        format!("{error}, {warning}, {notice} or {info}")
    }

    fn show(value: &LogLevel) -> String {
        quoted(value.name())
    }

    fn read(value: &Spanned<DeValue<'_>>, report: &mut MistakeCollector<'_>) -> Option<LogLevel> {
        read_string(value, report, &Self::name(), |text| {
            LogLevel::from_name(text.as_bytes()).ok_or_else(|| {
                Problem::new(
                    format!("`{text}` is not a log level"),
                    format!("give {}", Self::name()),
                )
            })
        })
    }
}
