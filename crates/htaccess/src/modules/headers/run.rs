//! The application of rules to fields.

use std::borrow::Cow;
use std::sync::Arc;

use howdah_http::{Fields, Status, is_field_value, is_token};

use super::format;
use super::key_rules::KeyRules;
use super::rule::{HeaderCondition, HeaderRule, RuleAction, RuleValue};
use crate::evaluation_context::EvaluationContext;
use crate::fields::{LONGEST_HEAD, MOST_FIELDS, append};
use crate::metered_text::TextError;
use crate::pattern::Captures;
use crate::trace::TraceEvent;
use crate::transaction::Transaction;
use crate::work;

mod edit;

/// The table of fields that rules change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderTable {
    /// The request's.
    Request,
    /// The fields of a successful response.
    Success,
    /// The fields of every response.
    Always,
}

impl HeaderTable {
    /// Returns the table, to be changed.
    fn edit<'t>(self, tx: &'t mut Transaction<'_>) -> &'t mut Fields {
        match self {
            HeaderTable::Request => tx.edit_request_fields(),
            HeaderTable::Success => &mut tx.state.fields,
            HeaderTable::Always => &mut tx.state.error_fields,
        }
    }

    /// Returns whether the rule is about the response's media type, which Apache keeps apart from
    /// both tables (`r->content_type`) and sends instead of the tables' field.
    fn holds_media_type(self, rule: &HeaderRule) -> bool {
        self != HeaderTable::Request && rule.is_content_type()
    }

    fn contains(self, tx: &Transaction<'_>, name: &[u8]) -> bool {
        match self {
            HeaderTable::Request => tx.request_field(name).is_some(),
            HeaderTable::Success | HeaderTable::Always => self.read(tx).contains(name),
        }
    }

    /// Returns the number of fields, for the meter alone.
    fn length(self, tx: &Transaction<'_>) -> usize {
        match self {
            HeaderTable::Request => tx.request_field_count(),
            HeaderTable::Success | HeaderTable::Always => self.read(tx).len(),
        }
    }

    /// Returns the limit that rules have made the table longer than, in words; `None` where they
    /// have not.
    fn passed_limit(self, tx: &Transaction<'_>) -> Option<&'static str> {
        match self {
            HeaderTable::Request => {
                let edited = tx.state.request_fields.as_ref()?;
                let added = edited.size().saturating_sub(tx.client.request().fields.size());
                (added > MOST_ADDED).then_some(
                    "the fields that are added to the request become longer than 192 KiB together, \
                     with 32 bytes for each",
                )
            }
            HeaderTable::Success | HeaderTable::Always => {
                let fields = self.read(tx);
                (fields.length() > LONGEST_HEAD || fields.len() > MOST_FIELDS)
                    .then_some("the fields become longer than 512 KiB together, or more than 8,000")
            }
        }
    }

    fn read<'t>(self, tx: &'t Transaction<'_>) -> &'t Fields {
        match self {
            HeaderTable::Request => tx.request_fields(),
            HeaderTable::Success => &tx.state.fields,
            HeaderTable::Always => &tx.state.error_fields,
        }
    }
}

/// Applies the rules in order. `keys`: the responses to which those of the configuration's keys
/// apply; `None` where there are none of them.
///
/// # Errors
/// 500, where the rules take too much work or a value cannot be sent.
pub(super) fn apply(
    tx: &mut Transaction<'_>,
    rules: &[Arc<HeaderRule>],
    table: HeaderTable,
    context: &mut dyn EvaluationContext,
    mut keys: Option<KeyRules>,
) -> Result<(), Status> {
    for rule in rules {
        // An action looks through the fields several times.
        let steps = work::RULE + 2 * work::comparing(table.length(tx), &rule.name);
        if tx.client.meter().spend(steps).is_err() {
            return Err(exhausted(tx, rule));
        }
        let obstacle = || keys.as_mut()?.obstacle(rule);
        if let Some(reason) = idle(tx, rule, context).or_else(obstacle) {
            tx.trace(|| event(rule, Vec::new(), format!("does not apply: {reason}")));
            continue;
        }
        if !tx.is_traced() {
            act(tx, rule, table, context)?;
            within_limit(tx, rule, table)?;
            continue;
        }
        let before = shown(table.read(tx), &rule.name);
        let outcome = act(tx, rule, table, context);
        let after = shown(table.read(tx), &rule.name);
        tx.trace(|| {
            let outcome = match outcome {
                Err(status) => status.code().to_string(),
                Ok(()) => (if before == after { "changes nothing" } else { "changed" }).to_owned(),
            };
            event(rule, vec![("before", before), ("after", after)], outcome)
        });
        outcome?;
        within_limit(tx, rule, table)?;
    }
    Ok(())
}

/// Answers with 500 where a rule has made the table longer than it may be.
fn within_limit(
    tx: &mut Transaction<'_>,
    rule: &HeaderRule,
    table: HeaderTable,
) -> Result<(), Status> {
    let Some(message) = table.passed_limit(tx) else {
        return Ok(());
    };
    tx.complain(Some(&rule.place), message);
    Err(Status::INTERNAL_SERVER_ERROR)
}

/// The bytes that rules may add to the request's fields, as [`Fields::size`] counts them: as many
/// as a script can be given. Beyond them: 500.
const MOST_ADDED: usize = 192 << 10;

fn event(rule: &HeaderRule, facts: Vec<(&'static str, String)>, outcome: String) -> TraceEvent {
    TraceEvent {
        step: "header",
        place: Some(Arc::clone(&rule.place)),
        text: rule.text.to_string(),
        facts,
        outcome,
    }
}

fn shown(fields: &Fields, name: &[u8]) -> String {
    let values: Vec<_> = fields.values(name).map(String::from_utf8_lossy).collect();
    values.join(" | ")
}

/// Returns why the rule does not act; `None` if it does.
fn idle(
    tx: &mut Transaction<'_>,
    rule: &HeaderRule,
    context: &mut dyn EvaluationContext,
) -> Option<&'static str> {
    match &rule.condition {
        HeaderCondition::Always => None,
        HeaderCondition::Never => Some("`early` is before any folder is known"),
        HeaderCondition::Environment { name, wanted } => {
            let is_set = format::environment_variable(tx, name).is_some();
            (is_set != *wanted).then_some(match wanted {
                true => "the variable is not set",
                false => "the variable is set",
            })
        }
        HeaderCondition::Expression(expression) => {
            match expression.holds(tx, context, &mut Captures::default()) {
                Ok(true) => None,
                Ok(false) => Some("the expression does not hold"),
                Err(error) => {
                    // As in Apache, the condition is ignored, and the rule acts.
                    tx.complain(
                        Some(&rule.place),
                        format!("cannot evaluate the condition: {error}"),
                    );
                    None
                }
            }
        }
    }
}

fn act(
    tx: &mut Transaction<'_>,
    rule: &HeaderRule,
    table: HeaderTable,
    context: &mut dyn EvaluationContext,
) -> Result<(), Status> {
    match &rule.action {
        RuleAction::Unset => {
            if table.contains(tx, &rule.name) {
                table.edit(tx).remove(&rule.name);
            }
            if table.holds_media_type(rule) {
                tx.state.content_type = None;
            }
            Ok(())
        }
        RuleAction::Echo(pattern) => echo(tx, rule, pattern),
        RuleAction::Edit { pattern, every } => {
            edit::edit(tx, rule, table, context, pattern, *every)
        }
        RuleAction::Note => {
            let name = render(rule, tx, context)?;
            let Some(value) = table.read(tx).value(&rule.name) else {
                return Ok(());
            };
            if let Err(no_room) = tx.state.room_for(Fields::size_of_line(&name, value)) {
                tx.complain(Some(&rule.place), no_room.to_string());
                return Err(Status::INTERNAL_SERVER_ERROR);
            }
            let compared = work::comparing(tx.state.notes.len(), &name);
            if tx.client.meter().spend(compared + work::bytes(2 * value.len())).is_err() {
                return Err(exhausted(tx, rule));
            }
            let value = value.to_vec();
            tx.state.notes.set(&name, &value);
            Ok(())
        }
        _ => {
            let value = render(rule, tx, context)?;
            // The value is looked at twice, and copied twice.
            let steps = work::bytes(4 * value.len()) + joining(tx, rule, table);
            if tx.client.meter().spend(steps).is_err() {
                return Err(exhausted(tx, rule));
            }
            let value = checked(tx, rule, value)?;
            let sets = match rule.action {
                RuleAction::Set => true,
                RuleAction::SetIfEmpty => !table.contains(tx, &rule.name),
                _ => false,
            };
            if sets && table.holds_media_type(rule) {
                tx.state.content_type = Some(value.to_vec());
            }
            put(table.edit(tx), rule, &value);
            Ok(())
        }
    }
}

/// Returns the steps of looking through a list and copying it, where the rule adds a member to one.
fn joining(tx: &Transaction<'_>, rule: &HeaderRule, table: HeaderTable) -> u64 {
    if !matches!(rule.action, RuleAction::Append | RuleAction::Merge) {
        return 0;
    }
    let lists = match table {
        // The number of the request's fields is limited.
        HeaderTable::Request => tx.state.request_fields.as_ref(),
        HeaderTable::Success | HeaderTable::Always => Some(table.read(tx)),
    };
    let lists = lists.into_iter().flat_map(|fields| fields.values(&rule.name));
    let times = if matches!(rule.action, RuleAction::Merge) { 4 } else { 2 };
    lists.map(|list| times * work::bytes(list.len())).sum()
}

/// Returns the rule's value for this request.
///
/// # Errors
/// 500, where the value is too long or takes too much work.
fn render<'r>(
    rule: &'r HeaderRule,
    tx: &mut Transaction<'_>,
    context: &mut dyn EvaluationContext,
) -> Result<Cow<'r, [u8]>, Status> {
    Ok(match &rule.value {
        RuleValue::Constant(value) => Cow::Borrowed(value),
        RuleValue::Parts(parts) => {
            let value = format::render(parts, tx, context);
            Cow::Owned(value.map_err(|error| given_up(tx, rule, error))?)
        }
        RuleValue::Expression(expression) => {
            match expression.render(tx, context, &mut Captures::default()) {
                Ok(value) => Cow::Owned(value),
                Err(error) => {
                    tx.complain(Some(&rule.place), format!("cannot evaluate the value: {error}"));
                    Cow::Borrowed(b"")
                }
            }
        }
    })
}

/// Returns a name and value that can be sent. As in Apache, others are answered with 500; a folded
/// line becomes one line.
fn checked<'r>(
    tx: &mut Transaction<'_>,
    rule: &HeaderRule,
    value: Cow<'r, [u8]>,
) -> Result<Cow<'r, [u8]>, Status> {
    if is_token(&rule.name) && is_field_value(&value) {
        return Ok(value);
    }
    let unfolded = unfold(&value);
    if is_token(&rule.name) && is_field_value(&unfolded) {
        return Ok(Cow::Owned(unfolded));
    }
    let name = String::from_utf8_lossy(&rule.name);
    tx.complain(
        Some(&rule.place),
        format!("the field {name:?} or its value holds bytes that no field may hold"),
    );
    Err(Status::INTERNAL_SERVER_ERROR)
}

/// CR, LF and white space become one space.
fn unfold(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((&byte, behind)) = rest.split_first() {
        if let [b'\r', b'\n', b' ' | b'\t', more @ ..] = rest {
            out.push(b' ');
            rest = more;
            while let [b' ' | b'\t', more @ ..] = rest {
                rest = more;
            }
        } else {
            out.push(byte);
            rest = behind;
        }
    }
    out
}

/// Applies `set`, `setifempty`, `add`, `append` or `merge`.
fn put(fields: &mut Fields, rule: &HeaderRule, value: &[u8]) {
    let name = &rule.name;
    match rule.action {
        RuleAction::Set => fields.set(name, value),
        RuleAction::SetIfEmpty if fields.contains(name) => {}
        RuleAction::Merge if fields.value(name).is_some_and(|list| is_member(list, value)) => {}
        RuleAction::Append | RuleAction::Merge => append(fields, name, value),
        _ => fields.push(name, value),
    }
}

/// Returns whether `value` is a member of the list. Members end at commas outside of quotes, and
/// are compared with the white space after them.
fn is_member(list: &[u8], value: &[u8]) -> bool {
    let mut rest = list;
    while !rest.is_empty() {
        rest = rest.trim_ascii_start();
        let mut quoted = false;
        let end = rest
            .iter()
            .position(|&byte| {
                quoted ^= byte == b'"';
                byte == b',' && !quoted
            })
            .unwrap_or(rest.len());
        if &rest[..end] == value {
            return true;
        }
        rest = &rest[rest.len().min(end + 1)..];
    }
    false
}

/// Applies `echo`: always to the fields of a successful response, also with `always`. Lines of one
/// name become one line.
fn echo(
    tx: &mut Transaction<'_>,
    rule: &HeaderRule,
    pattern: &crate::pattern::Pattern,
) -> Result<(), Status> {
    match echoed(tx, pattern) {
        Ok(lines) => {
            lines.iter().for_each(|(name, value)| tx.state.fields.push(name, value));
            Ok(())
        }
        Err(error) => Err(given_up(tx, rule, error)),
    }
}

/// Returns the request's fields whose names match.
fn echoed(tx: &Transaction<'_>, pattern: &crate::pattern::Pattern) -> Result<Fields, TextError> {
    let meter = tx.client.meter();
    let mut lines = Fields::new();
    for (name, value) in tx.request_fields().iter() {
        if !pattern.is_match(name, meter)? {
            continue;
        }
        if lines.length() + name.len() + value.len() > LONGEST_HEAD {
            return Err(TextError::TooLong);
        }
        // The line of that name so far is copied twice.
        meter.spend(2 * work::comparing(lines.len(), name))?;
        let before = lines.value(name).map_or(0, <[u8]>::len);
        meter.spend(1 + work::bytes(2 * (before + value.len())))?;
        append(&mut lines, name, value);
    }
    Ok(lines)
}

/// Logs that the work for a rule is too much, and returns 500.
fn exhausted(tx: &mut Transaction<'_>, rule: &HeaderRule) -> Status {
    tx.complain(Some(&rule.place), "the regular expression takes too many steps on this value");
    Status::INTERNAL_SERVER_ERROR
}

/// Logs why a value was given up, and returns 500.
fn given_up(tx: &mut Transaction<'_>, rule: &HeaderRule, error: TextError) -> Status {
    match error {
        TextError::Exhausted => exhausted(tx, rule),
        TextError::TooLong => {
            tx.complain(Some(&rule.place), "the value becomes longer than a field may be");
            Status::INTERNAL_SERVER_ERROR
        }
    }
}
