//! The common case: fields that are always the same, ready to be added to a head that is kept.

use super::Config;
use super::rule::{Action, Condition, Rule, Value};

/// What unconditional rules with constant values do to the head of a successful response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConstantLines {
    /// Names of the fields that the head loses first.
    pub removed: Vec<Box<[u8]>>,
    /// Lines that it gets, each with its CRLF.
    pub lines: Box<[u8]>,
}

impl Config {
    /// Whether what [`response`](super::response) does depends on nothing but the head: no variable, no expression, nothing
    /// of the request. Then the outcome for a head may be kept beside it.
    pub fn is_constant(&self) -> bool {
        self.always.iter().chain(&self.success).all(|rule| {
            matches!(rule.condition, Condition::Always | Condition::Never)
                && matches!(rule.value, Value::Constant(_))
                && !matches!(rule.action, Action::Echo(_) | Action::Note)
        })
    }

    /// The lines to add to the head of a successful response where every rule is a plain `set` or `unset`, of other fields than
    /// Content-Type; else `None`.
    pub fn constant_lines(&self) -> Option<ConstantLines> {
        let always = table(&self.always)?;
        let success = table(&self.success)?;
        let removed = success.iter().map(|(name, _)| (*name).into()).collect();
        let mut lines = Vec::new();
        for (name, value) in always.iter().chain(&success) {
            if let Some(value) = value {
                lines.extend_from_slice(&[name, &b": "[..], value, b"\r\n"].concat());
            }
        }
        Some(ConstantLines {
            removed,
            lines: lines.into(),
        })
    }

    /// Whether a rule for responses is about the media type, or evaluates an expression, which may ask for it.
    pub(super) fn needs_media_type(&self) -> bool {
        self.always.iter().chain(&self.success).any(|rule| {
            rule.is_content_type()
                || matches!(rule.condition, Condition::Expression(_))
                || matches!(rule.value, Value::Expression(_))
        })
    }
}

/// What a field comes to; `None` is not there.
type Entry<'r> = (&'r [u8], Option<&'r [u8]>);

/// What the rules come to, one after the other.
fn table(rules: &[std::sync::Arc<Rule>]) -> Option<Vec<Entry<'_>>> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    for rule in rules {
        let entry = match (&rule.condition, &rule.action, &rule.value) {
            (Condition::Never, ..) => continue,
            (Condition::Always, Action::Set, Value::Constant(value)) => (&*rule.name, Some(&**value)),
            (Condition::Always, Action::Unset, _) => (&*rule.name, None),
            _ => return None,
        };
        let sendable = howdah_http::is_token(entry.0) && entry.1.is_none_or(howdah_http::is_field_value);
        if rule.is_content_type() || !sendable {
            return None;
        }
        entries.retain(|(name, _)| !name.eq_ignore_ascii_case(entry.0));
        entries.push(entry);
    }
    Some(entries)
}
