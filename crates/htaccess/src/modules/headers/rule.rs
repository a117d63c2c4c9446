//! One `Header` or `RequestHeader`, compiled.

use std::sync::Arc;

use super::format::Part;
use crate::expression::Expression;
use crate::mistake::Place;
use crate::pattern::Pattern;

/// One `Header` or `RequestHeader`.
#[derive(Debug)]
pub(super) struct Rule {
    /// The place of the directive.
    pub place: Arc<Place>,
    /// As it was written, for people.
    pub text: Box<str>,
    /// The action.
    pub action: Action,
    /// The field; for `echo` the pattern's text.
    pub name: Box<[u8]>,
    /// The value, or what replaces a match.
    pub value: Value,
    /// When it acts.
    pub condition: Condition,
    /// Whether it always sets or unsets another field than Content-Type to what can be sent.
    pub is_plain: bool,
}

/// The action on a field.
#[derive(Debug)]
pub(super) enum Action {
    /// Instead of all lines there are.
    Set,
    /// Where no line is there.
    SetIfEmpty,
    /// One more line.
    Add,
    /// Behind the value of the first line.
    Append,
    /// The same, where the value is not in the list yet.
    Merge,
    /// Away with it.
    Unset,
    /// The request's fields whose names match.
    Echo(Pattern),
    /// The first match in each line's value, or every one.
    Edit { pattern: Pattern, every: bool },
    /// The field's value becomes a note, whose name is the rule's value.
    Note,
}

/// A value.
#[derive(Debug)]
pub(super) enum Value {
    /// Always the same.
    Constant(Box<[u8]>),
    /// With format specifiers.
    Parts(Box<[Part]>),
    /// `expr=`.
    Expression(Box<Expression>),
}

/// When a rule acts.
#[derive(Debug)]
pub(super) enum Condition {
    /// Always.
    Always,
    /// `early`: when the request has just been read, which is before any folder is known, so never.
    Never,
    /// `env=NAME` or `env=!NAME`.
    Environment { name: Box<[u8]>, wanted: bool },
    /// `expr=`.
    Expression(Box<Expression>),
}

impl Rule {
    /// Whether the field is the response's media type, which Apache keeps apart from the others.
    pub(super) fn is_content_type(&self) -> bool {
        self.name.eq_ignore_ascii_case(b"content-type")
    }
}
