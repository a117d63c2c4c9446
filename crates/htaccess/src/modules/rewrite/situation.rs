//! What strings are expanded from, and why an evaluation is given up.

use super::ahead::Ahead;
use crate::pattern::{Captures, Exhausted};
use crate::transaction::Transaction;

/// What a string is expanded from, besides the outside world.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation<'s, 'r> {
    /// The request.
    pub transaction: &'s Transaction<'r>,
    /// What look-aheads have found.
    pub ahead: &'s Ahead,
    /// What the rule's pattern captured.
    pub rule: &'s Captures,
    /// What the last condition captured.
    pub condition: &'s Captures,
}

/// Why an evaluation is given up: the request is answered with 500.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// A pattern tries too much.
    Exhausted,
    /// Something grew beyond all bounds.
    TooLong,
    /// The rules took too much work altogether.
    TooMuch,
    /// A cookie with a control character in it.
    BadCookie,
}

impl From<Exhausted> for Failure {
    fn from(_: Exhausted) -> Failure {
        Failure::Exhausted
    }
}

impl Failure {
    /// For the error log.
    pub fn as_str(&self) -> &'static str {
        match self {
            Failure::Exhausted => "a pattern takes too many steps on this request",
            Failure::TooLong => "an expansion exceeds 64 KiB",
            Failure::BadCookie => "a cookie has control characters in it",
            Failure::TooMuch => "the rules take too much work on this request",
        }
    }
}
