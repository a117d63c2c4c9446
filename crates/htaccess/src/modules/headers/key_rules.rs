//! The rules that stand for keys of the configuration.

use howdah_http::{Fields, Status};

use super::rule::{HeaderRule, LIFETIMES, RuleAction};

/// The responses to which the rules of `fields` apply. A rule sets a field where nginx's
/// `add_header` does: in a success, a redirect and 304. As with Apache's mod_expires, Cache-Control
/// and Expires of a script or of other directives stay, unless a rule has removed one of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyRules {
    sets_fields: bool,
    sets_lifetimes: bool,
}

impl KeyRules {
    /// Looks at a response before the first rule. `has_lifetime`: it says how long it may be kept.
    pub(super) fn new(status: Status, has_lifetime: bool) -> KeyRules {
        KeyRules {
            sets_fields: STATUSES.contains(&status.code()),
            sets_lifetimes: !has_lifetime,
        }
    }

    /// Returns why the rule does not act; `None` if it does.
    pub(super) fn obstacle(&mut self, rule: &HeaderRule) -> Option<&'static str> {
        if !rule.is_key {
            return None;
        }
        if matches!(rule.action, RuleAction::Unset) {
            self.sets_lifetimes |= rule.is_lifetime();
            return None;
        }
        if !self.sets_fields {
            return Some("the response is an error");
        }
        (rule.is_lifetime() && !self.sets_lifetimes)
            .then_some("the response says itself how long it may be kept")
    }
}

/// Returns whether one of these fields says how long the response may be kept.
pub(super) fn has_lifetime(fields: &Fields) -> bool {
    LIFETIMES.iter().any(|name| fields.contains(name))
}

/// The statuses to which nginx's `add_header` adds.
const STATUSES: [u16; 10] = [200, 201, 204, 206, 301, 302, 303, 304, 307, 308];
