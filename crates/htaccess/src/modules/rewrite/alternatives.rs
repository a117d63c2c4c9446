//! Long lists of conditions with `OR` on the same test string, such as those against bad bots,
//! tested all at once.

use std::sync::Arc;

use super::arguments;
use super::condition::{ConditionTest, RewriteCondition};
use crate::pattern::{Pattern, PatternSet};

/// Consecutive conditions that test the same string, and of which one is enough.
#[derive(Debug)]
pub(super) struct Alternatives {
    /// The index of the first condition.
    pub from: usize,
    /// The index after the last condition.
    pub to: usize,
    /// The patterns of the conditions.
    pub set: PatternSet,
}

/// Fewer conditions than this are tested one after the other.
const FEWEST: usize = 8;

/// Returns the lists among a rule's conditions, in order.
pub(super) fn find(conditions: &[Arc<RewriteCondition>]) -> Box<[Alternatives]> {
    let mut found = Vec::new();
    let mut from = 0;
    while from < conditions.len() {
        let to = end(conditions, from);
        if to - from >= FEWEST {
            let patterns =
                conditions[from..to].iter().filter_map(|condition| pattern(condition).cloned());
            let set = PatternSet::new(patterns.collect());
            found.push(Alternatives { from, to, set });
        }
        from = to.max(from + 1);
    }
    found.into()
}

/// Returns the index after the last condition of the list that begins at `from`; `from` where none
/// begins there.
fn end(conditions: &[Arc<RewriteCondition>], from: usize) -> usize {
    let first = &conditions[from];
    let belongs = |condition: &RewriteCondition| {
        pattern(condition).is_some()
            && subject(condition) == subject(first)
            && condition.vary == first.vary
    };
    let mut at = from;
    while let Some(condition) = conditions.get(at).filter(|condition| belongs(condition)) {
        at += 1;
        if !condition.or_next {
            break;
        }
    }
    at
}

fn pattern(condition: &RewriteCondition) -> Option<&Arc<Pattern>> {
    match &condition.test {
        ConditionTest::Regex(pattern) if !condition.negated => Some(pattern),
        _ => None,
    }
}

fn subject(condition: &RewriteCondition) -> Option<&[u8]> {
    arguments::split(&condition.text).map(|words| words.first)
}
