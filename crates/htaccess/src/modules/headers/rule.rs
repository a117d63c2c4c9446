//! One `Header` or `RequestHeader`, compiled.

use std::sync::Arc;

use super::format::FormatPart;
use crate::expression::Expression;
use crate::mistake::DirectivePlace;
use crate::pattern::Pattern;

/// One `Header` or `RequestHeader`.
#[derive(Debug)]
pub(super) struct HeaderRule {
    /// The place of the directive.
    pub place: Arc<DirectivePlace>,
    /// The directive as it was written, for messages.
    pub text: Box<str>,
    /// The action.
    pub action: RuleAction,
    /// The field; for `echo` the pattern's text.
    pub name: Box<[u8]>,
    /// The value, or the replacement of a match.
    pub value: RuleValue,
    /// The condition.
    pub condition: HeaderCondition,
    /// Whether the rule stands for a key of the configuration: see [`KeyRules`](super::KeyRules).
    pub is_key: bool,
    /// Whether the rule always sets or unsets another field than Content-Type, to a value that can
    /// be sent.
    pub is_plain: bool,
}

/// The action on a field.
#[derive(Debug)]
pub(super) enum RuleAction {
    /// `set`: replaces all lines.
    Set,
    /// `setifempty`: sets the field where it has no line.
    SetIfEmpty,
    /// `add`: adds a line.
    Add,
    /// `append`: appends to the value of the first line.
    Append,
    /// `merge`: appends where the value is not in the list yet.
    Merge,
    /// `unset`: removes all lines.
    Unset,
    /// `echo`: copies the request's fields whose names match.
    Echo(Pattern),
    /// `edit`, `edit*`: replaces the first match in each line's value, or every match.
    Edit { pattern: Pattern, every: bool },
    /// `note`: makes the field's value a note, whose name is the rule's value.
    Note,
}

/// A value.
#[derive(Debug)]
pub(super) enum RuleValue {
    /// Always the same.
    Constant(Box<[u8]>),
    /// With format specifiers.
    Parts(Box<[FormatPart]>),
    /// `expr=`.
    Expression(Box<Expression>),
}

/// The condition of a rule.
#[derive(Debug)]
pub(super) enum HeaderCondition {
    /// Always.
    Always,
    /// `early`: when the request has just been read, which is before any folder is known, so never.
    Never,
    /// `env=NAME` or `env=!NAME`.
    Environment { name: Box<[u8]>, wanted: bool },
    /// `expr=`.
    Expression(Box<Expression>),
}

impl HeaderRule {
    /// Returns whether the rule may take long: it has an expression or a pattern, or its value may
    /// be of any length.
    pub(super) fn may_take_long(&self) -> bool {
        let has_pattern = matches!(self.action, RuleAction::Echo(_) | RuleAction::Edit { .. });
        let is_long = match &self.value {
            RuleValue::Constant(_) => false,
            RuleValue::Parts(parts) => {
                parts.len() > FEW_PARTS || parts.iter().any(FormatPart::is_of_any_length)
            }
            RuleValue::Expression(_) => true,
        };
        has_pattern || is_long || matches!(self.condition, HeaderCondition::Expression(_))
    }

    /// Returns the bytes that the rule adds to those of a field that it copies; `None` where it
    /// copies none.
    pub(super) fn bytes_added(&self) -> Option<usize> {
        let copies =
            matches!(self.action, RuleAction::Append | RuleAction::Merge | RuleAction::Note);
        copies.then_some(match &self.value {
            RuleValue::Constant(value) => value.len(),
            _ => 0,
        })
    }

    /// Returns whether the field says how long the response may be kept.
    pub(super) fn is_lifetime(&self) -> bool {
        LIFETIMES.iter().any(|name| self.name.eq_ignore_ascii_case(name))
    }

    /// Returns whether the field is the response's media type, which Apache keeps apart from the
    /// others.
    pub(super) fn is_content_type(&self) -> bool {
        self.name.eq_ignore_ascii_case(b"content-type")
    }
}

/// The fields that say how long a response may be kept.
pub(super) const LIFETIMES: [&[u8]; 2] = [b"Cache-Control", b"Expires"];

/// The parts of a value that are written on an event loop without counting: a microsecond.
const FEW_PARTS: usize = 16;
