//! The application of rules to a request.

use std::borrow::Cow;

use howdah_http::Status;

use super::list::{Attribute, AttributeTest, RuleRun, SetEnvIfList, SetEnvIfRule};
use crate::evaluation_context::EvaluationContext;
use crate::metered_text::{LONGEST_VALUE, MeteredText, TextError};
use crate::modules::setenvif;
use crate::pattern::{Candidates, Captures, substitute};
use crate::trace::TraceEvent;
use crate::transaction::Transaction;
use crate::variables::field_value;
use crate::work::{self, Exhausted};

/// Sets the variables of the rules that match, in the phase after the folder walk
/// (`ap_run_header_parser`).
///
/// # Errors
/// 500 where an expression cannot be evaluated, a regular expression takes too many steps, or a
/// value is too long.
pub fn header_parser(
    tx: &mut Transaction<'_>,
    config: &setenvif::Config,
    context: &mut dyn EvaluationContext,
) -> Result<(), Status> {
    let mut pass = SetEnvIfPass {
        tx,
        context,
        value: Vec::new(),
        captures: Captures::default(),
        candidates: Candidates::default(),
    };
    config.lists.iter().try_for_each(|list| pass.list(list))
}

struct SetEnvIfPass<'p, 'r> {
    tx: &'p mut Transaction<'r>,
    context: &'p mut dyn EvaluationContext,
    /// The value of the current attribute.
    value: Vec<u8>,
    captures: Captures,
    candidates: Candidates,
}

impl SetEnvIfPass<'_, '_> {
    fn list(&mut self, list: &SetEnvIfList) -> Result<(), Status> {
        let mut last: Option<&[u8]> = None;
        for run in list.runs() {
            let rules = &list.rules()[run.rules.clone()];
            let first = &rules[0];
            if let (AttributeTest::Attribute { name, attribute, .. }, false) =
                (&first.test, is_same(last, first.name()))
            {
                self.value.clear();
                let value = value_of(self.tx, attribute, name);
                self.tx.client.meter().note(work::bytes(value.len()));
                self.value.extend_from_slice(&value);
                last = Some(name);
            }
            self.run(run, rules)?;
        }
        Ok(())
    }

    fn run(&mut self, run: &RuleRun, rules: &[SetEnvIfRule]) -> Result<(), Status> {
        let Some(set) = &run.set else {
            return rules.iter().try_for_each(|rule| self.rule(rule));
        };
        let mut candidates = std::mem::take(&mut self.candidates);
        let found = set.candidates(&self.value, &mut candidates, self.tx.client.meter()).iter();
        let answer = found.copied().try_for_each(|at| self.rule(&rules[at as usize]));
        self.candidates = candidates;
        answer
    }

    fn rule(&mut self, rule: &SetEnvIfRule) -> Result<(), Status> {
        let meter = self.tx.client.meter();
        if meter.spend(work::RULE).is_err() {
            return self.give_up(rule);
        }
        match &rule.test {
            AttributeTest::Attribute { pattern, literal: true, .. } => {
                match pattern.is_match(&self.value, meter) {
                    Ok(true) => self.apply(rule, false),
                    Ok(false) => Ok(()),
                    Err(Exhausted) => self.give_up(rule),
                }
            }
            AttributeTest::Attribute { pattern, .. } => {
                match pattern.captures(&self.value, &mut self.captures, meter) {
                    Ok(true) => self.apply(rule, true),
                    Ok(false) => Ok(()),
                    Err(Exhausted) => self.give_up(rule),
                }
            }
            AttributeTest::Expression(expression) => {
                // The value is copied before and after.
                if meter.spend(2 * work::bytes(self.value.len())).is_err() {
                    return self.give_up(rule);
                }
                self.captures.begin(&self.value);
                match expression.holds(self.tx, self.context, &mut self.captures) {
                    Ok(holds) => {
                        // As in Apache, the last subject of the expression is the value from here
                        // on.
                        self.value.clear();
                        self.value.extend_from_slice(self.captures.subject());
                        let expands = !self.captures.is_empty();
                        if holds { self.apply(rule, expands) } else { Ok(()) }
                    }
                    Err(message) => self.fail(rule, message),
                }
            }
        }
    }

    /// Sets the variables of a rule whose test has held.
    fn apply(&mut self, rule: &SetEnvIfRule, expands: bool) -> Result<(), Status> {
        let mut said = Vec::new();
        for variable in &rule.variables {
            if self.tx.client.meter().spend(work::RULE).is_err() {
                return self.give_up(rule);
            }
            let value = match &variable.value {
                Some(value) if expands && value.iter().any(|byte| b"$\\".contains(byte)) => {
                    match self.expanded(value) {
                        Ok(value) => Some(Cow::Owned(value)),
                        Err(TextError::Exhausted) => return self.give_up(rule),
                        Err(TextError::TooLong) => {
                            return self.fail(rule, "a variable's value is too long".to_owned());
                        }
                    }
                }
                Some(value) => Some(Cow::Borrowed(&**value)),
                None => None,
            };
            if self.tx.is_traced() {
                said.push(shown(&variable.name, value.as_deref()));
            }
            match value {
                Some(value) => {
                    if let Err(no_room) = self.tx.set_variable(&variable.name, &value) {
                        return self.fail(rule, no_room.to_string());
                    }
                }
                None => self.tx.unset_variable(&variable.name),
            }
        }
        let value = &self.value;
        self.tx.trace(|| event(rule, value, &said));
        Ok(())
    }

    /// Returns a value with its `$0` to `$9`. As in Apache (`AP_PREGSUB_MAXLEN`), one of 64 KiB is
    /// too long.
    fn expanded(&self, value: &[u8]) -> Result<Vec<u8>, TextError> {
        let mut expanded = MeteredText::new(LONGEST_VALUE - 1, self.tx.client.meter());
        substitute(value, &self.captures, &mut expanded)?;
        Ok(expanded.into_bytes())
    }

    fn give_up(&mut self, rule: &SetEnvIfRule) -> Result<(), Status> {
        self.fail(rule, "the regular expression takes too many steps on this request".to_owned())
    }

    fn fail(&mut self, rule: &SetEnvIfRule, message: String) -> Result<(), Status> {
        self.tx.complain(Some(&rule.place), message);
        Err(Status::INTERNAL_SERVER_ERROR)
    }
}

fn is_same(last: Option<&[u8]>, name: Option<&[u8]>) -> bool {
    matches!((last, name), (Some(last), Some(name)) if last.eq_ignore_ascii_case(name))
}

/// Returns the value of an attribute; empty where there is none.
fn value_of<'t>(tx: &'t Transaction<'_>, attribute: &Attribute, name: &'t [u8]) -> Cow<'t, [u8]> {
    let text = |text: String| Cow::Owned(text.into_bytes());
    match attribute {
        Attribute::RemoteAddress => text(tx.client.remote().ip().to_canonical().to_string()),
        Attribute::ServerAddress => text(tx.client.local().ip().to_canonical().to_string()),
        Attribute::Uri => Cow::Borrowed(&tx.state.uri),
        Attribute::Method => Cow::Borrowed(tx.state.method.as_str().as_bytes()),
        Attribute::Protocol => Cow::Borrowed(tx.client.version().as_str().as_bytes()),
        Attribute::Field if tx.request_field(name).is_some() => field_value(tx, name),
        Attribute::Field => Cow::Borrowed(tx.variable(name).unwrap_or_default()),
        Attribute::Fields(names) => {
            let fields = tx.request_fields();
            let is_first = |at: usize, name: &[u8]| {
                tx.client.meter().note(work::comparing(at, name));
                !fields.iter().take(at).any(|(earlier, _)| earlier.eq_ignore_ascii_case(name))
            };
            let matching = fields.iter().enumerate().filter(|(at, (name, _))| {
                names.is_match(name, tx.client.meter()) == Ok(true) && is_first(*at, name)
            });
            matching
                .last()
                .map_or(Cow::Borrowed(b""), |(_, (name, _))| field_value(tx, name))
        }
    }
}

fn event(rule: &SetEnvIfRule, value: &[u8], said: &[String]) -> TraceEvent {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (text, facts) = match &rule.test {
        AttributeTest::Attribute { name, regex, pattern, .. } => {
            let directive = if pattern.is_caseless() {
                "SetEnvIfNoCase"
            } else {
                "SetEnvIf"
            };
            let facts = vec![("subject", lossy(value)), ("pattern", lossy(regex))];
            (format!("{directive} {} {}", lossy(name), lossy(regex)), facts)
        }
        AttributeTest::Expression(expression) => {
            (format!("SetEnvIfExpr {}", lossy(expression.text())), Vec::new())
        }
    };
    TraceEvent {
        step: "variable",
        place: Some(rule.place.clone()),
        text,
        facts,
        outcome: said.join(", "),
    }
}

/// `sets NAME=value` or `unsets NAME`.
fn shown(name: &[u8], value: Option<&[u8]>) -> String {
    let name = String::from_utf8_lossy(name);
    match value {
        Some(value) => format!("sets {name}={}", String::from_utf8_lossy(value)),
        None => format!("unsets {name}"),
    }
}
