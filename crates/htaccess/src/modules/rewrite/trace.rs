//! The events of rules, for `explain`.

use super::condition::{ConditionTest, RewriteCondition};
use super::rule::{RewriteRule, Switches};
use crate::pattern::Captures;
use crate::trace::TraceEvent;
use crate::transaction::Transaction;

/// Adds the event of a rule's pattern and its subject.
pub(super) fn pattern(
    transaction: &mut Transaction<'_>,
    rule: &RewriteRule,
    subject: &[u8],
    matches: bool,
    captures: &Captures,
) {
    transaction.trace(|| {
        let mut facts = vec![("subject", text(subject)), ("pattern", text(rule.pattern.text()))];
        if matches && !rule.negated {
            captured(&mut facts, captures);
        }
        let outcome = match (matches, rule.negated) {
            (true, false) => "matches",
            (false, false) => "does not match",
            (true, true) => "matches, which it must not",
            (false, true) => "does not match, as it must not",
        };
        event("rule", "RewriteRule", &rule.text, &rule.place, facts, outcome)
    });
}

/// Adds the event of a condition. For an expression, `subject` is the error of its evaluation.
pub(super) fn condition(
    transaction: &mut Transaction<'_>,
    condition: &RewriteCondition,
    subject: &[u8],
    captures: &Captures,
    holds: bool,
) {
    transaction.trace(|| {
        let mut facts = Vec::new();
        match &condition.test {
            ConditionTest::Expression(_) if subject.is_empty() => {}
            ConditionTest::Expression(_) => facts.push(("error", text(subject))),
            ConditionTest::Regex(pattern) => {
                facts.push(("subject", text(subject)));
                facts.push(("pattern", text(pattern.text())));
                if holds && !condition.negated {
                    captured(&mut facts, captures);
                }
            }
            _ => facts.push(("subject", text(subject))),
        }
        let outcome = if holds { "holds" } else { "does not hold" };
        event("condition", "RewriteCond", &condition.text, &condition.place, facts, outcome)
    });
}

/// Adds the event of a rule that matches and leaves the URL unchanged.
pub(super) fn kept(transaction: &mut Transaction<'_>, rule: &RewriteRule) {
    transaction.trace(|| {
        let outcome = match rule.has(Switches::STATUS) {
            true => rule.effects.status.to_string(),
            false => "applies, URL unchanged".into(),
        };
        event("rewrite", "RewriteRule", &rule.text, &rule.place, Vec::new(), outcome)
    });
}

/// Adds the event of a rule that has changed the URL.
pub(super) fn changed(transaction: &mut Transaction<'_>, rule: &RewriteRule) {
    if !transaction.is_traced() {
        return;
    }
    let mut facts = vec![("result", text(&transaction.state.filename))];
    if let Some(args) = &transaction.state.args {
        facts.push(("query", text(args)));
    }
    let outcome = match () {
        () if rule.has(Switches::PROXY) => "applies, to be proxied",
        () if rule.has(Switches::REDIRECT) => "applies, to be redirected",
        () => "applies",
    };
    transaction.trace(|| event("rewrite", "RewriteRule", &rule.text, &rule.place, facts, outcome));
}

/// Adds the event of rules that do not apply.
pub(super) fn declined(transaction: &mut Transaction<'_>, directory: &[u8], why: &'static str) {
    transaction.trace(|| TraceEvent {
        step: "rewrite",
        place: None,
        text: format!("rules of {}", text(directory)),
        facts: Vec::new(),
        outcome: why.into(),
    });
}

fn event(
    step: &'static str,
    name: &str,
    arguments: &[u8],
    place: &std::sync::Arc<crate::mistake::DirectivePlace>,
    facts: Vec<(&'static str, String)>,
    outcome: impl Into<String>,
) -> TraceEvent {
    TraceEvent {
        step,
        place: Some(place.clone()),
        text: format!("{name} {}", text(arguments)),
        facts,
        outcome: outcome.into(),
    }
}

fn captured(facts: &mut Vec<(&'static str, String)>, captures: &Captures) {
    const NAMES: [&str; 10] = ["$0", "$1", "$2", "$3", "$4", "$5", "$6", "$7", "$8", "$9"];
    for (group, name) in NAMES.iter().enumerate().take(captures.len()) {
        facts.push((name, text(captures.group(group))));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
