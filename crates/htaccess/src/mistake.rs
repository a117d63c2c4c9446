//! Mistakes in files of directives, and their places.

use std::fmt;
use std::sync::Arc;

/// A place in a file of directives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DirectivePlace {
    /// The name of the file in messages: a path, or `rules of site NAME`.
    pub file: Arc<str>,
    /// The line, from 1. For a directive with continuation lines, its first.
    pub line: u32,
    /// The column in bytes, from 1.
    pub column: u32,
}

/// A directive's error in its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The message, which quotes the file.
    pub message: String,
    /// The remedy.
    pub hint: Option<String>,
    /// The argument with the error, from 0; `None` is the directive itself.
    pub argument: Option<usize>,
    /// Whether Apache would honour the directive and Howdah cannot. Then only its section or folder
    /// is answered with 500, as for a directive that is
    /// [refused](crate::directive::Support::Refused).
    pub refused: bool,
}

/// A mistake in a file of directives, or a remark on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The place.
    pub place: DirectivePlace,
    /// The text of the line, to be shown with a caret.
    pub line: String,
    /// The message.
    pub message: String,
    /// The remedy, such as the nearest name for a misspelt one.
    pub hint: Option<String>,
    /// The kind of mistake.
    pub kind: MistakeKind,
}

/// The kind of mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MistakeKind {
    /// Tags and lines: Apache answers 500.
    Syntax,
    /// An unknown directive: Apache answers 500.
    Unknown,
    /// A directive or option that is not allowed here: Apache answers 500.
    NotAllowed,
    /// Wrong arguments: Apache answers 500.
    Argument,
    /// The file cannot be read: Apache answers 403.
    Unreadable,
    /// Apache honours the directive and Howdah cannot: what it covers is answered with 500.
    Refused,
    /// Read, checked and without effect.
    Ignored,
    /// The directive changes nothing, because of another directive.
    Redundant,
    /// The directive can never act, because of another directive.
    Shadowed,
    /// The directive works, and opens a security hole.
    Dangerous,
    /// The directive works, but probably not as intended.
    Doubtful,
}

/// The severity of a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Probably not intended.
    Warning,
    /// Answers 500.
    Error,
}

impl MistakeKind {
    /// Every kind, with its description.
    pub const ALL: &[(MistakeKind, &str)] = &[
        (
            MistakeKind::Syntax,
            "sections that are not closed, lines that are too long; Apache answers 500, too",
        ),
        (MistakeKind::Unknown, "a directive that is not known; Apache answers 500, too"),
        (
            MistakeKind::NotAllowed,
            "a directive or an option that is not allowed there; Apache answers 500, too",
        ),
        (MistakeKind::Argument, "wrong arguments; Apache answers 500, too"),
        (MistakeKind::Unreadable, "a file that cannot be read; Apache answers 403"),
        (
            MistakeKind::Refused,
            "Apache honours it and Howdah cannot: what it covers is answered with 500",
        ),
        (MistakeKind::Dangerous, "works, and opens a security hole"),
        (
            MistakeKind::Shadowed,
            "can never act, because of another directive or because no URL matches",
        ),
        (MistakeKind::Doubtful, "works, but probably not as intended"),
        (
            MistakeKind::Redundant,
            "changes nothing, because another directive repeats or overrides it",
        ),
        (MistakeKind::Ignored, "read and without effect"),
    ];

    /// Returns the name that `check` shows.
    pub fn name(self) -> &'static str {
        match self {
            MistakeKind::Syntax => "syntax",
            MistakeKind::Unknown => "unknown",
            MistakeKind::NotAllowed => "not-allowed",
            MistakeKind::Argument => "argument",
            MistakeKind::Unreadable => "unreadable",
            MistakeKind::Refused => "refused",
            MistakeKind::Ignored => "ignored",
            MistakeKind::Redundant => "redundant",
            MistakeKind::Shadowed => "shadowed",
            MistakeKind::Dangerous => "dangerous",
            MistakeKind::Doubtful => "doubtful",
        }
    }

    /// Returns the severity.
    pub fn severity(self) -> Severity {
        match self {
            MistakeKind::Syntax
            | MistakeKind::Unknown
            | MistakeKind::NotAllowed
            | MistakeKind::Argument
            | MistakeKind::Unreadable
            | MistakeKind::Refused => Severity::Error,
            MistakeKind::Shadowed | MistakeKind::Dangerous | MistakeKind::Doubtful => {
                Severity::Warning
            }
            MistakeKind::Ignored | MistakeKind::Redundant => Severity::Note,
        }
    }
}

impl Severity {
    /// Returns the name that `check` shows.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

impl Complaint {
    /// Returns an error in the directive as a whole.
    pub fn new(message: impl Into<String>) -> Complaint {
        Complaint {
            message: message.into(),
            hint: None,
            argument: None,
            refused: false,
        }
    }

    /// Returns an error in one argument, counted from 0.
    pub fn about(argument: usize, message: impl Into<String>) -> Complaint {
        Complaint {
            argument: Some(argument),
            ..Complaint::new(message)
        }
    }

    /// Marks it as no mistake to Apache: Howdah cannot honour the directive.
    pub fn refused(self) -> Complaint {
        Complaint { refused: true, ..self }
    }

    /// Adds a remedy.
    pub fn hint(self, hint: impl Into<String>) -> Complaint {
        Complaint { hint: Some(hint.into()), ..self }
    }
}

impl fmt::Display for DirectivePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}
