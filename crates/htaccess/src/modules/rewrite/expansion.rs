//! The values that strings are expanded from, and the errors of an evaluation.

use super::look_ahead::LookAhead;
use crate::metered_text::TextError;
use crate::pattern::Captures;
use crate::transaction::{NoVariableRoom, Transaction};
use crate::work::Exhausted;

/// The values that a string is expanded from, besides what the context answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expansion<'s, 'r> {
    /// The request.
    pub transaction: &'s Transaction<'r>,
    /// The results of look-aheads.
    pub ahead: &'s LookAhead,
    /// The captures of the rule's pattern.
    pub rule: &'s Captures,
    /// The captures of the last condition.
    pub condition: &'s Captures,
}

/// The error of an evaluation: the request is answered with 500.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RewriteError {
    /// A pattern takes too many steps.
    Exhausted,
    /// An expansion is longer than 64 KiB.
    TooLong,
    /// A cookie contains a control character.
    BadCookie,
    /// The cookies make a head that is longer than heads may be.
    LongCookies,
    /// There is no room for a variable.
    NoRoom,
}

impl From<Exhausted> for RewriteError {
    fn from(_: Exhausted) -> RewriteError {
        RewriteError::Exhausted
    }
}

impl From<TextError> for RewriteError {
    fn from(error: TextError) -> RewriteError {
        match error {
            TextError::TooLong => RewriteError::TooLong,
            TextError::Exhausted => RewriteError::Exhausted,
        }
    }
}

impl From<NoVariableRoom> for RewriteError {
    fn from(_: NoVariableRoom) -> RewriteError {
        RewriteError::NoRoom
    }
}

impl RewriteError {
    /// Returns the message for the error log.
    pub fn as_str(&self) -> &'static str {
        match self {
            RewriteError::Exhausted => "a pattern takes too many steps on this request",
            RewriteError::TooLong => "an expansion exceeds 64 KiB",
            RewriteError::BadCookie => "a cookie has control characters in it",
            RewriteError::LongCookies => {
                "the cookies become longer than 512 KiB together, or more than 8,000"
            }
            RewriteError::NoRoom => NoVariableRoom::MESSAGE,
        }
    }
}
