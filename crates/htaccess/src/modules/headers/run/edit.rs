//! `edit` and `edit*`.

use howdah_http::Status;

use super::super::rule::HeaderRule;
use super::{HeaderTable, checked, exhausted, given_up, render};
use crate::evaluation_context::EvaluationContext;
use crate::fields::LONGEST_HEAD;
use crate::metered_text::{LONGEST_VALUE, MeteredText, TextError};
use crate::pattern::{Captures, Pattern, substitute};
use crate::transaction::Transaction;
use crate::work::{self, Meter};
use std::borrow::Cow;

/// Changes the value of each line of the field.
///
/// # Errors
/// 500, where the pattern takes too much work or the value cannot be sent.
pub(super) fn edit(
    tx: &mut Transaction<'_>,
    rule: &HeaderRule,
    table: HeaderTable,
    context: &mut dyn EvaluationContext,
    pattern: &Pattern,
    every: bool,
) -> Result<(), Status> {
    let held: usize = table.read(tx).values(&rule.name).map(|value| 1 + value.len()).sum();
    if tx.client.meter().spend(work::bytes(2 * held)).is_err() {
        return Err(exhausted(tx, rule));
    }
    let is_media_type = table.holds_media_type(rule);
    let media_type = tx.state.content_type.as_ref().filter(|_| is_media_type).cloned();
    let old: Vec<Vec<u8>> = table.read(tx).values(&rule.name).map(<[u8]>::to_vec).collect();
    if old.is_empty() && media_type.is_none() {
        return Ok(());
    }
    let replacement = render(rule, tx, context)?.into_owned();
    let meter = tx.client.meter();
    let mut length = 0;
    let mut edited = |value: &[u8]| {
        let value = replace(pattern, value, &replacement, every, meter)
            .map_err(|error| given_up(tx, rule, error))?;
        length += value.len();
        if length > LONGEST_HEAD {
            return Err(given_up(tx, rule, TextError::TooLong));
        }
        meter.note(work::bytes(2 * value.len()));
        checked(tx, rule, Cow::Owned(value)).map(Cow::into_owned)
    };
    let media_type = media_type.map(|value| edited(&value)).transpose()?;
    let new = old.iter().map(|value| edited(value)).collect::<Result<Vec<_>, _>>()?;
    if media_type.is_some() {
        tx.state.content_type = media_type;
    }
    if new != old {
        let fields = table.edit(tx);
        fields.remove(&rule.name);
        new.iter().for_each(|value| fields.push(&rule.name, value));
    }
    Ok(())
}

/// Returns `value` with the first match replaced, or each one. `^` matches again after a match,
/// since Apache matches the rest as a new subject.
///
/// # Errors
/// The value becomes longer by 64 KiB, or the work is too much.
fn replace(
    pattern: &Pattern,
    value: &[u8],
    replacement: &[u8],
    every: bool,
    meter: Meter<'_>,
) -> Result<Vec<u8>, TextError> {
    let mut out = MeteredText::new(value.len() + LONGEST_VALUE, meter);
    let mut rest = value;
    let mut captures = Captures::default();
    for _ in 0..MOST_REPLACEMENTS {
        if out.bytes().len() > LONGEST_VALUE || !pattern.captures(rest, &mut captures, meter)? {
            break;
        }
        let (start, end) = captures.span();
        meter.spend(work::bytes(rest.len()))?;
        out.push(&rest[..start])?;
        substitute(replacement, &captures, &mut out)?;
        rest = &rest[end..];
        if !every || rest.is_empty() {
            break;
        }
        // Apache would find an empty match at the same place for ever.
        if start == end {
            out.push(&rest[..1])?;
            rest = &rest[1..];
        }
    }
    out.push(rest)?;
    Ok(out.into_bytes())
}

/// The matches that are replaced in one value at most. Further ones stay as they are.
const MOST_REPLACEMENTS: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacements() {
        let table: [(&str, &str, &str, bool, &str); 10] = [
            ("b", "abab", "X", false, "aXab"),
            ("b", "abab", "X", true, "aXaX"),
            ("^a", "aab", "X", true, "XXb"),
            ("(a)(b)?", "ac", "<$1$2$3>", false, "<a>c"),
            ("a", "a", r"\$0\\$0", false, r"$0\a"),
            ("x", "abc", "y", true, "abc"),
            ("", "abc", "-", true, "-a-b-c-"),
            ("$", "abc", "; secure", false, "abc; secure"),
            ("(.*)", "abc", "$1; Secure", true, "abc; Secure"),
            ("(?i)secure", "Secure secure", "", true, " "),
        ];
        for (pattern, value, replacement, every, expected) in table {
            let pattern = Pattern::new(pattern.as_bytes(), false).unwrap();
            let replacement = replacement.as_bytes();
            let meter = Meter::unlimited();
            let found = replace(&pattern, value.as_bytes(), replacement, every, meter).unwrap();
            assert_eq!(String::from_utf8(found).unwrap(), expected, "{pattern:?} {value}");
        }
    }
}
