//! Where something stands in a file, and what is wrong with it.

use std::fmt;
use std::sync::Arc;

/// A place in a file of directives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The file, as people know it: a path, or `rules of site NAME`.
    pub file: Arc<str>,
    /// From 1. Of a directive with continuation lines: its first.
    pub line: u32,
    /// From 1, in bytes.
    pub column: u32,
}

/// What a directive finds wrong with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// What is wrong, with the culprit's own words in it.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The argument that is to blame, from 0; `None` is the directive itself.
    pub argument: Option<usize>,
    /// Whether Apache would honour it and Howdah cannot: then only the section or folder that it
    /// stands in is answered with 500, as for a directive that is
    /// [refused](crate::directive::Support::Refused).
    pub refused: bool,
}

/// Something wrong with a file of directives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where.
    pub place: Place,
    /// The line there, for the caret.
    pub line: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it, such as the near name.
    pub hint: Option<String>,
    /// Which kind of mistake.
    pub kind: Kind,
}

/// Which kind of mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Tags and lines: Apache answers 500.
    Syntax,
    /// A directive that nobody knows: Apache answers 500.
    Unknown,
    /// A directive or option that may not stand here: Apache answers 500.
    NotAllowed,
    /// Wrong arguments: Apache answers 500.
    Argument,
    /// The file cannot be read: Apache answers 403.
    Unreadable,
    /// Apache honours it and Howdah cannot: what it covers is answered with 500.
    Refused,
    /// Read, checked and without effect.
    Ignored,
    /// Changes nothing, because of another directive.
    Redundant,
    /// Can never act, because of another directive.
    Shadowed,
    /// Works, and opens a hole.
    Dangerous,
    /// Works, but hardly as it is meant.
    Doubtful,
}

/// How bad a mistake is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Probably not what is meant.
    Warning,
    /// Answers 500.
    Error,
}

impl Kind {
    /// Every kind, and what it is about.
    pub const ALL: &[(Kind, &str)] = &[
        (
            Kind::Syntax,
            "sections that are not closed, lines that are too long; Apache answers 500, too",
        ),
        (Kind::Unknown, "a directive that is not known; Apache answers 500, too"),
        (
            Kind::NotAllowed,
            "a directive or an option that may not stand there; Apache answers 500, too",
        ),
        (Kind::Argument, "wrong arguments; Apache answers 500, too"),
        (Kind::Unreadable, "a file that cannot be read; Apache answers 403"),
        (Kind::Refused, "Apache honours it and Howdah cannot: what it covers is answered with 500"),
        (Kind::Dangerous, "works, and opens a hole"),
        (
            Kind::Shadowed,
            "can never act, because of another directive or because no URL is like that",
        ),
        (Kind::Doubtful, "works, but hardly as it is meant"),
        (
            Kind::Redundant,
            "changes nothing, because another directive says it again or says otherwise",
        ),
        (Kind::Ignored, "read and without effect"),
    ];

    /// As `check` names it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Syntax => "syntax",
            Kind::Unknown => "unknown",
            Kind::NotAllowed => "not-allowed",
            Kind::Argument => "argument",
            Kind::Unreadable => "unreadable",
            Kind::Refused => "refused",
            Kind::Ignored => "ignored",
            Kind::Redundant => "redundant",
            Kind::Shadowed => "shadowed",
            Kind::Dangerous => "dangerous",
            Kind::Doubtful => "doubtful",
        }
    }

    /// How bad it is.
    pub fn severity(self) -> Severity {
        match self {
            Kind::Syntax
            | Kind::Unknown
            | Kind::NotAllowed
            | Kind::Argument
            | Kind::Unreadable
            | Kind::Refused => Severity::Error,
            Kind::Shadowed | Kind::Dangerous | Kind::Doubtful => Severity::Warning,
            Kind::Ignored | Kind::Redundant => Severity::Note,
        }
    }
}

impl Severity {
    /// As `check` names it.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

impl Complaint {
    /// About the directive as a whole.
    pub fn new(message: impl Into<String>) -> Complaint {
        Complaint {
            message: message.into(),
            hint: None,
            argument: None,
            refused: false,
        }
    }

    /// About one argument, from 0.
    pub fn about(argument: usize, message: impl Into<String>) -> Complaint {
        Complaint {
            argument: Some(argument),
            ..Complaint::new(message)
        }
    }

    /// Not a mistake to Apache; it cannot be honoured here.
    pub fn refused(self) -> Complaint {
        Complaint { refused: true, ..self }
    }

    /// With what to do about it.
    pub fn hint(self, hint: impl Into<String>) -> Complaint {
        Complaint { hint: Some(hint.into()), ..self }
    }
}

impl fmt::Display for Place {
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
