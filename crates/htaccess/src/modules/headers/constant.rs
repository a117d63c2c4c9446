//! The common cases: rules whose outcome depends on the head only, and among them those that only
//! set and unset fields.

use std::sync::Arc;

use howdah_http::{ResponseHead, is_field_value, is_token};

use super::key_rules::{KeyRules, has_lifetime};
use super::rule::{HeaderCondition, HeaderRule, RuleAction, RuleValue};
use crate::modules::headers;

impl headers::Config {
    /// Returns whether the result of [`response`](super::response) depends only on the head: on no
    /// variable, no expression, nothing of the request. Then the result may be cached with the
    /// head. Where there are very many rules, they are not looked through.
    pub fn is_constant(&self) -> bool {
        let is_constant = |rule: &Arc<HeaderRule>| {
            matches!(rule.condition, HeaderCondition::Always | HeaderCondition::Never)
                && matches!(rule.value, RuleValue::Constant(_))
                && !matches!(rule.action, RuleAction::Echo(_) | RuleAction::Note)
        };
        let are_few = self.always.len() + self.success.len() <= MOST_LOOKED_THROUGH;
        are_few && self.always.iter().chain(&self.success).all(is_constant)
    }

    /// Changes a head as [`response`](super::response) and the joining of both tables would, where
    /// every rule is a plain `set` or `unset` of another field than Content-Type, no field has been
    /// set otherwise, and there are few of both: the work is not counted. Returns `false`, and
    /// changes nothing, in all other cases.
    pub(crate) fn apply_plainly(&self, head: &mut ResponseHead, is_error: bool) -> bool {
        let mut all = self.always.iter().chain(&self.success);
        if !self.is_short(head.fields.len())
            || !all.all(|rule| rule.is_plain)
            || has_twice(&self.always)
        {
            return false;
        }
        let success = if is_error { &[][..] } else { &self.success };
        let is_lifetime = |rule: &HeaderRule| rule.is_lifetime() && rule.plain_value().is_some();
        let has_lifetime = success.iter().any(|rule| rule.is_key)
            && (has_lifetime(&head.fields) || acting(&self.always).any(is_lifetime));
        let mut keys = KeyRules::new(head.status, has_lifetime);
        for rule in acting(success) {
            if keys.obstacle(rule).is_some() {
                continue;
            }
            match rule.plain_value() {
                Some(value) => head.fields.set(&rule.name, value),
                None => {
                    head.fields.remove(&rule.name);
                }
            }
        }
        // There is no field yet that `always` could unset.
        for rule in acting(&self.always) {
            if let Some(value) = rule.plain_value() {
                head.fields.push(&rule.name, value);
            }
        }
        true
    }

    /// Returns whether a rule for responses is about the media type, or evaluates an expression,
    /// which may ask for it.
    pub(super) fn needs_media_type(&self) -> bool {
        self.always.iter().chain(&self.success).any(|rule| {
            rule.is_content_type()
                || matches!(rule.condition, HeaderCondition::Expression(_))
                || matches!(rule.value, RuleValue::Expression(_))
        })
    }
}

impl HeaderRule {
    /// Returns the rule with its flag set whether it is plain.
    pub(super) fn classified(self) -> HeaderRule {
        let is_plain = match (&self.condition, &self.action, &self.value) {
            (HeaderCondition::Never, ..) => true,
            (HeaderCondition::Always, RuleAction::Set, RuleValue::Constant(value)) => {
                is_field_value(value)
            }
            (HeaderCondition::Always, RuleAction::Unset, _) => true,
            _ => false,
        };
        let is_plain = is_plain && is_token(&self.name) && !self.is_content_type();
        HeaderRule { is_plain, ..self }
    }

    /// Returns the value that a plain rule sets; `None` where it unsets.
    fn plain_value(&self) -> Option<&[u8]> {
        match (&self.action, &self.value) {
            (RuleAction::Set, RuleValue::Constant(value)) => Some(value),
            _ => None,
        }
    }
}

fn acting(rules: &[Arc<HeaderRule>]) -> impl Iterator<Item = &HeaderRule> {
    let acts = |rule: &&HeaderRule| !matches!(rule.condition, HeaderCondition::Never);
    rules.iter().map(|rule| &**rule).filter(acts)
}

/// Returns whether two rules are about one field, or there are too many to compare.
fn has_twice(rules: &[Arc<HeaderRule>]) -> bool {
    rules.len() > MOST_COMPARED
        || rules.iter().enumerate().any(|(at, rule)| {
            let mut before = rules[..at].iter();
            before.any(|other| other.name.eq_ignore_ascii_case(&rule.name))
        })
}

/// The rules that are looked through for every response at most. More rules count as not constant.
const MOST_LOOKED_THROUGH: usize = 1_000;

/// The rules that are compared with each other at most, for every response.
const MOST_COMPARED: usize = 16;
