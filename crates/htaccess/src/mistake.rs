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
}

impl Complaint {
    /// About the directive as a whole.
    pub fn new(message: impl Into<String>) -> Complaint {
        Complaint {
            message: message.into(),
            hint: None,
            argument: None,
        }
    }

    /// About one argument, from 0.
    pub fn about(argument: usize, message: impl Into<String>) -> Complaint {
        Complaint {
            argument: Some(argument),
            ..Complaint::new(message)
        }
    }

    /// With what to do about it.
    pub fn hint(self, hint: impl Into<String>) -> Complaint {
        Complaint {
            hint: Some(hint.into()),
            ..self
        }
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
